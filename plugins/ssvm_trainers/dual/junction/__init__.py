"""Marginals of the cliques of triangulated graphs."""
