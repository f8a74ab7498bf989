"""Compiled oracles: their signatures, the arrays they read, and how Python calls them."""
