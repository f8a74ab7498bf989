"""The bundled inference backends: one algorithm per file; here are only their descriptions."""

from __future__ import annotations

from collections.abc import Iterable

from ssvm_dsl.ir import Caps, Guarantee, Task, Topology
from ssvm_dsl.plugin_api import BackendSpec, ExecutorSpec, hookimpl

_ALL_EXACT = frozenset({Task.MAP, Task.MAP_CLAMPED, Task.KBEST, Task.MARGINALS})


@hookimpl
def ssvm_backends() -> Iterable[BackendSpec]:
    """Return the bundled backends."""
    return [
        BackendSpec(
            "chain",
            "ssvm_backends.chain:Chain",
            "exact dynamic programming on disjoint chains (Viterbi, forward-backward, k-best)",
            caps=Caps(tasks=_ALL_EXACT, topology=Topology.CHAIN, guarantee=Guarantee.EXACT, max_arity=2),
        ),
        BackendSpec(
            "tree",
            "ssvm_backends.tree:Tree",
            "exact dynamic programming on forests (max-product, sum-product, k-best)",
            caps=Caps(tasks=_ALL_EXACT, topology=Topology.FOREST, guarantee=Guarantee.EXACT, max_arity=2),
        ),
        BackendSpec(
            "brute-force",
            "ssvm_dsl.testing.brute_force:BruteForce",
            "tries every labelling: the reference for small examples of any shape",
            caps=Caps(tasks=_ALL_EXACT, topology=Topology.LOOPY, guarantee=Guarantee.EXACT, max_arity=64),
        ),
    ]


@hookimpl
def ssvm_executors() -> Iterable[ExecutorSpec]:
    """Return the bundled executor."""
    return [ExecutorSpec("threads", "ssvm_backends.threads:Threads", "a pool of threads in this process")]
