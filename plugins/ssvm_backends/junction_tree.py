"""``junction-tree``: exact answers on graphs of bounded treewidth, by variable elimination.

Answers best labellings, the k best, marginals and log Z.  Forbidden states, clamps and what follows from them are
taken out first, which may make the graph much simpler; the order of elimination is chosen afterwards
(:mod:`ssvm_dsl.ir.treewidth`).  An order becomes a plan (:mod:`ssvm_backends._elimination.plan`) that kernels replay,
so a batch of identical graphs is planned once.

Time and memory grow exponentially with the treewidth.  Before anything is computed the plan says exactly how much
memory all tables need; more than ``max_entries`` numbers of 8 bytes are refused with
:class:`~ssvm_dsl.errors.TooLargeError`.  The k best labellings are found by splitting what is left after each one
into parts (Lawler 1972), each maximised on its own: up to n maximisations for each labelling.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any

import numpy as np

from ssvm_backends._elimination.plan import F64, I32, I64, Compiled, compile_plan
from ssvm_backends._graphs.by_example import NO_LIMITS, Clock, pack_arrays
from ssvm_backends._graphs.graph import Instance, build_graph, graph_bytes
from ssvm_backends._graphs.reduce import Reduced, reduce_problem
from ssvm_dsl.errors import TooLargeError
from ssvm_dsl.ir import Limits, Need, Program, Solution, Stop, Task, Theta, Topology
from ssvm_dsl.ir.ragged import pointers
from ssvm_dsl.ir.solution import select
from ssvm_dsl.ir.treewidth import GIVE_UP, structure_keys, width_order
from ssvm_dsl.plugin_api import Verdict

#: Numbers (of 8 bytes) that all tables together may take, unless the option says otherwise: half a gigabyte.
MAX_ENTRIES = 2**26

#: Table entries between two looks at the clock; some 10 to 50 ms.
BUDGET = 20_000_000


class JunctionTree:
    """Variable elimination: O(2^w) memory and O(n 2^w) time for binary variables and tables of w variables."""

    def check(self, need: Need) -> Verdict:
        """Accept what has tables within the usual limit."""
        return self.check_with(need, {"max_entries": MAX_ENTRIES})

    def check_with(self, need: Need, options: Mapping[str, Any]) -> Verdict:
        """Accept what has tables within the limit that the options give."""
        table, allowed = 2.0**need.max_clique_table, int(options["max_entries"])
        if table > allowed:
            return Verdict(False, reasons=(_too_large(need.max_clique_table, None, allowed),))
        each = need.n_variables if need.topology < Topology.LOOPY else need.n_examples
        return Verdict(True, 8.0 * each * table + need.n_variables, n_bytes=graph_bytes(need) + 12.0 * table)

    def open(self, program: Program, options: Mapping[str, Any]) -> JunctionTreeSession:
        """Return a session."""
        return JunctionTreeSession(program, int(options["max_entries"]), options["marginals"] == "all")


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
        self.program, self.max_entries, self.with_marginals = program, max_entries, with_marginals
        self.graph = build_graph(program)
        self._keys: list[bytes] | None = None

    def solve(
        self,
        theta: Theta,
        *,
        examples: I64 | None = None,
        task: Task = Task.MAP,
        clamp: I32 | None = None,
        warm: Any = None,
        limits: Limits = NO_LIMITS,
        k: int = 1,
    ) -> Solution:
        """Answer a question; see :class:`~ssvm_dsl.plugin_api.Session`.

        Raises
        ------
        TooLargeError
            The tables of an example do not fit into what is allowed.
        """
        ids, clock = select(self.program, examples), Clock.start(limits)
        reduced = reduce_problem(self.program, self.graph, theta, ids, clamp)
        if task is Task.MARGINALS:
            from ssvm_backends._elimination.marginals import marginals

            return marginals(self, theta, ids, reduced, clock)
        if task is Task.KBEST:
            from ssvm_backends._elimination.kbest import k_best

            return k_best(self, theta, ids, reduced, clock, k)
        return self._best(theta, ids, reduced, clock)

    def by_structure(self, reduced: Reduced) -> Iterator[tuple[bytes, I64]]:
        """Yield (structure, positions among the examples asked for) of identical graphs."""
        found: dict[bytes, list[int]] = {}
        keys = self._structures(reduced)
        for position, here in enumerate(reduced.ids.tolist()):
            found.setdefault(keys[here], []).append(position)
        for key, positions in found.items():
            yield key, np.array(positions, dtype=np.int64)

    def plan(self, key: bytes, keep: bool) -> Compiled:
        """Return the plan for a structure.

        Raises
        ------
        TooLargeError
            It needs more memory than allowed.
        """
        elimination = width_order(key)
        if not elimination.complete:
            raise TooLargeError(_too_large(elimination.log2_largest, None, self.max_entries))
        compiled = _plan_of(key, keep)
        needed = compiled.entries(with_states=not keep)
        if needed > self.max_entries:
            hint = "\n  hint: the option marginals='none' computes log Z alone, in less memory" if keep else ""
            raise TooLargeError(_too_large(compiled.log2_largest, needed, self.max_entries) + hint)
        return compiled

    def _structures(self, reduced: Reduced) -> list[bytes]:
        """Return the structure of each example of the instance."""
        graph = reduced.instance.graph
        parts = graph.var_ptr, graph.card, graph.factor_ptr, graph.slot_ptr, graph.scope
        if reduced.kept is not None:
            return structure_keys(*parts)
        if self._keys is None:
            self._keys = structure_keys(*parts)
        return self._keys

    def _best(self, theta: Theta, ids: I64, reduced: Reduced, clock: Clock) -> Solution:
        """Return the best labellings."""
        ptr = reduced.label_ptr
        labels, score = np.zeros(int(ptr[-1]), dtype=np.int32), np.full(len(ids), np.nan)
        stop = np.full(len(ids), Stop.TIME, dtype=np.int8)
        try:
            for key, positions in self.by_structure(reduced):
                done = maximise(
                    self.plan(key, False), reduced.instance, reduced.ids[positions], ptr[positions], labels, score,
                    positions, clock,
                )  # fmt: skip
                stop[positions[:done]] = Stop.FINISHED
                if done < len(positions):
                    break
        except KeyboardInterrupt:
            stop[stop == Stop.TIME] = Stop.INTERRUPTED
        there = (stop == Stop.FINISHED) & reduced.feasible & (score > -np.inf)
        # the score of a best labelling is its bound; -inf leaves it to the score that is computed anew
        bound = np.where(stop == Stop.FINISHED, -np.inf, np.nan)
        return pack_arrays(self.program, theta, ids, reduced, labels, there, bound, stop)


def maximise(
    compiled: Compiled, instance: Instance, ids: I64, label_ptr: I64, labels: I32, score: F64, positions: I64,
    clock: Clock,
) -> int:  # fmt: skip
    """Write best labellings of examples with one structure, until time is up; return how many are done.

    Parameters
    ----------
    ids : ndarray of int64, shape (m,)
        Examples of the instance.
    label_ptr : ndarray of int64, shape (m,)
        Where the labels of each go.
    labels : ndarray of int32
    score : ndarray of float64
        Scores without constants go to ``score[positions]``.
    positions : ndarray of int64, shape (m,)
    clock : Clock
    """
    from ssvm_backends._elimination.blocks import make_walk
    from ssvm_backends._elimination.max import max_steps

    plan = compiled.plan
    work, best = np.empty(compiled.work), np.empty(int(plan.arg[-1]), dtype=np.uint8)
    walk, mine, cursor = make_walk(plan, compiled.scratch), np.zeros(len(ids)), np.zeros(3, dtype=np.int64)
    while cursor[0] < len(ids) and not clock.over:
        max_steps(
            plan, instance.graph, instance.node, instance.pool, ids, label_ptr, labels, mine, work, best, walk,
            cursor, BUDGET,
        )  # fmt: skip
    done = int(cursor[0])
    score[positions[:done]] = mine[:done]
    return done


@lru_cache(maxsize=256)
def _plan_of(key: bytes, keep: bool) -> Compiled:
    """Return the plan for a structure, from its key."""
    numbers = np.frombuffer(key, dtype=np.int32)
    n, m = int(numbers[0]), int(numbers[1])
    slot_ptr = pointers(numbers[2 + n : 2 + n + m])
    return compile_plan(numbers[2 : 2 + n], slot_ptr, numbers[2 + n + m :], width_order(key).order, keep)


def _too_large(log2_largest: float, entries: float | None, allowed: int) -> str:
    """Return what is too large, in words."""
    least = "at least " if log2_largest > GIVE_UP else ""
    table = f"exact elimination meets a clique table of {least}{2.0**log2_largest:.2g} entries"
    everything = "" if entries is None else f" and {entries:.2g} numbers ({8e-9 * entries:.2g} GB) in all"
    return f"{table}{everything}; allowed are {allowed:.2g} numbers ({8e-9 * allowed:.2g} GB): option max_entries"
