"""What variable elimination does for one graph, written down as flat arrays that kernels replay with any scores.

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

from dataclasses import dataclass, field
from math import prod
from typing import NamedTuple

import numpy as np

from ssvm_dsl.ir import I32, I64

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
    """A plan and what it takes.

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


class MemoryLayout:
    """Lays out pieces of memory that come and go: the first gap that is large enough."""

    def __init__(self) -> None:
        self.gaps: list[tuple[int, int]] = []
        self.end = 0

    def take(self, size: int) -> int:
        """Return where a piece of a size goes."""
        for k, (at, length) in enumerate(self.gaps):
            if length >= size:
                self.gaps[k : k + 1] = [(at + size, length - size)] if length > size else []
                return at
        at = self.gaps.pop()[0] if self.gaps and sum(self.gaps[-1]) == self.end else self.end
        self.end = at + size
        return at

    def give(self, at: int, size: int) -> None:
        """Take a piece back."""
        merged: list[tuple[int, int]] = []
        for start, length in sorted([*self.gaps, (at, size)]):
            if merged and sum(merged[-1]) == start:
                merged[-1] = (merged[-1][0], merged[-1][1] + length)
            else:
                merged.append((start, length))
        self.gaps = merged


@dataclass(eq=False)
class _Term:
    """One term of a step: what it is, its variables besides the step's own (in our order), how to load it.

    A message that was ``absorbed`` does not depend on the step's variable.
    """

    kind: int
    ref: int
    others: list[int]
    load: list[tuple[int, int]] = field(default_factory=list)
    absorbed: bool = False


class _Writer:
    """Writes the steps of a plan one after the other."""

    def __init__(self, card: list[int], place: list[int], keep: bool) -> None:
        self.card, self.place, self.keep = card, place, keep
        self.rows: dict[str, list[int]] = {name: [] for name in EliminationPlan._fields}
        for name in ("arg", "axis_ptr", "part_ptr", "outer_ptr", "run_ptr", "load_ptr"):
            self.rows[name].append(0)
        self.space, self.scratch, self.largest, self.operations = MemoryLayout(), 1, 1.0, 0.0

    def add(self, **values: int) -> None:
        """Append one value to each of the arrays named."""
        for name, value in values.items():
            self.rows[name].append(value)

    def step(self, v: int, separator: list[int], parts: list[_Term]) -> None:
        """Write the step of variable v."""
        c = self.card[v]
        sizes = [self.card[u] for u in separator]
        split, block = len(sizes), 1
        limit = min(BLOCK, max(64, BLOCK_STATES // c))
        while split > 0 and (block == 1 or block * sizes[split - 1] <= limit):
            split -= 1
            block *= sizes[split]
        size = prod(sizes)
        wide = 1 if c <= 256 else 2
        self.add(variable=v, card=c, size=size, n_outer_axes=split, n_outer=size // block, block=block)
        self.add(arg=self.rows["arg"][-1] + wide * size)
        self.rows["axis_size"] += sizes
        self.rows["axis_variable"] += separator
        self.add(axis_ptr=len(self.rows["axis_size"]))
        kinds = [self._class(part, separator, split) for part in parts]
        spaces = []
        for kind, part in sorted(zip(kinds, parts, strict=True), key=lambda pair: pair[0]):
            spaces += self._part(part, v, separator, sizes, split, kind)
        self.add(part_ptr=len(self.rows["kind"]), n_flat=kinds.count(0), n_inner=kinds.count(1))
        self.add(out=self.space.take(size))
        for piece in spaces:
            self.space.give(*piece)
        self.scratch = max(self.scratch, c * block)
        self.largest = max(self.largest, float(c) * size)
        self.operations += float(c) * size * (2 + kinds.count(2))

    def _class(self, part: _Term, separator: list[int], split: int) -> int:
        """Return 0 for parts without block axes, 1 for those without outer axes, 2 for others."""
        outer = set(separator[:split])
        if all(u in outer for u in part.others):
            return 0
        return 2 if any(u in outer for u in part.others) else 1

    def _part(
        self, part: _Term, v: int, separator: list[int], sizes: list[int], split: int, kind: int
    ) -> list[tuple[int, int]]:
        """Write one part; return the pieces of memory that are free after the step."""
        rows = self.rows
        left = prod(self.card[u] for u in part.others)
        step, total = (0, left) if part.absorbed else (left, left * self.card[v])
        stride = {}
        for u in part.others:
            left //= self.card[u]
            stride[u] = left
        strides = [stride.get(u, 0) for u in separator]
        at = rows["out"][part.ref] if part.kind == MESSAGE else self.space.take(total)
        pieces = [] if part.kind == MESSAGE and self.keep else [(at, total)]
        gather = self.space.take(total) if self.keep else 0
        pieces += [(gather, total)] if self.keep else []
        first = next((k for k in range(split, len(sizes)) if strides[k]), split)
        self.add(kind=part.kind, ref=part.ref, at=at, total=total, step=step, gather=gather, axis=first)
        rows["outer_stride"] += strides[:split]
        self.add(outer_ptr=len(rows["outer_stride"]))
        inner = list(zip(sizes[split:], strides[split:], strict=True))
        repeats = [(prod(sizes[split:first]), 0)] if kind == 1 else []
        inner = [*repeats, *_merged(inner[first - split :] if kind == 1 else inner)]
        rows["run_size"] += [one[0] for one in inner]
        rows["run_stride"] += [one[1] for one in inner]
        self.add(run_ptr=len(rows["run_size"]))
        rows["load_size"] += [one[0] for one in part.load]
        rows["load_stride"] += [one[1] for one in part.load]
        self.add(load_ptr=len(rows["load_size"]))
        return pieces

    def done(self) -> Compiled:
        """Return the plan."""
        plan = EliminationPlan(**{name: np.array(row, dtype=np.int64) for name, row in self.rows.items()})
        work = max(self.space.end, 1)
        return Compiled(plan, work, self.scratch, float(np.log2(self.largest)), self.operations)


def _merged(axes: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Join neighbouring axes that one run can walk over; at least one run is left."""
    out: list[tuple[int, int]] = []
    for size, stride in axes:
        if size == 1:
            continue
        if out and out[-1][1] == size * stride:
            out[-1] = (out[-1][0] * size, stride)
        else:
            out.append((size, stride))
    return out or [(1, 0)]


def compile_plan(card: I32, slot_ptr: I64, scope: I32, order: I32, keep: bool) -> Compiled:
    """Return the plan that eliminates the variables of one graph in an order.

    Parameters
    ----------
    card : ndarray of int32, shape (n,)
    slot_ptr : ndarray of int64, shape (m + 1,)
        Slots of each factor.
    scope : ndarray of int32
        The variable of each slot; tables are in C order over the slots.
    order : ndarray of int32, shape (n,)
    keep : bool
        Whether to keep all messages, for marginals.
    """
    cards, order_list = card.tolist(), order.tolist()
    place = [0] * len(cards)
    for k, v in enumerate(order_list):
        place[v] = k
    buckets: list[list[_Term]] = [[_Term(NODE, v, [], [(cards[v], 1)])] for v in order_list]
    ptr, flat = slot_ptr.tolist(), scope.tolist()
    for f in range(len(ptr) - 1):
        variables = flat[ptr[f] : ptr[f + 1]]
        stride = {u: prod(cards[w] for w in variables[k + 1 :]) for k, u in enumerate(variables)}
        # variables of one state are in no table; a factor of nothing else stays with its first one
        free = sorted((u for u in variables if cards[u] > 1), key=place.__getitem__) or variables[:1]
        load = [(cards[u], stride[u]) for u in free]
        buckets[place[free[0]]].append(_Term(FACTOR, f, free[1:], load))
    writer = _Writer(cards, place, keep)
    for t, v in enumerate(order_list):
        separator = sorted({u for part in buckets[t] for u in part.others}, key=place.__getitem__)
        parts, buckets[t] = buckets[t], []
        if not separator:
            writer.step(v, separator, parts)
            continue
        goal = place[separator[0]]
        twins = [] if keep else _twins(buckets[goal], separator, cards)
        buckets[goal] = [part for part in buckets[goal] if part not in twins]
        buckets[goal].append(_Term(MESSAGE, t, separator[1:]))
        absorbed = [_Term(MESSAGE, twin.ref, separator, absorbed=True) for twin in twins]
        writer.step(v, separator, parts + absorbed)
    return writer.done()


def _twins(bucket: list[_Term], separator: list[int], cards: list[int]) -> list[_Term]:
    """Return large messages over the same variables that wait for the same step: better multiplied in now.

    Many of them would fill the memory otherwise (a variable after the other of one side of a dense bipartite graph).
    """
    if prod(cards[u] for u in separator) < BLOCK:
        return []
    return [part for part in bucket if part.kind == MESSAGE and part.others == separator[1:]]
