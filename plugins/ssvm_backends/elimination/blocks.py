"""The parts of an elimination step are combined block by block; all passes of elimination share these kernels.

A :class:`Walk` is the position in a step: the joint state of the outer axes and, for each part, the position that
belongs to it.  For each outer state :func:`fill` writes the sum (or, for probabilities, the product) of all parts over
a block, for each state of the variable.  Parts that do not depend on the outer state were put together before by
:func:`prepare`, growing the block axis by axis from the fastest one, so that a part of few variables is added to
a small table and copied along.

Kernels are given borrowed arrays.  ``product`` chooses between sums of scores and products of probabilities.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ssvm_backends.elimination.plan import Compiled, EliminationPlan
from ssvm_dsl.ir import F64, I64
from ssvm_dsl.kernels import borrow, njit

#: Table entries between two checks of the clock; some 10 to 50 ms.
BUDGET = 20_000_000

#: Arguments of one type: numba compiles a function, and all its callees, again for each literal argument.
ZERO, NO, YES = np.int64(0), np.bool_(False), np.bool_(True)


class Walk(NamedTuple):
    """Work space of a pass.

    Parameters
    ----------
    base : ndarray of float64
        For each state of the variable the sum of the parts that all outer states share, a block each.
    values : ndarray of float64
        For each state of the variable a block.
    digit : ndarray of int64
        States of the outer axes.
    position : ndarray of int64
        For each part of the step where in its table the outer state is.
    """

    base: F64
    values: F64
    digit: I64
    position: I64


def make_walk(compiled: Compiled) -> Walk:
    """Return the work space for a plan."""
    digit = np.zeros(compiled.most_outer_axes + 1, np.int64)
    position = np.zeros(compiled.most_parts + 1, np.int64)
    return Walk(np.empty(compiled.scratch), np.empty(compiled.scratch), digit, position)


class BlockRuns(NamedTuple):
    """How a part lies in a block: neighbouring axes of the block that it passes through at one stride are one run.

    Parameters
    ----------
    size, stride : ndarray of int64
        BlockRuns of all parts; the stride is 0 where a part does not depend on the axes, and 0 or 1 in its last run.
    lo, hi : int
        The runs of this part in these, at least one.
    """

    size: I64
    stride: I64
    lo: int
    hi: int


@njit(cache=True, nogil=True)
def spread(to: F64, start: int, table: F64, at: int, runs: BlockRuns, product: bool) -> None:
    """Add a part to a block (multiply the block by it) in place.

    ``to[start + i] += table[at + sum_r digit_r(i) stride_r]`` for every entry i of the block; its digits are positions
    in the runs, that of the last run fastest.

    Parameters
    ----------
    to : ndarray of float64
        Changed in place, from ``start``: a block.
    start : int
        See ``to``.
    table : ndarray of float64
        Holds the part's table; the entry of the first one of the block is ``at``.
    at : int
        See ``table``.
    runs : BlockRuns
    product : bool
        Whether to multiply.
    """
    size, stride, lo, hi = runs
    # the last two runs have separate loops; the innermost one reads one number, or memory in order
    n, s = size[hi - 1], stride[hi - 1]
    n_above, s_above = (size[hi - 2], stride[hi - 2]) if hi - lo > 1 else (1, 0)
    n_rest = 1
    for r in range(lo, hi - 2):
        n_rest *= size[r]
    for rest in range(n_rest):
        here, left = at, rest
        for r in range(hi - 3, lo - 1, -1):
            here += (left % size[r]) * stride[r]
            left //= size[r]
        for j in range(n_above):
            k = here + j * s_above
            if s == 0:
                x = table[k]
                if product:
                    for i in range(n):
                        to[start + i] *= x
                else:
                    for i in range(n):
                        to[start + i] += x
            elif product:
                for i in range(n):
                    to[start + i] *= table[k + i]
            else:
                for i in range(n):
                    to[start + i] += table[k + i]
            start += n


@njit(cache=True, nogil=True)
def gather(source: F64, start: int, table: F64, at: int, runs: BlockRuns) -> None:
    """Add up a block over the axes that a part does not depend on: the transpose of :func:`spread`.

    ``table[at + sum_r digit_r(i) stride_r] += source[start + i]`` for every entry i of the block.

    Parameters
    ----------
    source : ndarray of float64
        Holds the block, from ``start``; read only.
    start : int
        See ``source``.
    table : ndarray of float64
        Holds the part's table, which is added to in place; the entry of the first one of the block is ``at``.
    at : int
        See ``table``.
    runs : BlockRuns
    """
    size, stride, lo, hi = runs
    n, s = size[hi - 1], stride[hi - 1]
    n_rest = 1
    for r in range(lo, hi - 1):
        n_rest *= size[r]
    for rest in range(n_rest):
        here, left = at, rest
        for r in range(hi - 2, lo - 1, -1):
            here += (left % size[r]) * stride[r]
            left //= size[r]
        if s == 0:
            x = 0.0
            for i in range(n):
                x += source[start + i]
            table[here] += x
        else:
            for i in range(n):
                table[here + i] += source[start + i]
        start += n


@njit(cache=True, nogil=True)
def prepare(plan: EliminationPlan, t: int, work: F64, walk: Walk, neutral: float, product: bool) -> None:
    """Combine the parts without outer axes of step t; ``neutral`` is the value of an empty sum."""
    p, work, w = borrow(plan), borrow(work), borrow(walk)
    first = p.part_ptr[t] + p.n_flat[t]
    last = first + p.n_inner[t]
    lowest = p.axis_ptr[t] + p.n_outer_axes[t]
    for a in range(p.card[t]):
        start, size = a * p.block[t], 1
        w.base[start] = neutral
        for k in range(p.axis_ptr[t + 1] - 1, lowest - 1, -1):
            for s in range(p.axis_size[k] - 1, 0, -1):
                for i in range(size):
                    w.base[start + s * size + i] = w.base[start + i]
            size *= p.axis_size[k]
            for q in range(first, last):
                if p.axis[q] == k - p.axis_ptr[t]:
                    inner = BlockRuns(p.run_size, p.run_stride, p.run_ptr[q] + 1, p.run_ptr[q + 1])
                    spread(w.base, start, work, p.at[q] + a * p.step[q], inner, product)


@njit(cache=True, nogil=True)
def go_to(plan: EliminationPlan, t: int, outer: int, walk: Walk) -> None:
    """Set the walk of step t to an outer state."""
    p, w = borrow(plan), borrow(walk)
    first, n_axes = p.axis_ptr[t], p.n_outer_axes[t]
    for k in range(n_axes - 1, -1, -1):
        w.digit[k] = outer % p.axis_size[first + k]
        outer //= p.axis_size[first + k]
    for q in range(p.part_ptr[t], p.part_ptr[t + 1]):
        here = 0
        for k in range(n_axes):
            here += w.digit[k] * p.outer_stride[p.outer_ptr[q] + k]
        w.position[q - p.part_ptr[t]] = here


@njit(cache=True, nogil=True)
def go_on(plan: EliminationPlan, t: int, walk: Walk) -> None:
    """Move the walk of step t to the next outer state."""
    p, w = borrow(plan), borrow(walk)
    first, k = p.axis_ptr[t], p.n_outer_axes[t] - 1
    while k >= 0:
        w.digit[k] += 1
        full = w.digit[k] == p.axis_size[first + k]
        by = 1 - p.axis_size[first + k] if full else 1
        for q in range(p.part_ptr[t], p.part_ptr[t + 1]):
            w.position[q - p.part_ptr[t]] += by * p.outer_stride[p.outer_ptr[q] + k]
        if not full:
            return
        w.digit[k] = 0
        k -= 1


@njit(cache=True, nogil=True)
def fill(plan: EliminationPlan, t: int, a: int, work: F64, walk: Walk, start: int, product: bool) -> None:
    """Write the sum (product) of all parts of step t for state a of its variable to ``values[start:]``.

    Parameters
    ----------
    plan : Plan
        Read only.
    t : int
        The step.
    a : int
        State of the step's variable.
    work : ndarray of float64
        Holds the tables of all parts (``plan.at``); read only.
    walk : Walk
        At an outer state, with what :func:`prepare` put together in ``base``; its ``values`` are written.
    start : int
        Where the block goes in ``values``.
    product : bool
        Whether to multiply.
    """
    p, work, w = borrow(plan), borrow(work), borrow(walk)
    first = p.part_ptr[t]
    flat, last = first + p.n_flat[t], p.part_ptr[t + 1]
    x = 1.0 if product else 0.0
    for q in range(first, flat):  # without block axes: one number for the whole block
        y = work[p.at[q] + w.position[q - first] + a * p.step[q]]
        x = x * y if product else x + y
    n = p.block[t]
    if product:
        for i in range(n):
            w.values[start + i] = w.base[a * n + i] * x
    else:
        for i in range(n):
            w.values[start + i] = w.base[a * n + i] + x
    for q in range(flat + p.n_inner[t], last):  # those between are in base
        at = p.at[q] + w.position[q - first] + a * p.step[q]
        spread(w.values, start, work, at, BlockRuns(p.run_size, p.run_stride, p.run_ptr[q], p.run_ptr[q + 1]), product)


@njit(cache=True, nogil=True)
def load_table(plan: EliminationPlan, q: int, source: F64, start: int, to: F64, at: int, back: bool) -> None:
    """Copy the table of part q into our order of axes (from it, with ``back``).

    Parameters
    ----------
    plan : Plan
        Read only.
    q : int
        The part: unary scores, or a factor.
    source : ndarray of float64
        Holds the table in the factor's own order of axes, from ``start``.  Read, or with ``back`` written.
    start : int
        See ``source``.
    to : ndarray of float64
        Holds it in the plan's order, from ``at``.  Written, or with ``back`` read.
    at : int
        See ``to``.
    back : bool
        The direction: False from ``source`` to ``to``.
    """
    p, source, to = borrow(plan), borrow(source), borrow(to)
    lo, hi = p.load_ptr[q], p.load_ptr[q + 1]
    n, s = p.load_size[hi - 1], p.load_stride[hi - 1]
    for rest in range(p.total[q] // n):
        here, left = start, rest
        for k in range(hi - 2, lo - 1, -1):
            here += (left % p.load_size[k]) * p.load_stride[k]
            left //= p.load_size[k]
        for i in range(n):
            if back:
                source[here + i * s] = to[at + rest * n + i]
            else:
                to[at + rest * n + i] = source[here + i * s]
