"""``ssvm plugins``: the group of commands about plug-ins."""

from __future__ import annotations

from ssvm_dsl.cli import plugins_check, plugins_list, plugins_new, plugins_pairs, plugins_show
from ssvm_dsl.cli.command import Command

COMMAND = Command(
    "plugins",
    "list, describe, check and start plug-ins",
    parts=(
        plugins_list.COMMAND,
        plugins_show.COMMAND,
        plugins_pairs.COMMAND,
        plugins_check.COMMAND,
        plugins_new.COMMAND,
    ),
)
