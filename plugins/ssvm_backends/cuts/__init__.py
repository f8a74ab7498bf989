"""Minimum cuts and what is built on them."""
