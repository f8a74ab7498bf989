"""Kernels by import path, for files."""

from __future__ import annotations

import numpy as np


def spectrum(a, b):
    """Common pairs of successive characters of strings, which are rows of codes, 0 after the end."""

    def counts(rows):
        out = np.zeros((len(rows), 128, 128))
        for i, row in enumerate(rows.astype(int)):
            codes = row[row > 0]
            np.add.at(out[i], (codes[:-1], codes[1:]), 1.0)
        return out.reshape(len(rows), -1)

    return counts(a) @ counts(b).T


def crooked(a, b):
    """Not symmetric, and with negative eigenvalues."""
    return np.eye(len(a), len(b)) - 2.0 * (a[:, :1] > b[:, 0])


def wide(a, b):
    return np.zeros((len(a), len(b) + 1))


def failing(a, b):
    raise ZeroDivisionError("no kernel today")
