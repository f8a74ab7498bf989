"""The workers of a Dask cluster as an executor of ssvm-dsl; here is only its description."""

from __future__ import annotations

from collections.abc import Iterable

from ssvm_dask.parts import computed, delayed_parts
from ssvm_dsl.plugin_api import ExecutorSpec, Option, hookimpl

__all__ = ["computed", "delayed_parts", "ssvm_executors"]

_ADDRESS = "of a scheduler, such as 'tcp://host:8786'; None: the client of this process, else workers on this machine"
_WORKERS = "processes on this machine, where these are started; None: the processors this one may use"
_SHARDS = "into how many shards a list of examples is cut; None: as many as there are workers"
_OPEN = "shards that a worker keeps open, where memory is short: others are read again in each pass; None: 64"
_PATIENCE = "seconds to wait for the scheduler, and for a worker where there is none"


@hookimpl
def ssvm_executors() -> Iterable[ExecutorSpec]:
    """Return the executor."""
    return [
        ExecutorSpec(
            "dask",
            "ssvm_dask.executor:DaskExecutor",
            "workers of a Dask cluster, each with shards of its own",
            requires=("distributed",),
            install_hint="pip install distributed",
            options=(
                Option("address", None, _ADDRESS, str, optional=True),
                Option("workers", None, _WORKERS, int, least=1, optional=True),
                Option("shards", None, _SHARDS, int, least=1, optional=True),
                Option("open", None, _OPEN, int, least=1, optional=True),
                Option("patience", 30.0, _PATIENCE, float, above=0),
            ),
        )
    ]
