"""``tree``: exact dynamic programming on forests (Pearl 1988; max-product, sum-product, k-best)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from time import perf_counter
from typing import Any

import numpy as np

from ssvm_backends.graphs.batch_session import SummedAnswers
from ssvm_backends.graphs.deadline import chunks_until
from ssvm_backends.trees.forest import Forest, build_forest
from ssvm_dsl.errors import TooLargeError
from ssvm_dsl.ir import F64, I64, CountTables, Limits, Need, Program, Question, Solution, Task, Theta, owners, pointers
from ssvm_dsl.plugin_api import CompiledOracle, Verdict


class Tree:
    """Exact dynamic programming on forests (Pearl 1988).

    A leaf u with parent v is eliminated by the message ``m[t] = max_s (belief[u, s] + table[s, t])`` to v (a log sum
    for marginals): O(V c^2) for V variables of c states, times k log k for the k best.
    """

    def check(self, need: Need) -> Verdict:
        """Accept every forest, one ``count`` constraint for each example; a table look-up per pair of states."""
        cost, n_bytes = counting(need)
        if why := refusal(need):
            return Verdict(False, reasons=(why,))
        return Verdict(True, 1.2 * cost, n_bytes=n_bytes + 90.0 * need.n_variables)

    def open(self, program: Program, options: Mapping[str, Any]) -> ForestSession:
        """Return a session."""
        return ForestSession(program)


#: Seconds of sums, and of lists of the k best labellings, for each joint state of an edge; of sums for each variable,
#: of lists for each state and entry.  An example is not begun unless as much time is left: neither can be cut short.
SUM_SECONDS, LIST_SECONDS, SUM_EACH, LIST_EACH = 6e-9, 7e-9, 4e-7, 7e-8

#: Bytes that the lists of the k best labellings of one example may take.
MEMORY = 2.0**31


class ForestSession:
    """Exact dynamic programming on the forests of a program."""

    def __init__(self, program: Program) -> None:
        self.program = program
        bound = any(group.n_constraints for group in program.constraints)
        self._tables = count_tables(program) if bound else None

    @cached_property
    def forest(self) -> Forest:
        """The forests, for kernels of any shape."""
        return build_forest(self.program)

    def solve(self, question: Question) -> Solution:
        """Answer a question; see :class:`~ssvm_dsl.plugin_api.Session`."""
        program, theta, task = self.program, question.theta, question.task
        ids, node = question.ids(program), question.masked_node(program)
        if task is Task.MARGINALS:
            return self._marginals(theta, node, ids, question.limits)
        if self._tables is not None:
            return self._counted(question, self._tables.select(ids), node, chunks_until(len(ids), question.limits))
        shape: tuple[int, ...] = ()
        seconds, ptr = None, question.label_ptr(program)
        if task is not Task.KBEST:
            kernel, structure = self.map_kernel()
        else:
            from ssvm_backends.trees.kbest import k_best

            kernel, structure, shape = k_best, self.forest, (question.k,)
            check_memory(program, ids, question.k)
            seconds = None if question.limits.time is None else self._list_seconds(ids, question.k)
        labels, score, reached = np.zeros((*shape, int(ptr[-1])), np.int32), np.empty((*shape, len(ids))), 0
        score.fill(-np.inf)
        for lo, hi in chunks_until(len(ids), question.limits, seconds):
            kernel(structure, theta.pool, node, ids[lo:hi], ptr[lo:], labels, score[..., lo:hi])
            reached = hi
        score += theta.const[ids]
        if reached < len(ids):  # in time
            score[..., reached:] = np.nan
        return Solution.exact(labels, score)

    def best_by_count(self, question: Question, tables: CountTables) -> Solution:
        """Return the labelling worth most by its counts; see :class:`~ssvm_dsl.plugin_api.CountingSession`."""
        node = question.masked_node(self.program)
        return self._counted(question, tables, node, [(0, len(question.ids(self.program)))])

    def _counted(
        self, question: Question, tables: CountTables, node: F64, parts: Iterable[tuple[int, int]]
    ) -> Solution:
        """Return the labellings worth most by their counts, part by part of the examples asked for."""
        from ssvm_backends.graphs.batch_session import Wanted
        from ssvm_backends.trees.count import best_by_count

        theta, ids, ptr = question.theta, question.ids(self.program), question.label_ptr(self.program)
        labels, worth = np.zeros(int(ptr[-1]), dtype=np.int32), np.full(len(ids), -np.inf)
        reached = 0
        for lo, hi in parts:
            wanted = Wanted(
                theta.const, tables.shape[lo:hi], tables.start[lo:hi], tables.offset, tables.scale, ptr[lo : hi + 1],
                labels, worth[lo:hi],
            )  # fmt: skip
            best_by_count(self.forest, theta.pool, node, tables.counts, ids[lo:hi], wanted)
            reached = hi
        worth[reached:] = np.nan  # not reached in time
        return Solution.exact(labels, worth)

    def compiled(self) -> CompiledOracle:
        """Return the oracle for trainers that call it inside their own kernels."""
        from ssvm_backends.trees.max_product import OF_FOREST, forest_oracle
        from ssvm_dsl.kernels import pack

        program, packed = self.program, pack(*(getattr(self.forest, name) for name in OF_FOREST))
        widest = int(program.card.max(initial=1))
        biggest = int(np.diff(program.state_ptr[program.var_ptr]).max(initial=0))
        return CompiledOracle(forest_oracle, *packed, biggest + widest + widest * widest)

    @cached_property
    def _sizes(self) -> tuple[F64, F64, F64]:
        """Sums over the variables of all examples before: (joint states of edges, states, variables)."""
        card, parent = self.forest.card.astype(float), self.forest.parent
        cells = card * np.where(parent < 0, 1.0, card[parent])
        ptr = self.program.var_ptr
        edges, states = (np.concatenate([[0.0], np.cumsum(one)])[ptr] for one in (cells, card))
        return edges, states, ptr.astype(float)

    def _list_seconds(self, ids: I64, k: int) -> F64:
        """Return the expected seconds of the k best labellings of each example."""
        cells, states, _ = (ends[ids + 1] - ends[ids] for ends in self._sizes)
        seconds: F64 = LIST_SECONDS * cells + LIST_EACH * k * states
        return seconds

    def _sum_seconds(self, ids: I64) -> F64:
        """Return the expected seconds of the marginals of each example."""
        cells, _, variables = (ends[ids + 1] - ends[ids] for ends in self._sizes)
        seconds: F64 = SUM_SECONDS * cells + SUM_EACH * variables
        return seconds

    def map_kernel(self) -> tuple[Callable[..., None], Any]:
        """Return the kernel that maximises, and its first argument."""
        from ssvm_backends.trees.max_product import max_product

        return max_product, self.forest

    def _marginals(self, theta: Theta, node: F64, ids: I64, limits: Limits) -> Solution:
        from ssvm_backends.trees.sum_product import SumOutput, exp_tables, sum_product

        program, allowed = self.program, None if self._tables is None else self._tables.select(ids)
        shift, factor = exp_tables(program, theta, ids)
        sums = SummedAnswers.start_of(program, ids)
        # the rows of an example's factors, less their numbers among those of all
        first = np.zeros((max(len(program.groups), 1), len(ids)), dtype=np.int64)
        for g, (rows, group) in enumerate(zip(sums.rows, program.groups, strict=True)):
            first[g] = rows[:-1] - group.ptr[:-1][ids]
        sums.log_z[:] = -np.inf
        widths = np.array([g.n_configs for g in program.groups] or [1], dtype=np.int64)
        reached, end = 0, np.inf if allowed is None or limits.time is None else perf_counter() + limits.time
        seconds = None if limits.time is None or allowed is not None else self._sum_seconds(ids)
        for lo, hi in chunks_until(len(ids), limits, seconds):
            mine = sums.log_z[lo:hi]
            out = SumOutput(sums.start[lo:], sums.node, first[:, lo:hi].copy(), sums.offset, widths, sums.pool, mine)
            if allowed is None:
                sum_product(self.forest, theta.pool, factor, shift, node, ids[lo:hi], out)
                reached = hi
                continue
            from ssvm_backends.trees.count_sum import LONG, CountedScores, sum_by_count, sum_in_slices

            within = allowed.shape[lo:hi, 0].copy(), allowed.start[lo:hi], allowed.offset
            scores = CountedScores(theta.pool, factor, shift, node, allowed.counts, *within)
            alone = int(ids[lo]) if hi == lo + 1 and within[0][0] else -1
            if alone >= 0 and end < np.inf and program.var_ptr[alone + 1] - program.var_ptr[alone] >= LONG:
                if not sum_in_slices(self.forest, scores, alone, out, end):
                    break
            else:
                sum_by_count(self.forest, scores, ids[lo:hi], out)
            reached = hi
        return sums.solution(theta.const, reached)


def check_memory(program: Program, ids: I64, k: int) -> None:
    """Refuse a k whose lists do not fit.

    Raises
    ------
    TooLargeError
        They need more memory than allowed.
    """
    if not len(ids):
        return
    first, last = program.var_ptr[ids], program.var_ptr[ids + 1]
    longest, states = float((last - first).max()), float((program.state_ptr[last] - program.state_ptr[first]).max())
    each = 8.0 * states + 16.0 * longest * float(program.card.max(initial=1))
    if k * each > MEMORY:
        text = f"the {k} best labellings of {longest:.0f} variables need lists of {k * each / 2**30:.1f} GiB"
        text += f" ({MEMORY / 2**30:g} are allowed); ask for at most {int(MEMORY // each)}"
        raise TooLargeError(text)


# -- A bound on the number of true literals of each example, as tables of counts that dynamic programming goes by ----
#
# Every state counts as many as it makes literals true; labellings whose count is within the bounds are worth their
# score, others nothing.  Where few literals may be *false*, these are counted instead: tables are as large as the
# smaller of the two numbers.


def refusal(need: Need) -> str:
    """Return why the constraints of a need are too much, in words; empty where they are not."""
    if not need.constraint_kinds:
        return ""
    if need.max_constraints > 1:
        return f"handles one constraint for each example, this has {need.max_constraints}"
    if Task.KBEST in need.tasks:
        return f"with constraints it lists no k best labellings, asked for {Task.KBEST}"
    return ""


#: Operations that a variable takes besides where counts are kept, and times as many that a step takes for each count.
VARIABLE, STEP = 1400.0, 1.3

#: Times as many that sums take, in logarithms.
SUMS = 12.0


def counting(need: Need) -> tuple[float, float]:
    """Return (operations, bytes) of dynamic programming that counts as far as the bounds make it."""
    steps = need.n_variables * float(need.max_card) ** 2
    if not need.constraint_kinds:
        return steps, 0.0
    rows, sums = 1.0 + need.max_count, Task.MARGINALS in need.tasks
    step, each = (SUMS * STEP, 32.0) if sums else (STEP, 24.0)
    return VARIABLE * need.n_variables + step * rows * steps, each * need.max_variables * rows * need.max_card


@dataclass(frozen=True, eq=False)
class _Counts:
    """The count of each state, and the bounds on the sum of each example.

    Parameters
    ----------
    states : ndarray of int64, shape (S,)
    lower, upper : ndarray of int64, shape (B,)
    """

    states: I64
    lower: I64
    upper: I64


def count_tables(program: Program) -> CountTables:
    """Return the tables of a program whose examples have at most one ``count`` constraint each."""
    counts_of_states = _of_literals(program)
    states, largest = counts_of_states.states, _largest(program, counts_of_states.states)
    most = np.bincount(owners(program.var_ptr), largest, program.n_examples).astype(np.int64)
    lower, upper = np.maximum(counts_of_states.lower, 0), np.minimum(counts_of_states.upper, most)
    free = (lower == 0) & (upper == most)  # nothing is ruled out, so that nothing is counted
    states = np.where(np.repeat(free[owners(program.var_ptr)], program.card), 0, states)
    largest, most = np.where(free[owners(program.var_ptr)], 0, largest), np.where(free, 0, most)
    upper = np.where(free, 0, upper)
    fewer = most - lower < upper  # count the false ones
    flip = fewer[owners(program.var_ptr)]
    opposite = np.repeat(largest, program.card) - states
    states = np.where(np.repeat(flip, program.card), opposite, states)
    lower, upper = np.where(fewer, most - upper, lower), np.where(fewer, most - lower, upper)
    rows = np.where((upper >= lower) & (lower >= 0), upper + 1, 0)
    start = pointers(rows)
    count = np.arange(start[-1]) - np.repeat(start[:-1], rows)
    offset = np.where(count >= np.repeat(lower, rows), 0.0, -np.inf)
    shape = np.stack([rows, np.ones_like(rows)], axis=1)
    counts = np.stack([states, np.zeros_like(states)], axis=1)
    return CountTables.of_prices(counts, shape, start[:-1], offset)


def _of_literals(program: Program) -> _Counts:
    """Add up the literals of each state."""
    states = np.zeros(program.n_states, dtype=np.int64)
    lower, upper = np.zeros(program.n_examples, np.int64), np.zeros(program.n_examples, np.int64)
    for group in program.constraints:
        example = group.example_of
        lower[example], upper[example] = group.meta["lower"], group.meta["upper"]
        variable = program.var_ptr[:-1][example[group.constraint_of]] + group.variable
        sign = np.where(group.negated, -1, 1)
        np.add.at(states, program.state_ptr[:-1][variable] + group.state, sign)
        every = np.bincount(variable[group.negated], minlength=program.n_variables)
        states += np.repeat(every, program.card)
    return _Counts(states, lower, upper)


def _largest(program: Program, states: I64) -> I64:
    """Return the most that a state of each variable counts."""
    if not program.n_variables:
        return np.zeros(0, dtype=np.int64)
    return np.asarray(np.maximum.reduceat(states, program.state_ptr[:-1]))
