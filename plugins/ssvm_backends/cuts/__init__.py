"""Minimum cuts, and the methods built on them."""
