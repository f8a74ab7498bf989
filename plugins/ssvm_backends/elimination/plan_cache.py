"""Plans of elimination for the examples of a program: identical graphs share one."""

from __future__ import annotations

import numpy as np

from ssvm_backends.elimination.plan import Compiled
from ssvm_backends.graphs.graph import build_graph
from ssvm_backends.graphs.reduce import Reduced, Remainders, alike
from ssvm_dsl.errors import TooLargeError
from ssvm_dsl.ir import I64, BoundedCache, Program, pointers
from ssvm_dsl.plugin_api import GIVE_UP, structure_keys, width_order

#: Numbers (of 8 bytes) that all tables together may take, unless the option says otherwise: half a gigabyte.
MAX_ENTRIES = 2**26


class PlanCache:
    """The examples of a program with the plans for their graphs.

    Parameters
    ----------
    program : Program
    max_entries : int
        Numbers of 8 bytes that all tables together may take.
    """

    def __init__(self, program: Program, max_entries: int) -> None:
        self.program, self.max_entries = program, max_entries
        self.graph = build_graph(program)
        self.remainders = Remainders(program, self.graph)
        self._keys: list[bytes] | None = None
        self._all: list[tuple[bytes, I64]] | None = None
        self._last: tuple[bytes, bool, Compiled] | None = None

    def by_structure(self, reduced: Reduced) -> list[tuple[bytes, I64]]:
        """Return (structure, positions among the examples asked for) of identical graphs."""
        if reduced.remainder is not None:
            return reduced.remainder.alike
        if reduced.ids is not self.program.every_example:
            return alike(self._own_structures(), reduced.ids)
        if self._all is None:
            self._all = alike(self._own_structures(), reduced.ids)
        return self._all

    def plan(self, key: bytes, keep: bool) -> Compiled:
        """Return the plan for a structure.

        Raises
        ------
        TooLargeError
            It needs more memory than allowed.
        """
        last = self._last
        if last is not None and last[0] == key and last[1] == keep:
            return last[2]
        elimination = width_order(key)
        if not elimination.complete:
            raise TooLargeError(too_large(elimination.log2_largest, None, self.max_entries))
        compiled = plan_of(key, keep)
        needed = compiled.entries(with_states=not keep)
        if needed > self.max_entries:
            hint = "\n  hint: the option marginals='none' computes log Z alone, in less memory" if keep else ""
            raise TooLargeError(too_large(compiled.log2_largest, needed, self.max_entries) + hint)
        self._last = key, keep, compiled
        return compiled

    def of_all(self) -> tuple[list[bytes], dict[bytes, Compiled]]:
        """Return (structure of each example of the program, plan for maximisation of each structure).

        Raises
        ------
        TooLargeError
            One needs more memory than allowed.
        """
        keys = self._own_structures()
        return keys, {key: self.plan(key, False) for key in dict.fromkeys(keys)}

    def _own_structures(self) -> list[bytes]:
        """Return the structure of each example of the program."""
        if self._keys is None:
            graph = self.graph
            self._keys = structure_keys(graph.var_ptr, graph.card, graph.factor_ptr, graph.slot_ptr, graph.scope)
        return self._keys


#: Plans of all sessions; the ones that were used last stay.
PLANS: BoundedCache[tuple[bytes, bool], Compiled] = BoundedCache(2**26)


def plan_of(key: bytes, keep: bool) -> Compiled:
    """Return the plan for a structure, from its key."""
    plan = PLANS.get((key, keep))
    if plan is None:
        from ssvm_backends.elimination.plan_kernels import compile_plan

        numbers = np.frombuffer(key, dtype=np.int32)
        n, m = int(numbers[0]), int(numbers[1])
        slot_ptr = pointers(numbers[2 + n : 2 + n + m])
        plan = compile_plan(numbers[2 : 2 + n], slot_ptr, numbers[2 + n + m :], width_order(key).order, keep)
        PLANS.put((key, keep), plan, len(key) + plan.n_bytes)
    return plan


def too_large(log2_largest: float, entries: float | None, allowed: int) -> str:
    """Return a sentence on the table or memory that is too large."""
    least = "at least " if log2_largest > GIVE_UP else ""
    table = f"exact elimination meets a clique table of {least}{2.0**log2_largest:.2g} entries"
    everything = "" if entries is None else f" and {entries:.2g} numbers ({8e-9 * entries:.2g} GB) in all"
    return f"{table}{everything}; allowed are {allowed:.2g} numbers ({8e-9 * allowed:.2g} GB): option max_entries"
