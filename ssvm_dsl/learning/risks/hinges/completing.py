"""``CompletingProblem``: each call of the oracle completes the latent variables again.

What an online trainer sees of example i at weights w is the risk

    max_(y, h) [loss(y_i, y) + w . Phi(x_i, y, h)] - max_h w . Phi(x_i, y_i, h)

with the plane of both maximisers, the second one found with the known labels clamped.  Without a loss these are the
updates of the latent structured perceptron (Sun, Matsuzaki, Okanohara and Tsujii, IJCAI 2009): away from the best
labelling, towards the best one that agrees with what is known.  The risk is not convex, and planes do not bound it at
other weights.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ssvm_dsl.array_types import F64, I32, I64, Bools
from ssvm_dsl.ir.need import Task
from ssvm_dsl.ir.question import Question
from ssvm_dsl.ir.ragged import members
from ssvm_dsl.learning.risks.base import each_once
from ssvm_dsl.learning.risks.hinges.margin import MarginProblem
from ssvm_dsl.plugin_api.training import Planes


class CompletingProblem(MarginProblem):
    """Margin rescaling over a data set with latent variables.

    At the first visit of an example its latent variables have the states they were given: weights say nothing yet.

    Parameters
    ----------
    problem : MarginProblem
        The problem in which the given states are true.
    hidden : ndarray of bool, shape (V,)
        Which variables are completed.
    """

    def __init__(self, problem: MarginProblem, hidden: Bools) -> None:
        super().__init__(problem.parameters, problem.loss, problem.objective, problem.session, problem.executor)
        self.deadline, self._hidden = problem.deadline, hidden
        self.truth: I32 = problem.truth.copy()
        self._clamp = np.where(hidden, np.int32(-1), self.truth)
        self._visited = np.zeros(self.n, dtype=bool)

    def oracle(self, w: F64, examples: I64 | None = None) -> Planes:
        """Complete the selected examples, and return their most violated planes; see :class:`MarginProblem`."""
        self._complete(w, each_once(self.program, examples)[0])
        return self._without_ties(super().oracle(w, examples))

    def predicted(self, w: F64, examples: I64 | None = None) -> Planes:
        """Complete the selected examples, and return the planes of the labellings of the highest score."""
        self._complete(w, each_once(self.program, examples)[0])
        return self._without_ties(super().predicted(w, examples))

    def compiled(self, tables: bool = False) -> None:
        """Return nothing: compiled oracles know one truth."""
        return

    def _complete(self, w: F64, ids: I64) -> None:
        """Take the best latent states at w for the truth of examples that were visited before."""
        start, again = self.seconds(), ids[self._visited[ids]]
        self._visited[ids] = True
        if len(again):
            theta = self.parameters.scores(w, again, out=self._theta)
            found = self.ask_all(Question(theta, again, Task.MAP_CLAMPED, self._clamp))
            at = members(self.program.var_ptr, again)
            self.truth[at] = np.where(self._hidden[at], found.labels_or(self.truth[at]), self.truth[at])
            self.n_oracle_calls += len(again)
        self.oracle_seconds += self.seconds() - start

    def _without_ties(self, planes: Planes) -> Planes:
        """Return planes, those of labellings that agree with what is known as those of the truth: other states tie."""
        at = members(self.program.var_ptr, planes.examples)
        truth, owner = self.truth[at], np.repeat(np.arange(len(planes.examples)), np.diff(planes.ptr))
        wrong = np.bincount(owner[(planes.labels != truth) & ~self._hidden[at]], minlength=len(planes.examples))
        tied = (wrong == 0) & (planes.value <= 0.0)
        return replace(planes, labels=np.where(tied[owner], truth, planes.labels).astype(np.int32))
