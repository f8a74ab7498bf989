"""Exact search on any graph: elimination, dual bounds, branch and bound."""
