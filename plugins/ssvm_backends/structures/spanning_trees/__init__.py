"""Directed trees: ``arborescence`` and ``eisner``."""
