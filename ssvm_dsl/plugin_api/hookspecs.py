"""The hooks.  Hooks register plug-ins, and inner loops use plain method calls.

A plug-in is a module (or object) named by an entry point of the group ``ssvm``.  It implements any of these
hooks with :data:`hookimpl`::

    from ssvm_dsl.plugin_api import BackendSpec, hookimpl

    @hookimpl
    def ssvm_backends():
        return [BackendSpec("my-solver", "my_package.solver:MySolver", caps=...)]

Specs name their factories as strings, so that listing plug-ins imports no solver.
"""

from __future__ import annotations

from collections.abc import Iterable

import pluggy

from ssvm_dsl.plugin_api.specs import (
    BackendSpec,
    BridgeSpec,
    CommandSpec,
    ConstraintSpec,
    ExecutorSpec,
    LossSpec,
    ReaderSpec,
    RiskSpec,
    TrainerSpec,
)
from ssvm_dsl.plugin_api.training import TrainingEvent

PROJECT = "ssvm"

hookspec = pluggy.HookspecMarker(PROJECT)
hookimpl = pluggy.HookimplMarker(PROJECT)


@hookspec
def ssvm_backends() -> Iterable[BackendSpec]:
    """Return inference backends."""
    raise NotImplementedError("a hook specification is never called")


@hookspec
def ssvm_trainers() -> Iterable[TrainerSpec]:
    """Return trainers."""
    raise NotImplementedError("a hook specification is never called")


@hookspec
def ssvm_risks() -> Iterable[RiskSpec]:
    """Return risks."""
    raise NotImplementedError("a hook specification is never called")


@hookspec
def ssvm_losses() -> Iterable[LossSpec]:
    """Return losses for ``CustomLoss(name, y)``."""
    raise NotImplementedError("a hook specification is never called")


@hookspec
def ssvm_constraints() -> Iterable[ConstraintSpec]:
    """Return kinds of hard constraints for ``Constraint(kind, literals)``."""
    raise NotImplementedError("a hook specification is never called")


@hookspec
def ssvm_bridges() -> Iterable[BridgeSpec]:
    """Return rewritings of hard constraints into tables."""
    raise NotImplementedError("a hook specification is never called")


@hookspec
def ssvm_executors() -> Iterable[ExecutorSpec]:
    """Return executors: where training on shards of the data runs."""
    raise NotImplementedError("a hook specification is never called")


@hookspec
def ssvm_commands() -> Iterable[CommandSpec]:
    """Return subcommands of ``ssvm``."""
    raise NotImplementedError("a hook specification is never called")


@hookspec
def ssvm_readers() -> Iterable[ReaderSpec]:
    """Return readers of files: formats of problems, and of examples."""
    raise NotImplementedError("a hook specification is never called")


@hookspec
def ssvm_training_event(event: TrainingEvent) -> bool | None:
    """Called once per outer iteration of training; return True to stop."""
