"""Euclidean projection onto polytopes of marginals, and lengths of weights: steps of ``extragradient``."""
