"""No fit ends before its tolerance without a word: one rule, whatever trains."""

from __future__ import annotations

import sys
import warnings
from types import SimpleNamespace

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

from model_table import hidden_chain
from small import Case, Word
from ssvm_dsl import (
    CountingPredictor,
    StructuredSVM,
    Subsets,
)
from ssvm_dsl.datasets import make_identity
from ssvm_dsl.learning.risks.kinds import check_pairing, find_risk
from ssvm_dsl.plugin_api import Iterate, TrainerSpec, hookimpl
from ssvm_dsl.registry import registry
from toy_backends import Toys, registered

DATA = Case(Word, n=6, C=2.0).make(0)

BUNDLED = [one for one in registry().specs(TrainerSpec) if registry().owner(one).bundled]


def said(fit):
    """What a fit warns of, and what it returns."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        found = fit()
    return found, [str(one.message) for one in caught if one.category is ConvergenceWarning]


def risk_for(spec):
    """The first risk that a trainer minimises."""
    for name in ("margin", "log", "relaxed"):
        try:
            check_pairing(spec, find_risk(name), 1.0)
        except Exception:
            continue
        return name
    raise AssertionError(spec.name)


@pytest.mark.parametrize("spec", BUNDLED, ids=lambda spec: spec.name)
def test_a_limit_before_the_tolerance_warns(spec):
    if spec.missing():
        pytest.skip(f"needs {spec.install_hint}")
    settings = {"risk": risk_for(spec), "trainer": spec.name, "tol": 1e-13, "max_passes": 2}
    svm, texts = said(lambda: StructuredSVM(Word, C=2.0, random_state=0, **settings).fit(DATA.X, DATA.Y))
    assert not svm.report_.converged
    assert len(texts) == spec.certifies
    for text in texts:
        assert "gap" in text or "no weights as good as those it started from" in text


def told(steps, **facts):
    """What a fit of a stranger's trainer says, and the estimator; ``steps`` yields its iterates."""

    class Told:
        def __init__(self, random_state=None):
            pass

        def steps(self, problem, stop, start=None):
            return steps(problem)

    sys.modules[__name__].Told = Told
    spec = TrainerSpec("told", f"{__name__}:Told", "told by a test", **facts)
    plugin = SimpleNamespace(ssvm_trainers=hookimpl(lambda: [spec]), ssvm_backends=Toys().ssvm_backends)
    with registered(plugin, "told"):
        svm = StructuredSVM(Word, C=2.0, trainer="told", tol=1e-3, max_passes=4, n_threads=1)
        return said(lambda: svm.fit(DATA.X, DATA.Y))


def without_bounds(problem):
    for t in range(1, 1000):
        yield Iterate(np.zeros(problem.dim), float(t))


def two_planes(problem):
    """Two passes, each with a lower bound of the optimum: that of the plane at zero weights."""
    w = np.zeros(problem.dim)
    objective = problem.objective
    for t in (1.0, 2.0):
        _, upper, planes = problem.evaluate(w)
        coef = objective.weight[planes.examples] / problem.n
        v = problem.accumulate(planes, coef, np.zeros(problem.dim))
        mean = float(np.dot(objective.weight[planes.examples], planes.loss)) / problem.n
        yield Iterate(w, t, upper, upper, objective.dual(v, mean), plane=(v, mean))


def test_a_trainer_of_someone_else_warns_at_a_limit_too():
    svm, texts = told(without_bounds)
    assert svm.report_.reason == "passes"
    assert len(texts) == 1
    assert "trainer 'told' gave no lower bound of the optimum" in texts[0]


def test_a_trainer_that_announces_no_bounds_has_no_gap_to_warn_of():
    svm, texts = told(without_bounds, certifies=False)
    assert svm.report_.reason == "passes"
    assert texts == []


def test_a_trainer_that_ends_early_is_named():
    svm, texts = told(two_planes)
    assert svm.report_.reason == "ended"
    assert np.isfinite(svm.report_.relative_gap)
    assert texts == [text for text in texts if text.startswith("trainer 'told' ended at relative gap")] != []


def test_smooth_risks_are_not_sent_to_cutting_planes():
    settings = {"risk": "log", "trainer": "lbfgs", "tol": 1e-13, "max_passes": 2}
    _, texts = said(lambda: StructuredSVM(Word, C=2.0, **settings).fit(DATA.X, DATA.Y))
    assert "raise max_passes or tol" in texts[0]
    assert "bundle" not in texts[0]


Parts = hidden_chain(2, 3, 2)


def test_latent_states_that_have_not_come_to_rest_are_told():
    rng = np.random.default_rng(0)
    X, Y = [rng.normal(size=(4, 2)) for _ in range(8)], list(rng.integers(2, size=8))
    for rounds, expected in ((1, 1), (20, 0)):
        options = {"init": "random", "rounds": rounds}
        svm, texts = said(
            lambda options=options: StructuredSVM(Parts, C=0.1, latent_options=options, random_state=0).fit(X, Y)
        )
        assert svm.report_.converged
        assert len(texts) == expected
        assert all(f"stopped after rounds={rounds}" in text for text in texts)


@pytest.mark.parametrize(
    ("options", "word"),
    [
        ({"solver": "ncg", "tol": 0.0, "max_iter": 1}, "raise max_iter or tol"),
        ({"solver": "ncg", "tol": 0.0, "max_seconds": 1e-9}, "raise max_seconds or tol"),
        ({"solver": "sgd", "max_seconds": 1e-9}, "max_seconds ended the passes"),
        ({"solver": "sgd"}, None),
        ({"solver": "ncg", "tol": 0.5}, None),
        ({"solver": "closed-form"}, None),
    ],
)
def test_training_by_counting_warns_at_limits(options, word):
    X, Y = make_identity(50)
    _, texts = said(lambda: CountingPredictor(Subsets(5), lam=1e-3, **options).fit(X, Y))
    assert len(texts) == (word is not None)
    assert all(word in text for text in texts)
