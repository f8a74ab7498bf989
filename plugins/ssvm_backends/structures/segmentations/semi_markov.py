"""``semi-markov``: best segmentations, the k best, and sums over all of them, linear in the length of a sequence.

The algorithms: :mod:`ssvm_backends.structures.segmentations.best_segments`,
:mod:`ssvm_backends.structures.segmentations.best_segments`,
:mod:`ssvm_backends.structures.segmentations.count_segments`,
:mod:`ssvm_backends.structures.segmentations.sum_segments`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ssvm_backends.graphs.batch_session import BatchCall, BatchSession, SummedAnswers
from ssvm_backends.graphs.deadline import chunks_until
from ssvm_backends.structures.literals import add_free_marginals, best_states
from ssvm_backends.structures.packing import CALL
from ssvm_backends.structures.segmentations.segment_scores import Segmented, SpanScores, work_space
from ssvm_backends.structures.session import batch_of, places_of, variables_without_literals
from ssvm_dsl.errors import PluginError
from ssvm_dsl.ir import (
    F64,
    I32,
    I64,
    Ability,
    CountTables,
    Need,
    Program,
    Question,
    SegmentVariables,
    Solution,
    Task,
    owners,
    pointers,
    positions,
    segment_links,
    segment_variables,
)
from ssvm_dsl.kernels import pack
from ssvm_dsl.plugin_api import Clock, CompiledOracle, Verdict, pause, score_labels

if TYPE_CHECKING:
    from ssvm_backends.structures.segmentations.sum_segments import SegmentSums

#: Operations for each class of a span or of a transition.
SPAN = 4.0

#: Classes of spans and transitions between two checks of the clock.
STEPS = 2**22


class SemiMarkov:
    """Segmentations (Sarawagi and Cohen 2004), with factors of segments, successive segments, starts and neighbours.

    O(T K (K + L)) for T positions, K classes and segments of up to L positions.
    """

    def check(self, need: Need) -> Verdict:
        """Accept segmentations whose variables stand in runs; for the k best, one in each example and nothing else."""
        if (need.constraint_kinds or need.max_arity > 1) and not need.segmented:
            text = "takes the factors and constraints that a label of segments has, and no others"
            return Verdict(False, reasons=(text,))
        single = not need.free_variables and need.max_constraints <= 1
        if Task.KBEST in need.tasks and not single:
            return Verdict(False, reasons=("lists the k best labellings of a single label of segments",))
        cost, counts = 1e3 * need.n_examples + 2.0 * float(need.n_variables) * need.max_card, Ability.COUNTS
        if counts not in need.abilities:
            return Verdict(True, cost, n_bytes=40.0 * need.n_variables)
        if not single:
            return Verdict(False, reasons=("counts in a model whose only label is one label of segments",))
        text = "by counts the time grows with T K (K + L) A B: T positions, K classes, segments of up to L positions, "
        return Verdict(True, cost * need.max_variables, (text + "counts up to A and B",), 40.0 * need.n_variables)

    def open(self, program: Program, options: Mapping[str, Any]) -> SemiMarkovSession:
        """Return a session."""
        return SemiMarkovSession(program)


class SemiMarkovSession(BatchSession):
    """Segmentations of one program.

    Parameters
    ----------
    program : Program

    Raises
    ------
    PluginError
        It has other constraints or factors (those of a planned program are checked).
    """

    leaves_tables_out = True

    def __init__(self, program: Program) -> None:
        super().__init__(program)
        self.free, self.places = variables_without_literals(program), places_of(program)
        self.segmented = seg = _segmented(program)
        steps = seg.n * seg.n_classes * (seg.longest + seg.n_classes)
        self._steps = np.asarray(np.bincount(owners(seg.ptr), steps, program.n_examples), dtype=np.float64)

    def solve_map(self, call: BatchCall, lo: int, hi: int) -> int:
        """Write the best segmentations; see :class:`~ssvm_backends.graphs.batch_session.BatchSession`."""
        from ssvm_backends.structures.segmentations.best_segments import best_segmentations

        pool, batch = call.question.theta.pool, batch_of(call, lo, hi)
        best_states(self.places, self.free, batch)
        if not self._long(batch.ids):
            best_segmentations(self.segmented, pool, batch, np.zeros(hi - lo))
            return hi
        scores = SpanScores(self.segmented, pool, call.node)
        for e in range(lo, hi):
            best = self._by_ends(scores, int(call.ids[e]), call.labels[call.ptr[e] :], call.clock)
            if best is None:
                return e
            call.feasible[e] &= best > -np.inf
        return hi

    def _long(self, examples: I64) -> bool:
        """Return whether some examples are gone over in parts, with checks of the clock between them."""
        return bool(self._steps[examples].max(initial=0.0) > STEPS)

    def _parts(self, c: int, clock: Clock, first: int, end: int) -> Iterator[tuple[int, int]]:
        """Yield ranges of the ends of segments (or of rows of lists), as long as there is time."""
        seg = self.segmented
        step = max(1, STEPS // int(seg.n_classes[c] * (seg.longest[c] + seg.n_classes[c])))
        for lo in range(first, end, step):
            pause()
            if clock.over:
                return
            yield lo, min(lo + step, end)

    def _by_ends(self, scores: SpanScores, i: int, labels: I32, clock: Clock) -> float | None:
        """Write the best segmentations of an example, checking the clock; return their score, ``None`` if late."""
        from ssvm_backends.structures.segmentations.best_segments import make_ends

        seg, best = self.segmented, 0.0
        for c in range(seg.ptr[i], seg.ptr[i + 1]):
            n, score, reached = int(seg.n[c]), 0.0, 1
            work = work_space(n, int(seg.n_classes[c]), int(seg.longest[c]))
            for start, stop in self._parts(c, clock, 1, n + 1):
                score, reached = make_ends(scores, i, c, work, start, stop, labels), stop
                if score == -np.inf:
                    return score
            if reached <= n:
                return None
            best += score
        return best

    def compiled(self) -> CompiledOracle:
        """Return the oracle for trainers that call it inside their own kernels."""
        from ssvm_backends.structures.segmentations.best_segments import segment_oracle

        work = CALL + SPAN * float(self._steps.mean()) if len(self._steps) else CALL
        return CompiledOracle(segment_oracle, *pack(self.free, *self.segmented), 0, work)

    def solve_kbest(self, question: Question) -> Solution:
        """Answer the task ``kbest``."""
        from ssvm_backends.structures.segmentations.best_segments import kbest_segmentations

        program, theta = self.program, question.theta
        ids, node, ptr = question.ids(program), question.masked_node(program), question.label_ptr(program)
        labels, reached = np.zeros((question.k, int(ptr[-1])), dtype=np.int32), 0
        worth, clock = np.full((question.k, len(ids)), -np.inf), Clock.start(question.limits)
        for lo, hi in chunks_until(len(ids), question.limits):
            if self._long(ids[lo:hi]):
                scores = SpanScores(self.segmented, theta.pool, node)
                for e in range(lo, hi):
                    if not self._list_best(scores, int(ids[e]), labels[:, ptr[e] :], worth[:, e], clock):
                        break
                    reached = e + 1
                continue
            kbest_segmentations(
                self.segmented, theta.pool, node, ids[lo:hi], ptr[lo:], labels, part := np.empty((question.k, hi - lo))
            )
            worth[:, lo:hi], reached = part, hi
        exact = np.stack([score_labels(program, theta, row, ids) for row in labels])
        score = np.where(worth > -np.inf, exact, -np.inf)
        score[:, reached:] = np.nan
        return Solution.exact(labels, score)

    def _list_best(self, scores: SpanScores, i: int, labels: I32, worth: F64, clock: Clock) -> bool:
        """Write the k best segmentations of an example, with checks of the clock; return whether there was time."""
        from ssvm_backends.graphs.recursions import no_lists
        from ssvm_backends.structures.segmentations.best_segments import list_segmentations

        seg, c = self.segmented, int(self.segmented.ptr[i])
        if c == seg.ptr[i + 1]:
            worth[0] = 0.0
            return True
        n, k, score, reached = int(seg.n[c]), int(seg.n_classes[c]), np.empty(len(worth)), 0
        work, lists = work_space(n, k, int(seg.longest[c])), no_lists((2 * n + 1) * k, len(worth))
        for start, stop in self._parts(c, clock, 0, 2 * n + 1):
            list_segmentations(scores, i, work, lists, start, stop, labels, score)
            reached = stop
        worth[:] = score
        return reached > 2 * n

    def best_by_count(self, question: Question, tables: CountTables) -> Solution:
        """Return the labelling worth most by its counts; see :class:`~ssvm_dsl.plugin_api.CountingSession`."""
        from ssvm_backends.graphs.batch_session import Wanted
        from ssvm_backends.structures.segmentations.count_segments import Counts, best_by_count

        program, theta, node = self.program, question.theta, question.masked_node(self.program)
        ids, ptr = question.ids(program), question.label_ptr(program)
        labels, worth = np.zeros(int(ptr[-1]), dtype=np.int32), np.full(len(ids), -np.inf)
        own = [np.zeros((0, 2), dtype=np.int64), *(one.counts.reshape(-1, 2) for one in tables.factors)]
        table = np.ascontiguousarray(np.concatenate(own))
        counts = Counts(tables.counts, table, len(theta.pool) - len(table))
        wanted = Wanted(theta.const, tables.shape, tables.start, tables.offset, tables.scale, ptr, labels, worth)
        best_by_count(self.segmented, theta.pool, node, counts, ids, wanted)
        return Solution.exact(labels, worth)

    def solve_sum(self, call: BatchCall, sums: SummedAnswers, lo: int, hi: int) -> int:
        """Sum over segmentations; see :class:`~ssvm_backends.graphs.batch_session.BatchSession`."""
        from ssvm_backends.structures.segmentations.sum_segments import SegmentSums, sum_segmentations

        part, log_z, pool = call.ids[lo:hi], sums.log_z, call.question.theta.pool
        add_free_marginals(self.places, self.free, call.node, part, sums.start[lo:], sums.node, log_z[lo:hi])
        table_start, shares = np.ascontiguousarray(sums.table_start[:, lo:]), sums.pool
        if not call.question.tables:  # added up, where nobody asks for them
            table_start, shares = np.zeros((len(self.program.groups), 0), dtype=np.int64), np.zeros(len(pool))
        answer = SegmentSums(part, sums.node, sums.start[lo:], shares, table_start, np.ones(hi - lo))
        if not self._long(part):
            sum_segmentations(self.segmented, pool, call.node, answer, log_z[lo:hi])
            return hi
        scores = SpanScores(self.segmented, pool, call.node)
        for e in range(lo, hi):
            total = self._summed(scores, int(call.ids[e]), e - lo, answer, call.clock)
            if total is None:
                return e
            log_z[e] += total
        return hi

    def expect(self, question: Question, coef: F64, node: F64, tables: Sequence[F64]) -> F64 | None:
        """Add weighted marginals and return log partitions; see :class:`~ssvm_dsl.plugin_api.SumSession`."""
        from ssvm_backends.structures.segmentations.sum_segments import SegmentSums, sum_segmentations

        program, ids, pool = self.program, question.ids(self.program), np.zeros_like(question.theta.pool)
        if (np.diff(self.segmented.ptr) > 1).any():
            return None
        starts, own = program.state_ptr[program.var_ptr], question.masked_node(program)
        sizes, log_z = starts[ids + 1] - starts[ids], np.zeros(len(ids))
        start, clock = pointers(sizes), Clock.start(question.limits)
        out = np.zeros(int(start[-1]))
        add_free_marginals(self.places, self.free, own, ids, start, out, log_z)
        scores = SpanScores(self.segmented, question.theta.pool, own)
        none = np.zeros((len(program.groups), 0), dtype=np.int64)
        answer = SegmentSums(ids, out, start, pool, none, np.where(log_z > -np.inf, coef, 0.0))
        if self._long(ids):
            for e in range(len(ids)):
                total = self._summed(scores, int(ids[e]), e, answer, clock)
                log_z[e] += np.nan if total is None else total
        else:
            sum_segmentations(self.segmented, question.theta.pool, own, answer, log_z)
        node[positions(starts, ids)] += np.repeat(np.where(log_z > -np.inf, coef, 0.0), sizes) * out
        reached = 0
        for table in tables:
            table += pool[reached : reached + table.size].reshape(table.shape)
            reached += table.size
        return np.asarray(log_z + np.where(log_z > -np.inf, question.theta.const[ids], 0.0))

    def _summed(self, scores: SpanScores, i: int, e: int, answer: SegmentSums, clock: Clock) -> float | None:
        """Write the marginals of an example, with checks of the clock; return its log partition, ``None`` if late."""
        from ssvm_backends.structures.segmentations.sum_segments import sweep_down, sweep_up, window

        seg, total = self.segmented, 0.0
        for c in range(seg.ptr[i], seg.ptr[i + 1]):
            n, k, longest = int(seg.n[c]), int(seg.n_classes[c]), int(seg.longest[c])
            work, near, log_z, reached = work_space(n, k, longest), window(k, longest), 0.0, 1
            for start, stop in self._parts(c, clock, 1, n + 1):
                log_z, reached = sweep_up(scores, i, c, work, start, stop), stop
                if log_z == -np.inf:
                    return log_z
            if reached <= n:
                return None
            for lo, hi in self._parts(c, clock, 1, n + 1):
                reached = n + 2 - hi
                sweep_down(scores, e, c, work, reached, n + 2 - lo, near, answer)
            if reached > 1:
                return None
            total += log_z
        return total


def _segmented(program: Program) -> Segmented:
    """Return the segmentations of a program as the record that kernels read."""
    asked = [(group, segment_variables(program, group)) for group in program.constraints if group.n_constraints]
    groups = [(group, at) for group, at in asked if at is not None]
    links = segment_links(program, groups)
    if len(groups) < len(asked) or links is None:
        raise PluginError("semi-markov cannot open this program: its constraints or factors are of other forms")
    example = np.concatenate([np.zeros(0, np.int64), *(group.example_of for group, _ in groups)])
    order = np.argsort(example, kind="stable")
    none = np.zeros(0, np.int64)
    all_at = [SegmentVariables(none, none, none, np.zeros((0, 3), np.int64)), *(at for _, at in groups)]
    n, k, longest, first = (
        np.ascontiguousarray(np.concatenate([getattr(at, name) for at in all_at])[order])
        for name in ("n", "n_classes", "longest", "first")
    )
    shape, chosen = program.shape, np.unique(program.shape, return_index=True)[1].tolist()
    parts = [_factors_of(program, links, example) for example in chosen]
    columns = np.concatenate([np.zeros((0, 6), np.int64), *parts])
    sizes = [group.n_tables * group.n_configs for group in program.groups]
    base = np.stack([group.table_base for group in program.groups]) if sizes else np.zeros((0, program.n_examples))
    kind, variable, size, group, row, number = (np.ascontiguousarray(column) for column in columns.T.astype(np.int32))
    return Segmented(
        program.var_ptr, program.state_ptr, pointers(np.bincount(example, minlength=program.n_examples)),
        n, k, longest, first, shape, pointers(np.array([len(part) for part in parts], dtype=np.int64)),
        kind.astype(np.int8), variable, group, row, number, size,
        base.astype(np.int64), pointers(np.array(sizes, dtype=np.int64)),
    )  # fmt: skip


def _factors_of(program: Program, links: list[Any], example: int) -> Any:
    """Return (kind, variable, size, group, row, number) of the factors of an example, ``ndarray, shape (f, 6)``."""
    parts = [np.zeros((0, 6), dtype=np.int64)]
    for g, group in enumerate(program.groups):
        mine = group.shapes.factors(example)
        f = mine.stop - mine.start
        parts.append(np.column_stack([links[g][mine], np.full(f, g), group.rows[mine], np.arange(f)]))
    factors = np.concatenate(parts)
    return factors[np.argsort(factors[:, 1], kind="stable")]
