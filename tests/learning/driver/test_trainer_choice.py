"""``trainer="auto"``: every risk alone works, the choice is said, and gives what naming the same trainer gives."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from model_table import tagger
from ssvm_dsl import Factor, Hamming, Input, Label, Model, StructuredRegressor, StructuredSVM
from ssvm_dsl.errors import OptionError
from ssvm_dsl.inference.planning.plans import AUTO
from ssvm_dsl.learning.driver.trainer_choice import FitFacts, choose
from ssvm_dsl.learning.risks.kinds import find_risk, risks
from ssvm_dsl.models import Classifier
from ssvm_dsl.plugin_api import AutoRule, TrainerSpec, hookimpl
from ssvm_dsl.registry import PluginInfo, registry

Word = tagger(2, 2)


class Row(Model):
    x = Input(2)
    y = Label(2)
    score = Factor(y, features=x)
    loss = Hamming(y)


def data(model):
    rng = np.random.default_rng(0)
    if model is Row:
        X = rng.normal(size=(20, 2))
        return X, (X[:, 0] > 0).astype(int)
    X = [rng.normal(size=(4, 2)) for _ in range(12)]
    return X, [(x[:, 0] > 0).astype(int) for x in X]


@pytest.mark.parametrize("risk", risks())
def test_every_risk_alone_is_minimised_with_a_certificate(risk):
    model = Row if find_risk(risk).spec.one_label else Word
    report = StructuredSVM(model, risk=risk, random_state=0).fit(*data(model)).report_
    assert report.certified
    assert report.converged or report.primal < 1e-9  # nothing is left of the perceptron's risk
    assert report.trainer_reason
    assert f"{report.trainer}, by auto: {report.trainer_reason} (" in " ".join(str(report).split())


@pytest.mark.parametrize(
    ("settings", "trainer"),
    [
        ({}, "bcfw"),
        ({"l1": 0.1}, "bcfw"),
        ({"risk": "relaxed"}, "bcfw"),
        ({"power": 2}, "bundle"),
        ({"power": 1.5}, "bundle"),
        ({"risk": "slack"}, "bundle"),
        ({"risk": "log"}, "lbfgs"),
        ({"risk": "log", "power": 2}, "lbfgs"),
        ({"risk": "log", "lam": 0, "l1": 0.1}, "lbfgs"),
        ({"risk": "log", "regularization": {"emit": 0}}, "lbfgs"),
        ({"regularization": {Word.emit: 0}}, "subgradient"),
        ({"lam": 0, "l1": 0.1}, "subgradient"),
        ({"executor": "processes"}, "bcfw"),
        ({"executor": "stream"}, "bundle"),
        ({"executor": "stream", "risk": "relaxed"}, "bundle"),
        ({"executor": "stream", "risk": "log"}, "lbfgs"),
        ({"trainer_options": {"sampling": "uniform"}}, "bcfw"),
        ({"trainer_options": {"cache": 5}}, "one-slack"),
        ({"risk": "log", "trainer_options": {"step_size": 0.5, "batch_size": 4}}, "svrg"),
    ],
)
def test_the_choice_follows_from_risk_penalty_executor_and_options(settings, trainer):
    svm = StructuredSVM(Word, max_passes=2, random_state=0, **settings)
    with pytest.warns(match="stopped at"):
        chosen = svm.set_params(tol=0.0).fit(*data(Word)).report_
    assert chosen.trainer == trainer


def test_a_chosen_trainer_gives_the_same_numbers_as_a_named_one():
    X, Y = data(Word)
    for settings in ({}, {"risk": "log"}, {"power": 2}, {"executor": "stream"}):
        auto = StructuredSVM(Word, random_state=0, **settings).fit(X, Y)
        named = StructuredSVM(Word, random_state=0, trainer=auto.report_.trainer, **settings).fit(X, Y)
        assert (auto.coef_ == named.coef_).all()
        assert named.report_.trainer_reason == ""
        assert "by auto" not in str(named.report_)


def test_streams_take_a_trainer_that_learns_from_them():
    svm = StructuredSVM(Word, random_state=0)
    X, Y = data(Word)
    for i in (0, 6):
        svm.partial_fit(X[i : i + 6], Y[i : i + 6])
    assert svm.report_.trainer == "subgradient"


def test_regressors_choose_too():
    X, Y = data(Row)
    assert StructuredRegressor(Row).fit(X, X[:, 0], Y).report_.trainer == "bundle"


def test_options_that_no_trainer_has_are_refused():
    with pytest.raises(OptionError, match="'bcfw' has no option 'keeep'; its options are: sampling"):
        StructuredSVM(Word, trainer_options={"keeep": 1}).fit(*data(Word))
    with pytest.raises(OptionError, match="'lbfgs' has no option 'sampling'"):  # before the data are looked at
        StructuredSVM(Word, risk="log", trainer_options={"sampling": "gap"}).fit([], [])


def test_tables_of_many_rows_are_learnt_by_planes_of_all_rows():
    margin = find_risk("margin")

    def chosen(n, dim, single):
        return choose(AUTO, None, FitFacts(margin, n_examples=n, n_weights=dim, single=single)).spec.name

    assert chosen(8000, 1000, True) == chosen(2000, 250, True) == "bundle"
    assert chosen(7999, 1000, True) == chosen(1999, 10, True) == chosen(8000, 1000, False) == "bcfw"
    rng = np.random.default_rng(0)
    X = rng.normal(size=(2000, 2))
    made = Classifier(risk="margin", C=1.0, scale=False).fit(X, (X[:, 0] > 0).astype(int))
    assert made.report_.trainer == "bundle"
    assert made.report_.certified


def test_the_lowest_rank_of_the_rules_that_are_met_decides():
    margin, large = find_risk("margin"), AutoRule(-1, "data are large", least_examples=100, least_weights=10)
    spec = TrainerSpec("mine", "nowhere:Mine", rules=(large,))
    plugin = SimpleNamespace(ssvm_trainers=hookimpl(lambda: [spec]))

    def chosen(known, n, dim, risk=margin):
        return choose(AUTO, None, FitFacts(risk, n_examples=n, n_weights=dim), known).spec.name

    for allowed in (False, True):  # by SSVM_PLUGINS
        known = registry().copy()
        assert known.register(plugin, PluginInfo("own", "own 1.0", bundled=False, allowed=allowed))
        assert chosen(known, 100, 10) == ("mine" if allowed else "bcfw")
    assert chosen(known, 99, 10) == chosen(known, 100, 9) == chosen(known, None, None) == "bcfw"
    assert chosen(known, 100, 10, find_risk("log")) == "lbfgs"
