"""Lengths of weights that tell how far scores move, for :mod:`ssvm_trainers.dual.extragradient`.

Where features are much alike - all images of letters have ink in the middle - some directions of w move nearly all
scores and most move few.  Steps that are short enough for the first are far too short for the others, unless lengths
are taken by

    |w|^2 = w . P w ,        P = lam diag(scale) + Phi' diag(counts) Phi ,

the cost of a step of w in the objective plus the weighted change of the scores.  So no move of the
weights is shorter than that of the scores.  Weights with a lower bound must be projected one by one: for these a
diagonal stands in for P that is at least as large (Pock and Chambolle 2011, lemma 2), as it does for all weights where
P is not sparse enough to be factored.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.sparse import csc_array, csr_array, diags_array
from scipy.sparse.linalg import splu

from ssvm_dsl.ir import F64

#: Products that make P at most, and entries of it.
MOST_PRODUCTS, MOST_ENTRIES = 2e9, 5e6


class WeightMetric:
    """The matrix P, or a diagonal that is at least as large.

    Parameters
    ----------
    matrix : csr_array, shape (n_scores, dim)
        Phi: the scores are ``Phi w``.
    counts : ndarray of float64, shape (n_scores,)
        How much a score counts.
    regularizer : ndarray of float64, shape (dim,)
        ``lam * scale``.
    lower : ndarray of float64, shape (dim,)
        Lower bounds of weights, ``-inf`` for none.
    """

    def __init__(self, matrix: Any, counts: F64, regularizer: F64, lower: F64) -> None:
        used = csr_array(matrix[np.flatnonzero(counts > 0.0)])
        counts, sizes = counts[counts > 0.0], abs(used)
        row_sums = sizes.T @ (counts * (sizes @ np.ones(matrix.shape[1])))
        free = np.flatnonzero(np.broadcast_to(lower, regularizer.shape) == -np.inf)
        part = csc_array(used[:, free])
        products = float(np.square(np.bincount(part.indices, minlength=len(counts)).astype(np.float64)).sum())
        gram = csc_array((0, 0))
        if products <= MOST_PRODUCTS:
            gram = csc_array(part.T @ (diags_array(counts) @ part))
        if products > MOST_PRODUCTS or gram.nnz > MOST_ENTRIES:
            free = free[:0]
        parts = 2.0 if 0 < len(free) < len(regularizer) else 1.0  # P is at most twice its diagonal blocks
        self.free, self.diagonal = free, regularizer + parts * row_sums
        if len(free):
            self.block = csc_array(parts * gram + diags_array(regularizer[free]))
            options = {"SymmetricMode": True}
            self.factor = splu(self.block, permc_spec="MMD_AT_PLUS_A", diag_pivot_thresh=0.0, options=options)

    def solve(self, v: F64) -> F64:
        """Return ``P^-1 v``."""
        out: F64 = v / self.diagonal
        if len(self.free):
            out[self.free] = self.factor.solve(v[self.free])
        return out

    def squared(self, w: F64) -> float:
        """Return ``|w|^2``."""
        out = w * self.diagonal
        if len(self.free):
            out[self.free] = self.block @ w[self.free]
        return float(np.dot(w, out))
