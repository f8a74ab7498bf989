"""Which programs the oracles of single structures take."""

from __future__ import annotations

from ssvm_dsl.ir import Need
from ssvm_dsl.plugin_api import Verdict


def verdict(need: Need, cost: float) -> Verdict:
    """Return whether every constraint stands by itself, at so many operations for each example."""
    if need.shared_literals:
        reasons = ("takes variables that are in one literal of one constraint; here one is in several",)
        return Verdict(False, reasons=reasons)
    return Verdict(True, need.n_examples * cost, n_bytes=40.0 * need.n_variables)
