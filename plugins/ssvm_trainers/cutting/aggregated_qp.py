"""The model of cutting-plane methods with aggregated planes: ``one-slack`` and ``bundle`` share it.

Each plane ``b_k - v_k . w`` bounds the mean risk of the whole data set from below, so that

    P(w) >= lam/2 sum_j scale_j w_j^2 + max_k (b_k - v_k . w)      subject to  w >= lower

whose minimum is the maximum over the simplex of the dual value ``D(sum_k a_k v_k, sum_k a_k b_k)``: the one-slack
dual of Joachims, Finley and Yu (2009) and the inner problem of BMRM (Teo et al. 2010).  The zero plane is always
there (no risk is negative).

Without lower bounds on weights D is one quadratic, with the Gram matrix of the planes.  With them it is
quadratic in pieces, one for each set of weights off their bound; each piece met is maximised exactly and the
line to its maximum is searched (a semismooth Newton method), or the quadratic without bounds, which lies below D,
is taken when that line turns out short.  An L1 penalty is the same: there the pieces are the sets of weights that are
not 0.  The result is a point of the simplex and its exact dual value:
a valid bound even if the search ended early.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

import numpy as np

from ssvm_dsl.ir import F64, I64, Bools
from ssvm_dsl.plugin_api import Objective
from ssvm_trainers.shared.lower_bound import best_share
from ssvm_trainers.shared.resumable import MOST, NUMBERS, OPEN, ROUNDING, SHARES, Stateful, StateRule, require

# -- Concave quadratic programs over the simplex, solved to the last digits by an active set -------------------------
#
# max_a  c . a - 1/2 a' H a      subject to  a >= 0,  sum a = 1
#
# The method is Wolfe's (1976): maximise over the face of the positive entries, walking to the boundary of the face
# where its maximum lies outside, then add the entry with the steepest slope.  Every walk starts from the current point,
# so that a good start (the last solution) costs a few small linear systems.
#
# Measured on the 300 programs of a fit of ``bundle`` to OCR letters (98 planes in the median), one thread: 1.3 ms each;
# quadprog 0.1.14 takes 2.4 ms and Clarabel 0.11.1 11 ms.  DAQP 0.11 takes 0.9 ms, but wants a positive definite
# Hessian; it would save 0.1 of 7 s and cost a dependency.

#: Added to the diagonal, relative to its largest entry: directions without curvature get finite steps.
RIDGE = 1e-14

#: An entry is added when its slope is above the mean by more than this, relative to the size of the slopes.
SLOPE = 1e-14


def maximise_on_simplex(hessian: F64, linear: F64, start: F64, enough: float = 0.0) -> F64:
    """Return the maximiser, or a point whose value is at most ``enough`` below the maximum.

    Parameters
    ----------
    hessian : ndarray of float64, shape (k, k)
        Positive semidefinite.
    linear : ndarray of float64, shape (k,)
    start : ndarray of float64, shape (k,)
        A point of the simplex.
    enough : float

    Returns
    -------
    ndarray of float64, shape (k,)
        A point of the simplex, not worse than ``start``.

    Notes
    -----
    O(s^3) for each of the (few) entries that come or go, with s positive entries.
    """
    point = start.copy()
    inside = point > 0.0
    entered = -1
    for _ in range(20 * len(linear) + 20):
        face = np.flatnonzero(inside)
        slope = linear - hessian[:, face] @ point[face]
        walk = _to_maximum(hessian[np.ix_(face, face)], slope[face])
        step, blocked = 1.0, -1  # the share of the walk that stays in the simplex, the entry that reaches 0 first
        falling = np.flatnonzero(point[face] + walk < 0.0)
        if len(falling):
            ratio = point[face[falling]] / -walk[falling]
            blocked = int(falling[np.argmin(ratio)])
            step = float(ratio.min())
        if blocked >= 0 and step == 0.0 and face[blocked] == entered:
            return point  # rounding errors: the entry that promised most gives nothing
        point[face] = np.maximum(point[face] + step * walk, 0.0)
        if blocked >= 0:
            point[face[blocked]] = 0.0
            inside[face[blocked]] = False
        point /= point.sum()
        if blocked >= 0:
            continue
        slope = linear - hessian[:, face] @ point[face]
        entered = int(np.argmax(slope))
        size = np.abs(linear).max() + np.abs(hessian[:, face]).max(initial=0.0)
        if inside[entered] or slope[entered] - float(point @ slope) <= max(enough, SLOPE * size):
            return point
        inside[entered] = True
    return point


def _to_maximum(hessian: F64, slope: F64) -> F64:
    """Return the walk, of sum zero, from the current point to the maximum over its face."""
    k = len(slope)
    diagonal = float(hessian.diagonal().max(initial=0.0))
    border = diagonal if diagonal > 0.0 else 1.0
    system = np.full((k + 1, k + 1), border)
    system[:k, :k] = hessian
    system[range(k), range(k)] += RIDGE * border
    system[k, k] = 0.0
    right = np.append(slope - slope.mean(), 0.0)
    try:
        walk = np.linalg.solve(system, right)[:k]
    except np.linalg.LinAlgError:
        walk = np.linalg.lstsq(system, right, rcond=None)[0][:k]
    return np.asarray(walk - walk.mean())


#: Accuracy of the model's solution, as a share of the certified gap: more would be lost at the next plane.
INNER = 0.01

#: The model counts as solved when its duality gap is this small relative to its value.
ACCURACY = 1e-12

#: Newton steps of one solve at most.
MAX_STEPS = 50

#: A step shorter than this share of its line means that the piece was too small to be of use.
SHORT = 0.1


class AggregatedModel(Stateful):
    """Aggregated planes and the best combination of them.

    Memory is O(planes x dim): planes are dense.

    Parameters
    ----------
    objective : Objective
    keep : int
        Number of solves without dual weight after which a plane is dropped.
    """

    _planes: Annotated[F64, StateRule(shape=("planes", "dim"))]
    _offsets: Annotated[F64, StateRule(shape=("planes",))]
    _share: Annotated[F64, StateRule(-ROUNDING, 1 + ROUNDING, shape=("planes",))]  #: dual weight of each plane
    _idle: Annotated[I64, StateRule(0, MOST, shape=("planes",), dtype="int64")]  #: solves it has been without
    _gram: Annotated[F64, StateRule(shape=("planes", "planes"))]  #: products of the planes
    w: Annotated[F64, NUMBERS]  #: the minimiser
    dual: Annotated[float, NUMBERS]  #: its value

    def __init__(self, objective: Objective, keep: int) -> None:
        self.objective, self.keep = objective, keep
        dim = len(objective.scale)
        self._planes, self._offsets = np.zeros((1, dim)), np.zeros(1)
        self._share, self._idle = np.ones(1), np.zeros(1, dtype=np.int64)
        self._bounded: I64 = np.flatnonzero((objective.lower > -np.inf) | (objective.l1 > 0.0))
        self._metric = 1.0 / (objective.lam * objective.scale)
        self._free_metric = self._metric.copy()
        self._free_metric[self._bounded] = 0.0
        self._gram = np.zeros((1, 1))
        self.w: F64 = objective.weights(np.zeros(dim))
        self.dual = objective.dual(np.zeros(dim), 0.0)

    def check(self, state: Mapping[str, Any], sizes: Mapping[str, int]) -> None:
        """Refuse planes without the zero plane, shares that do not add up to 1, and a wrong Gram matrix."""
        planes, offsets, share, gram = (state[name] for name in ("_planes", "_offsets", "_share", "_gram"))
        zero = len(planes) > 0 and not planes[0].any() and offsets[0] == 0.0
        require(zero, "'_planes'", "the zero plane first")
        require(abs(float(share.sum()) - 1.0) <= ROUNDING, "'_share'", "numbers that add up to 1")
        expected = (planes * self._free_metric) @ planes.T
        scale = np.sqrt(np.diag(expected))
        close = bool((np.abs(gram - expected) <= ROUNDING * scale[:, None] * scale).all())
        require(close, "'_gram'", "the products of the planes")

    def __len__(self) -> int:
        return len(self._offsets)

    @property
    def shares(self) -> F64:
        """Dual weight of each plane: first the zero plane, then those added (and not dropped), in order."""
        return self._share

    def add(self, v: F64, b: float) -> None:
        """Add the plane ``b - v . w``."""
        row = self._planes @ (self._free_metric * v)
        k = len(self._offsets)
        gram = np.empty((k + 1, k + 1))
        gram[:k, :k], gram[k, :k], gram[:k, k] = self._gram, row, row
        gram[k, k] = float(np.dot(v, self._free_metric * v))
        self._gram = gram
        self._planes = np.concatenate([self._planes, v[None]])
        self._offsets = np.append(self._offsets, b)
        self._share, self._idle = np.append(self._share, 0.0), np.append(self._idle, 0)

    def bound(self, w: F64) -> float:
        """Return the model's value at some weights."""
        return self.objective.regularizer(w) + float((self._offsets - self._planes @ w).max())

    @property
    def plane(self) -> tuple[F64, float]:
        """The combination (v, b) of the planes, whose value is ``dual``."""
        return self._share @ self._planes, float(self._share @ self._offsets)

    def solve(self, enough: float = 0.0) -> None:
        """Find the best combination and set ``w`` and ``dual``; drop planes without weight for long.

        Parameters
        ----------
        enough : float
            How far the dual value may stay below the best.
        """
        short = False
        for _ in range(MAX_STEPS):
            slope, gap = self._evaluate()
            if gap <= max(enough, ACCURACY * abs(self.dual)):
                break
            before = self.dual
            short = self._step(slope, short, enough)
            if len(self._bounded) == 0 or (self.dual <= before and not short):
                break
        self._evaluate()
        self._idle = np.where(self._share > 0.0, 0, self._idle + 1)
        stay = self._idle <= self.keep
        stay[0] = True
        if not stay.all():
            self._forget(stay)

    def _evaluate(self) -> tuple[F64, float]:
        """Set w and the dual value of the current shares; return (slope of every plane, gap of the model)."""
        v, b = self.plane
        self.w = self.objective.weights(v)
        self.dual = self.objective.dual(v, b)
        slope = self._offsets - self._planes @ self.w
        return slope, float(slope.max() - self._share @ slope)

    def _step(self, slope: F64, whole: bool, enough: float) -> bool:
        """Step towards the maximum of the current piece; return whether the step was short.

        Parameters
        ----------
        slope : ndarray of float64, shape (k,)
        whole : bool
            Take the quadratic without bounds instead of the piece.
        enough : float
        """
        hessian = self._gram
        if len(self._bounded):
            off = self._bounded if whole else self._bounded[self._moves(self._bounded)]
            columns = self._planes[:, off]
            hessian = hessian + (columns * self._metric[off]) @ columns.T
        target = maximise_on_simplex(hessian, slope + hessian @ self._share, self._share, 0.5 * enough)
        share = 1.0
        if len(self._bounded):
            walk = target - self._share
            v = self._share @ self._planes
            share = best_share(self.objective, v, target @ self._planes, float(walk @ self._offsets))
        previous, before = self._share, self.dual
        self._share = (1.0 - share) * self._share + share * target
        self._evaluate()
        if self.dual < before:  # by rounding errors only
            self._share = previous
            self._evaluate()
        return share < SHORT and not whole

    def _moves(self, which: I64) -> Bools:
        """Return which of some weights are free: not fixed by their bound or by the L1 penalty."""
        w = self.w[which]
        moves: Bools = w > self.objective.lower[which]
        return moves & (w != 0.0) if self.objective.l1 else moves

    def _forget(self, stay: Bools) -> None:
        """Forget the planes that do not stay."""
        self._planes, self._offsets = self._planes[stay], self._offsets[stay]
        self._share, self._idle = self._share[stay], self._idle[stay]
        self._gram = self._gram[np.ix_(stay, stay)]


class Stabilizer(Stateful):
    """Chooses the next point on the line from the best point so far to the minimiser of the model.

    A point between the two that is not better than the best one cuts the minimiser off, by convexity; one that is
    better without cutting it off has gained a fixed share of the gap.  So steps of any share converge, and short ones
    avoid the wild points of plain cutting planes (Franc and Sonnenburg 2008 take 1/10).  Here the share grows while
    points get better and shrinks when one does not, so that the last steps are full ones.

    Parameters
    ----------
    stabilise : bool
        Otherwise all steps are full ones.
    """

    share: Annotated[float, SHARES]  #: of the way from the best point to the minimiser
    lowest: Annotated[float, OPEN]  #: objective so far
    best: Annotated[F64 | None, StateRule(shape=("dim",), optional=True)]  #: where it was
    LEAST, GROWS, SHRINKS = 0.1, 1.5, 0.5

    def __init__(self, stabilise: bool) -> None:
        self.stabilise = stabilise
        self.share = self.LEAST if stabilise else 1.0
        self.lowest = np.inf
        self.best: F64 | None = None

    def next(self, w: F64, primal: float, target: F64) -> F64:
        """Return the next point to evaluate after w, of objective ``primal``; the model's minimiser is ``target``."""
        better = primal < self.lowest
        if better or self.best is None:
            self.best, self.lowest = w, primal
        if self.stabilise:
            self.share = min(1.0, self.share * self.GROWS) if better else max(self.LEAST, self.share * self.SHRINKS)
        return self.best + self.share * (target - self.best)
