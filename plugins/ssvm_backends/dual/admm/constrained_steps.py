"""AD3 under linear rows: factors for tables, rows and variables, which agree on the columns they share.

Beside the factors of :mod:`ssvm_backends.dual.admm.steps` there is one for each row, whose copies are the columns it
mentions, and one for each variable, which keeps its marginals a distribution (and one for each auxiliary column, its
box).  With ``node'[v] = node[v] + sum of all messages to v`` one iteration is::

    q_f     as in :mod:`ssvm_backends.dual.admm.steps`
    z_r     = nearest point of row r's polytope (or of all trees, or mixtures) to  p - message_r / penalty
    d_v     = nearest distribution to               p_v + node'[v] / penalty
    p       = average of the copies q, z, d of each column
    message = message + penalty (copy - p)                for the copies q and z

Every few iterations a step combines the last ones (:mod:`ssvm_backends.dual.admm.acceleration`).

The messages of d_v are ``-node'[v]`` at any time, so they are not stored, and the dual bound is that of tables with
``node`` plus the messages of rows, plus what rows add (at the end of this file).  It is the bound of the linear program
over the local polytope and the rows.  Where it falls below the least score that a labelling could have, there is none.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ssvm_backends.dual.admm.acceleration import History, forget, next_point
from ssvm_backends.dual.admm.factor import MAX_ACTIVE
from ssvm_backends.dual.admm.mixtures import BOUND, NEAREST, MixtureRows
from ssvm_backends.dual.admm.program_trees import TreeFactors, TreeSets
from ssvm_backends.dual.admm.rows import RowFactors
from ssvm_backends.dual.admm.steps import (
    SMALLEST,
    START,
    AdmmSpace,
    ExampleState,
    PrimalSide,
    PrimalSite,
    end_check,
    root_means,
    solve_factors,
    value_of,
)
from ssvm_backends.dual.admm.trees import solve_tree, tree_bound
from ssvm_backends.dual.kernels import PHASE, Site, SolverProgress, dual_bound, n_messages, shift_of
from ssvm_backends.graphs.graph import Instance
from ssvm_dsl.ir import F64, I64
from ssvm_dsl.kernels import borrow, njit


class RowState(NamedTuple):
    """The state of rows while they are solved; the first axis is that of :class:`RowFactors`.

    Parameters
    ----------
    copy : ndarray of float64, shape (E,)
        z of each entry.
    message : ndarray of float64, shape (E,)
        Current ones.
    best : ndarray of float64, shape (E,)
        Those of the lowest bound.
    level : ndarray of float64, shape (R,)
        Of the last projection of each row.
    auxiliary : ndarray of float64, shape (A,)
        p of the auxiliary columns.
    lowest : ndarray of float64, shape (n,)
        Below every score of a labelling.
    spread : ndarray of float64, shape (n,)
        How far two scores of labellings can differ.
    """

    copy: F64
    message: F64
    best: F64
    level: F64
    auxiliary: F64
    lowest: F64
    spread: F64

    @classmethod
    def start(cls, rows: RowFactors, message: F64) -> RowState:
        """Return the state of ADMM before its first iteration, with given messages as multipliers."""
        n_entries, n_rows, n_auxiliary = len(rows.column), len(rows.lower), int(rows.auxiliary_ptr[-1])
        return cls(
            np.zeros(n_entries), message.copy(), message.copy(), np.zeros(n_rows), np.zeros(n_auxiliary),
            np.zeros(len(rows.ptr) - 1), np.zeros(len(rows.ptr) - 1),
        )  # fmt: skip


class RowTask(NamedTuple):
    """Relaxations with rows: the task of a call.

    Parameters
    ----------
    instance : Instance
    ids : ndarray of int64, shape (n,)
        Consecutive examples.
    messages : ndarray of float64
        Packed over ``ids``: where to start, and afterwards the messages that give ``progress.bound``.
    progress : SolverProgress
        Continued in place.
    rows : RowFactors
        Of all examples of the graph.
    trees : TreeFactors
        Which of these rows are trees.
    sets : TreeSets
        Of all trees; continued in place.
    known : RowState
        Of all rows; continued in place.
    moved : ndarray of float64, shape (S,)
        Work space.
    point : ndarray of float64, shape (E,)
        Work space.
    history : History
        Of these examples; continued in place.
    reached : ndarray of float64, shape (N,)
        Work space.
    mixtures : MixtureRows
        Which of these rows are mixtures of truth values.
    """

    instance: Instance
    ids: I64
    messages: F64
    progress: SolverProgress
    rows: RowFactors
    trees: TreeFactors
    sets: TreeSets
    known: RowState
    moved: F64
    point: F64
    history: History
    reached: F64
    mixtures: MixtureRows


@njit(cache=True, nogil=True)
def constrained_ad3(task: RowTask, split: PrimalSide, n_iterations: int, tol: float, until_met: bool) -> None:
    """Solve the relaxation with rows, example by example; labellings are found elsewhere.

    Parameters
    ----------
    task : RowTask
        Continued in place.
    split : PrimalSide
        Continued in place.
    n_iterations : int
        More iterations for each example.
    tol, until_met
        As for :func:`~ssvm_backends.dual.admm.steps.ad3`.
    """
    t, s = borrow(task), borrow(split)
    g, best, k, x = t.instance.graph, t.progress, t.rows, t.known
    chol, work = np.empty(MAX_ACTIVE * MAX_ACTIVE), np.empty(3 * MAX_ACTIVE)
    space = AdmmSpace(s, np.empty(len(s.q)), chol, work, np.empty(4))
    residuals = space.residuals
    first = np.int64(0)  # a literal would compile all that takes it twice
    state, factor = first, first
    for i in range(len(t.ids)):
        e = t.ids[i]
        site = Site(g, t.instance.node, t.instance.pool, best.current, shift_of(g, e, first), e)
        at = PrimalSite(site, i, int(state), int(factor), s)
        if not best.done[i] and n_iterations > 0:
            if best.iterations[i] == 0:
                for m in range(first, first + n_messages(g, e)):
                    best.current[m] = t.messages[m]
                first_point(at, k, x)
                publish_rows(t, i, first)
            for j in range(n_iterations):
                penalty = s.penalty[i]
                if t.history.known[i] == 0:
                    write_point(t, at, t.history.point)
                iterate_rows(t, at, space)
                best.iterations[i] += 1
                if j + 1 == n_iterations or best.iterations[i] % PHASE == 0:
                    size = max(publish_rows(t, i, first), x.spread[e])
                    # averages are not quite distributions, and are made ones in the end
                    primal, dual = root_means(residuals)
                    found = ExampleState(value_of(at), size, primal, dual, 4.0 * residuals[3])
                    end_check(best, s, i, found, tol, until_met)
                    best.done[i] |= best.bound[i] == -np.inf
                if best.done[i]:
                    break
                if s.penalty[i] != penalty:
                    forget(t.history, i)
                else:
                    write_point(t, at, t.reached)
                    if next_point(t.history, i, t.reached):
                        read_point(t, at)
        first += n_messages(g, e)
        state += g.state_ptr[g.var_ptr[e + 1]] - g.state_ptr[g.var_ptr[e]]
        factor += g.factor_ptr[e + 1] - g.factor_ptr[e]


@njit(cache=True, nogil=True)
def iterate_rows(task: RowTask, at: PrimalSite, space: AdmmSpace) -> None:
    """Run one iteration of the module on an example; its residuals are written."""
    g, rows, x, e = task.instance.graph, task.rows, task.known, at.site.example
    solve_factors(at, space, g.factor_ptr[e], g.factor_ptr[e + 1])
    solve_rows(task, at)
    space.residuals[:] = 0.0
    agree_on_states(at, rows, x, space.residuals, task.moved)
    agree_on_auxiliary(rows, len(task.instance.node), e, at.i, at.split, x, space.residuals)


@njit(cache=True, nogil=True)
def write_point(task: RowTask, at: PrimalSite, out: F64) -> None:
    """Write the marginals of an example, and its messages over the penalty, to its places in ``task.history``."""
    t, s, i, e = task, at.split, at.i, at.site.example
    g, x, k, inverse = t.instance.graph, t.known, t.rows, 1.0 / at.split.penalty[at.i]
    to, first = t.history.ptr[i], g.message_ptr[g.slot_ptr[g.factor_ptr[e]]] + at.site.shift
    for c in range(at.state, at.state + g.state_ptr[g.var_ptr[e + 1]] - g.state_ptr[g.var_ptr[e]]):
        out[to] = s.p[c]
        to += 1
    for c in range(k.auxiliary_ptr[e], k.auxiliary_ptr[e + 1]):
        out[to] = x.auxiliary[c]
        to += 1
    for m in range(first, first + n_messages(g, e)):
        out[to] = inverse * at.site.messages[m]
        to += 1
    for j in range(k.entry_ptr[k.ptr[e]], k.entry_ptr[k.ptr[e + 1]]):
        out[to] = inverse * x.message[j]
        to += 1


@njit(cache=True, nogil=True)
def read_point(task: RowTask, at: PrimalSite) -> None:
    """Take the marginals and messages of an example from its places in ``task.history.point``."""
    t, s, i, e = task, at.split, at.i, at.site.example
    g, x, k, penalty, point = t.instance.graph, t.known, t.rows, at.split.penalty[at.i], task.history.point
    of, first = t.history.ptr[i], g.message_ptr[g.slot_ptr[g.factor_ptr[e]]] + at.site.shift
    for c in range(at.state, at.state + g.state_ptr[g.var_ptr[e + 1]] - g.state_ptr[g.var_ptr[e]]):
        s.p[c] = point[of]
        of += 1
    for c in range(k.auxiliary_ptr[e], k.auxiliary_ptr[e + 1]):
        x.auxiliary[c] = point[of]
        of += 1
    for m in range(first, first + n_messages(g, e)):
        at.site.messages[m] = penalty * point[of]
        of += 1
    for j in range(k.entry_ptr[k.ptr[e]], k.entry_ptr[k.ptr[e + 1]]):
        x.message[j] = penalty * point[of]
        of += 1


@njit(cache=True, nogil=True)
def first_point(at: PrimalSite, rows: RowFactors, x: RowState) -> None:
    """Start from uniform p, the middle of boxes, and the mean range of all terms as penalty.

    Parameters
    ----------
    at : PrimalSite
        ``p`` and ``penalty`` of the example are written.
    rows : RowFactors
        Read only.
    x : RowState
        ``auxiliary``, ``lowest`` and ``spread`` of the example are written.
    """
    g, node, pool, _, _, example = at.site
    i, state, s = at.i, at.state, at.split
    origin = g.state_ptr[g.var_ptr[example]] - state
    total, least, size, n = 0.0, 0.0, 0.0, 0
    for v in range(g.var_ptr[example], g.var_ptr[example + 1]):
        low, high = np.inf, -np.inf
        for c in range(g.state_ptr[v], g.state_ptr[v + 1]):
            low, high = min(low, node[c]), max(high, node[c])
            s.p[c - origin] = 1.0 / g.card[v]
        total, least, size = total + high - low, least + low, size + max(abs(low), abs(high))
        n += 1
    for f in range(g.factor_ptr[example], g.factor_ptr[example + 1]):
        low, high = np.inf, -np.inf
        for c in range(g.table_ptr[f], g.table_ptr[f] + g.table_size[f]):
            if pool[c] > -np.inf:
                low, high = min(low, pool[c]), max(high, pool[c])
        total, least, size = total + high - low, least + low, size + max(abs(low), abs(high))
        n += 1
    mean = START * total / max(n, 1)
    s.penalty[i] = mean if mean > SMALLEST else 1.0
    n_states = len(node)
    for a in range(rows.auxiliary_ptr[example], rows.auxiliary_ptr[example + 1]):
        if rows.touch_ptr[n_states + a] < rows.touch_ptr[n_states + a + 1]:
            j = rows.touch[rows.touch_ptr[n_states + a]]
            x.auxiliary[a] = 0.5 * (rows.least[j] + rows.most[j])
    x.lowest[example], x.spread[example] = least - (n + 4) * 2.3e-16 * size, total


@njit(cache=True, nogil=True)
def solve_rows(task: RowTask, at: PrimalSite) -> None:
    """Project ``p - message / penalty`` onto the rows of an example; ``copy`` and ``level`` of these are written."""
    rows, x, point, trees = task.rows, task.known, task.point, task.trees
    g, example, i, state, s = at.site.graph, at.site.example, at.i, at.state, at.split
    inverse, origin, n_states = 1.0 / s.penalty[i], g.state_ptr[g.var_ptr[example]] - state, g.state_ptr[-1]
    for r in range(rows.ptr[example], rows.ptr[example + 1]):
        for j in range(rows.entry_ptr[r], rows.entry_ptr[r + 1]):
            c = rows.column[j]
            p = s.p[c - origin] if c < n_states else x.auxiliary[c - n_states]
            point[j] = p - inverse * x.message[j]
        if trees.of_row[r] >= 0:
            solve_tree(r, rows.coefficient, trees, task.sets, point, x.copy)
        elif task.mixtures.of_row[r]:
            task.mixtures.call(NEAREST, r)
        else:
            x.level[r] = project_row(rows, r, point, x.level[r], x.copy)


@njit(cache=True, nogil=True)
def agree_on_states(at: PrimalSite, rows: RowFactors, x: RowState, residuals: F64, moved: F64) -> None:
    """Project each variable onto distributions, average the copies of its states, and update their messages.

    Parameters
    ----------
    at : PrimalSite
        Messages of tables, and ``p``, are changed in place.
    rows : RowFactors
    x : RowState
        ``message`` is changed in place.
    residuals : ndarray of float64, shape (4,)
        As for :func:`~ssvm_backends.dual.admm.steps.average_copies`.
    moved : ndarray of float64, shape (S,)
        Work space.
    """
    g, node, _, messages, shift, example = at.site
    i, state, s = at.i, at.state, at.split
    origin, penalty = g.state_ptr[g.var_ptr[example]] - state, s.penalty[i]
    for v in range(g.var_ptr[example], g.var_ptr[example + 1]):
        start, stop, first = g.touch_ptr[v], g.touch_ptr[v + 1], g.state_ptr[v]
        for c in range(first, g.state_ptr[v + 1]):
            total = node[c]
            for t in range(start, stop):
                total += messages[g.message_ptr[g.touch_slot[t]] + shift + c - first]
            for t in range(rows.touch_ptr[c], rows.touch_ptr[c + 1]):
                total += x.message[rows.touch[t]]
            moved[c] = s.p[c - origin] + total / penalty
        project_simplex(moved, first, g.state_ptr[v + 1] - first)
        for c in range(first, g.state_ptr[v + 1]):
            count, mean = 1 + stop - start + rows.touch_ptr[c + 1] - rows.touch_ptr[c], moved[c]
            for t in range(start, stop):
                mean += s.q[g.message_ptr[g.touch_slot[t]] + shift + c - first]
            for t in range(rows.touch_ptr[c], rows.touch_ptr[c + 1]):
                mean += x.copy[rows.touch[t]]
            mean /= count
            note_change(residuals, moved[c] - mean, mean - s.p[c - origin], count)
            s.p[c - origin] = mean
            for t in range(start, stop):
                m = g.message_ptr[g.touch_slot[t]] + shift + c - first
                messages[m] += penalty * (s.q[m] - mean)
                note_copy(residuals, s.q[m] - mean)
            for t in range(rows.touch_ptr[c], rows.touch_ptr[c + 1]):
                j = rows.touch[t]
                x.message[j] += penalty * (x.copy[j] - mean)
                note_copy(residuals, x.copy[j] - mean)


@njit(cache=True, nogil=True)
def agree_on_auxiliary(
    rows: RowFactors, n_states: int, example: int, i: int, s: PrimalSide, x: RowState, residuals: F64
) -> None:
    """Do the same for the auxiliary columns of an example, each of which has a box in place of a distribution.

    Parameters
    ----------
    rows, x, residuals
        As for :func:`agree_on_states`; ``x.auxiliary`` and ``x.message`` are changed in place.
    example, i : int
        The example, and its place in ``s``.
    s : PrimalSide
        Read only.
    n_states : int
        Number of states of all examples, after which the auxiliary columns come.
    """
    for a in range(rows.auxiliary_ptr[example], rows.auxiliary_ptr[example + 1]):
        start, stop = rows.touch_ptr[n_states + a], rows.touch_ptr[n_states + a + 1]
        if start == stop:
            continue
        total, mean = 0.0, 0.0
        for t in range(start, stop):
            total += x.message[rows.touch[t]]
            mean += x.copy[rows.touch[t]]
        j = rows.touch[start]
        own = min(max(x.auxiliary[a] + total / s.penalty[i], rows.least[j]), rows.most[j])
        mean = (mean + own) / (1 + stop - start)
        note_change(residuals, own - mean, mean - x.auxiliary[a], 1 + stop - start)
        x.auxiliary[a] = mean
        for t in range(start, stop):
            j = rows.touch[t]
            x.message[j] += s.penalty[i] * (x.copy[j] - mean)
            note_copy(residuals, x.copy[j] - mean)


@njit(cache=True, nogil=True)
def note_change(residuals: F64, own: float, change: float, count: int) -> None:
    """Add a column with so many copies to the residuals: its own copy's distance, and the change of its average."""
    residuals[1] += count * change * change
    residuals[2] += count
    note_copy(residuals, own)


@njit(cache=True, nogil=True)
def note_copy(residuals: F64, distance: float) -> None:
    """Add the distance of a copy from its average to the residuals."""
    residuals[0] += distance * distance
    residuals[3] = max(residuals[3], abs(distance))


@njit(cache=True, nogil=True)
def publish_rows(task: RowTask, i: int, at: int) -> float:
    """Keep the current messages when their bound is the lowest so far; return the sum of the sizes of its terms.

    Parameters
    ----------
    task : RowTask
        The bound, the messages and ``known.best`` of the example are replaced when its bound is better; ``moved`` is
        unary scores plus messages of rows.
    i : int
        Place of the example among ``task.ids``.
    at : int
        Where its messages start.
    """
    g, node, pool, example = task.instance.graph, task.instance.node, task.instance.pool, task.ids[i]
    rows, x, best, messages, moved = task.rows, task.known, task.progress, task.messages, task.moved
    added, longest = 0.0, 1
    for c in range(g.state_ptr[g.var_ptr[example]], g.state_ptr[g.var_ptr[example + 1]]):
        moved[c] = node[c]
        for t in range(rows.touch_ptr[c], rows.touch_ptr[c + 1]):
            moved[c] += x.message[rows.touch[t]]
            added += abs(x.message[rows.touch[t]])
        added += abs(node[c])
        longest = max(longest, rows.touch_ptr[c + 1] - rows.touch_ptr[c])
    bound, _, size = dual_bound(g, moved, pool, best.current, shift_of(g, example, at), example)
    for r in range(rows.ptr[example], rows.ptr[example + 1]):
        if task.trees.of_row[r] >= 0:
            value, terms = tree_bound(r, rows.coefficient, task.trees, x.message)
        elif task.mixtures.of_row[r]:
            value, terms = task.mixtures.call(BOUND, r), 0.0
            for j in range(rows.entry_ptr[r], rows.entry_ptr[r + 1]):
                terms += abs(x.message[j])
        else:
            value, terms = row_bound(rows, r, x.message)
        bound += value
        added += terms
        size += abs(value)
        longest = max(longest, rows.entry_ptr[r + 1] - rows.entry_ptr[r])
    n_states = len(node)
    for a in range(rows.auxiliary_ptr[example], rows.auxiliary_ptr[example + 1]):
        start, stop = rows.touch_ptr[n_states + a], rows.touch_ptr[n_states + a + 1]
        if start < stop:
            total, j = 0.0, rows.touch[start]
            for t in range(start, stop):
                total += x.message[rows.touch[t]]
                added += abs(x.message[rows.touch[t]]) * max(abs(rows.least[j]), abs(rows.most[j]))
            bound += max(total * rows.least[j], total * rows.most[j])
            longest = max(longest, stop - start)
    n_terms = rows.ptr[example + 1] - rows.ptr[example] + longest
    n_terms += rows.auxiliary_ptr[example + 1] - rows.auxiliary_ptr[example] + 4
    bound += n_terms * 2.3e-16 * (added + size)
    if bound < x.lowest[example]:  # no labelling scores so little
        bound = -np.inf
    if bound < best.bound[i]:
        best.bound[i] = bound
        for m in range(at, at + n_messages(g, example)):
            messages[m] = best.current[m]
        for j in range(rows.entry_ptr[rows.ptr[example]], rows.entry_ptr[rows.ptr[example + 1]]):
            x.best[j] = x.message[j]
    return size


# -- Projections for the constraint factors of AD3, and their terms of the dual bound --------------------------------
#
# A factor of AD3 for a hard constraint is one linear row over copies z of the columns it mentions, each within its
# box::
#
#     K = { z :  lower <= a . z <= upper,  least_j <= z_j <= most_j }
#
# Its subproblem is the nearest point of K.  By duality it is ``z_j = clip(c_j - level a_j, least_j, most_j)`` for the
# level at which the sum meets its bound (zero where none is broken), a root of a monotone piecewise linear function.
# XOR (``sum = 1``: the simplex), OR (``sum >= 1``), OR with output (opposites of literals turn signs around), budgets
# and knapsacks are all of this form (Martins, Figueiredo, Aguiar, Smith and Xing, AD3, JMLR 2015, section 5 and
# appendix C).
#
# To the dual bound it adds ``max -message . z`` over K: a linear program of one row, whose dual
#
#     min over nu of  (nu > 0: nu upper, else nu lower) + sum_j max over the box of (-message_j - nu a_j) z_j
#
# is an upper bound at any nu, and least at one of the kinks ``-message_j / a_j`` or at zero.

#: Sums meet their bounds up to this, relative to their terms.
EXACT = 1e-14

#: Steps of a search for a level; Newton steps on a piecewise linear function take few.
MOST_STEPS = 200


@njit(cache=True, nogil=True)
def sum_at(rows: RowFactors, r: int, c: F64, level: float) -> tuple[float, float, float]:
    """Return (sum, size of its terms, minus its slope) of row r at ``z = clip(c - level a)``.

    Parameters
    ----------
    rows : RowFactors
        Read only.
    r : int
        The row.
    c : ndarray of float64, shape (entries,)
        The point to be projected, entry by entry.
    level : float
    """
    total, size, slope = 0.0, 0.0, 0.0
    for j in range(rows.entry_ptr[r], rows.entry_ptr[r + 1]):
        a = rows.coefficient[j]
        z = c[j] - level * a
        if z <= rows.least[j]:
            z = rows.least[j]
        elif z >= rows.most[j]:
            z = rows.most[j]
        else:
            slope += a * a
        total += a * z
        size += abs(a * z)
    return total, size, slope


@njit(cache=True, nogil=True)
def project_row(rows: RowFactors, r: int, c: F64, level: float, z: F64) -> float:
    """Write the nearest point of row r's polytope to c; return the level, to start from next time.

    Newton steps within a bracket, by halves where the sum is flat: exact once the right piece is met.

    Parameters
    ----------
    rows, r, c
        As for :func:`sum_at`.
    level : float
        Where to start.
    z : ndarray of float64, shape (entries,)
        Those of the row are written.
    """
    total, size, _ = sum_at(rows, r, c, 0.0)
    close = EXACT * (size + 1e-300)
    multiplier = 0.0
    if total > rows.upper[r] + close or total < rows.lower[r] - close:
        above = total > rows.upper[r]
        target, sign = (rows.upper[r], 1.0) if above else (rows.lower[r], -1.0)
        low, high = 0.0, 0.0  # of sign * level: beyond high all entries are at that end of their boxes
        for j in range(rows.entry_ptr[r], rows.entry_ptr[r + 1]):
            a = rows.coefficient[j] * sign
            end = rows.least[j] if a > 0.0 else rows.most[j]
            high = max(high, (c[j] - end) / a)
        at = min(max(sign * level, low), high)
        for _ in range(MOST_STEPS):
            total, size, slope = sum_at(rows, r, c, sign * at)
            excess = sign * (total - target)
            if abs(excess) <= EXACT * size:
                break
            if excess > 0.0:
                low = at
            else:
                high = at
            nearer = at + excess / slope if slope > 0.0 else -1.0
            if not (low < nearer <= high) or nearer == at:
                nearer = 0.5 * (low + high)
            if nearer == at or not low <= nearer <= high:
                break
            at = nearer
        multiplier = sign * at
    for j in range(rows.entry_ptr[r], rows.entry_ptr[r + 1]):
        z[j] = min(max(c[j] - multiplier * rows.coefficient[j], rows.least[j]), rows.most[j])
    return multiplier


@njit(cache=True, nogil=True)
def row_bound(rows: RowFactors, r: int, message: F64) -> tuple[float, float]:
    """Return (upper bound on ``-message . z`` over row r's polytope, size of its terms); the least one that nu gives.

    Parameters
    ----------
    rows, r
        As for :func:`sum_at`.
    message : ndarray of float64, shape (entries,)
    """
    first, stop = rows.entry_ptr[r], rows.entry_ptr[r + 1]
    left, right, nu = -np.inf, np.inf, 0.0
    best, of_best = np.inf, 0.0
    while True:
        upper = rows.upper[r] if nu >= 0.0 else rows.lower[r]  # its slope to the right, and to the left
        lower = rows.upper[r] if nu > 0.0 else rows.lower[r]
        value = 0.0
        if nu > 0.0:
            value = nu * rows.upper[r]
        elif nu < 0.0:
            value = nu * rows.lower[r]
        size, inside = abs(value), 0
        for j in range(first, stop):
            a = rows.coefficient[j]
            price = -message[j] - nu * a
            if message[j] == -nu * a:
                price = 0.0
            low, high = (rows.least[j], rows.most[j]) if a > 0.0 else (rows.most[j], rows.least[j])
            z = rows.most[j] if price > 0.0 else rows.least[j]
            value += price * z
            size += (abs(message[j]) + abs(nu * a)) * max(abs(rows.least[j]), abs(rows.most[j]))
            kink = -message[j] / a
            tied = price == 0.0 or kink == nu
            upper -= a * (low if tied else z)
            lower -= a * (high if tied else z)
            inside += left < kink < right and kink != nu
        if value < best:
            best, of_best = value, size
        if (lower <= 0.0 <= upper) or inside == 0:
            return best, of_best
        if upper < 0.0:
            left = nu
        else:
            right = nu
        inside = 0  # of those that are left, the one in the middle of the list
        for j in range(first, stop):
            inside += left < -message[j] / rows.coefficient[j] < right
        if inside == 0:
            return best, of_best
        inside //= 2
        for j in range(first, stop):
            kink = -message[j] / rows.coefficient[j]
            if left < kink < right:
                if inside == 0:
                    nu = kink
                    break
                inside -= 1


@njit(cache=True, nogil=True)
def project_simplex(x: F64, first: int, n: int) -> None:
    """Replace ``x[first : first + n]`` by the nearest distribution (Michelot 1986): drop negative entries, repeat."""
    top = x[first]
    for s in range(first, first + n):
        top = max(top, x[s])
    level, count = -np.inf, n + 1  # of numbers from the largest one on, of which that one is always left
    while True:
        total, above = 0.0, 0
        for s in range(first, first + n):
            if x[s] - top > level:
                total += x[s] - top
                above += 1
        if above >= count:
            break
        level, count = (total - 1.0) / above, above
    for s in range(first, first + n):
        x[s] = max(0.0, x[s] - top - level)
