"""``ssvm plugins``: the group of commands about plug-ins."""

from __future__ import annotations

from ssvm_dsl.cli.command import Subcommand
from ssvm_dsl.cli.plugins import check, listing, new, pairs, show

COMMAND = Subcommand(
    "plugins",
    "list, describe, check and start plug-ins",
    parts=(listing.COMMAND, show.COMMAND, pairs.COMMAND, check.COMMAND, new.COMMAND),
)
