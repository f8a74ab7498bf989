"""Patterns written with index variables: positions, references, conditions, and the instances that they have."""
