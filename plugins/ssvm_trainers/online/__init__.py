"""Trainers that take one example, or a few, for each step."""
