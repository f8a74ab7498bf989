"""The files that ``ssvm plugins new --loss`` writes: how far a state is from the true one, in mean over an example."""

from __future__ import annotations

from ssvm_dsl.cli.plugins.templates import PackageTemplate

HOOKS = '''\
"""What ssvm-dsl reads at start: descriptions only, the loss is not imported here."""

from ssvm_dsl.plugin_api import LossSpec, hookimpl


@hookimpl
def ssvm_losses():
    return [LossSpec("{name}", "{module}.loss:prices", "mean distance from the true state")]
'''

LOSS = '''\
"""Prices of the states of each variable of one example: 0 at the truth, never negative."""

import numpy as np


def prices(truth, n_states, power=1):  # CustomLoss("{name}", y, power=2)
    """Return an array (n_variables, n_states); a variable whose true state is not known has truth -1."""
    distance = np.abs(truth[:, None] - np.arange(n_states)) ** float(power)
    return distance / max(1, (truth >= 0).sum())
'''

TEST = '''\
"""The conformance kit of ssvm-dsl, and a fit with the loss."""

import numpy as np

from ssvm_dsl import CustomLoss, Dim, Factor, Input, Label, Model, StructuredSVM, chain


class Levels(Model):
    T = Dim()
    x = Input(T, 2)
    y = Label(T, 4)
    emit = Factor(y, features=x)
    trans = Factor(chain(y))
    loss = CustomLoss("{name}", y, power=2)


def test_conformance(loss_conformance):
    loss_conformance("{name}", options={"power": 2})


def test_a_fit_learns():
    Y = [np.arange(6) % 4, (np.arange(5) + 2) % 4]
    X = [np.stack([y, np.ones(len(y))], axis=1).astype(float) for y in Y]
    svm = StructuredSVM(Levels, C=10.0, tol=0.1).fit(X, Y)
    assert svm.score(X, Y) > 0.5
'''

TEMPLATE = PackageTemplate(
    "loss",
    HOOKS,
    {"loss.py": ("the function that gives the prices", LOSS)},
    ("test_{module}.py", "the conformance kit, and a fit", TEST),
    'Use it by name in a model: `loss = CustomLoss("{name}", y, power=2)`.',
)
