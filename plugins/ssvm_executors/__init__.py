"""The bundled executors: where training on shards of the data runs; here are only descriptions."""

from __future__ import annotations

from collections.abc import Iterable

from ssvm_dsl.plugin_api import ExecutorSpec, Option, hookimpl

_SHARDS = "into how many shards a list of examples is cut; None: as many as there are workers"

_OPEN = "shards that a worker keeps open, where memory is short: others are read again in each pass; None: 64"


@hookimpl
def ssvm_executors() -> Iterable[ExecutorSpec]:
    """Return the bundled executors."""
    return (
        ExecutorSpec(
            "processes",
            "ssvm_executors.processes:WorkerProcesses",
            "processes of this machine, with different shards for each",
            options=(
                Option("workers", None, "number of processes; None: the processors this one may use", int, least=1,
                       optional=True),
                Option("shards", None, _SHARDS, int, least=1, optional=True),
                Option("open", None, _OPEN, int, least=1, optional=True),
            ),
        ),
        ExecutorSpec(
            "stream",
            "ssvm_executors.stream:ShardStream",
            "this process, one shard after the other: memory for one, which is read again in each pass",
            keeps=False,
            options=(
                Option("shards", 8, "into how many shards a list of examples is cut", int, least=1),
                Option("open", 1, "shards that stay open", int, least=1),
            ),
        ),
    )  # fmt: skip
