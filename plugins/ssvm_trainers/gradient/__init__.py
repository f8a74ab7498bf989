"""Trainers of smooth risks: quasi-Newton and stochastic gradients."""
