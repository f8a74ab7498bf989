"""Plans of elimination, written by compiled kernels (:mod:`ssvm_backends.elimination.plan_kernels`)."""

from __future__ import annotations

import numpy as np

from ssvm_backends.elimination.plan import Compiled, EliminationPlan
from ssvm_backends.elimination.plan_kernels import fill_buckets, write_steps
from ssvm_backends.elimination.plan_writer import (
    AXES,
    LACKING,
    LARGEST,
    LOADS,
    OPERATIONS,
    OUTER,
    PARTS,
    POOL,
    RUNS,
    SCRATCH,
    SPACE,
    STEP,
    Buckets,
    Gaps,
    PlanTerms,
    PlanWriter,
)
from ssvm_dsl.ir import I32, I64
from ssvm_dsl.plugin_api import pause

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
