"""The experiments of the papers behind this package, each with its published numbers beside ours (``ssvm reproduce``).

A module holds a family of experiments; :mod:`ssvm_dsl.reproduce.catalogue` lists them, and
:mod:`ssvm_dsl.reproduce.running` runs them, keeps what they found, and takes it up again.
"""
