"""The conformance kit of trainers: compares their claims with a reference trainer and brute force.

All problems are small enough for brute force: chains of at most three variables with two states, and single labels.
"""

from __future__ import annotations

import ctypes
import json
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property, partial
from itertools import islice, product
from threading import Thread
from time import sleep
from typing import Any, ClassVar, Unpack, cast

import numpy as np

from ssvm_dsl.array_types import F64
from ssvm_dsl.compiler import ground
from ssvm_dsl.deadline import Deadline, within
from ssvm_dsl.errors import NoBackendError, OutOfTime, SsvmError
from ssvm_dsl.inference.planning.planner import AUTO
from ssvm_dsl.ir import Solution
from ssvm_dsl.lang.dims import Dim
from ssvm_dsl.lang.factors import Factor
from ssvm_dsl.lang.inputs import Input
from ssvm_dsl.lang.losses.label_losses import Hamming
from ssvm_dsl.lang.model import Model
from ssvm_dsl.lang.outputs.labels import Label
from ssvm_dsl.lang.outputs.targets import chain
from ssvm_dsl.learning.driver.fit import train
from ssvm_dsl.learning.driver.progress import Progress, check_iterate, lower_bound
from ssvm_dsl.learning.objective import RegularizedRisk
from ssvm_dsl.learning.risks.kinds import Problem, Risk, risks
from ssvm_dsl.plugin_api import (
    AnytimeTrainer,
    ConcludingTrainer,
    IncrementalTrainer,
    Iterate,
    ResumableTrainer,
    StopRule,
    Trainer,
    TrainerNeeds,
    TrainerSpec,
    TrainingEvent,
)
from ssvm_dsl.registry import registry
from ssvm_dsl.scores.parameter_map import ParameterMap
from ssvm_dsl.testing.kit import Complaint, ConformanceReport, HowToRun, Kit, Rule
from ssvm_dsl.testing.training import Around, problem_of

#: The backend whose answers serve as reference.
REFERENCE = "brute-force"

#: Relative gap of the reference optimum.
GAP = 1e-5


class FreeChain(Model):
    """Chains whose weights have no bounds."""

    T = Dim()
    x = Input(T, 2)
    y = Label(T, 2)
    emit = Factor(y, features=x)
    trans = Factor(chain(y))
    loss = Hamming(y)


class BoundedChain(FreeChain):
    """Chains; weights of pairs are not negative."""

    trans = Factor(chain(FreeChain.y), nonneg=True)


class OneLabel(Model):
    """One label of three classes."""

    x = Input(2)
    y = Label(3)
    emit = Factor(y, features=x)
    loss = Hamming(y)


@dataclass(frozen=True, eq=False)
class Case:
    """A training problem, without its trainer.

    Parameters
    ----------
    model : class
    risk : Risk
    power : float
    seed : int
    weighted : bool
        Whether examples have different weights.
    most : int, optional
        Examples at most.
    """

    model: type[Model]
    risk: Risk
    power: float
    seed: int
    weighted: bool
    most: int | None = None

    def __str__(self) -> str:
        power = "" if self.power == 1.0 else f" to the power {self.power:g}"
        return f"{self.model.__name__}, risk '{self.risk.name}'{power}, seed {self.seed}"

    def problem(
        self, spec: TrainerSpec, n_threads: int = 1, backend: str = AUTO, around: Around | None = None
    ) -> Problem:
        """Return the training problem as a fit makes it; ``around`` as for ``training_problem``.

        Raises
        ------
        NoBackendError
            No backend answers the questions of trainer and risk.
        """
        return problem_of(self.grounded, self.risk, spec.needs, self._objective, backend, n_threads, around)

    def _objective(self, parameters: ParameterMap) -> RegularizedRisk:
        n = self.grounded.n_examples
        weight = np.linspace(0.5, 2.0, n) if self.weighted else np.ones(n)
        return RegularizedRisk(1.0 / n, n, weight, np.ones(parameters.dim), parameters.lower_bound, self.power)

    @cached_property
    def grounded(self) -> Any:
        """The model, grounded on its data."""
        return ground(self.model, *self._data())

    def _data(self) -> tuple[list[F64], list[Any]]:
        rng = np.random.default_rng(self.seed)
        if self.model is OneLabel:
            X = list(rng.normal(size=(8, 2)))[: self.most]
            return X, [int(rng.integers(3)) for _ in X]
        lengths = (1, 2, 3, 2, 3, 1, *((2, 1, 3) if self.weighted else ()))  # fewer than usual batches, and more
        X = [rng.normal(size=(length, 2)) for length in lengths[: self.most]]
        return X, [(x.sum(axis=1) + 0.7 * rng.normal(size=len(x)) > 0.0).astype(int) for x in X]

    @cached_property
    def judge(self) -> Problem:
        """The problem without trainer, answered by brute force where possible."""
        spec = TrainerSpec("judge", "none:none", needs=TrainerNeeds(frozenset({self.risk.name}), any_power=True))
        try:
            return self.problem(spec, backend=REFERENCE)
        except NoBackendError:
            return self.problem(spec)

    def objective(self, w: F64) -> float:
        """Return the objective at given weights."""
        return self.judge.value(w)[0]

    def optimum(self, excluded: str) -> tuple[float, F64]:
        """Return the least objective that a certifying trainer other than ``excluded`` finds, and its weights."""
        for most, spec in product((200.0, 5000.0), registry().specs(TrainerSpec)):  # some take long on some risks
            fits = registry().owner(spec).bundled and spec.certifies and spec.name != excluded and not spec.missing()
            if fits and spec.needs.covers(self.risk.spec, self.power):
                trainer = spec.load()(**spec.resolve(None), random_state=0)
                fitted = train(trainer, self.problem(spec), StopRule(GAP, max_passes=most), spec=spec)
                if fitted.relative_gap <= 10.0 * GAP:
                    return self.objective(fitted.w), fitted.w
        raise SsvmError(f"no other trainer certifies the optimum of {self}")


def cases_of(needs: TrainerNeeds, seed: int, only: frozenset[str] = frozenset()) -> Iterator[Case]:
    """Yield training problems that a trainer covers: two for the first risk of each form, unless risks are named.

    Parameters
    ----------
    needs : TrainerNeeds
    seed : int
    only : frozenset of str
        Names of risks.
    """
    seen = set()
    for risk in risks().values():
        powers = sorted({1.0, 2.0} if needs.any_power else needs.powers)
        power = next((one for one in powers if needs.covers(risk.spec, one)), None)
        kind = (risk.spec.form, risk.spec.one_label)
        if power is None or (risk.name not in only if only else kind in seen):
            continue
        seen.add(kind)
        models = [OneLabel, OneLabel] if risk.spec.one_label else [FreeChain, BoundedChain]
        for number, model in enumerate(models):
            yield Case(model, risk, power, seed + number, weighted=bool(number))


#: Number of iterates that are checked one by one.
SOME = 6

#: Relative gap required of trainers that certify, and the most passes for it: the estimator's default.
TOL, PASSES = 1e-2, 500.0

#: Passes of trainers without certificates, and the share of the distance to the optimum that they must cover in them.
UNCERTIFIED_PASSES, WAY = 300.0, 0.9

#: How far objectives and bounds may be off, relative to the optimum.
CLOSE = 1e-6

#: Seconds that a fit may take beyond its limit, and the limit.
PATIENCE, LIMIT = 5.0, 0.05

#: Fits are cut short at these questions to the backend, and after as many iterates.
CUTS = (1, 2, 5, 11)

#: A trainer that yields this many iterates after its time is up counts as endless.
MANY = 20

_ADVICE = "do not catch OutOfTime, and call problem.pause() between steps that do not call the problem"


@dataclass(eq=False)
class TrainerTrial:
    """One trainer on one training problem.

    Parameters
    ----------
    spec : TrainerSpec
    options : mapping
        All of its options.
    case : Case
    optimum : float
        The least objective of the case, as a reference trainer found it.
    best : ndarray of float64, shape (dim,)
        Its weights.
    """

    spec: TrainerSpec
    options: Mapping[str, Any]
    case: Case
    optimum: float
    best: F64

    @property
    def name(self) -> str:
        """A description of the case."""
        return str(self.case)

    def trainer(self, seed: int = 0) -> Trainer:
        """Return a new trainer."""
        made: Trainer = self.spec.load()(**self.options, random_state=seed)
        return made

    def steps(self, trainer: Trainer, problem: Problem, start: F64 | None = None) -> Iterator[Iterate]:
        """Return the iterates of a trainer, checked for their form."""
        made = trainer.steps(problem, StopRule(TOL, PASSES), start)
        if not isinstance(made, Iterable):
            kind, how = type(made).__name__, "write `yield Iterate(w, n_passes, ...)` in it"
            raise Complaint(f"steps(problem, stop, start) returned {kind}; {how}")
        return (check_iterate(found, problem.dim, self.spec.name) for found in made)

    def some(self, seed: int = 0, n_threads: int = 1) -> list[Iterate]:
        """Return copies of the first iterates of a new trainer."""
        steps = self.steps(self.trainer(seed), self.case.problem(self.spec, n_threads))
        return [_kept(found) for found in islice(steps, SOME)]

    @cached_property
    def fitted(self) -> Progress:
        """A fit to the tolerance or, without certificates, of a fixed number of passes."""
        stop = StopRule(TOL, PASSES) if self.spec.certifies else StopRule(0.0, UNCERTIFIED_PASSES)
        keep_best = bool(self.options.get("best_iterate", self.spec.best_iterate))
        return train(self.trainer(), self.case.problem(self.spec), stop, spec=self.spec, keep_best=keep_best)

    @property
    def slack(self) -> float:
        """How far objectives may be off."""
        return CLOSE * max(1.0, self.optimum)


def _kept(found: Iterate) -> Iterate:
    plane = None if found.plane is None else (found.plane[0].copy(), float(found.plane[1]))
    return Iterate(found.w.copy(), found.n_passes, found.primal, found.upper, found.dual, dict(found.extra), plane)


def _iterates(trial: TrainerTrial) -> None:
    """Check the first iterates: their form, the number of passes never falls, weights are within their bounds."""
    problem = trial.case.problem(trial.spec)
    passes, iterate = 0.0, None
    for iterate in islice(trial.steps(trial.trainer(), problem), SOME):
        if iterate.n_passes < passes:
            raise Complaint(f"n_passes fell from {passes:g} to {iterate.n_passes:g}")
        passes = iterate.n_passes
        if (iterate.w < problem.objective.lower).any():
            raise Complaint("weights are below objective.lower")
    if iterate is None:
        raise Complaint("steps() yielded no iterate")


def _optimum(trial: TrainerTrial) -> None:
    """Compare the objective of the returned weights with the reference optimum."""
    fitted, case = trial.fitted, trial.case
    reached, start = case.objective(fitted.w), case.objective(np.zeros(len(fitted.w)))
    if reached < trial.optimum - max(trial.slack, 1e-4 * trial.optimum):
        raise Complaint(f"its weights have objective {reached:.8g}, below the optimum {trial.optimum:.8g}")
    if trial.spec.certifies:
        if fitted.withdrawn:
            raise Complaint(f"its certificate is withdrawn: {fitted.withdrawn}")
        if fitted.reason not in ("tolerance", "rounding"):
            text = f"ended ({fitted.reason}) at objective {reached:.6g} and lower bound {fitted.dual:.6g}"
            raise Complaint(f"claims certificates, and {text}; the optimum is {trial.optimum:.6g}")
        allowed = trial.optimum + 2.0 * TOL * abs(reached) + trial.slack
    else:
        allowed = trial.optimum + (1.0 - WAY) * (start - trial.optimum) + trial.slack
    if reached > allowed:
        text = f"its weights have objective {reached:.6g} after {fitted.n_passes:g} passes"
        raise Complaint(f"{text}; the optimum is {trial.optimum:.6g}, weights of 0 have {start:.6g}")


def _objective(trial: TrainerTrial) -> None:
    """Recompute the objectives of iterates and report by brute force."""
    reported = [(found.w, found.primal, found.upper) for found in trial.some()]
    reported.append((trial.fitted.w, trial.fitted.estimate, trial.fitted.primal))
    for w, primal, upper in reported:
        _true(trial, w, primal, upper)


def _true(trial: TrainerTrial, w: F64, primal: float, upper: float) -> None:
    """Compare the objective that is reported of weights, and its upper bound, with brute force."""
    true = trial.case.objective(w)
    if np.isfinite(primal) and primal > true + trial.slack + CLOSE * abs(true):
        raise Complaint(f"reports objective {primal:.8g} of weights whose objective is {true:.8g}")
    if np.isfinite(upper) and upper < true - trial.slack - CLOSE * abs(true):
        raise Complaint(f"reports that the objective is at most {upper:.8g}; it is {true:.8g}")


def _bounds(trial: TrainerTrial) -> None:
    """Check that no lower bound is above the optimum, and no plane above the mean risk at any of the weights tried."""
    problem = trial.case.problem(trial.spec)
    iterates = [_kept(one) for one in islice(trial.steps(trial.trainer(), problem), SOME)]
    duals = [one.dual for one in iterates] + [event.dual for event in trial.fitted.history]
    highest = max([*duals, trial.fitted.dual])
    if highest > trial.optimum + max(trial.slack, 1e-4 * trial.optimum):
        raise Complaint(f"a lower bound is {highest:.8g}, the optimum is {trial.optimum:.8g}")
    rng = np.random.default_rng(0)
    places = [trial.best, np.zeros(problem.dim), *rng.normal(size=(3, problem.dim)), *(one.w for one in iterates)]
    places = [np.maximum(w, problem.objective.lower) for w in places]
    risks = [trial.case.objective(w) - problem.objective.regularizer(w) for w in places]
    for one in iterates:
        if one.plane is None:
            continue
        v, b = one.plane
        value = problem.objective.dual(v, b)
        if np.isfinite(one.dual) and one.dual > value + trial.slack:
            raise Complaint(f"reports the lower bound {one.dual:.8g}, its plane gives {value:.8g}")
        for w, risk in zip(places, risks, strict=True):
            plane = b - float(np.dot(v, w))
            if plane > risk + trial.slack + CLOSE * (abs(b) + abs(plane)):
                raise Complaint(f"its plane is {plane:.8g} at weights where the mean risk is {risk:.8g}")


def _same_seed(trial: TrainerTrial) -> None:
    _same(trial.some(), trial.some(), "the same seed gives different iterates")


def _threads(trial: TrainerTrial) -> None:
    _same(trial.some(), trial.some(n_threads=4), "one thread and four give different iterates")


def _same(mine: list[Iterate], yours: list[Iterate], text: str) -> None:
    for number, (one, other) in enumerate(zip(mine, yours, strict=False), 1):
        if not np.array_equal(one.w, other.w):
            raise Complaint(f"{text}: the weights of iterate {number} differ by {np.abs(one.w - other.w).max():.2g}")
    if len(mine) != len(yours):
        raise Complaint(f"{text}: {len(mine)} of them and {len(yours)}")


def _start(trial: TrainerTrial) -> None:
    """Start from given weights, which are not written to."""
    start = trial.best.copy()
    for _ in islice(trial.steps(trial.trainer(), trial.case.problem(trial.spec), start), 3):
        pass
    if not np.array_equal(start, trial.best):
        raise Complaint("it writes to the weights it is given to start from")


def _resume(trial: TrainerTrial) -> None:
    """Stop after each of the first iterates and continue with a new trainer: the same iterates follow, bit for bit."""
    whole, stop = trial.some(), StopRule(TOL, PASSES)
    for n in range(1, min(4, len(whole))):
        trainer = trial.trainer()
        for _ in islice(trial.steps(trainer, trial.case.problem(trial.spec)), n):
            pass
        state = _stored(cast(ResumableTrainer, trainer).state())
        resumed, problem = cast(ResumableTrainer, trial.trainer()), trial.case.problem(trial.spec)
        rest = [_kept(found) for found in islice(resumed.resume(problem, stop, state), len(whole) - n)]
        _same(whole[n:], rest, f"after a stop at iterate {n} other iterates follow")


def _stored(state: Any) -> dict[str, Any]:
    """Return a state as a file would hold it."""
    if not isinstance(state, dict):
        raise Complaint(f"state must be a dict, got {type(state).__name__}")
    arrays = {name: value.copy() for name, value in state.items() if isinstance(value, np.ndarray)}
    try:
        return json.loads(json.dumps({name: state[name] for name in state if name not in arrays})) | arrays
    except (TypeError, ValueError) as err:
        raise Complaint(f"state holds arrays and what JSON can hold: {err}") from None


def _limits(trial: TrainerTrial) -> None:
    """Fit without a tolerance in little time, and step after time is up: both must end."""

    def fit() -> None:
        problem, stop = trial.case.problem(trial.spec), StopRule(0.0, max_seconds=LIMIT)
        train(trial.trainer(), problem, stop, spec=trial.spec)

    _in_time(fit)
    _in_time(lambda: _ends_at_once(trial))


def _in_time(work: Callable[[], None]) -> None:
    """Run some work in a separate thread, and interrupt it if it does not end."""
    raised: list[BaseException] = []

    def run() -> None:
        try:
            work()
        except BaseException as err:
            raised.append(err)

    thread, deadline = Thread(target=run, daemon=True), Deadline(LIMIT + PATIENCE)
    thread.start()
    while thread.is_alive() and not deadline.over:
        sleep(0.002)
    if thread.is_alive():
        assert thread.ident is not None
        ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread.ident), ctypes.py_object(KeyboardInterrupt))
        raise Complaint(f"it continues {PATIENCE:g} s after its time is up: {_ADVICE}")
    if raised:
        raise raised[0]


def _ends_at_once(trial: TrainerTrial) -> None:
    """Step after time is up: the problem raises ``OutOfTime``, and the trainer must not catch it."""
    problem = trial.case.problem(trial.spec)
    steps = trial.steps(trial.trainer(), problem)
    next(steps, None)
    try:
        with within(Deadline(0.0)):
            for _ in islice(steps, MANY):
                pass
            over = next(steps, None) is None
    except OutOfTime:
        return
    if not over:
        raise Complaint(f"it makes {MANY} iterates when time is up: {_ADVICE}")


class _TimedSession:
    """A session that lets time be up after some questions."""

    def __init__(self, inner: Any, deadline: Deadline, n_questions: int) -> None:
        self.inner, self.deadline, self.n_left = inner, deadline, n_questions

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)

    def solve(self, *asked: Any, **more: Any) -> Solution:
        """Answer; the last answer ends the fit."""
        self.n_left -= 1
        if self.n_left == 0:
            self.deadline.end()
        solution: Solution = self.inner.solve(*asked, **more)
        return solution


def _reached(last: int, event: TrainingEvent) -> bool:
    """Whether a fit has had some iterates: a callback that ends it."""
    return event.iteration >= last


def _cut_short(trial: TrainerTrial) -> None:
    """End fits after some iterates, and within iterations: what is reported is true, and no bound above the optimum."""
    for number in CUTS:
        deadline = Deadline()
        ends = partial(_TimedSession, deadline=deadline, n_questions=number)
        inside = train(
            trial.trainer(), trial.case.problem(trial.spec, around=ends), StopRule(0.0, 2.0 * number), spec=trial.spec,
            deadline=deadline,
        )  # fmt: skip
        between = train(
            trial.trainer(), trial.case.problem(trial.spec), StopRule(0.0, PASSES), spec=trial.spec,
            callbacks=[partial(_reached, number)],
        )  # fmt: skip
        for where, iterate in ((f"at question {number}", inside), (f"after iterate {number}", between)):
            try:
                _true(trial, iterate.w, iterate.estimate, iterate.primal)
            except Complaint as complaint:
                raise Complaint(f"a fit that is cut short {where} {complaint}") from None
            if iterate.withdrawn:
                raise Complaint(f"the certificate of a fit that is cut short {where} is withdrawn: {iterate.withdrawn}")
            if iterate.dual > trial.optimum + max(trial.slack, 1e-4 * trial.optimum):
                text = f"has a lower bound of {iterate.dual:.8g}, the optimum is {trial.optimum:.8g}"
                raise Complaint(f"a fit that is cut short {where} {text}")


def _one_example(trial: TrainerTrial) -> None:
    """Train on one example: usual batches are larger."""
    one = replace(trial, case=replace(trial.case, most=1))
    for iterate in one.some():
        _true(one, iterate.w, iterate.primal, iterate.upper)


def _conclusion(trial: TrainerTrial) -> None:
    """Ask for the certificate of the newest iterate after the first ones, and after some later ones."""
    trainer, problem = trial.trainer(), trial.case.problem(trial.spec)
    for number, _ in enumerate(islice(trial.steps(trainer, problem), 60)):
        if 3 <= number < 59 and number % 10:
            continue
        found = cast(ConcludingTrainer, trainer).certified()
        plane = None if found is None else check_iterate(found, problem.dim, trial.spec.name).plane
        if plane is not None and lower_bound(plane, problem).dual > trial.optimum + 1e-4 * trial.optimum + trial.slack:
            raise Complaint(f"certified() gives a lower bound above the optimum {trial.optimum:.8g}")


def _newest(trial: TrainerTrial) -> None:
    """Ask for the current weights after each of the first iterates."""
    trainer, problem = trial.trainer(), trial.case.problem(trial.spec)
    for _ in islice(trial.steps(trainer, problem), 3):
        w = cast(AnytimeTrainer, trainer).newest()
        if w is not None and not (isinstance(w, np.ndarray) and w.shape == (problem.dim,) and np.isfinite(w).all()):
            raise Complaint(f"newest() returns {problem.dim} finite weights or None")


def _stream(trial: TrainerTrial) -> None:
    """Learn twice from the same examples; a new trainer must continue from the state as the old one does."""
    problem = trial.case.problem(trial.spec)
    trainer = cast(IncrementalTrainer, trial.trainer())
    learnt = trainer.partial(problem, None)
    if not (isinstance(learnt, tuple) and len(learnt) == 2 and np.shape(learnt[0]) == (problem.dim,)):
        raise Complaint(f"partial() returns ({problem.dim} weights, state)")
    stored = _stored(learnt[1])
    second = trainer.partial(trial.case.problem(trial.spec), _stored(stored))[0]
    other = cast(IncrementalTrainer, trial.trainer()).partial(trial.case.problem(trial.spec), _stored(stored))[0]
    if not np.array_equal(second, other):
        raise Complaint("a new trainer with the same options continues differently from the same state")


TRAINER_RULES: tuple[Rule[TrainerSpec, TrainerTrial], ...] = (
    Rule("iterates", _iterates),
    Rule("optimum", _optimum, lambda spec: spec.certifies or spec.best_iterate),
    Rule("objective", _objective),
    Rule("lower bounds", _bounds, lambda spec: spec.certifies),
    Rule("same seed", _same_seed),
    Rule("threads", _threads),
    Rule("start", _start),
    Rule("resume", _resume, lambda spec: spec.resumable),
    Rule("limits", _limits),
    Rule("cut short", _cut_short),
    Rule("one example", _one_example),
    Rule("conclusion", _conclusion, lambda spec: spec.concluding),
    Rule("newest", _newest, lambda spec: spec.anytime),
    Rule("stream", _stream, lambda spec: spec.incremental),
)


def check_trainer(
    trainer: str | TrainerSpec,
    *,
    seed: int = 0,
    options: dict[str, Any] | None = None,
    risks: Collection[str] = (),
    **how: Unpack[HowToRun],
) -> ConformanceReport:
    """Check a trainer in everything it claims.

    Parameters
    ----------
    trainer : str or TrainerSpec
        A registered name, or a description that need not be registered.
    seed : int
        The same seed gives the same problems.
    options : dict, optional
        Options of the trainer.
    risks : collection of str, optional
        The risks to test; by default the first of each form that the trainer minimises.
    **how
        Which checks run, and how: :class:`~ssvm_dsl.testing.kit.HowToRun`.

    Raises
    ------
    PluginError, OptionError
        Unknown trainer; unknown option or check.  (Faults of the trainer are in the report.)
    """
    spec = trainer if isinstance(trainer, TrainerSpec) else registry().find(TrainerSpec, trainer)
    return TrainerKit(spec, seed=seed, options=spec.resolve(options), risks=risks).run(**how)


class TrainerKit(Kit[TrainerSpec, Rule[TrainerSpec, TrainerTrial], TrainerTrial]):
    """The kit of trainers; a case is a training problem.

    Parameters
    ----------
    risks : collection of str
        The risks of the problems, all kinds of them if empty.
    """

    kind, rules = "trainer", TRAINER_RULES
    methods: ClassVar = {"steps": ("problem", "stop", "start")}

    def __init__(self, spec: TrainerSpec, *, risks: Collection[str], seed: int, **settings: Any) -> None:
        self.problems = list(cases_of(spec.needs, seed, frozenset(risks)))
        super().__init__(spec, seed=seed, n_problems=len(self.problems), **settings)

    def arguments(self) -> dict[str, Any]:
        """Return the trainer's options and a seed."""
        return {**self.options, "random_state": 0}

    def prepare(self) -> None:
        """Keep the cases that installed backends can answer for, and find their optima."""
        refusals = Counter[str]()
        for case in self.problems:
            try:
                case.problem(self.spec)
            except NoBackendError as err:
                refusals.update([str(err).splitlines()[0]])
                continue
            self.cases.append(TrainerTrial(self.spec, self.options, case, *case.optimum(self.spec.name)))
        self.report.refusals = dict(refusals)
