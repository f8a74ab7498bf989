"""What a fit or a prediction is expected to take is told beforehand, with what would be faster."""

from __future__ import annotations

import sys
import warnings
from dataclasses import replace

import numpy as np
import pytest

from ssvm_dsl import Dim, Factor, Hamming, Input, Label, Model, StructuredSVM, complete
from ssvm_dsl.errors import NoBackendError, TooLargeError
from ssvm_dsl.inference.planning.planner import plan
from ssvm_dsl.inference.planning.plans import Plan
from ssvm_dsl.ir import Guarantee, Need, Task, Topology
from ssvm_dsl.ir.loss import LossTerm
from ssvm_dsl.learning.driver.cost_estimate import (
    LONG,
    CostEstimate,
    fit_cost_estimate,
    predict_cost_estimate,
)
from ssvm_dsl.learning.risks.kinds import find_risk
from ssvm_dsl.plugin_api import TrainerSpec
from ssvm_dsl.registry import registry

#: A thousand complete graphs of 53 binary variables, as in data of many labels.
MANY = Need(
    topology=Topology.LOOPY, max_arity=2, max_card=2, max_variables=53, max_labellings=2.0**53, max_table=4,
    n_examples=1000, n_variables=53_000, n_factors=1_378_000, n_slots=2_756_000, crowding=52.0, max_clique_table=53.0,
)  # fmt: skip
NONE = LossTerm(np.zeros(0, np.int32), np.zeros(0), np.zeros(0))


def estimate(need=MANY, trainer="bcfw", risk="margin", max_passes=500):
    spec = registry().find(TrainerSpec, trainer)
    return fit_cost_estimate(need, plan(need), find_risk(risk), NONE, spec, 1.0, max_passes)


def test_an_exact_fit_on_dense_graphs_is_said_to_be_long_and_what_would_be_faster():
    made = estimate()
    assert made.backend == "decompose"
    assert made.seconds > 10 * LONG
    ways = {how: (name, seconds) for how, name, seconds in made.faster}
    assert set(ways) == {"guarantee='bound'", "risk='relaxed'"}  # heuristics are no faster than the bounds of qpbo
    assert all(3 * seconds <= made.seconds for _, seconds in ways.values())
    text = made.warning(30.0)
    assert text.startswith("this fit may take about ")
    assert "the limit of 30.0 s will end it" in text
    for how, (name, _) in ways.items():
        assert f"{how} ({name}, about " in text


def test_what_is_quick_or_ends_in_time_is_no_news():
    small = Need(n_examples=10, n_variables=100, max_variables=10, max_card=3)
    assert estimate(small).warning(None) == ""
    assert estimate(small).faster == ()
    assert estimate().warning(1e9) == ""
    assert estimate(max_passes=1).seconds < estimate().seconds
    assert CostEstimate("this fit", "unheard-of", 3, np.nan).warning(None) == ""


def test_it_says_what_becomes_of_the_certificate_and_how_far_a_limit_lets_a_fit_come():
    made = estimate()
    short, long_ = made.warning(made.pass_seconds / 2), made.warning(3.2 * made.pass_seconds)
    assert "will end it within the first pass, so that no useful gap can be expected" in short
    assert "will end it after about 3 passes" in long_
    assert ", an upper bound of this risk, whose gap closes)" in short
    assert short.endswith("; factors of fewer pairs")


def test_a_limit_too_short_for_a_pass_is_told_of_however_short_the_fit():
    made = CostEstimate("this fit", "slow", 3, 0.5, 20.0)
    assert made.warning(None) == made.warning(5.0) == made.warning(11.0) == ""
    assert "this fit may take about 10.0 s" in made.warning(0.2)


def test_a_weaker_guarantee_is_proposed_only_where_another_backend_answers_then():
    constrained = replace(MANY, constraint_kinds=frozenset({"matching"}), max_constraints=1, shared_literals=False)
    made = estimate(constrained)
    named = [(how.partition("=")[0], name) for how, name, _ in made.faster]
    assert made.backend not in {name for how, name, _ in made.faster if how.startswith("guarantee")}
    assert len(set(named)) == len(named) > 0


def test_only_what_the_trainer_and_the_guarantee_allow_is_proposed():
    never_relaxed = {how for how, _, _ in estimate(trainer="adam", risk="log").faster}
    assert "risk='relaxed'" not in never_relaxed
    assert "risk='relaxed'" in {how for how, _, _ in estimate(trainer="smo").faster}
    asked = Need(**{**MANY.__dict__, "guarantee": Guarantee.BOUND, "tasks": frozenset({Task.MAP})})
    assert all("bound" not in how for how, _, _ in estimate(asked).faster)


def test_predictions_scale_with_the_examples_that_are_left():
    made = predict_cost_estimate(MANY, plan(MANY), 50_000)
    assert made.seconds == pytest.approx(50 * plan(MANY).seconds)
    assert made.faster[0][0] == "guarantee='bound'"
    assert made.warning(None).startswith("this prediction may take")


class Set(Model):
    K = Dim(4)
    x = Input(2)
    y = Label(K, 2)
    own = Factor(y, features=x, per=K)
    pair = Factor(complete(y), per="edge")
    loss = Hamming(y)


X, Y = [np.ones(2)] * 3, [np.array([0, 1, 0, 1])] * 3


def test_fit_and_predict_warn_before_they_begin(monkeypatch):
    svm = StructuredSVM(Set, max_passes=2)
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        warnings.simplefilter("ignore", category=__import__("sklearn.exceptions").exceptions.ConvergenceWarning)
        svm.fit(X, Y).predict(X)
    for module in ("driver.cost_estimate", "estimators.structured"):
        monkeypatch.setattr(f"ssvm_dsl.learning.{module}.LONG", 1e-9)
    with pytest.warns(UserWarning, match="this fit may take about .* junction-tree needs about .* for 3 examples"):
        svm.fit(X, Y)
    with pytest.warns(UserWarning, match="this prediction may take about"):
        svm.predict(X)


def test_the_plan_keeps_what_was_expected():
    svm = StructuredSVM(Set, max_passes=2, tol=0.5).fit(X, Y)
    assert 0.0 < svm.plan_.seconds < 1.0
    assert svm.plan_.n_bytes > 0.0
    stored = Plan.of_summary(svm.plan_.summary())
    assert (stored.seconds, stored.n_bytes) == (svm.plan_.seconds, svm.plan_.n_bytes)


def test_what_does_not_fit_into_memory_is_refused_before_it_is_taken(monkeypatch):
    monkeypatch.setattr("ssvm_dsl.memory.free_memory", lambda: 100e6)
    huge = Need(**{**MANY.__dict__, "guarantee": Guarantee.HEURISTIC})
    with pytest.raises(NoBackendError, match=r"icm: takes about .* MB of memory, and 90.0 MB are free"):
        plan(huge, "icm")
    monkeypatch.setattr("ssvm_dsl.memory.free_memory", lambda: 10.0)
    for module in ("ssvm_dsl.memory", "ssvm_dsl.compiler.ground"):  # ground is a function by that name, too
        monkeypatch.setattr(sys.modules[module], "SMALL", 500)
    unmet = type(Set)("Set", (Set,), {})  # a model that knows the shape has its structure already
    with pytest.raises(TooLargeError, match="model Set on 3 examples takes about"):
        StructuredSVM(unmet).fit(X, Y)


def test_a_slow_backend_that_was_named_is_told_of_the_one_that_auto_takes():
    tree = Need(n_examples=10, n_variables=1000, max_variables=100, max_card=3)
    quick = plan(tree)
    spec = registry().find(TrainerSpec, "bcfw")
    slow = replace(quick, backend="ilp", seconds=1e4 * quick.seconds + 10.0)
    fit = fit_cost_estimate(tree, slow, find_risk("margin"), NONE, spec, 1.0, 500)
    assert fit.faster[0][:2] == ("backend='auto'", quick.backend)
    assert f"faster: backend='auto' ({quick.backend}, about " in fit.warning(None)
    assert predict_cost_estimate(tree, slow, 10).faster[0][:2] == ("backend='auto'", quick.backend)
    assert all(how != "backend='auto'" for how, _, _ in estimate().faster)  # it is what was taken


def test_products_of_features_and_weights_take_time_too():
    need = Need(n_examples=10, n_variables=100, max_variables=10, max_card=3)
    spec = registry().find(TrainerSpec, "bcfw")
    made = fit_cost_estimate(need, plan(need), find_risk("margin"), NONE, spec, 1.0, 500, features=2.0)
    assert made.seconds == pytest.approx(20.0 * (plan(need).seconds + 2.0))
    text = made.warning(None, tol=1e-3)
    assert "the products of features and weights take about 2.0 s for 10 examples" in text
    assert text.endswith("faster: fewer examples, states or factors; tol=0.01")
    assert "tol" not in made.warning(None, tol=0.05)
