"""``BaseProblem``: what every training problem holds - the data, the objective, the oracle's session, and counters.

All questions of a fit go through here, so that each ends with the fit's deadline, and so that a backend which caught
Ctrl-C itself and returned what it had ends the fit all the same.  What time leaves open has bounds that need no answer:
sums of the largest terms where the scores are at hand (:mod:`ssvm_dsl.inference.starting.labelling`), and what is known
of the losses where they are not (:mod:`ssvm_dsl.learning.risks.ceilings`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from typing import Any, TypeVar

import numpy as np

from ssvm_dsl.array_types import F64, I64, Bools
from ssvm_dsl.deadline import Deadline, within, work_seconds
from ssvm_dsl.errors import OptionError, OutOfTime
from ssvm_dsl.inference.planned import PlannedSession
from ssvm_dsl.inference.session import refuse_interrupted
from ssvm_dsl.inference.starting.labelling import trivial_bound
from ssvm_dsl.ir.counts import CountTables
from ssvm_dsl.ir.features import Block
from ssvm_dsl.ir.loss import ADDITIVE, LossTerm
from ssvm_dsl.ir.need import Guarantee, Task
from ssvm_dsl.ir.program import Program
from ssvm_dsl.ir.question import Question
from ssvm_dsl.ir.solution import Solution, Stop, join_solutions, select
from ssvm_dsl.ir.theta import Theta
from ssvm_dsl.learning.driver.accuracy import Accuracy
from ssvm_dsl.learning.driver.evaluations import Evaluation, Evaluations, proved
from ssvm_dsl.learning.objective import RegularizedRisk
from ssvm_dsl.learning.risks.ceilings import objective_at_most
from ssvm_dsl.learning.risks.gradients.curvature import curvature_of
from ssvm_dsl.memory import fresh_zeros
from ssvm_dsl.plugin_api.protocols import Executor
from ssvm_dsl.plugin_api.training import ShardSteps
from ssvm_dsl.scores.parameter_map import ParameterMap

T = TypeVar("T")

#: Scores (of states and joint states) between two looks at the clock, for calls that have no limit of their own.
PIECE_SCORES = 1 << 23

#: Share of the time that is left which a part of an evaluation may take, as far as that is known before.
PART = 0.125

#: Seconds that an answer may be late before it is not asked for.
LATE = 0.1


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
    deadline : Deadline
        When calls must end; the driver sets it (:meth:`within`).
    cut_short : bool
        Whether time cut an answer short, since it was set to False last.
    keeps_back : callable or None
        Returns the seconds to reserve for the last steps; called whenever the clock is read.

    Raises
    ------
    OptionError
        The loss does not add up over variables, which the problem needs.
    """

    smooth = False
    relaxed = False
    degree = 1.0  #: the root of a risk of this degree rises by no more than scores do
    shards: ShardSteps | None = None  #: where the examples are, if they are not here
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
        self.deadline = Deadline()
        self.cut_short, self._asked = False, np.nan
        self.keeps_back: Callable[[], float] | None = None
        self.evaluations = Evaluations()
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

    @property
    @abstractmethod
    def tightness_is_free(self) -> bool:
        """Whether :meth:`tightness` asks nothing."""

    @abstractmethod
    def tightness(self, w: F64) -> float:
        """Return the share of the oracle's answers at w that are proved best; ``nan`` where nothing is."""

    def evaluation(self, w: F64) -> Evaluation:
        """Return the objective at w; a pass of the oracle unless it is one of the newest evaluations."""
        known = self.evaluations.at(w)
        if known is None:
            self.value(w)
            known = self.evaluations.at(w)
            assert known is not None
        return known

    def evaluation_in_time(self, w: F64) -> Evaluation:
        """Return bounds of the objective at w before time is up, from some examples or all.

        Where an answer is known to take longer than the time that is left, it is not asked for.
        """
        value, bound, seen = np.zeros(self.n), np.full(self.n, np.nan), np.zeros(self.n, dtype=bool)
        self.cut_short, cut_short = False, False
        for chunk in self.chunks():
            while len(chunk) and (size := self._affordable(len(chunk))):
                some, chunk = chunk[:size], chunk[size:]
                try:
                    value[some], bound[some] = self.risks(w, some)
                except OutOfTime:
                    break
                seen[some], cut_short = True, cut_short or self.cut_short
        self.cut_short = cut_short or not seen.all()
        self._remember(w, np.arange(self.n), value, bound, seen)
        known = self.evaluations.at(w)
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
        left, each = self.deadline.left, self.pass_seconds() / self.n
        if left <= 0.0 or each > left + LATE or not self.session.tasks:
            return 0
        return n if n * each <= PART * left else int(np.clip(PART * left / max(each, 1e-9), 1, n))

    @cached_property
    def accuracy(self) -> Accuracy:
        """What rounding may do to objectives and lower bounds."""
        return Accuracy(self.parameters, self.objective, self._reach())

    def _reach(self) -> F64:
        """Return how many labellings a plane of each example is made of, times what scales them."""
        return np.full(self.n, 2.0)

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
                    rise = self.accuracy.largest_rise(w)
                    upper = objective_at_most(self.objective, w, bound, unknown, rise, self.degree)
        self.evaluations.add(w, Evaluation(estimate, upper, value.copy(), bound.copy(), n_late))

    def scores(self, w: F64, examples: I64 | None = None) -> Theta:
        """Return ``Phi w`` of the selected examples, in a buffer that the next call overwrites."""
        return self.parameters.scores(w, examples, out=self._theta)

    def within(self, deadline: Deadline) -> None:
        """Take the deadline that calls end with from now on; problems with others inside pass it on."""
        self.deadline = deadline

    def seconds(self) -> float:
        """Return the time on a clock that stands still while kernels are compiled, for ``oracle_seconds``."""
        return work_seconds()

    def pause(self, ahead: float = 0.0) -> None:
        """Raise :class:`~ssvm_dsl.errors.OutOfTime` unless there is time for the next piece of a trainer's work."""
        if self.keeps_back is not None:
            self.deadline.reserve = self.keeps_back()
        self.deadline.check(ahead)

    def side_by_side(self, function: Callable[[Any], T], parts: Sequence[Any]) -> list[T]:
        """Return ``[function(part) for part in parts]``; the threads of the fit share the parts."""
        return self.executor.share(function, parts)

    def ask(self, question: Question, known: F64 | None = None) -> Solution:
        """Return the session's answer to a question, which ends with the deadline.

        An answer that time cut short is returned as it is, with its bounds.  The host fills in those of labellings
        (:mod:`ssvm_dsl.inference.starting`); relaxed answers get theirs here.

        Raises
        ------
        OutOfTime
            Time was up before.
        KeyboardInterrupt
            Ctrl-C was what ended it.
        """
        solution = self._answer(question, known)
        late = (solution.stop == Stop.TIME) & ~np.isfinite(solution.bound)
        if late.any() and question.task is Task.RELAXED and self.session.guarantee is not Guarantee.HEURISTIC:
            solution.bound = solution.bound.copy()
            some = question.replace(examples=question.ids(self.program)[late])
            solution.bound[late] = trivial_bound(self.program, some)
        return solution

    def _answer(self, question: Question, known: F64 | None) -> Solution:
        self.pause()
        self._asked = work_seconds()
        with within(self.deadline):
            solution = refuse_interrupted(self.session.solve(question, known))
        self._asked = np.nan
        self.cut_short |= bool((solution.stop == Stop.TIME).any())
        return solution

    @property
    def waited(self) -> float:
        """How many seconds the question that is being asked, or was when Ctrl-C came, has been waiting; else nan."""
        return work_seconds() - self._asked

    def ask_all(self, question: Question, known: F64 | None = None) -> Solution:
        """Return the session's answer to a question like :meth:`ask`, one that is of no use when it is cut short.

        Raises
        ------
        OutOfTime
            Time was up before, or ended it.
        """
        solution = self._answer(question, known)
        if (solution.stop == Stop.TIME).any():
            raise OutOfTime("the time limit came before the oracle's answer")
        return solution

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
