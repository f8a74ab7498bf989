"""The bundled bridges, which rewrite hard constraints into tables: one per file; here are only their descriptions."""

from __future__ import annotations

from collections.abc import Iterable

from ssvm_dsl.plugin_api import BridgeSpec, hookimpl

_BRIDGES = (
    BridgeSpec(
        "logic-to-tables",
        "ssvm_bridges.tables:LogicToTables",
        "constraints of any kind over few variables become tables of allowed joint states",
        every_constraint=True,
    ),
    BridgeSpec(
        "counts-to-states",
        "ssvm_bridges.counts:CountsToStates",
        "counts, and sums of multiples of one number, become partial sums along the graph: auxiliary variables",
        kinds=frozenset({"count", "linear"}),
    ),
    BridgeSpec(
        "runs-to-ages",
        "ssvm_bridges.runs:RunsToAges",
        "bounds on how long states last become ages along the chain: auxiliary variables",
        kinds=frozenset({"runs"}),
    ),
)


@hookimpl
def ssvm_bridges() -> Iterable[BridgeSpec]:
    """Return the bundled bridges."""
    return _BRIDGES
