"""Plug-ins that are called after each iteration of a fit."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from ssvm_dsl.callers import warn_caller
from ssvm_dsl.errors import SsvmError
from ssvm_dsl.plugin_api.hosting.contained import contained
from ssvm_dsl.plugin_api.training import TrainingEvent


class Listener:
    """A plug-in's ``ssvm_training_event`` during one fit; one that fails is not called again, and the fit continues.

    Parameters
    ----------
    function : callable
    names : tuple of str
        The arguments that it takes.
    owner : str
        The plug-in, for messages.
    """

    def __init__(self, function: Callable[..., Any], names: tuple[str, ...], owner: str) -> None:
        self.function, self.names, self.owner, self.alive = function, names, owner, True

    def __call__(self, event: TrainingEvent) -> bool:
        """Return whether the plug-in asks to stop; it gets a copy of what can be changed."""
        if not self.alive:
            return False
        given = {"event": replace(event, extra=dict(event.extra))}
        try:
            with contained(f"ssvm_training_event of {self.owner}"):
                return bool(self.function(*(given[name] for name in self.names)))
        except SsvmError as err:
            self.alive = False
            warn_caller(f"{err}; this fit continues without calling it again", RuntimeWarning)
            return False
