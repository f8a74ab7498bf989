"""Code of kernels does what Python does, whatever is left out of numba's way to it."""

from __future__ import annotations

from collections import namedtuple
from typing import Any

import numpy as np
import pytest

from own_compiler import own_compiler
from ssvm_dsl.kernels import njit

Pair = namedtuple("Pair", "numbers table")

pytestmark = own_compiler


def reads(pair: Any, k: int) -> Any:
    """Read and write elements of all kinds, and swap arrays within a loop."""
    numbers, table = pair.numbers, pair.table
    old, new = numbers[1:], numbers[:-1]
    total = numbers[-1] + table[k, -2] - table[-1, 0] + len(table) + table.size + table.shape[1]
    for i in range(len(old) - 1, -1, -1):
        for j in range(1, table.shape[1], 2):
            if table[i % 2, j] > numbers[i] or i == j:
                table[i % 2, j] -= i * 2
            total += table[i % 2, j] * numbers[i]
        for j in range(k, 0):
            total += j
        old, new = new, old
        new[0] = old[0] + 1
    return total


def bits(flags: Any, small: Any) -> Any:
    """Count in arrays of other types than numbers of 64 bits."""
    count = 0
    for i in range(len(flags)):
        flags[i] = not flags[i]
        if flags[i]:
            small[i] += 1
            count += small[i]
    return count


def nth(values: Any, k: int) -> Any:
    """Look for a number in an array of three dimensions."""
    found = -1
    for a in range(values.shape[0]):
        for b in range(values.shape[1]):
            for c in range(values.shape[2]):
                if values[a, b, c] == k:
                    found = (a * 10 + b) * 10 + c
                    break
    return found


@pytest.mark.parametrize("order", ["C", "F", "A"])
def test_elements(order: str):
    table = np.arange(24.0).reshape(4, 6)
    table = table[:, ::2] if order == "A" else np.array(table[:, ::2], order=order)
    mine, same = (Pair(np.arange(5.0), np.copy(table) if order == "C" else table[:]) for _ in range(2))
    if order != "C":
        same = Pair(same.numbers, same.table.copy(order="K"))
    assert njit(reads, cache=False)(mine, -2) == reads(same, -2)
    np.testing.assert_array_equal(mine.table, same.table)
    np.testing.assert_array_equal(mine.numbers, same.numbers)


def test_other_types_and_dimensions():
    flags, small = np.array([True, False, True, False]), np.array([1, 2, 3, 4], np.uint8)
    assert njit(bits, cache=False)(flags, small) == 3 + 5
    assert list(flags) == [False, True, False, True]
    assert list(small) == [1, 3, 3, 5]
    values = np.arange(24).reshape(2, 3, 4)
    assert njit(nth, cache=False)(values, 17) == nth(values, 17) == 111
