"""``BaseProblem``: what every training problem holds - the data, the objective, the oracle's session, and counters.

All questions of a fit go through here, so that each ends with the fit's deadline, and so that a backend which caught
Ctrl-C itself and returned what it had ends the fit all the same.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from functools import cached_property

import numpy as np

from ssvm_dsl.array_types import F64, I64
from ssvm_dsl.errors import OptionError, OutOfTime
from ssvm_dsl.inference.deadline import Deadline, answer_within, refuse_interrupted, work_seconds
from ssvm_dsl.inference.session import PlannedSession
from ssvm_dsl.ir.counts import CountTables
from ssvm_dsl.ir.features import Block
from ssvm_dsl.ir.loss import ADDITIVE, LossTerm
from ssvm_dsl.ir.parameters import ParameterMap
from ssvm_dsl.ir.question import Question
from ssvm_dsl.ir.solution import Solution, Stop, join_solutions
from ssvm_dsl.ir.theta import Theta
from ssvm_dsl.learning.driver.accuracy import Accuracy
from ssvm_dsl.learning.driver.evaluations import Evaluation, Evaluations
from ssvm_dsl.learning.objective import RegularizedRisk
from ssvm_dsl.plugin_api.protocols import Executor

#: Scores (of states and joint states) between two looks at the clock, for calls that have no limit of their own.
PIECE_SCORES = 1 << 23


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

    Raises
    ------
    OptionError
        The loss does not add up over variables, which the problem needs.
    """

    smooth = False
    relaxed = False
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
        self.evaluations = Evaluations()
        self._theta = Theta.zeros(self.program)
        self._prepare()

    def _prepare(self) -> None:  # noqa: B027 - nothing to add for most
        """Check what else the problem needs, and make what it keeps; subclasses add to it."""

    @abstractmethod
    def value(self, w: F64) -> tuple[float, float]:
        """Return (objective with the answers found, certified upper bound or nan) at w; remembers the evaluation."""

    @property
    @abstractmethod
    def tightness_is_free(self) -> bool:
        """Whether :meth:`tightness` asks nothing."""

    @abstractmethod
    def tightness(self, w: F64) -> float:
        """Return the share of the oracle's answers at w that are proved best; ``nan`` where nothing is."""

    def evaluation(self, w: F64) -> Evaluation:
        """Return the objective at w; a pass of the oracle unless it is one of the newest evaluations."""
        found = self.evaluations.at(w)
        if found is None:
            self.value(w)
            found = self.evaluations.at(w)
            assert found is not None
        return found

    @cached_property
    def accuracy(self) -> Accuracy:
        """What rounding may do to objectives and lower bounds."""
        return Accuracy(self.parameters, self.objective, self._reach())

    def _reach(self) -> F64:
        """Return how many labellings a plane of each example is made of, times what scales them."""
        return np.full(self.n, 2.0)

    def _remember(self, w: F64, ids: I64, value: F64, bound: F64) -> None:
        """Keep the risks at w, where they are those of all examples, and time did not cut them short unbounded."""
        if len(ids) == self.n and not (self.cut_short and np.isnan(bound).any()):
            estimate, upper = self.objective.primal(w, value), self.objective.primal(w, bound)
            self.evaluations.add(w, Evaluation(estimate, upper, value.copy(), bound.copy()))

    def scores(self, w: F64, examples: I64 | None = None) -> Theta:
        """Return ``Phi w`` of the selected examples, in a buffer that the next call overwrites."""
        return self.parameters.scores(w, examples, out=self._theta)

    def within(self, deadline: Deadline) -> None:
        """Take the deadline that calls end with from now on; problems with others inside pass it on."""
        self.deadline = deadline

    def seconds(self) -> float:
        """Return the time on a clock that stands still while kernels are compiled, for ``oracle_seconds``."""
        return work_seconds()

    def pause(self) -> None:
        """Raise :class:`~ssvm_dsl.errors.OutOfTime` when time is up; trainers call it between pieces of their work."""
        self.deadline.check()

    def ask(self, question: Question, known: F64 | None = None) -> Solution:
        """Return the session's answer to a question, which ends with the deadline.

        An answer that time cut short is returned as it is, with its bounds.

        Raises
        ------
        OutOfTime
            Time was up before.
        KeyboardInterrupt
            Ctrl-C was what ended it.
        """
        self.pause()
        self._asked = work_seconds()
        solution = refuse_interrupted(answer_within(self.session, self.deadline, question, known))
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
        solution = self.ask(question, known)
        if (solution.stop == Stop.TIME).any():
            raise OutOfTime("the time limit came before the oracle's answer")
        return solution

    def ask_by_count(self, theta: Theta, tables: CountTables, ids: I64, known: F64) -> Solution:
        """Return the session's answer by counts for some examples, whose tables and known worth these are."""
        found, at = [], 0
        for piece in self.pieces(ids, self._n_scores[ids] * tables.n_cells):
            here = np.arange(at, at + len(piece))
            answer = self.session.best_by_count(Question(theta, piece), tables.select(here), known[here])
            assert answer is not None, "backends that announce counts are asked"
            found.append(refuse_interrupted(answer))
            at += len(piece)
        return join_solutions(found)

    def pieces(self, ids: I64, work: I64 | None = None) -> Iterator[I64]:
        """Yield examples in pieces, looking at the clock in between; for calls that have no limit of their own.

        ``work`` is what is looked at for each of them: by default its scores.
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
