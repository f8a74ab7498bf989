"""``BaseProblem``: what every training problem holds - the data, the objective, the oracle's session, and counters."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ssvm_dsl.errors import OptionError
from ssvm_dsl.inference.session import PlannedSession
from ssvm_dsl.ir.features import Block
from ssvm_dsl.ir.loss import ADDITIVE, LossTerm
from ssvm_dsl.ir.parameters import ParameterMap
from ssvm_dsl.ir.theta import Theta
from ssvm_dsl.learning.objective import RegularizedRisk
from ssvm_dsl.plugin_api.protocols import Executor

F64 = NDArray[np.float64]
I64 = NDArray[np.int64]


class BaseProblem:
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
        self._theta = Theta.zeros(self.program)
        self._prepare()

    def _prepare(self) -> None:
        """Check what else the problem needs, and make what it keeps; subclasses add to it."""

    def scores(self, w: F64, examples: I64 | None = None) -> Theta:
        """Return ``Phi w`` of the selected examples, in a buffer that the next call overwrites."""
        return self.parameters.scores(w, examples, out=self._theta)
