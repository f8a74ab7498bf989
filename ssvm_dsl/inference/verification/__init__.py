"""Verification of what backends answer: their form, scores, bounds, marginals, rankings and compiled calls."""
