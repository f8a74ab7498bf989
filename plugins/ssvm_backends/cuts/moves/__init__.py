"""Moves of many variables at once: the session and its kernels."""
