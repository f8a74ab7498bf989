"""Choosing a backend, opening it, and checking every answer."""
