"""Records of plug-ins: origin, the kinds they may describe, mistakes."""

from __future__ import annotations

from dataclasses import dataclass

from ssvm_dsl.plugin_api.specs import (
    BackendSpec,
    BridgeSpec,
    CommandSpec,
    ConstraintSpec,
    ExecutorSpec,
    LossSpec,
    ReaderSpec,
    RiskSpec,
    Spec,
    TrainerSpec,
)

#: Hook name -> kind of spec it returns.
KINDS: dict[str, type[Spec]] = {
    "ssvm_backends": BackendSpec,
    "ssvm_trainers": TrainerSpec,
    "ssvm_risks": RiskSpec,
    "ssvm_losses": LossSpec,
    "ssvm_constraints": ConstraintSpec,
    "ssvm_bridges": BridgeSpec,
    "ssvm_executors": ExecutorSpec,
    "ssvm_commands": CommandSpec,
    "ssvm_readers": ReaderSpec,
}


@dataclass(frozen=True)
class PluginInfo:
    """A plug-in that was found.

    Parameters
    ----------
    name : str
        Name of the entry point (or the one given at registration).
    distribution : str
        The package it comes with, and its version.
    bundled : bool
        Part of this distribution.
    allowed : bool
        Whether ``auto`` may choose its backends.
    """

    name: str
    distribution: str
    bundled: bool
    allowed: bool

    @property
    def key(self) -> str:
        """Unique name: two distributions may use the same entry-point name."""
        return f"{self.distribution}/{self.name}"

    def __str__(self) -> str:
        return f"plug-in '{self.name}', {self.distribution}"

    def describe_owner(self, spec: Spec) -> str:
        """Return what errors call one of its specs: ``"backend 'x' (plug-in 'y', z 1.0)"``."""
        return f"{word(type(spec))} '{spec.name}'" + ("" if self.bundled else f" ({self})")


@dataclass(frozen=True)
class PluginProblem:
    """Something wrong with a plug-in, and what was left out because of it."""

    plugin: str
    text: str

    @classmethod
    def of(cls, info: PluginInfo, text: str) -> PluginProblem:
        """Return a problem whose text is one line."""
        return cls(info.name, " ".join(text.split()))


def word(kind: type[Spec]) -> str:
    """Return the name of a kind of spec: ``"backend"``, ``"trainer"`` ..."""
    return kind.__name__.removesuffix("Spec").lower()
