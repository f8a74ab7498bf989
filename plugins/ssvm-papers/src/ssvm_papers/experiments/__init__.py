"""The experiments: a module holds a family of them, :mod:`~ssvm_papers.experiments.catalogue` lists all."""
