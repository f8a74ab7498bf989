"""The files that ``ssvm plugins new --risk`` writes: the squared perceptron, by its values and subgradients."""

from __future__ import annotations

from ssvm_dsl.cli.plugins.templates import PackageTemplate

HOOKS = '''\
"""What ssvm-dsl reads at start: descriptions only, the risk is not imported here."""

from ssvm_dsl.plugin_api import AddedLoss, RiskForm, RiskSpec, hookimpl


@hookimpl
def ssvm_risks():
    summary = "how far the best score is above that of the truth, squared"
    spec = RiskSpec(
        "{name}",
        "{module}.risk:Risk",
        summary,
        form=RiskForm.CONVEX,  # it gives values and subgradients
        loss=AddedLoss.NONE,  # it does not look at the loss of the model
    )
    return [spec]
'''

RISK = '''\
"""risk_i(w) = max(0, max_y w.Phi(x_i, y) - w.Phi(x_i, y_i))^2."""

import numpy as np

from ssvm_dsl.ir import pointers
from ssvm_dsl.plugin_api import Question, RiskGradient


class Risk:
    def __init__(self, world):  # made once for a fit, with a RiskContext
        self.world = world

    def gradient(self, w, examples):
        world, parameters = self.world, self.world.parameters
        var_ptr = parameters.program.var_ptr
        found = world.ask(Question(world.scores(w, examples), examples))
        ptr = pointers(np.diff(var_ptr)[examples])  # where the labels of each example are in the answer
        psi = np.zeros((len(examples), len(w)))  # Phi(x_i, best labels) - Phi(x_i, truth)
        for k, i in enumerate(examples):
            one, truth = np.array([i]), world.loss.truth[var_ptr[i] : var_ptr[i + 1]]
            parameters.accumulate(found.labels[ptr[k] : ptr[k + 1]], np.ones(1), psi[k], one)
            parameters.accumulate(truth, -np.ones(1), psi[k], one)
        above = np.maximum(psi @ w, 0.0)
        risks = above**2
        slopes = 2.0 * above * world.objective.slopes(risks) * world.objective.weight[examples]
        return RiskGradient.of(world.objective, examples, risks, risks, psi.T @ slopes, w)
'''

TEST = '''\
"""The risk against its definition, over all labellings."""

import itertools

import numpy as np

from ssvm_dsl import Dim, Factor, Hamming, Input, Label, Model, StructuredSVM, chain


class Word(Model):
    T = Dim()
    x = Input(T, 2)
    y = Label(T, 2)
    emit = Factor(y, features=x)
    trans = Factor(chain(y))
    loss = Hamming(y)


def test_the_objective_is_that_of_the_definition():
    rng = np.random.default_rng(0)
    X, Y = [rng.normal(size=(4, 2)) for _ in range(5)], [rng.integers(2, size=4) for _ in range(5)]
    svm = StructuredSVM(Word, C=2.0, risk="{name}", trainer="subgradient", max_passes=3, tol=0).fit(X, Y)
    emit, trans = svm.weights_[Word.emit], svm.weights_[Word.trans]

    def score(x, y):
        return sum(emit[y[t]] @ x[t] for t in range(4)) + sum(trans[a, b] for a, b in itertools.pairwise(y))

    every = list(itertools.product(range(2), repeat=4))
    risks = [max(score(x, y) for y in every) - score(x, truth) for x, truth in zip(X, Y)]
    expected = 0.5 * (np.sum(emit**2) + np.sum(trans**2)) + 2.0 * np.sum(np.square(risks))
    np.testing.assert_allclose(svm.report_.primal, expected, rtol=1e-9)
'''

TEMPLATE = PackageTemplate(
    "risk",
    HOOKS,
    {"risk.py": ("the risk: `gradient`", RISK)},
    ("test_{module}.py", "the risk against its definition", TEST),
    'Use it by name: `StructuredSVM(MyModel, risk="{name}", trainer="bundle")`.',
    tried="ssvm plugins show {name}",
)
