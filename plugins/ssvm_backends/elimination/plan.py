"""The steps of variable elimination on one graph, as flat arrays that kernels replay with any scores.

Step t eliminates a variable v.  Its *parts* are v's unary scores, the factors of which v is the first variable in
the order, and the messages of earlier steps whose first variable is v.  The step writes a message over the other
variables of its parts, the *separator* S::

    message_t(x_S) = reduce over states a of v:  sum over parts p of table_p(a, x_S restricted to p)

Every table has v as its slowest axis and the separator's variables in the order of elimination, the latest fastest.
A message then has the right layout for the step that uses it, and long stretches of memory run side by side.

The fastest axes together make the *block* (some thousand entries, small enough for the cache); the kernel walks
over the joint states of the other, *outer* axes.  Parts are of three kinds: without block axes (a number for each
outer state), without outer axes (added up once for all outer states), and mixed.  How a part lies in a block is a
list of *runs* (size, stride), stride 0 where the part does not depend on an axis.

Work space is laid out in advance: a message lives from the step that writes it to the step that reads it; with
``keep`` all messages stay for the backward pass, which needs them for marginals; without it large messages over the
same variables are multiplied together at once.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from ssvm_dsl.ir import I32, I64
from ssvm_dsl.kernels import pack

#: Entries of the largest block, and of a block times the states of the variable.
BLOCK, BLOCK_STATES = 2048, 16384

#: Kinds of parts.
NODE, FACTOR, MESSAGE = 0, 1, 2


class EliminationPlan(NamedTuple):
    """The steps of an elimination.

    Parameters
    ----------
    variable, card : ndarray of int64, shape (n,)
        The variable of each step (number within the example) and its states.
    size : ndarray of int64, shape (n,)
        Entries of the message.
    out : ndarray of int64, shape (n,)
        Where the message lies in the work space.
    arg : ndarray of int64, shape (n + 1,)
        Where the best states of a step lie, one or two bytes for each entry of the message.
    axis_ptr, axis_size, axis_variable : ndarray of int64
        Axes of the separator.
    n_outer_axes, n_outer, block : ndarray of int64, shape (n,)
        The first axes are outer ones with so many joint states; entries of a block.
    part_ptr : ndarray of int64, shape (n + 1,)
        Parts of each step: first those without block axes, then those without outer axes, then mixed ones.
    n_flat, n_inner : ndarray of int64, shape (n,)
        How many are without block axes, and without outer axes.
    kind, ref : ndarray of int64, shape (P,)
        ``NODE`` and a variable, ``FACTOR`` and a factor, ``MESSAGE`` and a step.
    at, total, step : ndarray of int64, shape (P,)
        Where the part's table lies in the work space, its entries, and the entries of one state of v.
    gather : ndarray of int64, shape (P,)
        Where the part's marginals are gathered (plans that keep messages).
    axis : ndarray of int64, shape (P,)
        The block axis (counted from the first axis of the separator) that a part without outer axes starts with.
    outer_ptr, outer_stride : ndarray of int64
        Strides of each part for the outer axes.
    run_ptr, run_size, run_stride : ndarray of int64
        How each part lies in a block; of parts without outer axes the first run is what repeats them.
    load_ptr, load_size, load_stride : ndarray of int64
        Axes of each factor's table in our order, with strides in its own.
    """

    variable: I64
    card: I64
    size: I64
    out: I64
    arg: I64
    axis_ptr: I64
    axis_size: I64
    axis_variable: I64
    n_outer_axes: I64
    n_outer: I64
    block: I64
    part_ptr: I64
    n_flat: I64
    n_inner: I64
    kind: I64
    ref: I64
    at: I64
    total: I64
    step: I64
    gather: I64
    axis: I64
    outer_ptr: I64
    outer_stride: I64
    run_ptr: I64
    run_size: I64
    run_stride: I64
    load_ptr: I64
    load_size: I64
    load_stride: I64


@dataclass(frozen=True, eq=False)
class Compiled:
    """A plan and its costs.

    Parameters
    ----------
    plan : Plan
    work : int
        Entries (floats) of work space.
    scratch : int
        Entries of two buffers for a block.
    log2_largest : float
        Base-2 logarithm of the entries of the largest clique table.
    operations : float
        About how many table entries are looked at.
    """

    plan: EliminationPlan
    work: int
    scratch: int
    log2_largest: float
    operations: float

    def entries(self, with_states: bool) -> float:
        """Return the memory in units of 8 bytes, with the best states that maximisation remembers or without."""
        return self.work + (float(self.plan.arg[-1]) / 8 if with_states else 0.0)

    @cached_property
    def most_outer_axes(self) -> int:
        """The largest number of outer axes of a step."""
        return int(self.plan.n_outer_axes.max(initial=1))

    @cached_property
    def most_parts(self) -> int:
        """The largest number of parts of a step."""
        return int(np.diff(self.plan.part_ptr).max(initial=1))

    @cached_property
    def sizes(self) -> I64:
        """Parts of the work space of maximisation: messages, a block, best states (in floats), outer axes, parts."""
        best = -(-int(self.plan.arg[-1]) // 8)
        return np.array([self.work, self.scratch, best, self.most_outer_axes + 1, self.most_parts + 1], np.int64)

    @property
    def max_work(self) -> int:
        """Entries (floats) of work space of maximisation."""
        return int(self.sizes[:3].sum()) + self.scratch

    @cached_property
    def packed(self) -> tuple[I32, I64]:
        """The sizes and the plan as two arrays: to pass forty of them to a kernel takes ten microseconds."""
        return pack(self.sizes, *self.plan)

    @property
    def n_bytes(self) -> int:
        """Bytes of the plan itself, twice: packed as well."""
        return 2 * sum(array.nbytes for array in self.plan)
