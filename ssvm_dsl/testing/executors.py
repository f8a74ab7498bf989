"""The conformance kit of executors: calls on shards that count, fail, are slow or lose their process.

Answers, errors and kept shards are compared with shards in this process; workers can import all of this module.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Unpack
from uuid import uuid4

import numpy as np

from ssvm_dsl.array_types import F64
from ssvm_dsl.deadline import Deadline, within, work_seconds
from ssvm_dsl.errors import DataError, OutOfTime
from ssvm_dsl.lang.dims import Dim
from ssvm_dsl.lang.factors import Factor
from ssvm_dsl.lang.inputs import Input
from ssvm_dsl.lang.losses.label_losses import Hamming
from ssvm_dsl.lang.model import Model
from ssvm_dsl.lang.outputs.labels import Label
from ssvm_dsl.lang.outputs.targets import chain
from ssvm_dsl.learning.estimators.fitting.over_shards import worker_of
from ssvm_dsl.learning.estimators.svm import StructuredSVM
from ssvm_dsl.learning.shards.fit import Strength, shard_problem
from ssvm_dsl.learning.shards.parts import PartitionedDataset
from ssvm_dsl.plugin_api import ExecutorSpec, ShardExecutor
from ssvm_dsl.registry import registry
from ssvm_dsl.testing.kit import Complaint, ConformanceReport, HowToRun, Kit, NotForThisCase, Rule


class Tagger(Model):
    """A small model to train on shards."""

    T = Dim()
    x = Input(T, 3)
    y = Label(T, 3)
    emit = Factor(y, features=x)
    trans = Factor(chain(y))
    loss = Hamming(y)


def sentences(seed: int) -> tuple[list[F64], list[list[int]]]:
    """Return the examples of a shard."""
    random = np.random.default_rng(seed)
    X = [random.normal(size=(int(random.integers(1, 5)), 3)) for _ in range(3 + seed)]
    return X, [random.integers(0, 3, size=len(x)).tolist() for x in X]


@dataclass(eq=False)
class OpenNumbers:
    """An opened shard of numbers that counts its calls."""

    values: F64
    n_asked: int = 0
    busy: bool = False


@dataclass(frozen=True)
class NumberShard:
    """Numbers that are drawn when the shard is opened.

    Parameters
    ----------
    key : str
    seed : int
    broken : bool
        Whether opening fails.
    """

    key: str
    seed: int
    broken: bool = False

    def open(self) -> OpenNumbers:
        """Draw the numbers."""
        if self.broken:
            raise DataError(f"shard {self.seed}", expected="a shard that opens", found="a broken one")
        return OpenNumbers(np.random.default_rng(self.seed).normal(size=5))


def scaled(shard: OpenNumbers, factor: float, more: F64) -> F64:
    """Return the numbers of a shard times a factor, and others."""
    return shard.values * factor + more


def times_asked(shard: OpenNumbers) -> int:
    """Return how often this was called on a shard."""
    shard.n_asked += 1
    return shard.n_asked


def undisturbed(shard: OpenNumbers, seconds: float) -> bool:
    """Return whether no other call on the shard was under way when this one began, which takes some seconds."""
    alone, shard.busy = not shard.busy, True
    time.sleep(seconds)
    shard.busy = False
    return alone


def refused(shard: OpenNumbers, what: str) -> None:
    """Raise an error of the data."""
    raise DataError(what, expected="nothing", found="this call")


def after(shard: OpenNumbers, seconds: float) -> float:
    """Return the first number after some seconds."""
    time.sleep(seconds)
    return float(shard.values[0])


def lost_once(shard: OpenNumbers, driver: int, trace: str) -> F64 | None:
    """End the worker that is asked first, then return the numbers; ``None`` in the process that asks."""
    if os.getpid() == driver:
        return None
    if not Path(trace).exists():
        Path(trace).touch()
        os._exit(1)
    return shard.values


#: Of the check of time limits: seconds allowed for all calls, number of calls, seconds of each call.
LIMIT, MANY, EACH = 0.4, 60, 0.1

#: Seconds that they may be late, and the number of tries; one must be in time, since the machine may have other work.
LATE, TRIES = 1.0, 3


@dataclass(eq=False)
class ExecutorTrial:
    """One executor on some shards.

    Parameters
    ----------
    spec : ExecutorSpec
    executor : ShardExecutor
    make : callable
        Makes another one.
    n_shards, seed : int
    """

    spec: ExecutorSpec
    executor: ShardExecutor
    make: Callable[[], ShardExecutor]
    n_shards: int
    seed: int

    @property
    def name(self) -> str:
        """How the case can be made again."""
        return f"{self.n_shards} shards, seed {self.seed}"

    def shards(self, n: int | None = None, broken: tuple[int, ...] = ()) -> list[NumberShard]:
        """Return new shards."""
        call, n = uuid4().hex, self.n_shards if n is None else n
        return [NumberShard(f"{call}/{number}", self.seed + number, number in broken) for number in range(n)]

    def started(self, n: int | None = None) -> list[OpenNumbers]:
        """Start new shards; return the opened ones."""
        shards = self.shards(n)
        self.executor.start(shards)
        return [shard.open() for shard in shards]


def size(trial: ExecutorTrial) -> None:
    """The number of shards that a list is cut into is a whole number."""
    n_shards: Any = trial.executor.n_shards
    if not isinstance(n_shards, int | np.integer) or n_shards < 1:
        raise Complaint(f"n_shards is {n_shards!r}, expected how many shards a list is cut into: an int of at least 1")


def order(trial: ExecutorTrial) -> None:
    """Answers come in the order of the calls: of all shards, of some, of one several times, of none."""
    local, n = trial.started(), trial.n_shards
    for numbers in (list(range(n)), list(reversed(range(n))), [n - 1], [0, n - 1, 0], []):
        given = [(float(place + 1), np.arange(5.0)) for place in range(len(numbers))]
        answers = trial.executor.run(scaled, list(zip(numbers, given, strict=True)))
        wanted = [scaled(local[number], *more) for number, more in zip(numbers, given, strict=True)]
        _same(answers, wanted, f"run of shards {numbers}")


def replaced(trial: ExecutorTrial) -> None:
    """``start`` replaces the earlier shards."""
    for n in (trial.n_shards, trial.n_shards + 1, 1):
        local = trial.started(n)
        answers = trial.executor.run(scaled, [(number, (1.0, np.zeros(5))) for number in range(n)])
        _same(answers, [one.values for one in local], f"run after start of {n} shards")
        trial.seed += 100


def kept(trial: ExecutorTrial) -> None:
    """Shards stay open from one call to the next."""
    trial.started()
    for asked in (1, 2, 3):
        counts = trial.executor.run(times_asked, [(number, ()) for number in range(trial.n_shards)])
        if counts != [asked] * trial.n_shards:
            text = f"in call {asked}, shards had been asked {counts} times since they were opened"
            raise Complaint(f"{text}: they do not stay open; describe it with ExecutorSpec(keeps=False)")


def in_turn(trial: ExecutorTrial) -> None:
    """Calls on one shard are made one after the other: an opened shard is not for several threads."""
    trial.started()
    calls = [(number, (0.02,)) for number in range(trial.n_shards) for _ in range(3)]
    if not all(trial.executor.run(undisturbed, calls)):
        raise Complaint("run makes two calls on one shard at the same time; they are made one after the other")


def errors(trial: ExecutorTrial) -> None:
    """``run`` raises the error of a call or of opening a shard: the first one in order."""
    trial.started()
    calls = [(number, (f"call {number}",)) for number in range(trial.n_shards)]
    _raises(lambda: trial.executor.run(refused, calls), "call 0")
    last = trial.n_shards - 1
    trial.executor.start(trial.shards(broken=(last,)))
    asked = [(number, (1.0, np.zeros(5))) for number in range(trial.n_shards)]
    _raises(lambda: trial.executor.run(scaled, asked), f"shard {trial.seed + last}")
    local = trial.started()  # the executor still works
    _same(trial.executor.run(scaled, asked), [one.values for one in local], "run after an error")


def limits(trial: ExecutorTrial) -> None:
    """``run`` ends after the call under way, and ``OutOfTime`` holds the answers so far."""
    local = trial.started(MANY)
    trial.executor.run(after, [(0, (0.0,))])  # workers are there
    found: list[Any] | None
    for left in reversed(range(TRIES)):
        begin = work_seconds()
        try:
            with within(Deadline(LIMIT)):
                trial.executor.run(after, [(number, (EACH,)) for number in range(MANY)])
        except OutOfTime as err:
            found, text = list(err.found), "run raised OutOfTime {:.1f} s after the end of the call at hand"
        else:
            found, text = None, f"run was {{:.1f}} s late where time_left() was {LIMIT} s: raise OutOfTime"
        late = work_seconds() - begin - LIMIT
        if late <= LATE:
            break
        if not left or found is None:  # other work on the machine does not keep an executor from checking the time
            raise Complaint(text.format(late))
    if found is None:
        raise NotForThisCase
    if len(found) != MANY:
        raise Complaint(f"OutOfTime.found has {len(found)} entries for {MANY} calls: one for each, None without answer")
    wrong = [n for n, one in enumerate(found) if one is not None and one != local[n].values[0]]
    if wrong:
        raise Complaint(f"OutOfTime.found[{wrong[0]}] is {found[wrong[0]]!r}, expected {local[wrong[0]].values[0]!r}")
    if all(one is None for one in found):
        raise Complaint("OutOfTime.found holds none of the answers that were there in time")


def lost(trial: ExecutorTrial) -> None:
    """A worker that is lost is replaced, and its calls are repeated."""
    local = trial.started()
    with tempfile.TemporaryDirectory() as folder:
        given = (os.getpid(), str(Path(folder) / "lost"))
        answers = trial.executor.run(lost_once, [(number, given) for number in range(trial.n_shards)])
    if all(one is None for one in answers):
        raise NotForThisCase  # all shards are in this process
    _same(answers, [one.values for one in local], "run whose worker was lost")


def sums(trial: ExecutorTrial) -> None:
    """Sums of a training problem over shards equal those of shards in this process, to the last bit."""
    data = PartitionedDataset(list(range(trial.n_shards)), sentences)
    svm = StructuredSVM(Tagger, lam=0.1)
    parts = [data.part(number) for number in range(trial.n_shards)]
    given: Any = (parts, worker_of(svm), Tagger.declaration, Strength(1.0, 0.1, None))
    problem, _ = shard_problem(trial.executor, *given)
    here, _ = shard_problem(_Here(), *given)
    w = np.random.default_rng(trial.seed).normal(size=problem.dim)
    sharded, wanted = problem.gradient(w), here.gradient(w)
    _same([sharded.value, sharded.vector], [wanted.value, wanted.vector], "sums over the shards of a fit")


def closes(trial: ExecutorTrial) -> None:
    """``close`` may be called twice, and before any start; a new executor works afterwards."""
    one = trial.make()
    one.close()
    one.close()
    other = trial.make()
    try:
        shards = trial.shards(1)
        other.start(shards)
        answers = other.run(scaled, [(0, (1.0, np.zeros(5)))])
    finally:
        other.close()
    _same(answers, [shards[0].open().values], "run of another executor after close")


class _Here:
    """All shards in this process."""

    n_shards = 1

    def start(self, shards: Any) -> None:
        """Open shards."""
        self.opened = [shard.open() for shard in shards]

    def run(self, function: Any, calls: Any) -> list[Any]:
        """Ask them."""
        return [function(self.opened[number], *given) for number, given in calls]

    def close(self) -> None:
        """Forget them."""


def _raises(run: Callable[[], object], named: str) -> None:
    """Refuse a run that does not raise the error about ``named``."""
    try:
        returned = run()
    except DataError as err:
        if named not in str(err):
            raise Complaint(f"run raised '{err}', expected the first error in order, about {named}") from None
    else:
        raise Complaint(f"run returned {returned!r}, expected that it raises the DataError about {named}")


def _same(answers: Any, wanted: list[Any], what: str) -> None:
    """Refuse answers that differ from those of this process."""
    if not isinstance(answers, list) or len(answers) != len(wanted):
        raise Complaint(f"{what} returned {answers!r}, expected a list of {len(wanted)} answers")
    for number, (one, other) in enumerate(zip(answers, wanted, strict=True)):
        if not np.array_equal(one, other):
            raise Complaint(f"{what}: answer {number} is {one!r}, expected {other!r}")


#: All checks, in the order of the report.
EXECUTOR_RULES: tuple[Rule[ExecutorSpec, ExecutorTrial], ...] = (
    Rule("number of shards", size),
    Rule("order", order),
    Rule("other shards", replaced),
    Rule("shards stay open", kept, lambda spec: spec.keeps),
    Rule("calls on one shard", in_turn),
    Rule("errors", errors),
    Rule("sums of a fit", sums),
    Rule("limits", limits, once=True, optional=True),
    Rule("lost workers", lost, optional=True),
    Rule("close", closes, once=True),
)


#: Numbers of shards.
SIZES = (1, 3, 5)


def check_executor(
    executor: str | ExecutorSpec,
    *,
    seed: int = 0,
    options: dict[str, Any] | None = None,
    **how: Unpack[HowToRun],
) -> ConformanceReport:
    """Check an executor in everything it claims.

    Parameters
    ----------
    executor : str or ExecutorSpec
        A registered name, or a description that need not be registered.
    seed : int
        The same seed gives the same shards.
    options : dict, optional
        Options of the executor.
    **how
        Which checks run, and how: :class:`~ssvm_dsl.testing.kit.HowToRun`.

    Raises
    ------
    PluginError, OptionError
        Unknown executor; unknown option or check.  (Faults of the executor are in the report.)
    """
    spec = executor if isinstance(executor, ExecutorSpec) else registry().find(ExecutorSpec, executor)
    kit = ExecutorKit(spec, seed=seed, n_problems=len(SIZES), options=spec.resolve(options))
    try:
        return kit.run(**how)
    finally:
        if kit.made is not None and callable(getattr(kit.made, "close", None)):
            kit.made.close()


class ExecutorKit(Kit[ExecutorSpec, Rule[ExecutorSpec, ExecutorTrial], ExecutorTrial]):
    """The kit of executors; a case is a number of shards."""

    kind, rules = "executor", EXECUTOR_RULES
    methods: ClassVar = {"start": ("shards",), "run": ("function", "calls"), "close": ()}

    def arguments(self) -> dict[str, Any]:
        """Return the executor's options."""
        return dict(self.options)

    def prepare(self) -> None:
        """Make the cases."""

        def make() -> ShardExecutor:
            made: ShardExecutor = self.spec.load()(**self.options)
            return made

        for number, n_shards in enumerate(SIZES):
            self.cases.append(ExecutorTrial(self.spec, self.made, make, n_shards, self.report.seed + 10 * number))
