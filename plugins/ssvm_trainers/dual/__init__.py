"""Trainers whose variables are marginals: dual coordinates, exponentiated gradients, saddle points."""
