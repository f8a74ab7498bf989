"""``decompose``: labellings and certified bounds of mixed structures, by dual decomposition.

Constraints and tables become parts that have exact oracles each (:mod:`ssvm_backends.decomposition.parts`); prices make
them agree (:mod:`ssvm_backends.decomposition.bundle`).  The sum of the parts' best scores is an upper bound at any
prices.  The labellings of the parts, checked against all constraints, improved and rescored, are the candidates.
Branch and bound closes the remaining gap (:mod:`ssvm_backends.decomposition.descent`): answers are exact
unless a limit ends the search.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from ssvm_backends.graphs.graph import Graph, build_graph, graph_bytes
from ssvm_dsl.errors import OutOfTime
from ssvm_dsl.ir import (
    F64,
    I8,
    DualBound,
    Marginals,
    Need,
    Prices,
    Primal,
    Program,
    Question,
    Solution,
    Stop,
    Terms,
    Theta,
    positions,
)
from ssvm_dsl.plugin_api import Clock, Verdict

if TYPE_CHECKING:
    from ssvm_backends.decomposition.dual_steps import DualSteps
    from ssvm_backends.decomposition.incumbents import Incumbents
    from ssvm_backends.decomposition.parts import DualSubproblem

#: Labellings that each part of an example keeps; a mixture of few variables of a count needs as many.
MOST_PLANES = 48

#: Bytes that the open nodes of an example may take, and how many there may be at least.
NODE_BYTES, FEWEST_NODES = 2.0**30, 200

#: Bytes that the prices of all examples take at most where they are kept for the next question.
MOST_BYTES = 2.0**28

#: Operations of a question, and for each variable or factor.  These become twice as many for each ``DOUBLING`` factors
#: that those of a factor's variables are more, up to ``CROWDED``.
CALL, EACH, DOUBLING, CROWDED = 1e7, 2e4, 6.0, 8.0

#: Parts are branched on where there are more bits than this to decide: such is the crowding, but a bound on a count
#: leaves fewer labellings.  So many more take twice as long: complete graphs of 10 to 50 labels, with and without
#: budgets.
BITS, SEARCHED = 18.0, 4.6

#: The kind of bounds on counts.
COUNT = "count"

#: Kinds of constraints that have oracles, and how many times as long parts take that are integer programs.
WITH_ORACLES = frozenset(
    {COUNT, "linear", "matching", "transport", "arborescence", "projective-tree", "segmentation", "path", "circuit"}
    | {"equivalence", "linear-order", "transitive", "acyclic"}
)
BY_ROWS = 100.0

#: How many times as long tables alone take where they join few of the pairs of variables: forests that share variables
#: of few factors hardly move one another.
SPARSE = 8.0

#: Seconds for each factor that it takes to lay them out for local search.
GRAPH_SECONDS = 4e-7


class Decompose:
    """Dual decomposition into parts with oracles, with branch and bound.

    The bound is ``sum_k max_y (f_k(y) + lam_k . x(y))`` for prices ``lam_k`` that sum to zero over the parts; see
    :mod:`ssvm_backends.decomposition.bundle`.
    """

    def check(self, need: Need) -> Verdict:
        """Accept everything; the cost is that of constraints that have oracles."""
        doublings = min(need.crowding, CROWDED) / DOUBLING + max(0.0, _bits(need) - BITS) / SEARCHED
        cost = EACH * (need.n_variables + need.n_factors) * 2.0**doublings
        if need.constraint_kinds:
            cost *= float(need.max_constraints) ** 3
        else:
            cost *= SPARSE ** (1.0 - min(1.0, need.crowding / max(need.max_variables - 1, 1)))
        if need.constraint_kinds - WITH_ORACLES:
            cost *= BY_ROWS
        states, parts = need.n_variables * need.max_card, 2.0 + need.n_factors / max(need.n_variables, 1)
        n_bytes = graph_bytes(need) + parts * (4.0 * MOST_PLANES * need.n_variables + 32.0 * states)
        return Verdict(True, CALL + cost, n_bytes=n_bytes)

    def open(self, program: Program, options: Mapping[str, Any]) -> DecomposeSession:
        """Open the backend on a program, cut into parts that exact backends answer."""
        return DecomposeSession(program, options)


def _bits(need: Need) -> float:
    """Return how many bits have to be decided, about: no more than the labellings that a bound on a count leaves."""
    n, most = max(need.max_variables, 1), need.max_count
    if need.constraint_kinds != {COUNT} or need.free_variables or need.max_card > 2 or 2 * most >= n:
        return need.crowding
    share = np.array([most / n, 1.0 - most / n])
    return min(need.crowding, -n * float(share[share > 0.0] @ np.log2(share[share > 0.0])))


class DecomposeSession:
    """Parts of one program.

    Parameters
    ----------
    program : Program
    options : mapping
    """

    def __init__(self, program: Program, options: Mapping[str, Any]) -> None:
        self.program, self.options = program, options
        self._constrained: tuple[list[DualSubproblem], Program] | None = None
        self._parts: list[DualSubproblem] | None = None
        self._steps: DualSteps | None = None

    def constrained(self, clock: Clock) -> tuple[list[DualSubproblem], Program]:
        """Return the parts with constraints, and the other groups; the first question with enough time makes them.

        Raises
        ------
        OutOfTime
        """
        from ssvm_backends.decomposition.parts import split_constraints

        if self._constrained is None:
            self._constrained = split_constraints(self.program, clock)
        return self._constrained

    def parts(self, clock: Clock) -> list[DualSubproblem]:
        """Return all parts; the first question with enough time makes them.

        Raises
        ------
        OutOfTime
        """
        from ssvm_backends.decomposition.parts import split_tables

        if self._parts is None:
            constrained, rest = self.constrained(clock)
            self._parts = split_tables(rest, constrained, int(self.options["max_entries"]), clock)
        return self._parts

    @cached_property
    def graph(self) -> Graph:
        """The program with all its factors as one graph: local search improves labellings on it."""
        return build_graph(self.program)

    def solve(self, question: Question) -> Solution:
        """Answer ``map`` or ``map_clamped``; see :class:`~ssvm_dsl.plugin_api.Session`."""
        from ssvm_backends.decomposition.incumbents import Incumbents

        program, clock = self.program, Clock.start(question.limits)
        ids, n = question.ids(program), program.n_examples
        theta = Theta(question.masked_node(program), question.theta.pool, question.theta.tables, question.theta.const)
        bound, stop, stats = np.full(n, np.inf), np.full(n, Stop.TIME, dtype=np.int8), dict[str, int]()
        labels, score = np.zeros(program.n_variables, np.int32), np.full(n, -np.inf)
        kept: Prices | None = None
        with suppress(OutOfTime):  # the result so far is the answer
            rules, _ = self.constrained(clock)
            clock.afford(GRAPH_SECONDS * sum(group.n_factors for group in program.groups))
            best = Incumbents(program, self.graph, rules, theta, clock)
            labels, score = best.labels, best.score  # which are written to
            if question.limits.time is not None:
                best.begin(ids)
            stats, kept = self._lower(question, theta, best, clock, bound, stop)
        score, labels = score[ids], labels[positions(program.var_ptr, ids)]
        bound = np.maximum(np.where(bound[ids] == np.inf, np.nan, bound[ids]), score)
        return Solution(labels, score, bound, stop[ids], Primal.codes(score, bound), warm=kept, stats=stats)

    def _lower(
        self, question: Question, theta: Theta, best: Incumbents, clock: Clock, bound: F64, stop: I8
    ) -> tuple[dict[str, int], Prices | None]:
        """Lower bounds and improve labellings, in place; return counters, and the prices to continue from."""
        from ssvm_backends.decomposition.bundle import new_bundle
        from ssvm_backends.decomposition.descent import Branching, PriceDescent
        from ssvm_backends.decomposition.dual_steps import PriceStore

        program, parts = self.program, self.parts(clock)
        members = np.stack([part.member for part in parts])
        bundle = new_bundle(program.var_ptr, program.state_ptr, members, MOST_PLANES)
        descent = PriceDescent(program, parts, bundle, Terms.of(program, theta), float(self.options["tol"]))
        best.parts, prices = parts, PriceStore(program, members)
        if isinstance(question.warm, Prices):
            prices.read(question.warm, bundle.center, descent.step)
        most, n_nodes = int(self.options["max_iterations"]), self._n_nodes(len(parts))
        if question.limits.iterations is not None:
            most, n_nodes = min(most, max(question.limits.iterations, 1)), 1
        tree = Branching(program, descent, theta, best)
        tree.run(question.ids(program), clock, most, n_nodes, bound, stop)
        whole = descent.terms.integers & (stop == Stop.FINISHED) & (best.score > -np.inf)
        bound[whole] = best.score[whole]  # no sum of integers lies between the two
        calls = {"oracle_calls": descent.calls}
        if tree.roots.nbytes > MOST_BYTES:
            return calls, None
        return calls, prices.written(question.ids(program), tree.roots, tree.steps)

    def dual_bound(self, question: Question) -> DualBound | None:
        """Lower bounds by prices; see :class:`~ssvm_dsl.plugin_api.DualBoundSession`."""
        from ssvm_backends.decomposition.dual_steps import DualSteps

        clock = Clock.start(question.limits)
        if not len(question.ids(self.program)):
            return None
        if self._steps is None:
            self._steps = DualSteps(self.program, self.parts(clock), float(self.options["tol"]))
        return self._steps.lowered(question, int(self.options["max_iterations"]), clock)

    def slope(self, question: Question) -> Marginals | None:
        """Return ``None``: variables may have several states where a bound is attained (:meth:`dual_bound`)."""
        return None

    def compiled_messages(self) -> None:
        """Return ``None``: no message passing for kernels of others."""
        return

    def _n_nodes(self, n_parts: int) -> int:
        """Return how many nodes the search of an example may have: unless said, as many as there is room for."""
        if self.options["max_nodes"] is not None:
            return int(self.options["max_nodes"])
        states = float(np.diff(self.program.state_ptr[self.program.var_ptr]).max(initial=1))
        return max(FEWEST_NODES, int(NODE_BYTES / (8.0 * (n_parts + 1) * states)))
