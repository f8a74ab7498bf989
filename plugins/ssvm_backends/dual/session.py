"""Sessions of dual solvers: run the kernel over the batch within the limits, and keep the messages.

A kernel continues with a batch of examples until a budget is spent (:mod:`ssvm_backends.dual.driver`): several small
examples at once, about :data:`CALL` of work of a larger one, a slice of a large one.  Between two calls the session
checks the clock, reports progress and can be interrupted.  Chunks depend on sizes only, so answers do not depend on
the speed of the machine.

Messages are kept for the next call in the layout of the whole program.  They reparametrise any scores, so they may
be used for others; where masks or clamps close other states than before, the messages of open ones are used.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping
from itertools import pairwise
from time import perf_counter
from typing import Any

import numpy as np

from ssvm_backends.dual.driver import ANSWER_SHARE, NO_END, SLICE, MessageTask, PassingRule, finish, paced
from ssvm_backends.dual.kernels import VISIT_COST, SolverProgress
from ssvm_backends.graphs.graph import Graph, Instance, factor_origin, graph_bytes
from ssvm_backends.graphs.reduce import Reduced
from ssvm_backends.graphs.session import GraphCall, GraphSession
from ssvm_dsl.ir import (
    F64,
    I64,
    Limits,
    Marginals,
    Messages,
    Need,
    Program,
    Question,
    Stop,
    Task,
    members,
    pointers,
    runs,
)
from ssvm_dsl.plugin_api import Clock, CompiledMessages

#: Work of one kernel call, in table entries looked at; about 20 ms.
CALL = 1e7

#: Work of an iteration from which on an example is solved slice by slice.
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
    """A range of the examples asked for, as views of the arrays of the whole batch.

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
        self.state: Any = None  # state of a solver between calls
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


class DualSession(GraphSession):
    """Lowers dual bounds and decodes labels.

    Parameters
    ----------
    program : Program
    options : mapping
        The backend's options; ``max_iterations`` and ``tol`` among them.
    """

    price = 1.0  # how much longer a visit to a slot takes than in other solvers

    def __init__(self, program: Program, options: Mapping[str, Any]) -> None:
        super().__init__(program, options)
        self._group: I64 | None = None  # the group of each factor, once it is asked for

    @abstractmethod
    def solver(
        self, instance: Instance, part: ExampleRange, rule: PassingRule
    ) -> tuple[MessageTask, Callable[[float], bool]]:
        """Return a task for a range of examples, and the function that continues it within a budget.

        ``rule`` is filled in except for the fields of the solver: ``smooth`` and ``by_factor``.
        """

    def answer_share(self, part: ExampleRange) -> float:
        """Return the work of putting an answer together, as a multiple of that of a sweep in one direction."""
        return ANSWER_SHARE

    def search(self, call: GraphCall) -> None:
        """Pass messages until all is done or a limit is reached; messages are kept for the next call."""
        ids, reduced, warm = call.ids, call.reduced, call.question.warm
        ptr = message_pointers(self.graph, ids)
        full = warm.of(ids, ptr) if isinstance(warm, Messages) else np.zeros(int(ptr[-1]))
        place = None if reduced.kept is None else message_places(self.graph, reduced, ids, ptr)
        messages = full if place is None else full[place]
        progress = SolverProgress.start(call.n_examples, 0, len(messages))._replace(labels=call.labels)
        progress.done[~reduced.feasible] = True
        most = self.most_iterations(call.clock.limits)
        call.state = parts = list[ExampleRange]()
        try:
            self._run(call, messages, progress, most, parts)
        finally:
            if place is not None:
                full[place] = messages
            call.warm = Messages(ids.copy(), ptr, full)
            call.stats = {"iterations": int(progress.iterations.sum())}
            call.there = progress.score > -np.inf
            known = (progress.bound < np.inf) & reduced.feasible
            const = np.where(known, call.instance.const[reduced.ids], 0.0)
            call.bound = np.where(known, np.nextafter(progress.bound + const, np.inf), np.nan)
            spent = np.where(progress.iterations >= most, Stop.ITERATIONS, Stop.TIME)
            call.stop = np.where(progress.done, Stop.FINISHED, spent).astype(np.int8)

    def slope(self, question: Question) -> Marginals | None:
        """Return where the dual bound of kept messages is attained; see :class:`~ssvm_dsl.plugin_api.MessageSession`.

        ``None`` where states are ruled out: messages do not tell which.
        """
        from ssvm_backends.dual.slope import best_choices

        theta, ids, warm = question.theta, question.ids(self.program), question.warm
        if not isinstance(warm, Messages) or not self.shows_messages(question):
            return None
        graph, program, ptr = self.graph, self.program, message_pointers(self.graph, ids)
        states = np.zeros(int((graph.var_ptr[ids + 1] - graph.var_ptr[ids]).sum()), np.int32)
        configs = np.zeros(int((graph.factor_ptr[ids + 1] - graph.factor_ptr[ids]).sum()), np.int32)
        best_choices(graph, theta.node, theta.pool, ids, ptr, warm.of(ids, ptr), states, configs)
        group = self.groups_of(ids)
        card = graph.card[members(graph.var_ptr, ids)]
        node = np.zeros(int(card.sum()))
        node[pointers(card)[:-1] + states] = 1.0
        tables = []
        for k, one in enumerate(program.groups):
            tables.append((configs[group == k][:, None] == np.arange(one.n_configs)).astype(np.float64))
        return Marginals(node, tuple(tables))

    def shows_messages(self, question: Question) -> bool:
        """Return whether no state is ruled out: messages do not tell which."""
        theta = question.theta
        return self.program.allowed is None and bool(np.isfinite(theta.pool).all() and np.isfinite(theta.node).all())

    def groups_of(self, ids: I64) -> I64:
        """Return the group of each factor of some examples."""
        if self._group is None:
            self._group, _ = factor_origin(self.program)
        return self._group[members(self.graph.factor_ptr, ids)]

    def compiled_messages(self) -> CompiledMessages | None:
        """Return ``None``: no message passing for kernels of others; solvers that have it return it."""
        return None

    def most_iterations(self, limits: Limits) -> int:
        """Return how many iterations an example may take."""
        most = int(self.options["max_iterations"])
        return most if limits.iterations is None else min(most, limits.iterations)

    def _run(
        self, call: GraphCall, messages: F64, progress: SolverProgress, most: int, parts: list[ExampleRange]
    ) -> None:
        """Iterate part by part, each with its share of the time."""
        reduced, clock = call.reduced, call.clock
        message_ptr = message_pointers(reduced.instance.graph, reduced.ids)
        chunks = list(self._chunks(reduced, most))
        for number, (lo, hi, large) in enumerate(chunks):
            if clock.over:
                return
            end = perf_counter() + clock.left / (len(chunks) - number)
            part = ExampleRange(lo, hi, reduced, message_ptr, messages, progress, call.question.task)
            parts.append(part)
            if not part.progress.done.all() and most > 0:
                rule = PassingRule(most, float(self.options["tol"]), anytime=large, price=self.price)
                budget = SLICE if large else CALL if hi == lo + 1 else NO_END
                self._iterate(reduced, part, rule, budget, end, clock)

    def _iterate(
        self, reduced: Reduced, part: ExampleRange, rule: PassingRule, budget: float, end: float, clock: Clock
    ) -> None:
        """Continue a range slice by slice; results of an interrupted example count."""
        task, go_on = self.solver(reduced.instance, part, rule)
        try:
            for finished in paced(task, go_on, budget, lambda: self.answer_share(part)):
                part.tell(reduced, clock)
                if finished >= end:
                    break
        finally:
            finish(task)
        part.tell(reduced, clock)

    def _chunks(self, reduced: Reduced, most: int) -> Iterator[tuple[int, int, bool]]:
        """Yield (first, stop, whether it is large) of parts of the batch; a large example is a part by itself."""
        graph, ids = reduced.instance.graph, reduced.ids
        entries = pointers(graph.table_size * np.diff(graph.slot_ptr))[graph.factor_ptr]
        slots = graph.slot_ptr[graph.factor_ptr]
        cost = 2.0 * (entries[ids + 1] - entries[ids] + VISIT_COST * (slots[ids + 1] - slots[ids] + 1))
        number = np.floor(np.cumsum(cost * max(most, 1)) / CALL).astype(np.int64)
        large = self.price * cost >= LARGE
        starts = [0, *(np.flatnonzero((np.diff(number) > 0) | large[1:] | large[:-1]) + 1).tolist(), len(ids)]
        for lo, hi in pairwise(starts):
            if lo < hi:
                yield lo, hi, bool(large[lo:hi].any())


def message_places(graph: Graph, reduced: Reduced, ids: I64, ptr: I64) -> I64:
    """Return for each message of a reduced instance its place among those of the program, packed over ``ids``."""
    left = reduced.instance.graph
    card = left.card[left.scope]
    states = reduced.state[runs(left.state_ptr[left.scope], card)]
    whole = np.repeat(graph.message_ptr[reduced.slot], card) + states
    first = graph.message_ptr[graph.slot_ptr[graph.factor_ptr[ids]]]
    counts = np.diff(left.message_ptr[left.slot_ptr[left.factor_ptr]])
    return whole - np.repeat(first - ptr[:-1], counts)
