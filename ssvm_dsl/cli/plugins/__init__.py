"""``ssvm plugins``: list, describe, check and start plug-ins; one file for each subcommand."""
