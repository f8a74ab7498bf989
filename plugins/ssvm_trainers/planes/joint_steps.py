"""Steps on the dual weights of all examples at once: what ``bcfw`` does besides visits where there are few weights.

Few weights tie all examples to each other: a step on one example alone undoes what others had reached, and visits go
back and forth however often they come.  There the dual over the kept planes of all examples is climbed with aggregated
planes instead (Joachims, Finley and Yu 2009, section 5.2): an aggregated plane takes the best kept plane of every
example at some weights, the first one is that of the dual weights so far, and the best combination of them
(:mod:`ssvm_trainers.cutting.aggregated_qp`) is a combination of the kept planes, so it is dual weights again.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from ssvm_dsl.ir import F64, I64
from ssvm_dsl.plugin_api import Objective
from ssvm_trainers.cutting.aggregated_qp import INNER, AggregatedModel, Stabilizer

#: Most weights, and most numbers in all (256 MiB), of planes that are made vectors.
MOST_WEIGHTS, MOST_NUMBERS = 256, 1 << 25

#: Most aggregated planes of one climb.
MOST_CUTS = 100


class KeptPlanes(Protocol):
    """Planes of every example; K is the capacity.

    Parameters
    ----------
    n_planes : ndarray of int, shape (n,)
    alpha, loss : ndarray of float64, shape (n, K)
    """

    @property
    def n_planes(self) -> NDArray[Any]:
        """How many each example keeps."""

    @property
    def alpha(self) -> F64:
        """Dual weights."""

    @property
    def loss(self) -> F64:
        """Losses."""


def places(planes: KeptPlanes) -> NDArray[np.bool_]:
    """Return where planes are kept; ``shape (n, K)``."""
    return np.arange(planes.alpha.shape[1]) < planes.n_planes[:, None]


class KeptRows(NamedTuple):
    """The kept planes of all examples as vectors, example by example.

    Parameters
    ----------
    owner : ndarray of int64, shape (m,)
        Never falling.
    loss : ndarray of float64, shape (m,)
    psi : ndarray of float64, shape (m, dim)
        The plane at w is ``loss - psi @ w``.
    alpha : ndarray of float64, shape (m,)
        Dual weight of each plane; what is missing to 1 for an example is that of its truth.
    """

    owner: I64
    loss: F64
    psi: F64
    alpha: F64

    @classmethod
    def of(cls, planes: KeptPlanes, psi: F64) -> KeptRows:
        """Return the planes kept, with their vectors."""
        there = places(planes)
        return cls(np.nonzero(there)[0], planes.loss[there], psi, planes.alpha[there])


def climb(
    objective: Objective, share: F64, rows: KeptRows, enough: float, pause: Callable[[], None] = lambda: None
) -> tuple[F64, F64]:
    """Return (dual weights whose dual value is close to the best over the kept planes, weights of low objective).

    Parameters
    ----------
    objective : Objective
    share : ndarray of float64, shape (n,)
        Share of each example in the mean risk.
    rows : KeptRows
    enough : float
        How far the dual value may stay below the best.
    pause : callable
        Checks the clock; called once for each cut.
    """
    model = AggregatedModel(objective, keep=MOST_CUTS + 1)  # no plane is dropped
    stabilizer = Stabilizer(stabilise=True)
    first = np.flatnonzero(np.diff(rows.owner, prepend=-1))
    of_owner = share[rows.owner[first]]
    mixed = share[rows.owner] * rows.alpha
    model.add(mixed @ rows.psi, float(mixed @ rows.loss))
    model.solve()
    cuts, w = [], model.w
    for _ in range(MOST_CUTS):
        pause()
        values = rows.loss - rows.psi @ w
        top = np.maximum.reduceat(values, first)
        best = np.flatnonzero(values == np.repeat(top, np.diff(first, append=len(values))))
        best = best[np.flatnonzero(np.diff(rows.owner[best], prepend=-1))]
        above = top > 0.0
        cuts.append(best[above])
        primal = objective.regularizer(w) + float(of_owner[above] @ top[above])
        coef = of_owner[above]
        model.add(coef @ rows.psi[cuts[-1]], float(coef @ rows.loss[cuts[-1]]))
        model.solve(INNER * max(min(stabilizer.lowest, primal) - model.dual, 0.0))
        w = stabilizer.next(w, primal, model.w)
        if stabilizer.lowest - model.dual <= enough:
            break
    shares = model.shares
    alpha = shares[1] * rows.alpha
    for cut, part in zip(cuts, shares[2:], strict=True):
        alpha[cut] += part
    total = np.add.reduceat(alpha, first)
    alpha /= np.repeat(np.maximum(total, 1.0), np.diff(first, append=len(alpha)))  # above 1 by rounding only
    assert stabilizer.best is not None
    return alpha, stabilizer.best
