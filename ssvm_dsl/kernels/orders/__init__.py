"""Compiled greedy elimination orders of graphs."""
