"""What ssvm-dsl reads at start: the description of the backend; the solver is not imported here."""

from __future__ import annotations

from collections.abc import Iterable

from ssvm_dsl.ir import Caps, Guarantee, Task, Topology
from ssvm_dsl.plugin_api import BackendSpec, hookimpl


@hookimpl
def ssvm_backends() -> Iterable[BackendSpec]:
    """Return the backend ``maxflow``."""
    caps = Caps(
        tasks=frozenset({Task.MAP, Task.MAP_CLAMPED}),
        topology=Topology.LOOPY,
        max_arity=2,
        guarantee=Guarantee.EXACT,
        requires=frozenset({"binary", "submodular"}),
    )
    return [
        BackendSpec(
            "maxflow",
            "ssvm_maxflow.backend:MaxFlow",
            "minimum cuts by PyMaxflow: exact for binary submodular models with factors of two variables",
            requires=("maxflow",),
            install_hint="pip install PyMaxflow",
            caps=caps,
            speed=7e7,
        )
    ]
