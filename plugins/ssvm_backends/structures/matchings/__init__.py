"""Matchings and permutations: ``assignment``."""
