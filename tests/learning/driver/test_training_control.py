"""What happens around a fit: limits, callbacks, hooks, Ctrl-C, honest but imperfect backends, streams."""

from __future__ import annotations

import json
import warnings
from types import SimpleNamespace

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

import small
import toy_backends
from clocks import ticking
from ctrl_c import python_hears_ctrl_c
from model_table import tagger
from own_compiler import own_compiler
from small import Case, Word
from ssvm_dsl import StructuredSVM
from ssvm_dsl.datasets import make_chains
from ssvm_dsl.errors import BackendFault, NoBackendError, OptionError, PluginError, TrainingError
from ssvm_dsl.learning.driver import interrupts
from ssvm_dsl.learning.driver.certificate import REASONS, FitReport
from ssvm_dsl.plugin_api import TrainerNeeds, TrainerSpec, TrainingEvent, hookimpl
from toy_backends import Toys, registered


@pytest.fixture(autouse=True)
def each_interrupt_is_the_first(monkeypatch):
    monkeypatch.setattr(interrupts, "_ended", [-np.inf])


DATA = Case(Word, n=8, C=2.0).make(0)
BEST, W_BEST = DATA.optimum()


def svm_of(**options) -> StructuredSVM:
    return StructuredSVM(Word, **{"C": 2.0, "random_state": 0, "n_threads": 1, "tol": 1e-6, **options})


def fit(**options) -> StructuredSVM:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return svm_of(**options).fit(DATA.X, DATA.Y)


def objective(svm: StructuredSVM) -> float:
    return DATA.objective(DATA.flat(svm.weights_))


# -- the course of a fit ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("options", [{}, {"trainer": "subgradient", "tol": 0.02}], ids=["bcfw", "subgradient"])
def test_history_tells_the_course_of_the_fit(options):
    report = fit(**options, max_passes=2000).report_
    history = report.history
    assert report.converged
    assert report.reason == "tolerance"
    assert [event.iteration for event in history] == list(range(1, len(history) + 1))
    for name in ("n_passes", "seconds", "n_oracle_calls", "oracle_seconds", "best_dual"):
        values = [getattr(event, name) for event in history]
        assert values == sorted(values), name
    primals = [event.best_primal for event in history if np.isfinite(event.best_primal)]
    assert primals == sorted(primals, reverse=True)
    last = history[-1]
    assert (last.best_primal, last.best_dual) == (report.primal, report.dual)
    assert last.relative_gap == report.relative_gap <= svm_of(**options).tol
    assert last.n_passes == report.n_passes
    assert report.n_oracle_calls == last.n_oracle_calls == pytest.approx(8 * report.n_passes)
    assert 0 <= report.oracle_seconds <= report.seconds
    assert (report.n_examples, report.n_weights, report.trainer) == (8, 15, options.get("trainer", "bcfw"))
    assert report.plan.backend == "chain"


def test_the_report_is_plain_data():
    report = fit(trainer="subgradient", max_passes=3).report_
    text = json.dumps(report.summary(), allow_nan=False)
    again = FitReport.of_summary(json.loads(text))
    assert again.summary() == report.summary()
    assert (again.primal, again.dual, again.reason) == (report.primal, report.dual, report.reason)
    assert again.plan.backend == "chain"
    json.dumps(report.history_dicts(), allow_nan=False)
    shown = str(report)
    for word in ("chain", "subgradient", REASONS["passes"], f"{report.primal:.6g}", "C = 2", "15 weights"):
        assert word in shown


def test_limits_of_passes_and_seconds_warn():
    with pytest.warns(ConvergenceWarning, match="raise max_passes"):
        svm = svm_of(max_passes=3).fit(DATA.X, DATA.Y)
    assert svm.report_.reason == "passes"
    assert not svm.report_.converged
    assert svm.report_.n_passes <= 3 + 1
    with pytest.warns(ConvergenceWarning, match="relative gap"), ticking():
        svm = svm_of(max_seconds=0.2, tol=0.0, max_passes=1e9).fit(DATA.X, DATA.Y)
    assert svm.report_.reason == "seconds"
    assert svm.report_.primal == pytest.approx(objective(svm), rel=1e-9)


@pytest.mark.parametrize("trainer", ["n-slack", "bcfw", "one-slack"])
def test_the_warning_names_trainers_for_few_weights(trainer):
    with pytest.warns(ConvergenceWarning) as caught:
        StructuredSVM(small.Word, trainer=trainer, tol=0.0, max_passes=2, random_state=0).fit(DATA.X, DATA.Y)
    advice = "with so few weights try trainer='bcfw' or 'one-slack' or 'bundle'"
    assert (advice in str(caught[0].message)) == (trainer == "n-slack")


def test_no_warning_when_the_tolerance_is_reached():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        svm_of().fit(DATA.X, DATA.Y)


@pytest.mark.parametrize("trainer", ["bcfw", "subgradient"])
def test_callbacks_see_every_iteration_and_may_stop(trainer):
    seen = []

    def watch(event):
        seen.append(event)

    svm = fit(trainer=trainer, tol=0.0, callbacks=[watch, lambda event: event.iteration == 4])
    assert svm.report_.reason == "callback"
    assert all(isinstance(event, TrainingEvent) for event in seen)
    assert [event.iteration for event in seen] == [1, 2, 3, 4]
    assert svm.report_.history == tuple(seen)
    assert svm.report_.primal == pytest.approx(objective(svm), rel=1e-9)
    assert svm.report_.dual <= BEST <= svm.report_.primal + 1e-7


@pytest.mark.parametrize("trainer", ["bcfw", "smo"])
@pytest.mark.parametrize("limits", [{"max_seconds": 0.1}, {"callbacks": [lambda event: event.iteration == 3]}])
def test_a_fit_that_ends_early_has_a_certificate(trainer, limits):
    """Their iterates come without one, which costs a pass, until the gap is likely small."""
    with ticking():
        report = fit(trainer=trainer, tol=0.0, max_passes=1e9, **limits).report_
        again = fit(trainer=trainer, tol=0.0, max_passes=1e9, **limits)
    assert report.reason in ("seconds", "callback")
    assert "max_seconds" in limits or np.isnan(report.history[-1].primal)
    assert 0.0 < report.dual <= BEST <= report.primal + 1e-7
    assert report.gap == pytest.approx(report.primal - report.dual + report.rounding)
    assert np.isfinite(again.certified_gap(1.0))


@pytest.mark.parametrize("trainer", ["bcfw", "subgradient"])
def test_ctrl_c_in_a_callback_keeps_the_best_model(trainer):
    def press(event):
        if event.iteration == 5:
            raise KeyboardInterrupt

    svm = fit(trainer=trainer, tol=0.0, callbacks=[press])
    assert svm.report_.reason == "interrupt"
    assert len(svm.report_.history) == 5
    assert svm.report_.primal == pytest.approx(objective(svm), rel=1e-9)
    assert svm.report_.dual <= BEST <= svm.report_.primal + 1e-7
    assert len(svm.predict(DATA.X)) == 8


@pytest.mark.parametrize("trainer", ["bcfw", "subgradient"])
@pytest.mark.parametrize("at", [1, 5, 60])
def test_ctrl_c_inside_an_oracle_keeps_the_best_model(trainer, at, monkeypatch):
    monkeypatch.setattr(toy_backends.Interrupted, "at", at)
    monkeypatch.setattr(toy_backends.Interrupted, "calls", 0)
    with registered(Toys()):
        svm = fit(trainer=trainer, tol=0.0, backend="toy-interrupted")
    assert svm.report_.reason == "interrupt"
    assert svm.report_.primal == pytest.approx(objective(svm), rel=1e-9)
    assert svm.report_.dual <= BEST <= svm.report_.primal + 1e-7


@own_compiler
@pytest.mark.parametrize("at", [1, 3])
def test_ctrl_c_while_a_kernel_is_compiled_keeps_the_best_model(at, monkeypatch):
    monkeypatch.setattr(toy_backends.Compiling, "at", at)
    monkeypatch.setattr(toy_backends.Compiling, "calls", 0)
    with registered(Toys()), python_hears_ctrl_c():
        with pytest.warns(ConvergenceWarning, match="interrupted"):
            svm = svm_of(tol=0.0, backend="toy-compiling").fit(DATA.X, DATA.Y)
        assert svm.report_.reason == "interrupt"
        assert svm.report_.primal == pytest.approx(objective(svm), rel=1e-9)
        monkeypatch.setattr(toy_backends.Compiling, "at", toy_backends.Compiling.calls + 1)
        with pytest.raises(KeyboardInterrupt):
            svm.predict(DATA.X)
        assert len(svm.predict(DATA.X)) == 8


def test_other_errors_leave_the_estimator_as_it_was():
    svm = fit()
    before = svm.coef_.copy()

    def fail(event):
        raise ZeroDivisionError

    svm.set_params(callbacks=[fail])
    with pytest.raises(ZeroDivisionError):
        svm.fit(DATA.X, DATA.Y)
    np.testing.assert_array_equal(svm.coef_, before)


def test_plugins_are_told_about_training():
    class Listener:
        def __init__(self):
            self.events = []

        @hookimpl
        def ssvm_training_event(self, event):
            self.events.append(event)
            return len(self.events) == 3

    listener = Listener()
    with registered(listener, "listener"):
        svm = fit(tol=0.0)
    assert svm.report_.reason == "callback"
    assert svm.report_.history == tuple(listener.events)
    fit(max_passes=2)
    assert len(listener.events) == 3  # it is gone


@pytest.mark.parametrize("options", [{}, {"trainer": "subgradient"}, {"trainer": "subgradient", "tol": 0.0}])
def test_progress_is_shown_on_stderr(options, capfd):
    fit(**{"verbose": True, "max_passes": 12, **options})
    shown = capfd.readouterr()
    assert "fit " in shown.err
    assert "passes" in shown.err
    assert shown.out == ""


# -- imperfect backends ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("case", [DATA.case, Case(small.AllOrNothing, n=6)], ids=str)
@pytest.mark.parametrize("trainer", ["bcfw", "subgradient"])
def test_a_heuristic_backend_gives_no_certificate(trainer, case):
    data = case.make(0)
    best, _ = data.optimum()
    options = {"trainer": trainer, "backend": "toy-heuristic", "max_passes": 15, "random_state": 0, "C": case.C}
    with registered(Toys()), warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        svm = StructuredSVM(case.model, **options).fit(data.X, data.Y)
        assert len(svm.predict(data.X)) == len(data.X)
    report = svm.report_
    assert not report.certified
    assert np.isnan(report.gap)
    assert np.isnan(report.relative_gap)
    assert not report.converged
    assert report.reason in ("passes", "estimate")
    assert report.dual <= best + 1e-7  # planes of any labelling bound the optimum from below
    assert np.isnan(report.primal)
    assert report.estimate <= data.objective(data.flat(svm.weights_)) + 1e-9
    assert np.isnan([event.primal for event in report.history]).all()
    assert f"{report.estimate:.6g} (with the labellings found" in str(report)
    assert "not certified" in str(report)
    assert report.summary()["gap"] is None
    texts = [str(one.message) for one in caught if one.category is ConvergenceWarning]
    assert all("gap is not known" in text for text in texts)
    assert len(texts) == (report.reason == "passes")


@pytest.mark.parametrize("case", [DATA.case, Case(small.AllOrNothing, n=6)], ids=str)
@pytest.mark.parametrize("trainer", ["bcfw", "subgradient"])
def test_a_bounding_backend_gives_a_true_certificate(trainer, case):
    data = case.make(0)
    best, _ = data.optimum()
    options = {"trainer": trainer, "backend": "toy-bounding", "max_passes": 15, "random_state": 0, "C": case.C}
    with registered(Toys()), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        svm = StructuredSVM(case.model, **options).fit(data.X, data.Y)
    report, truth = svm.report_, data.objective(data.flat(svm.weights_))
    assert report.certified
    assert report.dual <= best + 1e-7
    assert report.primal >= truth - 1e-9 >= best - 1e-7  # an upper bound of the objective
    assert report.estimate <= truth + 1e-9
    assert report.inference_gap == pytest.approx(min(report.primal - report.estimate, report.gap))
    assert report.gap > 0
    assert report.relative_gap == pytest.approx(report.gap / report.primal)


def test_auto_never_takes_a_registered_backend():
    with registered(Toys()):
        assert fit(max_passes=1).plan_.backend == "chain"


def test_a_backend_that_fails_is_named():
    with registered(Toys()), pytest.raises(BackendFault, match=r"toy-broken.*the solver exploded"):
        fit(backend="toy-broken")


# -- combinations that cannot work -----------------------------------------------------------------------------


def test_an_impossible_backend_lists_its_reasons():
    data = Case(small.Loopy).make(0)
    with pytest.raises(NoBackendError) as caught:
        StructuredSVM(small.Loopy, backend="chain").fit(data.X, data.Y)
    text = str(caught.value)
    assert "chain: handles disjoint chains, this is a graph with cycles" in text
    assert "these would fit: " in text
    assert "brute-force" in text


def test_no_backend_at_all_lists_all_of_them():
    class Wide(small.Model):
        K = small.Dim(30)
        x = small.Input(2)
        y = small.Label(K, 2)
        unary = small.Factor(y, features=x, per=K)
        pair = small.Factor(small.complete(y))
        loss = small.Hamming(y)

    with pytest.raises(NoBackendError) as caught:  # it asks for marginals
        StructuredSVM(Wide, risk="log", trainer="lbfgs").fit([np.zeros(2)], [np.zeros(30, int)])
    text = str(caught.value)
    assert "chain: handles disjoint chains" in text
    assert "tree: handles a forest" in text
    assert "brute-force: an example has 1.07" in text
    assert "hint:" in text


class Arrays:
    """A trainer that yields weights, not iterates."""

    def __init__(self, random_state=None):
        pass

    def steps(self, problem, stop, start=None):
        yield np.zeros(problem.dim)


def test_a_trainer_that_yields_no_iterates_is_told_so():
    spec = TrainerSpec("arrays", f"{__name__}:Arrays")
    expected = pytest.raises(PluginError, match=r"expected an Iterate\(w, n_passes, ...\) .* got ndarray")
    with registered(SimpleNamespace(ssvm_trainers=hookimpl(lambda: [spec])), "arrays"), expected:
        fit(trainer="arrays")


def test_a_trainer_for_another_risk_is_refused():
    needs = TrainerNeeds(risks=frozenset({"log"}), any_power=False)
    spec = TrainerSpec("odd", "nowhere:Odd", needs=needs)
    with registered(SimpleNamespace(ssvm_trainers=hookimpl(lambda: [spec])), "odd-one"):
        with pytest.raises(TrainingError, match="'odd' does not minimise risk 'margin'; these do: bcfw"):
            fit(trainer="odd")
        with pytest.raises(TrainingError, match=r"minimise risk 'log' to the power 2; these do: .*lbfgs"):
            fit(trainer="odd", risk="log", power=2)
    with pytest.raises(TrainingError, match=r"hint: leave trainer= out, .*; 'bcfw' minimises hm, margin, .*1\)"):
        fit(risk="log", trainer="bcfw")
    with pytest.raises(TrainingError, match=r"hint: leave trainer= out, .*; 'lbfgs' minimises log, .*powers: any"):
        fit(trainer="lbfgs")


def test_an_unknown_risk_is_refused_with_the_known_ones():
    with pytest.raises(OptionError, match="no risk 'hinge'; write risk='margin'\n  known: margin, "):
        fit(risk="hinge")


# -- streams ---------------------------------------------------------------------------------------------------


Sequence = tagger(5, 3)


@pytest.mark.sensitive
def test_partial_fit_learns_from_a_stream():
    """Over seeds 0 to 5 the first scores are 0.79 to 0.84, the last 0.84 to 0.85, those of batches 0.85 to 0.86."""
    X, Y = make_chains(n=400, n_states=3, n_features=5, length=(3, 8), random_state=1)
    scores = []
    for seed in range(3):
        svm = StructuredSVM(Sequence, C=0.1, trainer="subgradient", random_state=seed)
        for lo in range(0, 300, 50):
            assert svm.partial_fit(X[lo : lo + 50], Y[lo : lo + 50]) is svm
            assert svm.report_.reason == "stream"
            assert svm.report_.n_examples == 50
            scores.append(svm.score(X[300:], Y[300:]))
    first, last = np.mean(scores[::6]), np.mean(scores[5::6])
    batch = StructuredSVM(Sequence, C=0.1, tol=1e-5, random_state=0).fit(X[:300], Y[:300])
    assert last > first + 0.01 > 0.6
    assert last >= batch.score(X[300:], Y[300:]) - 0.03


def test_one_batch_of_a_stream_is_one_pass():
    options = {"trainer": "subgradient", "max_passes": 1, "trainer_options": {"best_iterate": False}}
    stream = svm_of(**options).partial_fit(DATA.X, DATA.Y)
    np.testing.assert_array_equal(stream.coef_, fit(**options).coef_)
    assert stream.report_.primal == pytest.approx(objective(stream), rel=1e-9)


def test_a_stream_counts_the_examples_seen():
    """With C the regularisation is 1 / (C n) for all n so far; with lam it is lam."""
    seen = []
    for options, lams in (({"C": 0.5}, [2 / 3, 2 / 8]), ({"lam": 0.7}, [0.7, 0.7])):
        svm = StructuredSVM(Word, **options, trainer="subgradient", random_state=0, n_threads=1)
        for batch, lam in zip((slice(0, 3), slice(3, 8)), lams):
            svm.partial_fit(DATA.X[batch], DATA.Y[batch])
            w, planes = DATA.flat(svm.weights_), DATA.planes[batch]
            risks = [np.max(losses - psi @ w) for losses, psi in planes]
            value = 0.5 * lam * w @ w + np.mean(risks)
            seen.append(svm.report_.primal * (1.0 if "lam" in options else lam) / value)
    np.testing.assert_allclose(seen, 1.0)


def test_only_streaming_trainers_take_partial_fit():
    with pytest.raises(TrainingError, match="'bcfw' has no partial_fit; these have: perceptron, subgradient"):
        svm_of(trainer="bcfw").partial_fit(DATA.X, DATA.Y)


def test_the_vocabulary_is_that_of_the_first_batch():
    svm = StructuredSVM(small.Tokens, trainer="subgradient", random_state=0)
    svm.partial_fit([[["a"], ["b"]]], [[0, 1]])
    shape = svm.weights_["emit"].shape
    svm.partial_fit([[["c"], ["a", "d"], ["e"]]], [[0, 1, 2]])
    assert svm.weights_["emit"].shape == shape == (3, 2)


def test_fit_ends_a_stream():
    svm = StructuredSVM(small.Tokens, trainer="subgradient", random_state=0)
    svm.partial_fit([[["a"], ["b"]]], [[0, 1]])
    svm.fit([[["c"], ["d"], ["e"]]], [[0, 1, 2]])
    svm.partial_fit([[["f"], ["g"]]], [[0, 1]])
    fresh = StructuredSVM(small.Tokens, trainer="subgradient", random_state=0).partial_fit([[["f"], ["g"]]], [[0, 1]])
    np.testing.assert_array_equal(svm.coef_, fresh.coef_)


# -- warm starts -----------------------------------------------------------------------------------------------


def test_a_warm_start_needs_fewer_calls():
    ratios = []
    for seed in range(3):
        X, Y = make_chains(n=60, n_states=3, n_features=5, length=(3, 8), noise=2.0, random_state=seed)
        options = {"C": 0.2, "tol": 1e-2, "random_state": 0, "max_passes": 2000}
        svm = StructuredSVM(Sequence, warm_start=True, **options).fit(X, Y)
        calls, primal = svm.report_.n_oracle_calls, svm.report_.primal
        svm.fit(X, Y)
        assert svm.report_.converged
        ratios.append(svm.report_.n_oracle_calls / calls)
        assert svm.report_.primal == pytest.approx(primal, rel=2e-2)
        cold = StructuredSVM(Sequence, **options).fit(X, Y)
        assert cold.fit(X, Y).report_.n_oracle_calls == calls
    assert max(ratios) < 1.0
    assert np.mean(ratios) < 0.9


@pytest.mark.parametrize(
    ("trainer", "options"),
    [("bcfw", {}), *(("subgradient", {"order": order}) for order in ("stochastic", "incremental", "batch"))],
)
def test_a_warm_start_never_ends_worse_than_it_began(trainer, options):
    svm = fit(warm_start=True, max_passes=500)
    before = objective(svm)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        svm.set_params(trainer=trainer, max_passes=2, tol=0.0, trainer_options=options).fit(DATA.X, DATA.Y)
    assert objective(svm) <= before


def test_a_warm_start_ends_no_worse_within_a_loose_tolerance():
    svm = fit(warm_start=True, tol=1e-6, max_passes=500)
    before = objective(svm)
    with pytest.warns(ConvergenceWarning, match="met no weights as good as those it started from"):
        svm.set_params(trainer="extragradient", tol=0.5).fit(DATA.X, DATA.Y)
    assert svm.report_.reason == "tolerance"
    assert objective(svm) <= before


def test_a_warm_start_keeps_the_vocabulary():
    svm = StructuredSVM(small.Plain, warm_start=True, random_state=0).fit([[["a"], ["b"]]], [[0, 1]])
    svm.fit([[["c"], ["a"]]], [[0, 1]])
    assert svm.weights_["emit"].shape == (3, 2)


def test_a_warm_start_from_another_model_is_refused():
    svm = svm_of(warm_start=True).fit(DATA.X, DATA.Y)
    data = Case(small.Bounded).make(0)
    svm.set_params(model=small.Bounded)
    with pytest.raises(OptionError, match="warm_start"):
        svm.fit(data.X, data.Y)
