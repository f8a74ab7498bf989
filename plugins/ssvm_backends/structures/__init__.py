"""Outputs that are one combinatorial structure (assignments, trees, paths, circuits), each with its own oracle."""
