"""The online Newton direction of Ratliff, Bagnell and Zinkevich (2007), footnote 9.

    direction = (H + eps I)^-1 g ,        then  H <- t/(t+1) H + 1/(t+1) g g'        (t = 1, 2, ...)

H holds the outer products of the subgradients of the steps before, 1/t of each, and is dense.  The paper does not say
what it is at first; here it is 0, so that the first direction is g / eps.  So is every part of g in directions that no
earlier subgradient has: eps must be as large as squares of subgradients are.  With ``current`` the subgradient of a
step is taken in before the step instead, H is the mean of all outer products so far, and a small eps does.
"""

from __future__ import annotations

from typing import Annotated

import numpy as np

from ssvm_dsl.errors import TrainingError
from ssvm_dsl.ir import F64
from ssvm_trainers.shared.resumable import Stateful
from ssvm_trainers.shared.state_rules import COUNTS, NUMBERS

#: Weights at most: H of 3000 weights takes 72 MB, and a direction about a second.
MAX_DIM = 3000


class OnlineNewton(Stateful):
    """The second moments of the subgradients met.

    Parameters
    ----------
    dim : int
    ridge : float
        The eps of the direction.
    current : bool
        Whether H takes a subgradient in before its direction is computed, instead of after.

    Raises
    ------
    TrainingError
        There are too many weights for a dense matrix.
    """

    moments: Annotated[F64, NUMBERS]
    t: Annotated[int, COUNTS]

    def __init__(self, dim: int, ridge: float, current: bool) -> None:
        if dim > MAX_DIM:
            text = f"metric='newton' keeps and factors a dense matrix of {dim} x {dim} weights in every step;"
            raise TrainingError(f"{text} it is for at most {MAX_DIM} weights, use metric='identity'")
        self.ridge, self.current, self.t = ridge, current, 0
        self.moments = np.zeros((dim, dim))

    def direction(self, grad: F64) -> F64:
        """Return the Newton direction of a subgradient, and take it in."""
        if self.current:
            self._take_in(grad, self.t)
        found = np.linalg.solve(self.moments + self.ridge * np.eye(len(grad)), grad)
        if not self.current:
            self._take_in(grad, self.t + 1)
        self.t += 1
        return np.asarray(found, dtype=np.float64)

    def _take_in(self, grad: F64, t: int) -> None:
        """Set ``H <- t/(t+1) H + 1/(t+1) g g'``."""
        self.moments *= t / (t + 1.0)
        self.moments += np.outer(grad, grad / (t + 1.0))
