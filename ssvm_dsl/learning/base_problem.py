"""``BaseProblem``: what every training problem holds - the data, the objective, the oracle's session, and counters."""

from __future__ import annotations

from abc import ABC, abstractmethod
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from ssvm_dsl.errors import OptionError
from ssvm_dsl.inference.session import PlannedSession
from ssvm_dsl.ir.features import Block
from ssvm_dsl.ir.loss import ADDITIVE, LossTerm
from ssvm_dsl.ir.parameters import ParameterMap
from ssvm_dsl.ir.theta import Theta
from ssvm_dsl.learning.accuracy import Accuracy
from ssvm_dsl.learning.evaluations import Evaluation, Evaluations
from ssvm_dsl.learning.objective import RegularizedRisk
from ssvm_dsl.plugin_api.protocols import Executor

F64 = NDArray[np.float64]
I64 = NDArray[np.int64]


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
        self.evaluations = Evaluations()
        self._theta = Theta.zeros(self.program)
        self._prepare()

    def _prepare(self) -> None:  # noqa: B027 - nothing to add for most
        """Check what else the problem needs, and make what it keeps; subclasses add to it."""

    @abstractmethod
    def value(self, w: F64) -> tuple[float, float]:
        """Return (objective with the answers found, certified upper bound or nan) at w; remembers the evaluation."""

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
        """Keep the risks at w, where they are those of all examples."""
        if len(ids) == self.n:
            estimate, upper = self.objective.primal(w, value), self.objective.primal(w, bound)
            self.evaluations.add(w, Evaluation(estimate, upper, value.copy(), bound.copy()))

    def scores(self, w: F64, examples: I64 | None = None) -> Theta:
        """Return ``Phi w`` of the selected examples, in a buffer that the next call overwrites."""
        return self.parameters.scores(w, examples, out=self._theta)
