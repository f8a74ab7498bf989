"""Segmentations of sequences: ``semi-markov``."""
