"""Records of a plan that is being written, and the layout of its work space.

A message is in the work space from the step that writes it to the step that reads it; released space is a gap
for others.
"""

from __future__ import annotations

from typing import NamedTuple

from ssvm_backends.elimination.plan import EliminationPlan
from ssvm_dsl.ir import F64, I64
from ssvm_dsl.kernels import njit

#: How a part lies in a block: without block axes, without outer axes, mixed.
FLAT, INNER, MIXED = 0, 1, 2

#: Entries of ``PlanWriter.counts``: the step; ends of what is written of the parts, places, axes, outer strides, runs
#: and loads; the gaps, the ends of the work space and of the scratch space; the last mark; the room that is lacking.
STEP, PARTS, POOL, AXES, OUTER, RUNS, LOADS, GAPS, SPACE, SCRATCH, MARK, LACKING = range(12)

#: Entries of ``PlanWriter.sizes``: entries of the largest clique table, and entries looked at.
LARGEST, OPERATIONS = range(2)


class PlanTerms(NamedTuple):
    """The terms of an elimination; n variables, m factors.

    Parameters
    ----------
    order, card : ndarray of int64, shape (n,)
        The variable of each place, and its states.
    first, last : ndarray of int64, shape (2 n + m,)
        Where the places of each term, its step's own left out, are in ``pool``.  Terms are the unary scores of each
        place, the factors, and the message of each step.
    pool : ndarray of int64
        Places: those of the factors, slot by slot, then the separators of the steps.
    stride : ndarray of int64
        For each place of a factor in ``pool`` its stride in the factor's own table.
    """

    order: I64
    card: I64
    first: I64
    last: I64
    pool: I64
    stride: I64


class Buckets(NamedTuple):
    """The terms that wait for each step, as linked lists.

    Parameters
    ----------
    head, tail : ndarray of int64, shape (n,)
        The first and the last term of each step, -1 for none.
    following : ndarray of int64, shape (2 n + m,)
        The next term of the same step, -1 for none.
    """

    head: I64
    tail: I64
    following: I64


class Gaps(NamedTuple):
    """The gaps in the work space, ascending; neighbours do not touch.

    Parameters
    ----------
    at, size : ndarray of int64
    counts : ndarray of int64
        Those of the :class:`PlanWriter`: how many gaps there are, and where the work space ends.
    """

    at: I64
    size: I64
    counts: I64


class PlanWriter(NamedTuple):
    """A plan that is being written.

    Parameters
    ----------
    plan : EliminationPlan
        ``counts`` has the used lengths of its arrays, which may be longer.
    terms : Terms
    buckets : Buckets
    gaps : Gaps
    mark : ndarray of int64, shape (n,)
        Work space.
    listed, strides : ndarray of int64, shapes (2 n + m,) and (n,)
        Work space of a step: its terms, and the strides of one for each axis of the separator.
    counts : ndarray of int64, shape (12,)
        See :data:`STEP`.
    sizes : ndarray of float64, shape (2,)
        See :data:`LARGEST`.
    keep : bool
        Whether all messages stay in the work space.
    """

    plan: EliminationPlan
    terms: PlanTerms
    buckets: Buckets
    gaps: Gaps
    mark: I64
    listed: I64
    strides: I64
    counts: I64
    sizes: F64
    keep: bool


class Runs(NamedTuple):
    """Where the runs of a part are written.

    Parameters
    ----------
    size, stride : ndarray of int64
        Those of the plan.
    of_axes : ndarray of int64
        The stride of the part for each axis of the separator.
    counts : ndarray of int64
        Those of the :class:`PlanWriter`.
    """

    size: I64
    stride: I64
    of_axes: I64
    counts: I64


@njit(cache=True, nogil=True, borrowed=True)
def take(gaps: Gaps, size: int) -> int:
    """Return where a slice of the work space starts: in the first gap that is large enough, or at the end."""
    c, at, size_of = gaps.counts, gaps.at, gaps.size
    for k in range(c[GAPS]):
        if size_of[k] >= size:
            here = at[k]
            at[k] += size
            size_of[k] -= size
            if size_of[k] == 0:
                c[GAPS] -= 1
                for i in range(k, c[GAPS]):
                    at[i], size_of[i] = at[i + 1], size_of[i + 1]
            return here
    here, last = c[SPACE], c[GAPS] - 1
    if last >= 0 and at[last] + size_of[last] == here:  # the gap at the end grows
        here, c[GAPS] = at[last], last
    c[SPACE] = here + size
    return here


@njit(cache=True, nogil=True, borrowed=True)
def give(gaps: Gaps, start: int, size: int) -> None:
    """Release a slice of the work space."""
    c, at, size_of = gaps.counts, gaps.at, gaps.size
    k = c[GAPS]
    while k > 0 and at[k - 1] > start:
        k -= 1
    before = k > 0 and at[k - 1] + size_of[k - 1] == start
    after = k < c[GAPS] and start + size == at[k]
    if before:
        size_of[k - 1] += size
        if after:
            size_of[k - 1] += size_of[k]
            c[GAPS] -= 1
            for i in range(k, c[GAPS]):
                at[i], size_of[i] = at[i + 1], size_of[i + 1]
    elif after:
        at[k] = start
        size_of[k] += size
    else:
        for i in range(c[GAPS], k, -1):
            at[i], size_of[i] = at[i - 1], size_of[i - 1]
        at[k], size_of[k] = start, size
        c[GAPS] += 1
