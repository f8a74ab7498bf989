"""From weights to scores and back: ``Phi w`` and its adjoint, and what labellings and marginals score.

All of it runs on compiled kernels, so that :mod:`ssvm_dsl.ir` is data alone.
"""
