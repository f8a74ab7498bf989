"""Exact search for any graph."""
