"""The ``ssvm`` command; :mod:`ssvm_dsl.cli.main` holds the table of subcommands."""
