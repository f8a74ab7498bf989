"""Which programs the oracles of single structures take."""

from __future__ import annotations

from ssvm_dsl.ir import Need, Task
from ssvm_dsl.plugin_api import Verdict

#: Fixed operations of a call of an oracle.
CALL = 5e4


def verdict(need: Need, cost: float) -> Verdict:
    """Return whether every constraint stands by itself, at so many operations for each example."""
    if need.shared_literals:
        reasons = ("takes variables that are in one literal of one constraint; here one is in several",)
        return Verdict(False, reasons=reasons)
    if Task.KBEST in need.tasks:  # a call for each variable
        cost = need.max_variables * (cost + CALL)
    return Verdict(True, need.n_examples * cost, n_bytes=40.0 * need.n_variables)
