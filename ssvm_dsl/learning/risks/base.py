"""``BaseProblem``: what every training problem holds - the data, the objective, the oracle's session, and counters.

All questions of a fit go through here, so that each ends with the fit's deadline, and so that a backend which caught
Ctrl-C itself and returned what it had ends the fit all the same.  What time leaves open has bounds that need no answer:
sums of the largest terms where the scores are at hand (:mod:`ssvm_dsl.inference.starting.labelling`), and what is known
of the losses where they are not (:mod:`ssvm_dsl.learning.risks.ceilings`).

The newest values of the objective are remembered (:class:`Evaluation`).  Claims of a trainer about its weights are not
trusted: iterates get the values that were computed for the very same weights, and claims about any others are computed
anew by the driver.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, TypeVar
from zlib import adler32

import numpy as np
from numpy.typing import NDArray

from ssvm_dsl.array_types import F64, I64, Bools
from ssvm_dsl.deadline import time_left, work_seconds
from ssvm_dsl.errors import OptionError, OutOfTime
from ssvm_dsl.inference.planned import PlannedSession
from ssvm_dsl.inference.session import refuse_interrupted
from ssvm_dsl.inference.starting.labelling import trivial_bound
from ssvm_dsl.ir.counts import CountTables
from ssvm_dsl.ir.features import Block, FeatureMap, SlicedRows, SparseRows
from ssvm_dsl.ir.loss import ADDITIVE, LossTerm
from ssvm_dsl.ir.need import Guarantee, Task
from ssvm_dsl.ir.program import Program
from ssvm_dsl.ir.question import Question
from ssvm_dsl.ir.solution import Solution, Stop, join_solutions, select
from ssvm_dsl.ir.theta import Theta
from ssvm_dsl.learning.objective import RegularizedRisk
from ssvm_dsl.learning.risks.accuracy import Accuracy, accuracy_of
from ssvm_dsl.learning.risks.ceilings import objective_at_most
from ssvm_dsl.memory import fresh_zeros
from ssvm_dsl.plugin_api.protocols import Executor
from ssvm_dsl.plugin_api.training import ShardSteps
from ssvm_dsl.scores.parameter_map import ParameterMap

T = TypeVar("T")

#: Scores (of states and joint states) between two looks at the clock, for calls that have no limit of their own.
PIECE_SCORES = 1 << 23

#: Share of the time that is left which a part of an evaluation may take, as far as that is known before.
PART = 0.125

#: Evaluations that are remembered: trainers look at a few weights before they decide which to yield.
NEWEST = 8

#: Seconds that an answer may be late before it is not asked for.
LATE = 0.1

#: Numbers of a long vector whose order counts in its fingerprint.
SAMPLE = 2**15

#: A risk and its bound that differ by this much, relative to the larger of the bound and 1, are the same.
PROVED = 1e-6

Fingerprint = tuple[int, int, int]


@dataclass(frozen=True, eq=False)
class Evaluation:
    """The objective at some weights, by one pass of the oracle over all examples.

    Parameters
    ----------
    estimate : float
        The objective with the answers that were found: its value when the oracle is exact, else at most that.
    upper : float
        Certified upper bound of the objective; equal to ``estimate`` with an exact oracle, ``nan`` with a heuristic.
    value, bound : ndarray of float64, shape (n,)
        The same of each example's risk; where nobody was asked, 0 and what is known without the oracle.
    n_late : int
        Examples whose answers time cut short, or came before.
    """

    estimate: float
    upper: float
    value: F64
    bound: F64
    n_late: int = 0


def fingerprint(w: F64) -> Fingerprint:
    """Return numbers that differ for different weights, to the last bit (all but surely: they are no secret)."""
    bits = np.ascontiguousarray(w, dtype=np.float64).view(np.uint64)
    sample = np.ascontiguousarray(bits[:: max(1, len(bits) // SAMPLE)])
    return int(np.bitwise_xor.reduce(bits)), int(np.add.reduce(bits)), adler32(sample.data)


def proved_share(value: F64, bound: F64) -> float:
    """Return the share of risks that their bounds prove; ``nan`` where the oracle gives no bounds."""
    if np.isnan(bound).any():
        return np.nan
    return float(np.mean(proved(value, bound)))


def proved(value: F64, bound: F64) -> NDArray[np.bool_]:
    """Return which values reach their bounds; none where there is no bound."""
    tight: NDArray[np.bool_] = bound - value <= PROVED * np.maximum(1.0, bound)
    return tight


def each_once(program: Program, examples: I64 | None) -> tuple[I64, I64 | None]:
    """Return the examples asked for, each once, and where each of those asked for is among them.

    A trainer may ask for examples in any order, and several times for one (a mini-batch drawn with replacement); parts
    of a batch write scores of their own examples side by side, so that each example is in one of them.

    Returns
    -------
    ids : ndarray of int64
        In the order asked for where none is repeated, else in ascending order.
    back : ndarray of int64 or None
        ``examples = ids[back]``; ``None`` where none is repeated.
    """
    ids = select(program, examples)
    if len(ids) < 2 or (np.diff(ids) > 0).all():
        return ids, None
    once, back = np.unique(ids, return_inverse=True)
    return (ids, None) if len(once) == len(ids) else (once, back)


def in_rounds(examples: I64) -> list[I64]:
    """Return the places of examples in rounds that have none twice, each in ascending order of the examples."""
    if len(examples) < 2 or (np.diff(examples) > 0).all():
        return [np.arange(len(examples))]
    order = np.argsort(examples, kind="stable")
    number = np.arange(len(order)) - np.searchsorted(examples[order], examples[order])  # how many before are the same
    return [order[number == k] for k in range(int(number.max()) + 1)]


class BaseProblem(ABC):
    """A trainer's world without its risk.

    Parameters
    ----------
    parameters : ParameterMap
    loss : LossTerm
    objective : RegularizedRisk
    session : PlannedSession
        The planned backend, opened on the program.
    executor : Executor
        Where the parts of a batch run.

    Attributes
    ----------
    cut_short : bool
        Whether time cut an answer short, since it was set to False last.
    reach : float, or ndarray of float64, shape (n,)
        How many labellings a plane of each example is made of, times what scales them.

    Raises
    ------
    OptionError
        The loss does not add up over variables, which the problem needs.
    """

    smooth = False
    relaxed = False
    degree = 1.0  #: the root of a risk of this degree rises by no more than scores do
    shards: ShardSteps | None = None  #: where the examples are, if they are not here
    reach: F64 | float = 2.0
    of_sums = ""  #: what needs a loss that adds up over variables, in words; any loss will do without

    def __init__(
        self,
        parameters: ParameterMap,
        loss: LossTerm,
        objective: RegularizedRisk,
        session: PlannedSession,
        executor: Executor,
    ) -> None:
        if self.of_sums and loss.kind != ADDITIVE:
            raise OptionError(f"{self.of_sums} needs a loss that adds up over variables, not {loss.called}")
        self.parameters, self.loss, self.objective = parameters, loss, objective
        self.session, self.executor = session, executor
        self.program = parameters.program
        self.dim: int = parameters.dim
        self.n: int = self.program.n_examples
        self.blocks: tuple[Block, ...] = parameters.blocks
        self.n_oracle_calls = 0
        self.oracle_seconds = 0.0
        self.cut_short, self._asked = False, np.nan
        self._newest: dict[Fingerprint, Evaluation] = {}
        self._theta = Theta.zeros(self.program, fresh_zeros(self.program.n_states))
        self._prepare()

    def _prepare(self) -> None:  # noqa: B027 - nothing to add for most
        """Check what else the problem needs, and make what it keeps; subclasses add to it."""

    @abstractmethod
    def value(self, w: F64) -> tuple[float, float]:
        """Return (objective with the answers found, certified upper bound or nan) at w; remembers the evaluation."""

    @abstractmethod
    def risks(self, w: F64, ids: I64) -> tuple[F64, F64]:
        """Return (risks of some examples with the answers found, certified upper bounds or nan) at w."""

    def curvature(self) -> F64:
        """Return a guess of the second derivatives of smooth risks at no weights, summed over the examples."""
        bound = curvature_of(self.parameters, self._theta)
        self._theta.node[:], self._theta.pool[:] = 0.0, 0.0
        return bound

    def risks_at_zero(self) -> F64 | None:
        """Return the most that each risk is at weights of 0, by the data alone; ``None`` where that is not known."""
        return None

    @abstractmethod
    def tightness(self, w: F64, ask: bool = True) -> float:
        """Return the share of the oracle's answers at w that are proved best; ``nan`` where nothing is.

        Without ``ask``, it is ``nan`` where a pass of the oracle would tell.
        """

    def known(self, w: F64) -> Evaluation | None:
        """Return the objective at w where it is one of the newest evaluations."""
        return self._newest.get(fingerprint(w))

    def note(self, w: F64, evaluation: Evaluation) -> None:
        """Remember an evaluation, and forget the oldest one."""
        key = fingerprint(w)
        self._newest.pop(key, None)
        self._newest[key] = evaluation
        if len(self._newest) > NEWEST:
            del self._newest[next(iter(self._newest))]

    def evaluation(self, w: F64) -> Evaluation:
        """Return the objective at w; a pass of the oracle unless it is one of the newest evaluations."""
        known = self.known(w)
        if known is None:
            self.value(w)
            known = self.known(w)
            assert known is not None
        return known

    def evaluation_in_time(self, w: F64) -> Evaluation:
        """Return bounds of the objective at w before time is up, from some examples or all.

        Where an answer is known to take longer than the time that is left, it is not asked for.
        """
        value, bound, seen = np.zeros(self.n), np.full(self.n, np.nan), np.zeros(self.n, dtype=bool)
        self.cut_short, cut_short = False, False
        for chunk in self.chunks():
            try:
                while len(chunk) and (size := self._affordable(len(chunk))):
                    some, chunk = chunk[:size], chunk[size:]
                    value[some], bound[some] = self.risks(w, some)
                    seen[some], cut_short = True, cut_short or self.cut_short
            except OutOfTime:
                break
        self.cut_short = cut_short or not seen.all()
        self._remember(w, np.arange(self.n), value, bound, seen)
        known = self.known(w)
        assert known is not None
        return known

    def chunks(self) -> list[I64]:
        """Return all examples, in chunks small enough for one call."""
        return [np.arange(self.n, dtype=np.int64)]

    def pass_seconds(self) -> float:
        """Return how long a pass over the data takes, as far as that is known."""
        return self.oracle_seconds / max(self.n_oracle_calls, 1) * self.n

    def _affordable(self, n: int) -> int:
        """Return how many of n examples to answer before reading the clock; all of them if there is enough time."""
        left, each = time_left(), self.pass_seconds() / self.n
        if left <= 0.0 or each > left + LATE or not self.session.tasks:
            return 0
        return n if n * each <= PART * left else int(np.clip(PART * left / max(each, 1e-9), 1, n))

    @cached_property
    def accuracy(self) -> Accuracy:
        """What rounding may do to objectives and lower bounds."""
        return accuracy_of(self.parameters, self.objective, self.reach)

    def steepness(self, risks: F64) -> F64:
        """Return how steep the planes of examples may be, by their risks: the slope of what is summed in the scores."""
        return self.objective.slopes(risks)

    def _remember(self, w: F64, ids: I64, value: F64, bound: F64, seen: Bools | None = None) -> None:
        """Keep the risks at w, where they are those of all examples.

        Parameters
        ----------
        w : ndarray of float64, shape (dim,)
        ids : ndarray of int64
            Distinct examples, in any order.
        value, bound : ndarray of float64
            The risks of these examples with the answers found, and their bounds; ``nan`` without one.
        seen : ndarray of bool, optional
            Which examples were asked about; all by default.
        """
        if len(ids) != self.n:
            return
        if (np.diff(ids) < 0).any():
            order = np.argsort(ids)
            value, bound = value[order], bound[order]
        if (bound > value).any() and not w.any():
            at_zero = self.risks_at_zero()  # by the data alone: bounds of backends are right up to rounding
            bound = bound if at_zero is None else np.maximum(np.minimum(bound, at_zero), value)  # nan stays
        estimate, n_late = self.objective.primal(w, value), 0
        upper = self.objective.primal(w, bound) if seen is None or seen.all() else np.nan
        if self.cut_short:
            n_late, unknown = int((~proved(value, bound)).sum()), np.isnan(bound)
            if unknown.any() and self.session.guarantee is not Guarantee.HEURISTIC:
                at_zero = self.risks_at_zero()
                if at_zero is not None:
                    bound = np.where(unknown, at_zero, bound)
                    rise = self.accuracy.size(w)
                    upper = objective_at_most(self.objective, w, bound, unknown, rise, self.degree)
        self.note(w, Evaluation(estimate, upper, value.copy(), bound.copy(), n_late))

    def scores(self, w: F64, examples: I64 | None = None) -> Theta:
        """Return ``Phi w`` of the selected examples, in a buffer that the next call overwrites."""
        return self.parameters.scores(w, examples, out=self._theta)

    def seconds(self) -> float:
        """Return the time on a clock that stands still while kernels are compiled, for ``oracle_seconds``."""
        return work_seconds()

    def pause(self, ahead: float = 0.0) -> None:
        """Raise :class:`~ssvm_dsl.errors.OutOfTime` unless there is time for the next piece of a trainer's work."""
        if time_left() <= ahead:
            raise OutOfTime("the time limit is over")

    def side_by_side(self, function: Callable[[Any], T], parts: Sequence[Any]) -> list[T]:
        """Return ``[function(part) for part in parts]``; the threads of the fit share the parts."""
        return self.executor.share(function, parts)

    def ask(self, question: Question, known: F64 | None = None, whole: bool = False) -> Solution:
        """Return the session's answer to a question, which ends with the time of the call.

        An answer that time cut short is returned as it is, with its bounds.  The host fills in those of labellings
        (:mod:`ssvm_dsl.inference.starting`); relaxed answers get theirs here.

        Parameters
        ----------
        question : Question
        known : ndarray of float64, optional
            Scores of labellings that are known.
        whole : bool
            Whether an answer that was cut short is of no use.

        Raises
        ------
        OutOfTime
            Time was up before, or cut short an answer that is wanted whole.
        KeyboardInterrupt
            Ctrl-C was what ended it.
        """
        self.pause()
        self._asked = work_seconds()
        solution = refuse_interrupted(self.session.solve(question, known))
        self._asked = np.nan
        cut_short = solution.stop == Stop.TIME
        if cut_short.any():
            self.cut_short = True
            if whole:
                raise OutOfTime("the time limit came before the oracle's answer")
            late = cut_short & ~np.isfinite(solution.bound)
            relaxed = question.task is Task.RELAXED and self.session.guarantee is not Guarantee.HEURISTIC
            if relaxed and late.any():
                solution.bound = solution.bound.copy()
                some = question.replace(examples=question.ids(self.program)[late])
                solution.bound[late] = trivial_bound(self.program, some)
        return solution

    @property
    def waited(self) -> float:
        """How many seconds the question that is being asked, or was when Ctrl-C came, has been waiting; else nan."""
        return work_seconds() - self._asked

    def ask_by_count(self, theta: Theta, tables: CountTables, ids: I64, known: F64) -> Solution:
        """Return the session's answer by counts for some examples, whose tables and known worth these are."""
        solutions, at = [], 0
        for piece in self.pieces(ids, self._n_scores[ids] * tables.n_cells):
            here = np.arange(at, at + len(piece))
            answer = self.session.best_by_count(Question(theta, piece), tables.select(here), known[here])
            assert answer is not None, "backends that announce counts are asked"
            solutions.append(refuse_interrupted(answer))
            at += len(piece)
        return join_solutions(solutions)

    def pieces(self, ids: I64, work: I64 | None = None) -> Iterator[I64]:
        """Yield examples in chunks, reading the clock in between; for calls without a time limit.

        ``work`` is the amount of work of each: by default its number of scores.
        """
        piece = np.cumsum(self._n_scores[ids] if work is None else work) // PIECE_SCORES
        for some in np.split(ids, np.flatnonzero(np.diff(piece)) + 1):
            self.pause()
            yield some

    @cached_property
    def _n_scores(self) -> I64:
        """Scores of each example."""
        program = self.program
        n_scores = np.diff(program.state_ptr[program.var_ptr])
        for group in program.groups:
            n_scores = n_scores + group.shapes.counts * group.n_configs
        return n_scores


def curvature_of(parameters: ParameterMap, mu: Theta) -> F64:
    """Return a diagonal guess of the curvature of smooth risks, summed over the examples; ``shape (dim,)``.

    It is for methods that would take the curvature for the identity.  With all labellings equally likely (w = 0) the
    log-loss has the second derivatives

        sum_i Var Phi_j(x_i, y)  ~  sum_f x_fp^2 B_qs^2 (1/k) (1 - 1/k)    summed over the k joint states s ,

    taking factors for independent.  Weights of frequent features and of rare ones differ in it by orders of magnitude.

    Parameters
    ----------
    parameters : ParameterMap
    mu : Theta
        Scores that may be overwritten: memory to work in.
    """
    program = parameters.program
    if program.uniform_card:
        mu.node[:] = _spread(np.array(program.uniform_card))
    else:
        mu.node[:] = np.repeat(_spread(program.card), program.card)
    for group, table in zip(program.groups, mu.tables, strict=True):
        uses = group.table_uses()
        table[...] = (uses * _spread(np.array(group.n_configs)))[:, None]
    squares = ParameterMap(program, tuple(map(_squared, parameters.maps)), parameters.blocks)
    return squares.adjoint(mu)


def _spread(n_states: NDArray[np.integer]) -> F64:
    """Return the variance of the indicator of one of k equally likely states."""
    share = 1.0 / n_states
    return np.asarray(share * (1.0 - share))


def _squared(fmap: FeatureMap) -> FeatureMap:
    """Return the map with squared features and form."""
    features = fmap.features
    if isinstance(features, SparseRows):
        if not (features.data == 1.0).all():
            features = replace(features, data=features.data**2)
    elif isinstance(features, SlicedRows):
        make = features.make
        features = replace(features, make=lambda rows: make(rows) ** 2)
    elif features is not None:
        features = features**2
    return replace(fmap, features=features, basis=None if fmap.basis is None else fmap.basis**2)
