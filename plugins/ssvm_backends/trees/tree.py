"""``tree``: exact dynamic programming on forests (Pearl 1988; max-product, sum-product, k-best)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ssvm_backends.trees.constrained import counting, refusal
from ssvm_backends.trees.session import ForestSession
from ssvm_dsl.ir import Need, Program
from ssvm_dsl.plugin_api import Verdict


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
