"""The online Newton direction of Ratliff, Bagnell and Zinkevich (2007), footnote 9.

    H <- t/(t+1) H + 1/(t+1) g g' ,        direction = (H + eps I)^-1 g

H is the mean of the outer products of the subgradients g met so far; it is dense.
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

    Raises
    ------
    TrainingError
        There are too many weights for a dense matrix.
    """

    moments: Annotated[F64, NUMBERS]
    t: Annotated[int, COUNTS]

    def __init__(self, dim: int, ridge: float) -> None:
        if dim > MAX_DIM:
            text = f"metric='newton' keeps and factors a dense matrix of {dim} x {dim} weights in every step;"
            raise TrainingError(f"{text} it is for at most {MAX_DIM} weights, use metric='identity'")
        self.ridge, self.t = ridge, 0
        self.moments = np.zeros((dim, dim))

    def direction(self, grad: F64) -> F64:
        """Take a subgradient in and return its Newton direction."""
        self.moments *= self.t / (self.t + 1.0)
        self.moments += np.outer(grad, grad / (self.t + 1.0))
        self.t += 1
        return np.asarray(np.linalg.solve(self.moments + self.ridge * np.eye(len(grad)), grad), dtype=np.float64)
