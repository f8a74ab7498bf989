"""Shared by trainers of several families: arrays for kernels, products with planes, oracle calls, lower bounds."""
