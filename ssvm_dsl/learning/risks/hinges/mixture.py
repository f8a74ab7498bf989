"""``MarginMixtureProblem``: margin rescaling with planes that are mixed from those of all labellings.

A distribution q over the labellings of an example mixes their planes to one that bounds the risk from below, too,

    risk_i(w)  >=  E_q Delta - w . E_q psi_i ,         psi_i(y) = Phi(x_i, y_i) - Phi(x_i, y) ,

and for ``q(y) ~ exp(t Delta(y) + u . Phi(x_i, y))`` both expectations are sums over marginals: those of the
softmax-margin at the weights u with its loss scaled by t.  What joint states score without weights, less what those of
the truth do, counts as loss.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ssvm_dsl.array_types import F64
from ssvm_dsl.learning.risks.gradients.smooth import SmoothProblem
from ssvm_dsl.learning.risks.hinges.margin import MarginProblem


class MarginMixtureProblem(MarginProblem):
    """Margin-rescaling risk over a data set, for trainers that ask for marginals.

    Parameters are those of :class:`~ssvm_dsl.learning.risks.hinges.margin.MarginProblem`.

    Raises
    ------
    OptionError
        The loss does not add up over variables.
    """

    of_sums = "a distribution over labellings"

    def _prepare(self) -> None:
        super()._prepare()
        one_each = replace(self.objective, weight=np.ones(self.n), power=1.0)
        self._soft = _Soft(self.parameters, self.loss, one_each, self.session, self.executor)

    def mixed_plane(self, u: F64, t: float, example: int) -> tuple[F64, float]:
        """Return (E psi, E loss) of an example under ``q(y) ~ exp(t loss(y) + u . Phi(x, y))``.

        Parameters
        ----------
        u : ndarray of float64, shape (dim,)
        t : float
        example : int
        """
        before = self._soft.oracle_seconds
        plane = self._soft.mixed(u, t, example)
        self.n_oracle_calls += 1
        self.oracle_seconds += self._soft.oracle_seconds - before
        return plane


class _Soft(SmoothProblem):
    """The softmax-margin of one example at a time, with a scaled loss."""

    def _prepare(self) -> None:
        super()._prepare()
        self._prices, self._given = self.loss.node, dict[int, F64]()
        self.loss = replace(self.loss, node=self._prices.copy())
        constants = self.parameters.constants
        if constants is not None and constants.of_tables:
            self._given = constants.tables
            self._scaled = {g: table.copy() for g, table in self._given.items()}
            self.parameters = replace(self.parameters, constants=replace(constants, tables=self._scaled))

    def mixed(self, u: F64, t: float, example: int) -> tuple[F64, float]:
        program, one = self.program, np.array([example], dtype=np.int64)
        lo, hi = program.state_ptr[program.var_ptr[example : example + 2]]
        self.loss.node[lo:hi] = t * self._prices[lo:hi]
        for g, table in self._given.items():
            np.multiply(table, t, out=self._scaled[g], where=table > -np.inf)
        found = self.gradient(u, one)
        expected = float(np.dot(self._prices[lo:hi], self._mu.node[lo:hi])) + float(self.loss.const[example])
        for g, table in self._given.items():
            rows = np.unique(program.groups[g].table_rows(one))
            expected += float(np.vdot(np.where(table > -np.inf, table, 0.0)[rows], self._mu.tables[g][rows]))
        return -found.vector, expected
