"""Losses: how bad a labelling is when the truth is known."""
