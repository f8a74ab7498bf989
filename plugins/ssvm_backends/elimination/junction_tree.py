"""``junction-tree``: exact answers on graphs of bounded treewidth, by variable elimination.

Answers best labellings, the k best, marginals and log Z.  Forbidden states, clamps and their consequences are
taken out first, which may make the graph much simpler; the order of elimination is chosen afterwards
(:mod:`ssvm_dsl.requirements.treewidth`).  An order becomes a plan (:mod:`ssvm_backends.elimination.plan`) that kernels
replay, so a batch of identical graphs is planned once.

Time and memory grow exponentially with the treewidth.  Before anything is computed the plan says exactly how much
memory all tables need; more than ``max_entries`` numbers of 8 bytes are refused with
:class:`~ssvm_dsl.errors.TooLargeError`.  The k best labellings are found by splitting the remaining labellings
after each one (Lawler 1972) and maximising over each part: up to n maximisations for each labelling.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from ssvm_backends.elimination.plan import Compiled
from ssvm_backends.elimination.plan_cache import MAX_ENTRIES, PlanCache, too_large
from ssvm_backends.graphs.deadline import TimeUp
from ssvm_backends.graphs.graph import Instance, graph_bytes
from ssvm_backends.graphs.reduce import Reduced
from ssvm_backends.graphs.session import FINISHED, INTERRUPTED, TIME, check_lists, pack_arrays, pack_ranked
from ssvm_dsl.errors import OutOfTime, TooLargeError
from ssvm_dsl.ir import I64, Need, Program, Question, Solution, Stop, Task, Theta
from ssvm_dsl.plugin_api import Clock, CompiledOracle, Ranked, Subspace, SubspaceSolver, Verdict, k_best_of

#: Operations for each variable of a shape that is laid out; a third of the real cost, since that arises once.
PLANNED = 8e3

#: Operations of an example compared with which a call from Python is negligible: about 10 ms.
MOST_COMPILED = 2e7

#: A compiled oracle is not offered when taking out forbidden states first saves this factor.
SIMPLER = 4.0


class JunctionTree:
    """Exact variable elimination along an order (Dechter 1999).

    O(c^w) memory and O(n c^w) time for n variables of c states and tables of up to w variables.
    """

    def check(self, need: Need) -> Verdict:
        """Accept problems whose tables are within the limit of the options."""
        table, allowed = 2.0**need.max_clique_table, int(need.options.get("max_entries", MAX_ENTRIES))
        if table > allowed:
            return Verdict(False, reasons=(too_large(need.max_clique_table, None, allowed),))
        cost = 8.0 * need.n_examples * _largest_cliques(need) * table + PLANNED * need.n_shapes * need.max_variables
        return Verdict(True, cost, n_bytes=graph_bytes(need) + 12.0 * table)

    def open(self, program: Program, options: Mapping[str, Any]) -> JunctionTreeSession:
        """Open the backend on a program of small treewidth; the session answers every task exactly."""
        return JunctionTreeSession(program, int(options["max_entries"]), options["marginals"] == "all")


def _largest_cliques(need: Need) -> float:
    """Return the approximate number of tables of the largest size: others are usually much smaller."""
    width = need.max_clique_table / max(np.log2(need.max_card), 1.0)
    return float(max(need.n_variables / max(need.n_examples, 1) - width, 0.0)) + 2.0


class JunctionTreeSession:
    """Elimination on the examples of a program.

    Parameters
    ----------
    program : Program
    max_entries : int
        Numbers of 8 bytes that all tables together may take.
    with_marginals : bool
        Whether the task ``marginals`` computes them, besides log Z.
    """

    def __init__(self, program: Program, max_entries: int, with_marginals: bool) -> None:
        self.program, self.with_marginals = program, with_marginals
        self.plans = PlanCache(program, max_entries)

    def solve(self, question: Question) -> Solution:
        """Answer a question; see :class:`~ssvm_dsl.plugin_api.Session`.

        Raises
        ------
        TooLargeError
            The tables of an example exceed the allowed memory.
        """
        theta, ids, clock = question.theta, question.ids(self.program), Clock.start(question.limits)
        reduced = self.plans.remainders.reduce(question)
        if question.task is Task.MARGINALS:
            from ssvm_backends.elimination.marginals import marginals

            return marginals(self.plans, self.with_marginals, question, reduced, clock)
        if question.task is Task.KBEST:
            return k_best(self.plans, theta, ids, reduced, clock, question.k)
        return self._best(theta, ids, reduced, clock)

    def compiled(self) -> CompiledOracle | None:
        """Return the oracle for trainers that call it inside their own kernels.

        ``None`` where examples take so long that a call from Python is negligible, where tables do not
        fit, and where masks make graphs much simpler: the oracle does not take out forbidden states first.
        """
        try:
            keys, plans = self.plans.of_all()
            operations = sum(plans[key].operations for key in keys)
            if max((plan.operations for plan in plans.values()), default=0.0) > MOST_COMPILED:
                return None
            if self.program.allowed is not None and operations > SIMPLER * self._masked_operations():
                return None
        except TooLargeError:
            return None
        from ssvm_backends.elimination.max import elimination_oracle, elimination_parts

        ints, longs, work = elimination_parts(self.plans.graph, plans, keys)
        return CompiledOracle(elimination_oracle, ints, longs, work, operations / max(len(keys), 1))

    def _masked_operations(self) -> float:
        """Return the operations of all examples when ruled out states are taken out first."""
        reduced = self.plans.remainders.reduce(Question(Theta.zeros(self.program)))
        groups = self.plans.by_structure(reduced)
        return sum(self.plans.plan(key, False).operations * len(positions) for key, positions in groups)

    def _best(self, theta: Theta, ids: I64, reduced: Reduced, clock: Clock) -> Solution:
        """Return the best labelling of each of some examples, by maximising variables out one after the other."""
        from ssvm_backends.elimination.max import maximise

        ptr = reduced.label_ptr
        labels, score = np.zeros(int(ptr[-1]), dtype=np.int32), np.full(len(ids), np.nan)
        stop = np.full(len(ids), TIME, dtype=np.int8)
        try:
            for key, positions in self.plans.by_structure(reduced):
                plan, examples = self.plans.plan(key, False), reduced.ids[positions]
                done = maximise(plan, reduced.instance, examples, ptr[positions], labels, score, positions, clock)
                stop[positions[:done]] = FINISHED
                if done < len(positions):
                    break
        except OutOfTime:  # while a graph was planned: those that are answered stay so
            pass
        except KeyboardInterrupt:
            stop[stop == TIME] = INTERRUPTED
        finished = stop == FINISHED
        there = finished & reduced.feasible & (score > -np.inf)
        if np.logical_and.reduce(there):
            return Solution.exact(reduced.lift(labels), score + reduced.instance.const[reduced.ids])
        # the score of a best labelling is its bound; -inf leaves it to the score that is recomputed
        bound = np.where(finished, -np.inf, np.nan)
        return pack_arrays(self.program, theta, ids, reduced, labels, there, bound, stop)


# -- The k best labellings of a graph of small width; see :mod:`ssvm_dsl.plugin_api.lawler` --------------------------
#
# A subspace is the same graph with fewer states, so that one plan serves them all.


class _Elimination(SubspaceSolver):
    """Maximises over subspaces of the labellings of one example by elimination."""

    def __init__(self, compiled: Compiled, instance: Instance, example: int, clock: Clock) -> None:
        graph = instance.graph
        first, last = graph.var_ptr[example], graph.var_ptr[example + 1]
        ends = graph.state_ptr[first : last + 1]
        super().__init__(ends - ends[0])
        self.compiled, self.clock, self.ids = compiled, clock, np.array([example], dtype=np.int64)
        self.mine, self.n = slice(int(ends[0]), int(ends[-1])), int(last - first)
        self.clean = instance.node[self.mine].copy()
        self.instance = instance._replace(node=instance.node.copy())

    def whole(self) -> Subspace:
        """Return the set of all labellings."""
        return Subspace.of_all(np.ones(len(self.clean), dtype=bool), self.n)

    def solve(self, space: Subspace, floor: Callable[[], float]) -> Subspace | None:
        """Return a subspace with its best labelling, ``None`` where all have a forbidden joint state."""
        from ssvm_backends.elimination.max import maximise

        self.instance.node[self.mine] = np.where(space.states(self.ptr), self.clean, -np.inf)
        labels, score, zero = np.zeros(self.n, np.int32), np.zeros(1), np.zeros(1, np.int64)
        if not maximise(self.compiled, self.instance, self.ids, zero, labels, score, zero, self.clock):
            raise TimeUp
        return space.with_best(labels, float(score[0])) if score[0] > -np.inf else None


def k_best(plans: PlanCache, theta: Theta, ids: I64, reduced: Reduced, clock: Clock, k: int) -> Solution:
    """Answer the task ``kbest``; the list of an example that time or the user cut short may lack some."""
    check_lists(np.diff(reduced.label_ptr), k)
    late = Ranked([], Stop.TIME)
    answers = [late if feasible else Ranked([], Stop.FINISHED) for feasible in reduced.feasible.tolist()]
    for key, places in plans.by_structure(reduced):
        for i in places[reduced.feasible[places]].tolist():
            if clock.over or late.stop is Stop.INTERRUPTED:  # before anything is prepared for the example
                answers[i] = late
                continue
            try:
                compiled = plans.plan(key, False)
            except OutOfTime:  # while the graph was planned
                answers[i] = late
                continue
            solver = _Elimination(compiled, reduced.instance, int(reduced.ids[i]), clock)
            answers[i] = k_best_of(solver, solver.whole, k)
            if answers[i].stop is Stop.INTERRUPTED:
                late = Ranked([], Stop.INTERRUPTED)
    return pack_ranked(plans.program, theta, ids, reduced.label_ptr, reduced.lift, answers, k)
