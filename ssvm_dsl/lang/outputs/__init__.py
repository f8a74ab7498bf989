"""Outputs, and the targets of factors over them."""
