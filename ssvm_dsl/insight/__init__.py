"""Answers to look at: what a labelling's score is made of, why another one lost, and a page about a model."""
