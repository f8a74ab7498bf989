"""Dual decomposition: any set of exact oracles, one for each part of a problem, agreeing by prices."""
