"""Structural sequential minimal optimisation: the trainer, its state, its compiled steps."""
