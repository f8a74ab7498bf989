"""Exact variable elimination along an order."""
