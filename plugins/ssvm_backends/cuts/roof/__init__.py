"""Roof duality: bounds and partial labellings of binary pairwise problems, and half-integral optima."""
