"""What ssvm-dsl reads at start: the description of the backend; the solver is not imported here."""

from __future__ import annotations

from collections.abc import Iterable

from ssvm_dsl.ir import Caps, Guarantee, Task, Topology, Warm
from ssvm_dsl.plugin_api import BackendSpec, Option, hookimpl


@hookimpl
def ssvm_backends() -> Iterable[BackendSpec]:
    """Return the backend ``toulbar2``."""
    caps = Caps(
        tasks=frozenset({Task.MAP, Task.MAP_CLAMPED}),
        topology=Topology.LOOPY,
        max_arity=64,
        guarantee=Guarantee.EXACT,
        warm=Warm.LABELS,
        searches=True,
    )
    return [
        BackendSpec(
            "toulbar2",
            "ssvm_toulbar2.backend:Toulbar2",
            "exact branch and bound with soft arc consistency, by the solver toulbar2",
            requires=("pytoulbar2",),
            install_hint="pip install pytoulbar2",
            options=(Option("vac", 0, "search depth down to which virtual arc consistency is kept", int, least=0),),
            caps=caps,
            speed=1e9,
        )
    ]
