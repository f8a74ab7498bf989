"""A user's convex set of weights: the function that projects onto it, and checks of this function.

Ratliff, Bagnell and Zinkevich (2007) end each step with a projection onto a convex set W of weights,

    P(w) = argmin_{v in W} |v - w| .

Its subgradient method converges to the best weights in W.  A lower bound of the optimum over all weights stays one of
the optimum over W, but the gap between the two stays open where the set keeps the weights from the former.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ssvm_dsl.errors import TrainingError
from ssvm_dsl.ir import F64
from ssvm_dsl.plugin_api import TrainProblem

#: Largest move by a second projection, or by one of weights in the set, relative to the size of the weights.
STILL = 1e-6


class ConvexSet:
    """The set that a function projects onto.

    Parameters
    ----------
    project : callable
        Takes a dict of the weights by factor, arrays of the shapes that ``svm.weights_`` shows, and changes the arrays
        in place to those of the nearest weights in the set.
    problem : TrainProblem
        Whose weights they are.
    """

    def __init__(self, project: Callable[[dict[str, F64]], object], problem: TrainProblem) -> None:
        self.function, self.blocks = project, problem.parameters.blocks
        self.lower, self.tried = problem.objective.lower, False

    def require(self, w: F64) -> None:
        """Refuse weights to start from that are not in the set.

        Raises
        ------
        TrainingError
            The function moves them.
        """
        moved = w.copy()
        self.project(moved)
        if np.linalg.norm(moved - w) > STILL * (1.0 + np.linalg.norm(w)):
            text = "the weights that training starts from (0, or those of warm_start) are not in the set of 'project'"
            raise TrainingError(f"{text}; choose a set that holds them, or start from weights in it")

    def project(self, w: F64) -> None:
        """Move weights to the nearest ones in the set, in place.

        Raises
        ------
        TrainingError
            The function is no projection: it returned a value, left nan or infinities, made ``nonneg``
            weights negative, or moves weights that it has just projected.
        """
        before = None if self.tried else w.copy()
        self._apply(w)
        if before is None:
            return
        again = w.copy()
        self._apply(again)
        self.tried = bool((before != w).any())
        if np.linalg.norm(again - w) > STILL * (1.0 + np.linalg.norm(w)):
            raise TrainingError("option 'project': a second call moves the weights again, so it is no projection")

    def _apply(self, w: F64) -> None:
        returned = self.function({block.name: block.view(w) for block in self.blocks})
        if returned is not None:
            raise TrainingError(f"option 'project' changes the arrays in place; it returned {type(returned).__name__}")
        if not np.isfinite(w).all():
            raise TrainingError("option 'project' left weights that are not finite")
        if (w < self.lower).any():
            raise TrainingError("option 'project' made weights of a nonneg factor negative; keep them at 0 or above")
