"""Sums of rows by blocks against the same functions of Python."""

from __future__ import annotations

import numpy as np
import pytest

from ssvm_dsl.kernels import add_outer, gather_rows, multiply_rows, njit, padded, scatter_row, weigh_rows


@njit(cache=False)
def weigh(out, width, x, n, table):
    weigh_rows(out, 1, width, x, 2, n, table, 3)


@njit(cache=False)
def gather(out, width, x, columns, table):
    gather_rows(out, 1, width, x, columns, 1, len(columns), table)


@njit(cache=False)
def scatter(table, width, x, columns, row):
    scatter_row(table, width, x, columns, 0, len(columns), row, 2)


@njit(cache=False)
def multiply(out, width, x, y):
    return multiply_rows(out, 1, width, x, 2, y, 3, 0.5)


@njit(cache=False)
def outer(table, width, x, n, y, m):
    add_outer(table, 1, width, x, 2, n, y, 3, m)


@pytest.mark.parametrize("n", [1, 4, 5, 9, 13, 22])
def test_the_same_as_in_python(n):
    width, rng = padded(n), np.random.default_rng(n)
    assert width % 4 == 0
    assert n <= width < n + 4
    table, x, y, out = rng.normal(size=(4, 30 * width))
    columns = rng.integers(0, 29, size=n).astype(np.int32)
    calls = {
        weigh: (weigh_rows, lambda o: (o, 1, width, x, 2, n, table, 3), (width, x, n, table)),
        gather: (gather_rows, lambda o: (o, 1, width, x, columns, 1, n, table), (width, x, columns, table)),
        scatter: (scatter_row, lambda o: (o, width, x, columns, 0, n, y, 2), (width, x, columns, y)),
        multiply: (multiply_rows, lambda o: (o, 1, width, x, 2, y, 3, 0.5), (width, x, y)),
        outer: (add_outer, lambda o: (o, 1, width, x, 2, n, y, 3, 6), (width, x, n, y, 6)),
    }
    for compiled, (python, arguments, given) in calls.items():
        mine, expected = out.copy(), out.copy()
        result, wanted = compiled(mine, *given), python(*arguments(expected))
        np.testing.assert_allclose(mine, expected, rtol=1e-12, atol=1e-12)
        assert result == pytest.approx(wanted)
