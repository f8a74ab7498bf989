"""Bounds on numbers of true literals."""
