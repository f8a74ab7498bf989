"""Compiled steps of planning an elimination: see :mod:`ssvm_backends.elimination.plan` for the definition of a plan.

Variables are known by their *place*, the step that eliminates them, so that sets of variables are ascending lists of
places.  A *term* is an input of a step: unary scores of a variable, a factor, or the message of an earlier step; the
terms of a step wait in a list, its bucket.  Measured on graphs of 20 variables and 30 edges: 0.01 ms of processor time
each, where lists of Python's took 1 ms.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ssvm_backends.elimination.plan import BLOCK, BLOCK_STATES, FACTOR, MESSAGE, NODE, Compiled, EliminationPlan
from ssvm_dsl.ir import F64, I32, I64
from ssvm_dsl.kernels import njit
from ssvm_dsl.plugin_api import pause

# -- Records of a plan that is being written, and the layout of its work space ---------------------------------------
#
# A message is in the work space from the step that writes it to the step that reads it; released space is a gap
# for others.

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
def release(gaps: Gaps, start: int, size: int) -> None:
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


@njit(cache=True, nogil=True, borrowed=True)
def fill_buckets(card: I32, slot_ptr: I64, scope: I32, order: I32, w: PlanWriter) -> None:
    """Put the unary scores and the factors into the buckets of the first of their variables.

    Parameters
    ----------
    card : ndarray of int32, shape (n,)
        Number of states of each variable; read only.
    slot_ptr : ndarray of int64, shape (m + 1,)
        Where the variables of each factor are in ``scope``; read only.
    scope : ndarray of int32, shape (slots,)
        The variables of all factors; read only.
    order : ndarray of int32, shape (n,)
        The variables as they are eliminated; read only.
    w : PlanWriter
        Written.
    """
    n, place = len(order), w.mark
    for t in range(n):
        place[order[t]] = t
        w.terms.order[t], w.terms.card[t] = order[t], card[order[t]]
        w.buckets.head[t] = w.buckets.tail[t] = t
        w.buckets.following[t], w.terms.first[t], w.terms.last[t] = -1, 0, 0
    for f in range(len(slot_ptr) - 1):
        lo, end, stride = slot_ptr[f], slot_ptr[f], 1
        for k in range(slot_ptr[f + 1] - 1, lo - 1, -1):  # the last slot is the fastest axis of the factor's table
            v = scope[k]
            if card[v] > 1:  # variables of one state are in no table
                at = end
                while at > lo and w.terms.pool[at - 1] > place[v]:
                    w.terms.pool[at], w.terms.stride[at] = w.terms.pool[at - 1], w.terms.stride[at - 1]
                    at -= 1
                w.terms.pool[at], w.terms.stride[at] = place[v], stride
                end += 1
            stride *= card[v]
        if end == lo:  # a factor of nothing else stays with its first variable
            w.terms.pool[lo], w.terms.stride[lo], end = place[scope[lo]], 1, lo + 1
        w.terms.first[n + f], w.terms.last[n + f] = lo + 1, end
        append_term(w.buckets, w.terms.pool[lo], n + f)
    for t in range(n):
        w.mark[t] = 0
    w.counts[POOL] = slot_ptr[len(slot_ptr) - 1]


@njit(cache=True, nogil=True, borrowed=True)
def append_term(buckets: Buckets, step: int, term: int) -> None:
    """Put a term at the end of the bucket of a step."""
    buckets.following[term] = -1
    if buckets.head[step] < 0:
        buckets.head[step] = term
    else:
        buckets.following[buckets.tail[step]] = term
    buckets.tail[step] = term


@njit(cache=True, nogil=True, borrowed=True)
def write_steps(w: PlanWriter, budget: int) -> None:
    """Write steps from ``counts[STEP]`` on, until all are written, there is no room, or the budget is spent.

    Parameters
    ----------
    w : PlanWriter
        ``counts[LACKING]`` is the room that the next step may need in each array that grows, 0 where there is enough.
    budget : int
        About how many numbers to look at; at least one step is written where there is room.
    """
    n, p, c = len(w.terms.order), w.plan, w.counts
    n_bound = len(w.terms.first) - n  # unary scores and factors; messages are the terms after them
    while c[STEP] < n and budget > 0:
        t, n_terms = c[STEP], 0
        term = w.buckets.head[t]
        while term >= 0:
            w.listed[n_terms] = term
            n_terms += 1
            term = w.buckets.following[term]
        if not find_separator(w, n_terms):
            return
        lo, hi = c[POOL], c[POOL] + c[LACKING]
        goal = w.terms.pool[lo] if hi > lo else -1
        n_own, size = n_terms, 1
        for k in range(lo, hi):
            size *= w.terms.card[w.terms.pool[k]]
        if hi > lo and not w.keep and size >= BLOCK:
            n_terms = find_twins(w, lo, hi, n_terms, n_bound)
        needed = n_terms * (hi - lo + 2)
        enough = c[OUTER] + needed <= len(p.outer_stride) and c[RUNS] + needed <= len(p.run_size)
        if not (enough and c[AXES] + needed <= len(p.axis_size)):
            c[LACKING] = needed
            return
        c[LACKING], c[POOL] = 0, hi
        if n_terms > n_own:
            remove_terms(w, goal, n_own, n_terms)
        write_step(w, lo, hi, size, n_own, n_terms)
        if hi > lo:
            w.terms.first[n_bound + t], w.terms.last[n_bound + t] = lo + 1, hi
            append_term(w.buckets, goal, n_bound + t)
        c[STEP] = t + 1
        budget -= needed + c[GAPS] + 1


@njit(cache=True, nogil=True, borrowed=True)
def find_separator(w: PlanWriter, n_terms: int) -> bool:
    """Write the places of a step's terms to the end of ``pool``, ascending; return whether there was room.

    How many there are, or what room is lacking, is in ``counts[LACKING]``.
    """
    c = w.counts
    c[MARK] += 1
    stamp, lo, most = c[MARK], c[POOL], 0
    for i in range(n_terms):
        most += w.terms.last[w.listed[i]] - w.terms.first[w.listed[i]]
    if lo + most > len(w.terms.pool):
        c[LACKING] = most
        return False
    end = lo
    for i in range(n_terms):
        for k in range(w.terms.first[w.listed[i]], w.terms.last[w.listed[i]]):
            place = w.terms.pool[k]
            if w.mark[place] != stamp:
                w.mark[place] = stamp
                at = end
                while at > lo and w.terms.pool[at - 1] > place:
                    w.terms.pool[at] = w.terms.pool[at - 1]
                    at -= 1
                w.terms.pool[at] = place
                end += 1
    c[LACKING] = end - lo
    return True


@njit(cache=True, nogil=True, borrowed=True)
def find_twins(w: PlanWriter, lo: int, hi: int, n_terms: int, n_bound: int) -> int:
    """Append to the terms of a step, in ``listed``, the messages over the same variables that wait for the same step.

    Many large ones would fill the memory otherwise (a variable after the other of one side of a dense bipartite graph).

    Parameters
    ----------
    w : PlanWriter
        Its ``listed`` is written.
    lo, hi : int
        The separator in ``pool``.
    n_terms : int
        Terms of the step.
    n_bound : int
        The first message among all terms.

    Returns
    -------
    int
        Terms with those that were appended.
    """
    term = w.buckets.head[w.terms.pool[lo]]
    while term >= 0:
        if term >= n_bound and w.terms.last[term] - w.terms.first[term] == hi - lo - 1:
            same = True
            for k in range(hi - lo - 1):
                same = same and w.terms.pool[w.terms.first[term] + k] == w.terms.pool[lo + 1 + k]
            if same:
                w.listed[n_terms] = term
                n_terms += 1
        term = w.buckets.following[term]
    return n_terms


@njit(cache=True, nogil=True, borrowed=True)
def remove_terms(w: PlanWriter, step: int, start: int, end: int) -> None:
    """Take ``listed[start:end]`` out of the bucket of a step, which has them in the same order; places stay theirs."""
    term, i = w.buckets.head[step], start
    w.buckets.head[step] = w.buckets.tail[step] = -1
    while term >= 0:
        following = w.buckets.following[term]
        if i < end and w.listed[i] == term:
            w.terms.first[term] -= 1  # the step's own place is before the others
            i += 1
        else:
            append_term(w.buckets, step, term)
        term = following


@njit(cache=True, nogil=True, borrowed=True)
def write_step(w: PlanWriter, lo: int, hi: int, size: int, n_own: int, n_terms: int) -> None:
    """Write one step: its axes, its parts by kind, and where its message goes.

    Parameters
    ----------
    w : PlanWriter
        Written.
    lo, hi : int
        The separator in ``pool``.
    size : int
        Entries of the message.
    n_own, n_terms : int
        Terms that depend on the step's variable, and all terms.
    """
    p, c = w.plan, w.counts
    t = c[STEP]
    states, split, block = w.terms.card[t], hi, 1
    limit = min(BLOCK, max(64, BLOCK_STATES // states))
    while split > lo and (block == 1 or block * w.terms.card[w.terms.pool[split - 1]] <= limit):
        split -= 1
        block *= w.terms.card[w.terms.pool[split]]
    p.variable[t], p.card[t], p.size[t] = w.terms.order[t], states, size
    p.n_outer_axes[t], p.n_outer[t], p.block[t] = split - lo, size // block, block
    p.arg[t + 1] = p.arg[t] + (size if states <= 256 else 2 * size)
    for k in range(lo, hi):
        p.axis_size[c[AXES]], p.axis_variable[c[AXES]] = w.terms.card[w.terms.pool[k]], w.terms.order[w.terms.pool[k]]
        c[AXES] += 1
    p.axis_ptr[t + 1] = c[AXES]
    for kind in range(3):
        before = c[PARTS]
        for i in range(n_terms):
            if kind_of(w.terms, w.listed[i], split, hi) == kind:
                write_part(w, w.listed[i], kind, lo, split, hi, i >= n_own)
        if kind == FLAT:
            p.n_flat[t] = c[PARTS] - before
        elif kind == INNER:
            p.n_inner[t] = c[PARTS] - before
    p.part_ptr[t + 1] = c[PARTS]
    n_mixed = c[PARTS] - p.part_ptr[t] - p.n_flat[t] - p.n_inner[t]
    p.out[t] = take(w.gaps, size)
    for q in range(p.part_ptr[t], c[PARTS]):
        if p.kind[q] != MESSAGE or not w.keep:
            release(w.gaps, p.at[q], p.total[q])
        if w.keep:
            release(w.gaps, p.gather[q], p.total[q])
    c[SCRATCH] = max(c[SCRATCH], states * block)
    w.sizes[LARGEST] = max(w.sizes[LARGEST], float(states) * size)
    w.sizes[OPERATIONS] += float(states) * size * (2 + n_mixed)


@njit(cache=True, nogil=True, borrowed=True)
def kind_of(terms: PlanTerms, term: int, split: int, hi: int) -> int:
    """Return how a term lies in the block, whose axes are ``pool[split:hi]``."""
    lo, end = terms.first[term], terms.last[term]
    if lo == end or split == hi or terms.pool[end - 1] < terms.pool[split]:
        return FLAT
    return INNER if terms.pool[lo] >= terms.pool[split] else MIXED


@njit(cache=True, nogil=True, borrowed=True)
def write_part(w: PlanWriter, term: int, kind: int, lo: int, split: int, hi: int, absorbed: bool) -> None:
    """Write one part of a step.

    Parameters
    ----------
    w : PlanWriter
        Written.
    term : int
        The kind of the part.
    kind : int
        How it lies in the block.
    lo, split, hi : int
        The separator in ``pool``; the axes of the block begin at ``split``.
    absorbed : bool
        Whether it does not depend on the step's variable.
    """
    p, c = w.plan, w.counts
    t, q, n = c[STEP], c[PARTS], len(w.terms.order)
    n_bound = len(w.terms.first) - n
    left = 1
    for k in range(w.terms.first[term], w.terms.last[term]):
        left *= w.terms.card[w.terms.pool[k]]
    p.step[q] = 0 if absorbed else left
    p.total[q] = left if absorbed else left * w.terms.card[t]
    at, first = w.terms.first[term], -1
    for k in range(lo, hi):
        if at < w.terms.last[term] and w.terms.pool[at] == w.terms.pool[k]:
            left //= w.terms.card[w.terms.pool[k]]
            w.strides[k - lo] = left
            at += 1
            if first < 0 and k >= split:
                first = k
        else:
            w.strides[k - lo] = 0
    first = max(first, split)
    if term < n:
        p.kind[q], p.ref[q] = NODE, w.terms.order[term]
        write_load(p.load_size, p.load_stride, c, w.terms.card[term], 1)
    elif term < n_bound:
        p.kind[q], p.ref[q] = FACTOR, term - n
        for k in range(w.terms.first[term] - 1, w.terms.last[term]):
            write_load(p.load_size, p.load_stride, c, w.terms.card[w.terms.pool[k]], w.terms.stride[k])
    else:
        p.kind[q], p.ref[q] = MESSAGE, term - n_bound
    p.at[q] = take(w.gaps, p.total[q]) if term < n_bound else p.out[term - n_bound]
    p.gather[q] = take(w.gaps, p.total[q]) if w.keep else 0
    p.axis[q] = first - lo
    for k in range(split - lo):
        p.outer_stride[c[OUTER]] = w.strides[k]
        c[OUTER] += 1
    write_runs(Runs(p.run_size, p.run_stride, w.strides, c), w.terms, kind, lo, split, first, hi)
    c[PARTS] = q + 1
    p.outer_ptr[q + 1], p.run_ptr[q + 1], p.load_ptr[q + 1] = c[OUTER], c[RUNS], c[LOADS]


@njit(cache=True, nogil=True, borrowed=True)
def write_load(sizes: I64, strides: I64, counts: I64, size: int, stride: int) -> None:
    """Write one axis of a factor's table."""
    sizes[counts[LOADS]], strides[counts[LOADS]] = size, stride
    counts[LOADS] += 1


@njit(cache=True, nogil=True, borrowed=True)
def write_runs(runs: Runs, terms: PlanTerms, kind: int, lo: int, split: int, first: int, hi: int) -> None:
    """Write the runs of a part: neighbouring axes of the block that are passed through at one stride are one run.

    Parameters
    ----------
    runs : Runs
        Written.
    terms : Terms
        Read only.
    kind : int
        How the part lies in the block.
    lo, split, hi : int
        The separator in ``pool``; the axes of the block begin at ``split``.
    first : int
        The first axis of the block that the part depends on, ``split`` where there is none.
    """
    c = runs.counts
    start = split
    if kind == INNER:  # the first run is what repeats the others
        start, repeats = first, 1
        for k in range(split, first):
            repeats *= terms.card[terms.pool[k]]
        runs.size[c[RUNS]], runs.stride[c[RUNS]] = repeats, 0
        c[RUNS] += 1
    begin = c[RUNS]
    for k in range(start, hi):
        size, stride = terms.card[terms.pool[k]], runs.of_axes[k - lo]
        if c[RUNS] > begin and runs.stride[c[RUNS] - 1] == size * stride:
            runs.size[c[RUNS] - 1] *= size
            runs.stride[c[RUNS] - 1] = stride
        else:
            runs.size[c[RUNS]], runs.stride[c[RUNS]] = size, stride
            c[RUNS] += 1
    if c[RUNS] == begin:  # at least one run is left
        runs.size[begin], runs.stride[begin] = 1, 0
        c[RUNS] += 1


# -- Plans of elimination, written by these kernels ------------------------------------------------------------------

#: Numbers to look at between two checks of the clock; some 10 ms.
BUDGET = 2_000_000

#: Arrays of a plan by the kind of their entries; arrays of pointers have one entry more.
STEPS = ("variable", "card", "size", "out", "n_outer_axes", "n_outer", "block", "n_flat", "n_inner")
STEP_POINTERS = ("arg", "axis_ptr", "part_ptr")
OF_PARTS = ("kind", "ref", "at", "total", "step", "gather", "axis")
PART_POINTERS = ("outer_ptr", "run_ptr", "load_ptr")
GROWING = {"axis_size": AXES, "axis_variable": AXES, "outer_stride": OUTER, "run_size": RUNS, "run_stride": RUNS}


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

    Raises
    ------
    OutOfTime
        The call must end (:func:`~ssvm_dsl.plugin_api.pause`).
    """
    writer = _new_writer(len(order), len(slot_ptr) - 1, len(scope), keep)
    fill_buckets(card, slot_ptr, scope, order, writer)
    counts = writer.counts
    while counts[STEP] < len(order):
        pause()
        write_steps(writer, BUDGET)
        if counts[LACKING]:
            writer = _with_capacity(writer, int(counts[LACKING]))
    ends = dict.fromkeys(STEPS, len(order)) | dict.fromkeys(STEP_POINTERS, len(order) + 1)
    ends |= dict.fromkeys(OF_PARTS, int(counts[PARTS])) | dict.fromkeys(PART_POINTERS, int(counts[PARTS]) + 1)
    ends |= {name: int(counts[k]) for name, k in GROWING.items()}
    ends |= dict.fromkeys(("load_size", "load_stride"), int(counts[LOADS]))
    plan = EliminationPlan(*(getattr(writer.plan, name)[: ends[name]] for name in EliminationPlan._fields))
    work, scratch = max(int(counts[SPACE]), 1), max(int(counts[SCRATCH]), 1)
    log2_largest = float(np.log2(max(writer.sizes[LARGEST], 1.0)))
    return Compiled(plan, work, scratch, log2_largest, float(writer.sizes[OPERATIONS]))


def _new_writer(n: int, n_factors: int, n_slots: int, keep: bool) -> PlanWriter:
    """Return a writer that has not written anything, with a guess at the room that it needs."""
    n_terms, guess = 2 * n + n_factors, guess_room(n, n_slots)
    lengths = dict.fromkeys(STEPS, n) | dict.fromkeys(STEP_POINTERS, n + 1)
    lengths |= dict.fromkeys(OF_PARTS, n_terms) | dict.fromkeys(PART_POINTERS, n_terms + 1)
    lengths |= dict.fromkeys(GROWING, guess) | dict.fromkeys(("load_size", "load_stride"), n + n_slots)
    plan = EliminationPlan(*_split([lengths[name] for name in EliminationPlan._fields]))
    for name in STEP_POINTERS + PART_POINTERS:
        getattr(plan, name)[0] = 0
    terms = PlanTerms(*_split([n, n, n_terms, n_terms, n_slots + guess, n_slots]))
    buckets = Buckets(*_split([n, n, n_terms]))
    counts = np.zeros(12, dtype=np.int64)
    at, size = _split([3 * n_terms, 3 * n_terms])
    mark, listed, strides = _split([n, n_terms, n])
    return PlanWriter(
        plan, terms, buckets, Gaps(at, size, counts), mark, listed, strides, counts, np.zeros(2), keep
    )


def guess_room(n: int, n_slots: int) -> int:
    """Return how many entries the arrays that grow have to begin with."""
    return 4 * (n + n_slots) + 8


def _split(lengths: list[int]) -> list[I64]:
    """Return arrays of some lengths, one after the other in memory."""
    whole, out, at = np.empty(sum(lengths), dtype=np.int64), [], 0
    for length in lengths:
        out.append(whole[at : at + length])
        at += length
    return out


def _with_capacity(writer: PlanWriter, needed: int) -> PlanWriter:
    """Return a writer with room for so many more entries in each of the arrays that grow."""
    counts, plan = writer.counts, writer.plan
    grown = {name: _grown(getattr(plan, name), int(counts[k]), needed) for name, k in GROWING.items()}
    pool = _grown(writer.terms.pool, int(counts[POOL]), needed)
    return writer._replace(plan=plan._replace(**grown), terms=writer.terms._replace(pool=pool))


def _grown(array: I64, used: int, needed: int) -> I64:
    """Return an array with room for more entries after those that are used, at least twice as long if it grows."""
    if used + needed <= len(array):
        return array
    out = np.empty(max(2 * len(array), used + needed), dtype=np.int64)
    out[:used] = array[:used]
    return out
