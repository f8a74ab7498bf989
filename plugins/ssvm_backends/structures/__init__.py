"""Outputs that are one combinatorial structure: assignments, trees, paths, circuits; each has an oracle of its own."""
