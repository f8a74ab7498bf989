"""Dual solvers on one large example, piece by piece, so that time limits and Ctrl-C need not wait for a sweep to end.

The iterations are those of the kernels for batches, put together here from the same parts: sweeps over ranges of
variables or factors, local search within budgets, bounds as sums over ranges.  :meth:`Pieces.run` is a generator that
pauses about every :data:`PIECE` of work; whoever drives it looks at the clock and may stop at any pause.  Messages
change no labelling's score at any moment, so what a sweep has done by then counts: :meth:`Pieces.finish` computes the
bound of the messages as they are, and decodes a labelling if there is none.  How long that will take is told by
:meth:`Pieces.reserve` beforehand.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Generator, Iterator
from itertools import pairwise
from time import perf_counter

import numpy as np

from ssvm_backends.dual.answers.decode import POLISH, decode
from ssvm_backends.dual.kernels import (
    PHASE,
    VISIT,
    begin,
    bound_terms,
    end_phase,
    extent,
    fill_some,
    has_met,
    note_meeting,
    rounding_of,
    shift_of,
)  # fmt: skip
from ssvm_backends.dual.progress import VISIT_COST, SolverProgress
from ssvm_backends.graphs.graph import Instance
from ssvm_backends.local.search import local_search, score_of
from ssvm_dsl.ir import F64, I32

#: Work between two pauses, in table entries; 2 to 5 ms of message passing.
PIECE = 2e6

#: The same for local search, in table entries.
SEARCH_PIECE = 200_000

#: Work of the parts of :meth:`Pieces.finish`, as multiples of the work of a sweep in one direction (measured).
BOUND_SHARE, DECODE_SHARE, ANSWER_SHARE = 1.3, 0.9, 0.4

#: Seconds for a unit of work before anything was measured, and the work this counts for afterwards.
FIRST_PACE, FIRST_WORK = 3e-9, 1e7

#: Yields the units of work of each piece, for the estimate of the pace; 0 for pieces of another pace.
Steps = Generator[float, None, None]


def ranges(work: F64, first: int, piece: float) -> list[tuple[int, int, float]]:
    """Return ``(lo, hi, work)`` of consecutive ranges of about a piece of work each.

    Parameters
    ----------
    work : ndarray of float64, shape (n,)
    first : int
        The number of the first item.
    piece : float
    """
    total = np.cumsum(work)
    cuts = np.flatnonzero(np.diff(np.floor(total / piece))) + 1
    ends = [0, *cuts.tolist(), len(work)]
    sums = np.concatenate([[0.0], total])
    return [(first + lo, first + hi, float(sums[hi] - sums[lo])) for lo, hi in pairwise(ends) if lo < hi]


class Pieces(ABC):
    """Iterations on one example of an instance.

    Parameters
    ----------
    instance : Instance
    example : int
    messages : ndarray of float64
        Of this example: where to start, and afterwards those that give ``progress.bound``.
    progress : Progress
        Of this example alone; continued in place.
    tol : float
    price : float
        How much longer a visit to a slot takes than in other solvers.
    """

    by_factor = False  # the order of the list of visits

    def __init__(
        self, instance: Instance, example: int, messages: F64, progress: SolverProgress, tol: float, price: float = 1.0
    ) -> None:
        g = instance.graph
        self.g, self.node, self.pool = g, instance.node, instance.pool
        self.example, self.messages, self.best, self.tol = example, messages, progress, tol
        self.shift = int(shift_of(g, example, 0))
        self.work, self.variables, self.factors = self._ranges(PIECE / price)
        longest, self.widest, self.deepest, n_slots = extent(g, np.array([example], dtype=np.int64))
        self.visits = np.empty(VISIT * n_slots, np.int64)
        self.labels, self.value = np.zeros(longest, np.int32), np.empty(self.widest)
        self.settling: I32 | None = None  # labels that local search is at
        self.best_decoded, self.polished = -np.inf, -np.inf
        self.seconds, self.units = FIRST_PACE * FIRST_WORK, FIRST_WORK

    def _ranges(self, piece: float) -> tuple[float, list[tuple[int, int, float]], list[tuple[int, int, float]]]:
        """Return the work of visiting all slots, and ranges of variables and of factors."""
        g, e = self.g, self.example
        v_lo, v_hi, f_lo, f_hi = g.var_ptr[e], g.var_ptr[e + 1], g.factor_ptr[e], g.factor_ptr[e + 1]
        first, last = g.slot_ptr[f_lo], g.slot_ptr[f_hi]
        work = g.table_size[g.slot_factor[first:last]] + VISIT_COST
        by_factor = np.concatenate([[0.0], np.cumsum(work)])
        by_variable = np.concatenate([[0.0], np.cumsum(work[g.touch_slot[first:last] - first])])
        of_factor = np.diff(by_factor[g.slot_ptr[f_lo : f_hi + 1] - first])
        of_variable = np.diff(by_variable[g.touch_ptr[v_lo : v_hi + 1] - first]) + 1.0
        total = float(by_factor[-1]) + float(v_hi - v_lo)
        return total, ranges(of_variable, int(v_lo), piece), ranges(of_factor, int(f_lo), piece)

    def run(self, most: int) -> Iterator[None]:
        """Iterate until the example is done or has had ``most`` iterations; pause after each piece."""
        begun, steps = perf_counter(), self._steps(most)
        for units in steps:
            if units > 0.0:
                self.seconds += perf_counter() - begun
                self.units += units
            yield
            begun = perf_counter()

    def _steps(self, most: int) -> Steps:
        yield from self.start()
        while not self.best.done[0] and self.best.iterations[0] < most:
            yield from self.iteration(most)
        yield from self.publish()
        yield from self.polish()

    def start(self) -> Steps:
        """Prepare for the first iteration."""
        g = self.g
        begin(g, self.example, 0, 0, self.messages, self.best)
        first = g.touch_ptr[g.var_ptr[self.example]]
        for lo, hi, _ in self.variables:
            fill_some(g, self.shift, self.by_factor, self.visits, first, g.touch_ptr[lo], g.touch_ptr[hi])
            yield 0.0

    @abstractmethod
    def iteration(self, most: int) -> Steps:
        """Do one more iteration; ``most`` is the number of the last one."""

    def reserve(self) -> float:
        """Return about how many seconds it takes to finish and to put the answer together."""
        share = BOUND_SHARE + ANSWER_SHARE + (0.0 if self.best.score[0] > -np.inf else DECODE_SHARE)
        return self.seconds / self.units * share * self.work

    def finish(self) -> None:
        """Take into account what an iteration has done that was not completed."""
        if self.settling is not None:
            self._take(self.settling)
        if self.best.score[0] == -np.inf:
            for _ in self.decode():
                pass
            self._take(self.labels)
        for _ in self.publish():
            pass

    def decode(self) -> Steps:
        """Write a labelling for the current messages to ``labels``."""
        for lo, hi, _ in self.variables:
            decode(
                self.g, self.node, self.pool, self.best.current, self.shift, self.example, self.labels, self.value,
                lo, hi,
            )  # fmt: skip
            yield 0.0

    def offer(self) -> Steps:
        """Take ``labels`` into account, improved by local search when they beat what was decoded earlier."""
        score = self._take(self.labels)
        if score > self.best_decoded or self.best.score[0] == -np.inf:
            yield from self._settle(self.labels, False, 1 << 62)
            self.best_decoded = max(score, self.best_decoded)

    def polish(self) -> Steps:
        """Improve the best labelling by moves of two variables, and repair it where it is forbidden."""
        if self.best.score[0] > self.polished or self.best.score[0] == -np.inf:
            yield from self._settle(self.best.labels.copy(), True, POLISH)
            self.polished = float(self.best.score[0])

    def _settle(self, labels: I32, pairs: bool, budget: int) -> Steps:
        self.settling, stale = labels, np.ones(2 * len(labels), np.bool_)
        while budget > 0:
            if local_search(self.g, self.node, self.pool, self.example, labels, stale, pairs, SEARCH_PIECE):
                break
            budget -= SEARCH_PIECE
            yield 0.0
        self._take(labels)
        self.settling = None

    def _take(self, labels: I32) -> float:
        """Return the score of a labelling; keep it if it is the best."""
        score = float(score_of(self.g, self.node, self.pool, self.example, labels))
        if score > self.best.score[0]:
            self.best.score[0] = score
            self.best.labels[:] = labels[: len(self.best.labels)]
        return score

    def publish(self) -> Generator[float, None, float]:
        """Keep the current messages when their bound is the lowest so far; return the sum of the sizes of its terms."""
        parts = [(lo, hi, 0, 0, 0.0) for lo, hi, _ in self.variables]
        parts += [(0, 0, lo, hi, BOUND_SHARE * work) for lo, hi, work in self.factors]
        total, size, moved, longest = 0.0, 0.0, 0.0, 1
        for v_lo, v_hi, f_lo, f_hi, work in parts:
            terms = bound_terms(self.g, self.node, self.pool, self.best.current, self.shift, v_lo, v_hi, f_lo, f_hi)
            total, size, moved, longest = total + terms[0], size + terms[1], moved + terms[2], max(longest, terms[3])
            yield work
        bound = total + rounding_of(self.g, self.example, size + moved, longest)
        if bound < self.best.bound[0]:
            self.best.bound[0] = bound
            self.messages[:] = self.best.current
        return size

    def end_iteration(self, bound: float, smooth: bool) -> Steps:
        """Count an iteration; publish and polish at the end of a phase (see the kernel of the same name)."""
        best = self.best
        best.iterations[0] += 1
        if has_met(best, 0, bound):
            yield from self.publish()
            note_meeting(best, 0, smooth)
        if not best.done[0] and best.iterations[0] % PHASE == 0:
            size = yield from self.publish()
            end_phase(self.g, self.example, 0, best, size, self.tol, smooth)
            yield from self.polish()
