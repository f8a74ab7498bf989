"""A limit ends in labellings; examples without one do not cost the others; errors recommend nothing that is in use."""

from __future__ import annotations

import time
import warnings

import numpy as np
import pytest

from model_table import STRUCTURES, weighted
from ssvm_dsl import AtLeast, Custom, Dim, Factor, Given, Hamming, Input, Label, Model, StructuredSVM, complete
from ssvm_dsl.deadline import Deadline, pause, time_left, within
from ssvm_dsl.errors import InfeasibleError, NoLabellingError, OptionError, OutOfTime, TimeLimitWarning
from ssvm_dsl.inference.diagnosis.missing_answers import MissingAnswers
from ssvm_dsl.inference.planning.plans import Candidate, Plan
from ssvm_dsl.inference.session import open_plan
from ssvm_dsl.ir import Caps, Guarantee, Limits, Primal, Question, Solution, Stop, Task
from ssvm_dsl.plugin_api import BackendSpec, hookimpl
from ssvm_dsl.registry import PluginInfo, registry
from ssvm_dsl.testing.brute_force import BruteForce, BruteForceSession
from ssvm_dsl.testing.problems import catalogue


@pytest.mark.parametrize("name", STRUCTURES)
def test_no_time_at_all_ends_in_labellings_and_bounds(name):
    structure, rng = STRUCTURES[name], np.random.default_rng(0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        svm = weighted(structure, rng)
        X = [structure.example(size, rng)[0] for size in (structure.sizes[0], structure.sizes[0] + 2)]
        labels, scores, bounds = svm.predict(X, time_limit=1e-9, return_bounds=True)
        _, best, _ = svm.predict(X, return_bounds=True)
    assert all(structure.keeps(x, y) for x, y in zip(X, labels, strict=True))
    assert (scores <= best + 1e-9).all()
    assert (bounds >= best - 1e-9).all()


class Triangle(Model):
    K = Dim(3)
    x = Input(K)
    y = Label(K, 2)
    own = Given(y.is_(1), scores=x)
    pair = Factor(complete(y))
    loss = Hamming(y)


class Two(Model):
    K = Dim()
    x = Input(K)
    y = Label(K, 2)
    own = Given(y.is_(1), scores=x)
    some = AtLeast(2, y.is_(1))
    loss = Hamming(y)


def odd(backend, **options):
    """Return a model whose pairs want to differ: fractional where nothing else decides."""
    apart = np.array([[0.0, 2.0], [2.0, 0.0]])
    return StructuredSVM.from_weights(Triangle, {"pair": apart}, backend=backend, backend_options=options)


def test_one_example_without_a_labelling_does_not_cost_the_others():
    svm, X = odd("lp", rounding="none"), [[9.0, -9.0, 9.0], [0.0, 0.0, 0.0], [-9.0, -9.0, -9.0]]
    with pytest.raises(NoLabellingError) as caught:
        svm.predict(X)
    assert [None if one is None else one.tolist() for one in caught.value.found] == [[1, 0, 1], None, [0, 0, 0]]
    assert "1 of 3 examples (number 1): its solutions are fractional" in str(caught.value)
    assert ".found" in str(caught.value)
    labels, scores, bounds = svm.predict(X, on_missing="none", return_bounds=True)
    assert labels[1] is None
    assert scores[1] == -np.inf
    assert labels[2].tolist() == [0, 0, 0]
    assert np.isfinite(bounds).all()
    with pytest.raises(OptionError, match="on_missing must be one of 'raise', 'none'"):
        svm.predict(X, on_missing="skip")


def test_nor_does_one_that_is_infeasible():
    svm, X = StructuredSVM.from_weights(Two, {}), [[-1.0, -2.0, 3.0], [1.0], [1.0, 1.0], []]
    with pytest.raises(InfeasibleError, match=r"example 1 has no labelling .* \(nor have 1 others\)") as caught:
        svm.predict(X)
    assert [None if one is None else one.tolist() for one in caught.value.found] == [[1, 0, 1], None, [1, 1], None]
    ranked = svm.predict_kbest(X, 2, on_missing="none")
    assert [one and len(one) for one in ranked] == [2, None, 1, None]


class Nowhere:
    """Knows what it wants, and finds none."""

    def feasible(self, labels):
        return bool(labels.sum() == 2)

    def best(self, scores):
        return None


class Own(Model):
    K = Dim(4)
    x = Input(K)
    y = Label(K, 2)
    own = Given(y.is_(1), scores=x)
    pair = Factor(complete(y))
    mine = Custom(y, oracle=Nowhere)
    loss = Hamming(y)


def test_where_finding_any_labelling_is_hard_the_error_says_so_and_advises_what_is_not_in_use():
    svm = StructuredSVM.from_weights(Own, {"pair": np.zeros((2, 2))}, guarantee="heuristic")
    with pytest.raises(NoLabellingError) as caught:
        svm.predict([np.zeros(4)], time_limit=1e-9)
    text = str(caught.value)
    assert "time was up before one was found, and whether there is any takes a search to tell" in text
    assert "raise time_limit" in text


def nothing(n, stop):
    none = np.full(n, -np.inf)
    return Solution(np.full(n, -1, np.int32), none, np.full(n, np.nan), np.full(n, stop, np.int8),
                    np.full(n, Primal.NONE, np.int8))  # fmt: skip


@pytest.mark.parametrize("stop", [Stop.TIME, Stop.ITERATIONS])
@pytest.mark.parametrize("guarantee", [Guarantee.EXACT, Guarantee.HEURISTIC])
def test_auto_is_not_recommended_to_those_who_use_it(stop, guarantee):
    both = (Candidate("combi", True, 1.0, ()), Candidate("ilp", True, 2.0, ()))
    for plan, used in ((Plan("combi", "", "", both), True), (Plan("combi", "", "", both[:1]), False)):
        missing = MissingAnswers(Task.MAP)
        missing.add(plan, guarantee, nothing(2, stop))
        with pytest.raises(NoLabellingError) as caught:
            missing.check()
        text = str(caught.value)
        assert ("backend='auto'" in text) == (not used)
        assert ("raise time_limit" in text) == (stop is Stop.TIME)
        assert ("guarantee='exact'" in text) == (used and guarantee is Guarantee.HEURISTIC)


def test_without_time_for_a_plan_no_backend_is_blamed():
    missing = MissingAnswers(Task.MARGINALS)
    missing.add(Plan("auto", "", "time was up before there was a plan"), Guarantee.EXACT, nothing(2, Stop.TIME))
    with pytest.raises(NoLabellingError, match=r"^no backend was chosen in time: no marginals for 2 of 2") as caught:
        missing.check()
    assert "backend='auto'" not in str(caught.value)


# -- backends that leave without an answer ------------------------------------------------------------------


class Runs(BruteForce):
    """Its time is over before it has begun."""

    def open(self, program, options):
        return self

    def solve(self, question):
        raise OutOfTime("too late")


class Pauses(BruteForce):
    """Looks at the time of the call only by what the host offers."""

    def open(self, program, options):
        return self

    def solve(self, question):
        while True:
            pause()


class Fills(BruteForce):
    """Takes its time to find that there is no room."""

    def open(self, program, options):
        return self

    def solve(self, question):
        time.sleep(0.05)
        raise MemoryError("no room")


class Notes(BruteForce):
    """Remembers how much time it was given."""

    given: float | None = None

    def open(self, program, options):
        return NoteSession(program)


class NoteSession(BruteForceSession):
    def solve(self, question):
        Notes.given = question.limits.time
        return super().solve(question)


def opened(*factories, problem, guarantee=Guarantee.EXACT):
    """Return a session of the first of these backends, the next ones in line behind it."""

    caps = Caps(tasks=frozenset({Task.MAP}), guarantee=guarantee, max_arity=64)
    known, names = registry().copy(), [one.__name__.lower() for one in factories]
    specs = [
        BackendSpec(name, f"{__name__}:{one.__name__}", caps=caps) for name, one in zip(names, factories, strict=True)
    ]

    class Plugin:
        @hookimpl
        def ssvm_backends(self):
            return specs

    assert known.register(Plugin(), PluginInfo("late", "late 1.0", bundled=True, allowed=True))
    candidates = tuple(Candidate(name, True, float(k), ()) for k, name in enumerate(names))
    return open_plan(Plan(names[0], "", "", candidates), problem.program, known)


@pytest.mark.parametrize("factory", [Runs, Pauses])
@pytest.mark.parametrize("guarantee", list(Guarantee))
def test_a_backend_without_an_answer_is_answered_for(factory, guarantee):
    problem = catalogue()["star"]
    session = opened(factory, problem=problem, guarantee=guarantee)
    found = session.solve(Question(problem.theta, limits=Limits(time=0.01)))
    best = BruteForceSession(problem.program).solve(Question(problem.theta))
    assert (found.stop == Stop.TIME).all()
    assert (found.primal == Primal.FEASIBLE).all()
    assert (found.score <= best.score + 1e-9).all()
    if guarantee is Guarantee.HEURISTIC:
        assert np.isnan(found.bound).all()
    else:
        assert (found.bound >= best.score - 1e-9).all()
    assert not (found.optimal() & (found.score < best.score - 1e-9)).any()


def test_who_takes_over_has_what_is_left_of_the_time():
    problem = catalogue()["star"]
    session = opened(Fills, Notes, problem=problem)
    assert session.solve(Question(problem.theta, limits=Limits(time=60.0))).optimal().all()
    assert session.plan.backend == "notes"
    assert 0.0 < Notes.given <= 59.95


def test_marginals_that_time_cuts_short_name_their_examples(monkeypatch):
    def late(*_):
        raise OutOfTime("the time limit of the call is over")

    structure, rng = STRUCTURES["chain"], np.random.default_rng(0)
    svm, X = weighted(structure, rng), [structure.example(3, rng)[0] for _ in range(2)]
    monkeypatch.setattr("ssvm_dsl.inference.checked.CheckedSession.solve", late)
    with pytest.raises(NoLabellingError, match=r"no marginals for 2 of 2 examples \(numbers 0, 1\): time was up"):
        svm.predict_marginals(X)
    with pytest.warns(TimeLimitWarning):
        assert svm.predict_marginals(X, on_missing="none") == [None, None]


def test_loops_pause_only_where_a_call_has_an_end():
    pause()
    assert time_left() == np.inf
    with within(Deadline(60.0)):
        pause()
        with pytest.raises(OutOfTime), within(Deadline(0.0)), within(Deadline(60.0)):
            pause()
        with within(Deadline()):
            assert 0.0 < time_left() <= 60.0
            pause()
        pause()
