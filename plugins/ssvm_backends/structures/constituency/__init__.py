"""Constituency trees: best parses and sums over all parses."""
