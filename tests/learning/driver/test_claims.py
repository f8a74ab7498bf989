"""What trainers claim is not believed: objectives and lower bounds are computed by the driver, or count for nothing."""

from __future__ import annotations

import sys
import warnings
from types import SimpleNamespace

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

from small import Case, Word
from ssvm_dsl import Dim, Factor, Input, Label, Model, NoLoss, StructuredSVM, chain
from ssvm_dsl.errors import DataError, OptionError, OutOfTime, PluginError, TrainingError
from ssvm_dsl.plugin_api import Iterate, TrainerSpec, hookimpl
from toy_backends import Toys, registered

DATA = Case(Word, n=6, C=2.0).make(0)
BEST, W_BEST = DATA.optimum()


def trained(tell, **options):
    """Return an estimator whose trainer yields what ``tell(problem)`` yields, and the warnings of its fit."""

    class Told:
        def __init__(self, random_state=None):
            pass

        def steps(self, problem, stop, start=None):
            return tell(problem)

    module = sys.modules[__name__]
    module.Told = Told
    spec = TrainerSpec("told", f"{__name__}:Told", "told by a test")
    settings = {"C": 2.0, "tol": 1e-3, "max_passes": 5, "random_state": 0, "n_threads": 1} | options
    plugin = SimpleNamespace(ssvm_trainers=hookimpl(lambda: [spec]), ssvm_backends=Toys().ssvm_backends)
    with registered(plugin, "told"), warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        svm = StructuredSVM(Word, trainer="told", **settings).fit(DATA.X, DATA.Y)
    return svm, [str(one.message) for one in caught if one.category is ConvergenceWarning]


def objective(svm):
    return DATA.objective(DATA.flat(svm.weights_))


def forever(make):
    """Return a trainer that yields the same iterate for ever."""

    def tell(problem):
        t = 0
        while True:
            t += 1
            yield make(problem, float(t))

    return tell


def test_an_invented_objective_is_computed_anew_and_does_not_end_the_fit():
    """Objective and bounds of nowhere, a gap of nothing: the trainer is asked on, and the report has the true value."""
    report = trained(forever(lambda p, t: Iterate(np.zeros(p.dim), t, 0.001, 0.001, 0.0009999)))[0].report_
    assert report.reason == "passes"
    assert report.primal == pytest.approx(DATA.objective(np.zeros(15)))
    assert report.dual == -np.inf
    assert not report.converged
    assert not report.certified
    assert "gives no lower bound" in str(report)
    for event in report.history:
        assert np.isnan(event.primal)
        assert event.extra["gap_estimate"] > 0.0


def test_a_lower_bound_without_a_plane_is_an_estimate():
    def make(problem, t):
        w = np.zeros(problem.dim)
        primal, upper = problem.value(w)
        return Iterate(w, t, primal, upper, 2.0 * primal)

    report = trained(forever(make))[0].report_
    assert (report.reason, report.dual, report.certified) == ("passes", -np.inf, False)


def test_the_lower_bound_is_that_of_the_plane():
    """Whatever is claimed of it; the plane of the zero vector and 0 is below all risks."""

    def make(problem, t):
        w = np.zeros(problem.dim)
        return Iterate(w, t, *problem.value(w), 1e9, plane=(np.zeros(problem.dim), 0.0))

    report = trained(forever(make))[0].report_
    assert report.dual == 0.0
    assert report.certified
    assert report.gap == pytest.approx(report.primal)


def test_a_plane_above_the_risks_withdraws_the_certificate():
    def make(problem, t):
        w = np.zeros(problem.dim)
        primal, upper = problem.value(w)
        return Iterate(w, t, primal, upper, primal, plane=(np.zeros(problem.dim), primal * 1.01))

    svm, told = trained(forever(make))
    report = svm.report_
    assert (report.converged, report.certified, report.dual) == (False, False, -np.inf)
    assert "where the mean risk is at most" in report.withdrawn
    assert f"not certified: {report.withdrawn}" in " ".join(str(report).split())
    assert told[0].startswith("no certificate: the plane behind the lower bound of trainer 'told' is")
    assert np.isnan(svm.certified_gap(1.0))


def test_a_lower_bound_above_the_objective_of_other_weights_is_withdrawn():
    """The plane is not looked at where it is wrong; the weights returned tell."""

    def tell(problem):
        far = 3.0 * np.random.default_rng(0).normal(size=problem.dim)
        high = problem.value(far)[0] - problem.objective.regularizer(far)
        yield Iterate(far, 1.0, *problem.value(far), plane=(np.zeros(problem.dim), high))
        yield Iterate(np.zeros(problem.dim), 2.0, *problem.value(np.zeros(problem.dim)))

    svm, told = trained(tell)
    assert (svm.report_.reason, svm.report_.certified) == ("withdrawn", False)
    assert "came out above the objective" in told[0]
    assert svm.report_.primal == pytest.approx(DATA.objective(np.zeros(15)))


def test_the_best_iterate_is_best_by_what_was_computed():
    def tell(problem):
        yield Iterate(np.zeros(problem.dim), 1.0, *problem.value(np.zeros(problem.dim)))
        yield Iterate(np.full(problem.dim, 5.0), 2.0, 1e-9, 1e-9)  # never evaluated
        problem.value(np.full(problem.dim, 4.0))
        yield Iterate(np.full(problem.dim, 4.0), 3.0, 1e-9, 1e-9)  # evaluated, and told wrong

    svm, _ = trained(tell)
    assert not svm.coef_.any()
    assert [np.isfinite(event.primal) for event in svm.report_.history] == [True, False, True]


@pytest.mark.parametrize(
    ("found", "message"),
    [
        (None, "expected an Iterate.* got NoneType"),
        ("hello", "expected an Iterate.* got str"),
        (Iterate(np.zeros(2), 1.0), r"array of 15 float64, got shape \(2,\)"),
        (Iterate([0.0] * 15, 1.0), "array of 15 float64, got list"),
        (Iterate(np.zeros(15, np.float32), 1.0), "array of 15 float64, got shape .* float32"),
        (Iterate(np.zeros(15), np.nan), "n_passes, primal, upper and dual of an iterate are numbers"),
        (Iterate(np.zeros(15), 1.0, "high"), "are numbers"),
        (Iterate(np.zeros(15), 1.0, plane=(np.zeros(3), 0.0)), r"\(v, b\) with 15 float64 in v"),
        (Iterate(np.zeros(15), 1.0, plane=(np.zeros(15), "b")), "with a number b"),
    ],
    ids=repr,
)
def test_what_is_no_iterate_names_the_trainer(found, message):
    def tell(problem):
        yield found

    with pytest.raises(PluginError, match=f"trainer 'told' broke its contract: .*{message}"):
        trained(tell)


def test_weights_that_are_no_numbers_name_the_trainer():
    with pytest.raises(TrainingError, match="trainer 'told': its weights are no longer finite"):
        trained(forever(lambda problem, t: Iterate(np.full(problem.dim, np.nan), t)))


@pytest.mark.parametrize("error", [ZeroDivisionError("of its own"), SystemExit(3), StopIteration()])
def test_whatever_a_trainer_raises_names_it(error):
    def tell(problem):
        yield Iterate(np.zeros(problem.dim), 1.0)
        raise error

    with pytest.raises(PluginError, match=r"trainer 'told': it failed with \w+"):
        trained(tell)


def test_steps_that_are_no_iterates_name_the_trainer():
    with pytest.raises(PluginError, match=r"steps\(\) returned int, expected a generator"):
        trained(lambda problem: 3)


# -- imperfect oracles -----------------------------------------------------------------------------------------


def test_a_heuristic_does_not_choose_among_iterates():
    """Its estimates are low where it misses much, so that the newest weights are returned, not the lowest."""

    def tell(problem):
        for t in range(1, 6):
            w = np.full(problem.dim, 0.0 if t == 1 else float(t))
            yield Iterate(w, float(t), *problem.value(w))

    svm, _ = trained(tell, backend="toy-heuristic")
    report = svm.report_
    estimates = [event.estimate for event in report.history]
    assert report.estimate == estimates[-1] > min(estimates)
    assert (svm.coef_ == 5.0).all()
    assert np.isnan([report.primal, report.gap, *(event.best_primal for event in report.history)]).all()
    assert "estimate" in dict(report.rows())
    assert "primal" not in dict(report.rows())


# -- arithmetic ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("trainer", ["bcfw", "n-slack", "bundle"])
@pytest.mark.parametrize("size", [1e12, 1e16, 1e20])
def test_rounding_is_part_of_the_certificate(trainer, size):
    """Features that are far too large leave no small gap to certify, and the warning names them."""
    X = [x.copy() for x in DATA.X]
    X[1][0, 0] = size
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        svm = StructuredSVM(Word, C=2.0, trainer=trainer, tol=1e-6, max_passes=40, random_state=0).fit(X, DATA.Y)
    report = svm.report_
    assert not report.converged
    assert report.primal >= report.dual
    assert report.gap >= report.primal - report.dual
    texts = [str(one.message) for one in caught if one.category is ConvergenceWarning]
    assert f"input 'x', example 1, holds {size:.3g}" in texts[0]
    assert "Standardized" in texts[0]


def test_a_tolerance_below_rounding_ends_where_rounding_is():
    with pytest.warns(ConvergenceWarning, match="the rest of it is rounding; double precision cannot resolve"):
        svm = StructuredSVM(Word, C=2.0, tol=0.0, random_state=0, trainer="bundle").fit(DATA.X, DATA.Y)
    assert (svm.report_.reason, svm.report_.converged) == ("rounding", False)
    assert svm.report_.relative_gap < 1e-12
    assert svm.report_.rounding > 0.0


@pytest.mark.parametrize("trainer", ["bcfw", "n-slack", "smo", "perceptron", "subgradient"])
def test_overflow_is_the_fault_of_the_data(trainer):
    X = [x.copy() for x in DATA.X]
    X[2][0, 1] = -1e200
    with pytest.raises(DataError, match=r"input 'x', example 2: expected numbers whose products .* found -1e\+200"):
        StructuredSVM(Word, trainer=trainer).fit(X, DATA.Y)


def test_overflow_by_a_huge_C_is_the_fault_of_C():
    with pytest.raises(OptionError, match=r"lam is 1.67e-301 .* choose a smaller C"):
        StructuredSVM(Word, C=1e300).fit(DATA.X, DATA.Y)


def test_scores_that_overflow_in_prediction_are_the_fault_of_the_data():
    svm = StructuredSVM(Word, C=2.0, random_state=0).fit(DATA.X, DATA.Y)
    X = [*DATA.X[:2], np.full((2, 2), 1.7e308)]
    with np.errstate(all="ignore"):
        for ask in (svm.predict, svm.predict_marginals, svm.best_score, lambda X: svm.predict_kbest(X, 2)):
            with pytest.raises(DataError, match=r"input 'x', example 2: expected features whose scores are numbers"):
                ask(X)
        along = np.sign(svm.weights_["emit"][:1]) * 1.7e308
        with pytest.raises(DataError, match="input 'x', example 0: "):
            svm.best_score([np.vstack(40 * [along])], [40 * ["a"]])


# -- streams ---------------------------------------------------------------------------------------------------

STREAMS = [
    ("subgradient", {}),
    ("subgradient", {"schedule": "distance", "averaging": "uniform", "radius": 9.0}),
    ("subgradient", {"metric": "newton", "order": "incremental"}),
    ("perceptron", {}),
    ("perceptron", {"update": "arow", "averaging": False}),
    ("perceptron", {"update": "pa-i", "against": "prediction"}),
]


@pytest.mark.parametrize(("trainer", "options"), STREAMS, ids=str)
def test_a_stream_goes_on_from_a_file_bit_for_bit(trainer, options, tmp_path):
    settings = {"C": 2.0, "trainer": trainer, "trainer_options": options, "random_state": 0}
    whole, pieces = StructuredSVM(Word, **settings), StructuredSVM(Word, **settings)
    for lo in range(0, 6, 2):
        X, Y = DATA.X[lo : lo + 2], DATA.Y[lo : lo + 2]
        whole.partial_fit(X, Y)
        pieces.partial_fit(X, Y).save(tmp_path / "stream.ssvm")
        pieces = StructuredSVM.load(tmp_path / "stream.ssvm")
        np.testing.assert_array_equal(pieces.coef_, whole.coef_)
        assert pieces.report_.primal == whole.report_.primal
        assert not whole.report_.certified
        assert "one pass of a stream gives no lower bound" in " ".join(str(pieces.report_).split())


def test_a_stream_keeps_its_settings():
    svm = StructuredSVM(Word, trainer="subgradient", random_state=0).partial_fit(DATA.X, DATA.Y)
    before = svm.coef_.copy()
    svm.set_params(trainer_options={"step_size": 0.5})
    with pytest.raises(TrainingError, match=r"step_size: 1.0 then, 0.5 now"):
        svm.partial_fit(DATA.X, DATA.Y)
    svm.set_params(trainer_options=None, trainer="perceptron")
    with pytest.raises(TrainingError, match="trainer: subgradient then, perceptron now"):
        svm.partial_fit(DATA.X, DATA.Y)
    np.testing.assert_array_equal(svm.coef_, before)
    svm.set_params(trainer="subgradient", C=3.0).partial_fit(DATA.X, DATA.Y)  # what the problem is may change


def test_a_stream_after_a_fit_says_that_it_begins_anew(tmp_path):
    svm = StructuredSVM(Word, trainer="subgradient", random_state=0, max_passes=5).fit(DATA.X, DATA.Y)
    svm.save(tmp_path / "fit.ssvm")
    for fitted in (svm, StructuredSVM.load(tmp_path / "fit.ssvm")):
        with pytest.warns(UserWarning, match="starts a new stream at weights of 0"):
            fitted.partial_fit(DATA.X, DATA.Y)
        fresh = StructuredSVM(Word, trainer="subgradient", random_state=0).partial_fit(DATA.X, DATA.Y)
        np.testing.assert_array_equal(fitted.coef_, fresh.coef_)


@pytest.mark.parametrize(
    "damage",
    [
        lambda stream: stream.arrays.update(w=np.zeros(3)),
        lambda stream: stream.arrays.update(w=np.full(15, np.nan)),
        lambda stream: stream.arrays.pop("average"),
        lambda stream: stream.values.update(t=-1),
        lambda stream: stream.values.update(random={"bit_generator": "none"}),
    ],
)
def test_a_damaged_state_of_a_stream_is_refused(damage):
    svm = StructuredSVM(Word, trainer="subgradient", random_state=0).partial_fit(DATA.X, DATA.Y)
    damage(svm.fitted_.stream)
    with pytest.raises(TrainingError, match=r"the saved state is"):
        svm.partial_fit(DATA.X, DATA.Y)


# -- an optimum of 0 ---------------------------------------------------------------------------------------


class Free(Model):
    """A model whose labels cost nothing: the optimum is 0, at no weights."""

    T = Dim()
    x = Input(T, 3)
    y = Label(T, 2)
    emit = Factor(y, features=x)
    trans = Factor(chain(y))
    loss = NoLoss()


@pytest.mark.parametrize("trainer", ["bcfw", "lp-dual-qp", "n-slack", "bundle", "smo"])
@pytest.mark.parametrize("backend", ["auto", "lp"])
def test_an_optimum_of_0_is_that_of_no_weights(trainer, backend):
    rng = np.random.default_rng(0)
    X = [rng.normal(size=(n, 3)) for n in (2, 4, 3)]
    Y = [rng.integers(2, size=len(x)) for x in X]
    svm = StructuredSVM(Free, trainer=trainer, backend=backend, max_passes=20, C=0.01)
    report = svm.fit(X, Y).report_
    assert not svm.coef_.any()
    assert (report.primal, report.dual, report.relative_gap) == (0.0, 0.0, 0.0)
    assert report.converged
    assert report.certified


def test_time_that_ends_a_certificate_leaves_the_weights_known():
    """A trainer that has no time for its plane: the objective of what it showed before is known all the same."""

    class Late:
        def __init__(self, random_state=None):
            self.shown = None

        def steps(self, problem, stop, start=None):
            yield Iterate(np.full(problem.dim, 0.01), 1.0)
            raise OutOfTime("inside the second iteration")

        def certified(self):
            raise OutOfTime("no time for the plane")

    module = sys.modules[__name__]
    module.Late = Late
    spec = TrainerSpec("late", f"{__name__}:Late", "told by a test", concluding=True)
    with registered(SimpleNamespace(ssvm_trainers=hookimpl(lambda: [spec])), "late"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        report = StructuredSVM(Word, trainer="late", C=2.0, n_threads=1).fit(DATA.X, DATA.Y).report_
    assert report.reason == "seconds"
    assert np.isfinite(report.primal)
    assert report.primal == pytest.approx(DATA.objective(np.full(len(W_BEST), 0.01)))
