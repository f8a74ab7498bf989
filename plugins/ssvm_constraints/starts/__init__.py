"""Labellings that keep one constraint, found at once: what searches begin with."""
