"""``ssvm reproduce``: the experiments of the papers behind this package, each with its published numbers next to ours.

A plug-in with one command.  It imports the contract of plug-ins, and the public API as a user does.  ``experiments``
holds the families of experiments and the list of all, ``results`` keeps their results and writes the pages,
``generators`` makes data in place of those of the papers that are not available.
"""

from __future__ import annotations

from collections.abc import Iterable

from ssvm_dsl.plugin_api import CommandSpec, hookimpl


@hookimpl
def ssvm_commands() -> Iterable[CommandSpec]:
    """Return the command."""
    summary = "run the experiments of the papers and compare with what they published"
    return (CommandSpec("reproduce", "ssvm_papers.command:Reproduce", summary),)
