"""Sessions of dual solvers: reduce, run the kernel over the batch within the limits, pack, keep the messages.

A kernel works on a batch of examples for some iterations and can be called again to go on, so the session decides
how much to ask for at a time: about :data:`CALL` of work, several small examples or some iterations of one.  Large
examples are iterated on piece by piece (:mod:`ssvm_backends.dual.pieces`).  Between two calls or pieces it looks at
the clock, reports progress and can be interrupted.  The chunks depend on sizes only, so answers do not depend on
the speed of the machine.

Messages are kept for the next call in the layout of the whole program.  They reparametrise any scores, so they may
be used for others; where masks or clamps close other states than before, the messages of open ones are used.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from itertools import pairwise
from time import perf_counter
from typing import TYPE_CHECKING, Any

import numpy as np

from ssvm_backends.dual.progress import VISIT_COST, SolverProgress
from ssvm_backends.graphs.graph import Graph, Instance, build_graph, factor_origin, graph_bytes
from ssvm_backends.graphs.reduce import Reduced, reduce_problem
from ssvm_backends.graphs.session import pack_arrays
from ssvm_dsl.ir import (
    F64,
    I64,
    Limits,
    Marginals,
    Messages,
    Need,
    Program,
    Question,
    Solution,
    Stop,
    Task,
    Theta,
    members,
    pointers,
    runs,
)
from ssvm_dsl.plugin_api import Clock, CompiledMessages

if TYPE_CHECKING:
    from ssvm_backends.dual.pieces import Pieces

NO_LIMITS = Limits()

#: Work of one kernel call, in table entries looked at; about 20 ms.
CALL = 1e7

#: Work of an iteration from which on an example is solved piece by piece.
LARGE = 1e6


def message_pointers(graph: Graph, ids: I64) -> I64:
    """Return where the messages of each example start when packed over ``ids``; ``shape (n + 1,)``."""
    first = graph.message_ptr[graph.slot_ptr[graph.factor_ptr]]
    return pointers(first[ids + 1] - first[ids])


def dual_bytes(need: Need) -> float:
    """Return the memory of a session: its graph, and the messages of all examples."""
    return graph_bytes(need) + 8.0 * need.n_slots * need.max_card


def sweep_cost(need: Need) -> float:
    """Return about how many operations one update of all messages takes."""
    return 2.0 * need.n_variables * need.max_card + 2.0 * need.n_factors * need.max_arity * (need.max_table + 8.0)


class ExampleRange:
    """A range of the examples asked for, as views of what belongs to the whole batch.

    Parameters
    ----------
    lo, hi : int
        The range.
    reduced : Reduced
    message_ptr : ndarray of int64
        Where the messages of each example start.
    messages : ndarray of float64
    progress : Progress
    task : Task
    """

    def __init__(
        self, lo: int, hi: int, reduced: Reduced, message_ptr: I64, messages: F64, progress: SolverProgress, task: Task
    ) -> None:
        labels = slice(int(reduced.label_ptr[lo]), int(reduced.label_ptr[hi]))
        places = slice(int(message_ptr[lo]), int(message_ptr[hi]))
        self.task = task
        self.lo, self.hi, self.ids, self.messages = lo, hi, reduced.ids[lo:hi], messages[places]
        self.progress = progress.part(slice(lo, hi), labels, places)
        self.state: Any = None  # what a solver keeps from call to call
        self._reported = np.full((2, hi - lo), np.inf)

    @property
    def reached(self) -> int:
        """Iterations of the example that has had the most."""
        return int(self.progress.iterations.max(initial=0))

    def tell(self, reduced: Reduced, clock: Clock) -> None:
        """Report examples whose labelling or bound has improved."""
        if clock.limits.progress is None:
            return
        now = np.stack([-self.progress.score, self.progress.bound])
        for i in np.flatnonzero((now < self._reported).any(axis=0)):
            const = float(reduced.instance.const[self.ids[i]])
            clock.tell(float(self.progress.score[i]) + const, float(self.progress.bound[i]) + const)
        self._reported = now


class DualSession(ABC):
    """Lowers dual bounds and decodes labels.

    Parameters
    ----------
    program : Program
    options : mapping
        The backend's options; ``max_iterations`` and ``tol`` among them.
    """

    price = 1.0  # how much longer a visit to a slot takes than in other solvers

    def __init__(self, program: Program, options: Mapping[str, Any]) -> None:
        self.program, self.options = program, options
        self.graph = build_graph(program)
        self._group: I64 | None = None  # the group of each factor, once it is asked for

    @abstractmethod
    def iterate(self, instance: Instance, part: ExampleRange, n_iterations: int) -> None:
        """Run so many more iterations on each example of a part, in place."""

    @abstractmethod
    def pieces(self, instance: Instance, part: ExampleRange) -> Pieces:
        """Return what iterates on the single example of a part piece by piece."""

    def solve(self, question: Question) -> Solution:
        """Answer ``map`` or ``map_clamped``; see :class:`~ssvm_dsl.plugin_api.Session`."""
        return self._solved(question)[0]

    def _solved(self, question: Question) -> tuple[Solution, Reduced, list[ExampleRange]]:
        """Return the solution, what the examples were reduced to, and the parts that were iterated on."""
        theta, task, warm = question.theta, question.task, question.warm
        ids, clock = question.ids(self.program), Clock.start(question.limits)
        reduced = reduce_problem(self.program, self.graph, question)
        ptr = message_pointers(self.graph, ids)
        full = warm.of(ids, ptr) if isinstance(warm, Messages) else np.zeros(int(ptr[-1]))
        place = None if reduced.kept is None else message_places(self.graph, reduced, ids, ptr)
        messages = full if place is None else full[place]
        progress = SolverProgress.start(len(ids), int(reduced.label_ptr[-1]), len(messages))
        progress.done[~reduced.feasible] = True
        parts: list[ExampleRange] = []
        stop = self._run(reduced, messages, progress, clock, task, parts)
        if place is not None:
            full[place] = messages
        solution = self._packed(theta, ids, reduced, progress, stop)
        solution.warm = Messages(ids.copy(), ptr, full)
        solution.stats = {"iterations": int(progress.iterations.sum())}
        return solution, reduced, parts

    def slope(self, question: Question) -> Marginals | None:
        """Return where the dual bound of kept messages is attained; see :class:`~ssvm_dsl.plugin_api.MessageSession`.

        ``None`` where states are ruled out: messages do not tell which.
        """
        from ssvm_backends.dual.answers.slope import best_choices

        theta, ids, warm = question.theta, question.ids(self.program), question.warm
        finite = np.isfinite(theta.pool).all() and np.isfinite(theta.node).all()
        if not isinstance(warm, Messages) or self.program.allowed is not None or not finite:
            return None
        graph, program, ptr = self.graph, self.program, message_pointers(self.graph, ids)
        states = np.zeros(int((graph.var_ptr[ids + 1] - graph.var_ptr[ids]).sum()), np.int32)
        configs = np.zeros(int((graph.factor_ptr[ids + 1] - graph.factor_ptr[ids]).sum()), np.int32)
        best_choices(graph, theta.node, theta.pool, ids, ptr, warm.of(ids, ptr), states, configs)
        if self._group is None:
            self._group, _ = factor_origin(program)
        group = self._group[members(graph.factor_ptr, ids)]
        card = graph.card[members(graph.var_ptr, ids)]
        node = np.zeros(int(card.sum()))
        node[pointers(card)[:-1] + states] = 1.0
        tables = []
        for k, one in enumerate(program.groups):
            tables.append((configs[group == k][:, None] == np.arange(one.n_configs)).astype(np.float64))
        return Marginals(node, tuple(tables))

    def compiled_messages(self) -> CompiledMessages | None:
        """Return ``None``: no message passing for kernels of others; solvers that have it return it."""
        return None

    def _packed(self, theta: Theta, ids: I64, reduced: Reduced, progress: SolverProgress, stop: Stop) -> Solution:
        """Return the solution; ``stop`` is why examples that are not done have ended."""
        there = (progress.score > -np.inf) & reduced.feasible
        known = (progress.bound < np.inf) & reduced.feasible
        const = np.where(known, reduced.instance.const[reduced.ids], 0.0)
        bound = np.where(known, np.nextafter(progress.bound + const, np.inf), np.nan)
        spent = progress.iterations >= self.most_iterations(NO_LIMITS)
        why = np.where(progress.done, Stop.FINISHED, np.where(spent, Stop.ITERATIONS, stop)).astype(np.int8)
        return pack_arrays(self.program, theta, ids, reduced, progress.labels, there, bound, why)

    def most_iterations(self, limits: Limits) -> int:
        """Return how many iterations an example may take."""
        most = int(self.options["max_iterations"])
        return most if limits.iterations is None else min(most, limits.iterations)

    def _run(
        self,
        reduced: Reduced,
        messages: F64,
        progress: SolverProgress,
        clock: Clock,
        task: Task,
        parts: list[ExampleRange],
    ) -> Stop:
        """Iterate until all is done or a limit is reached, part by part; return which limit ends what is not done."""
        most = self.most_iterations(clock.limits)
        message_ptr = message_pointers(reduced.instance.graph, reduced.ids)
        chunks = list(self._chunks(reduced, most))
        stop = Stop.ITERATIONS
        try:
            for number, (lo, hi, at_a_time) in enumerate(chunks):
                if clock.over:
                    return Stop.TIME
                end = perf_counter() + clock.left / (len(chunks) - number)
                part = ExampleRange(lo, hi, reduced, message_ptr, messages, progress, task)
                parts.append(part)
                run = self._in_pieces if at_a_time == 0 else self._in_calls
                if not run(reduced, part, most, at_a_time, end, clock):
                    stop = Stop.TIME
        except KeyboardInterrupt:
            return Stop.INTERRUPTED
        return stop

    def _in_calls(
        self, reduced: Reduced, part: ExampleRange, most: int, at_a_time: int, end: float, clock: Clock
    ) -> bool:
        """Iterate by calls of the kernel; return False when time ran out."""
        while not part.progress.done.all() and part.reached < most:
            begin = perf_counter()
            self.iterate(reduced.instance, part, min(at_a_time, most - part.reached))
            part.tell(reduced, clock)
            now = perf_counter()
            if now + 0.7 * (now - begin) >= end:  # the next call would hardly be over in time
                return False
        return True

    def _in_pieces(
        self, reduced: Reduced, part: ExampleRange, most: int, at_a_time: int, end: float, clock: Clock
    ) -> bool:
        """Iterate on a single example piece by piece; return False when time ran out."""
        if part.progress.done[0] or most == 0:
            return True
        pieces = self.pieces(reduced.instance, part)
        try:
            for _ in pieces.run(most):
                part.tell(reduced, clock)
                if perf_counter() + pieces.reserve() >= end:
                    break
            else:
                return True
            pieces.finish()
        except KeyboardInterrupt:
            pieces.finish()
            raise
        part.tell(reduced, clock)
        return False

    def _chunks(self, reduced: Reduced, most: int) -> Iterator[tuple[int, int, int]]:
        """Yield (first, stop, iterations of a call) of parts of the batch; 0 for a large example by itself."""
        graph, ids = reduced.instance.graph, reduced.ids
        entries = pointers(graph.table_size * np.diff(graph.slot_ptr))[graph.factor_ptr]
        slots = graph.slot_ptr[graph.factor_ptr]
        cost = 2.0 * (entries[ids + 1] - entries[ids] + VISIT_COST * (slots[ids + 1] - slots[ids] + 1))
        number = np.floor(np.cumsum(cost * max(most, 1)) / CALL).astype(np.int64)
        large = self.price * cost >= LARGE
        starts = [0, *(np.flatnonzero((np.diff(number) > 0) | large[1:] | large[:-1]) + 1).tolist(), len(ids)]
        for lo, hi in pairwise(starts):
            if large[lo:hi].any():
                yield lo, hi, 0
            elif lo < hi:
                yield lo, hi, int(min(max(CALL / cost[lo:hi].sum(), 1.0), max(most, 1)))


def message_places(graph: Graph, reduced: Reduced, ids: I64, ptr: I64) -> I64:
    """Return for each message of a reduced instance its place among those of the program, packed over ``ids``."""
    left = reduced.instance.graph
    card = left.card[left.scope]
    states = reduced.state[runs(left.state_ptr[left.scope], card)]
    whole = np.repeat(graph.message_ptr[reduced.slot], card) + states
    first = graph.message_ptr[graph.slot_ptr[graph.factor_ptr[ids]]]
    counts = np.diff(left.message_ptr[left.slot_ptr[left.factor_ptr]])
    return whole - np.repeat(first - ptr[:-1], counts)
