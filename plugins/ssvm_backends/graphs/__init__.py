"""Shared by all solvers for graphs: flat factor graphs, their reduction, sessions."""
