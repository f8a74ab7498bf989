"""Paths and tours: ``shortest-path`` and ``circuit``."""
