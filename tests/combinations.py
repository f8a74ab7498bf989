"""Which combinations of cases a test runs with: a few that meet every case, or all with ``SSVM_TEST_ALL=1``.

Where cases of two kinds do not depend on each other, as backends and models, all products of them take minutes and
find nothing that a covering choice does not.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import combinations, product
from typing import Any, TypeVar

import pytest

Value = TypeVar("Value")

#: Whether the run takes all combinations.
ALL = os.environ.get("SSVM_TEST_ALL", "") not in ("", "0")


def some(values: Sequence[Value], n: int) -> Sequence[Value]:
    """Return ``n`` of some values, evenly spread, or all of them."""
    return values if ALL or len(values) <= n else [values[k * len(values) // n] for k in range(n)]


def crossed(together: int = 1, **cases: Iterable[Any]) -> pytest.MarkDecorator:
    """Run a test with combinations of cases, as a ``parametrize`` for each kind of them would with all.

    Parameters
    ----------
    together : int
        How many kinds may depend on each other: every choice of cases of so many kinds is in some combination.
    **cases : iterable
        The cases of each kind, by the name of the argument.
    """
    lists = [list(values) for values in cases.values()]
    chosen = product(*(range(len(values)) for values in lists)) if ALL else covering([*map(len, lists)], together)
    rows = [tuple(values[k] for values, k in zip(lists, row)) for row in chosen]
    return pytest.mark.parametrize(tuple(cases), rows, ids=lambda value: str(value) if len(str(value)) < 60 else None)


def covering(sizes: Sequence[int], together: int) -> Iterator[tuple[int, ...]]:
    """Yield rows of numbers below ``sizes``, so that all choices of numbers in so many columns occur.

    The next row is one with most choices that are new; of these, one of numbers that occurred least.
    """
    rows, used = list(product(*map(range, sizes))), Counter[tuple[int, int]]()
    left = {part for row in rows for part in _parts(row, together)}
    while left:
        new = [len(left.intersection(_parts(row, together))) for row in rows]
        chosen = [row for row, n in zip(rows, new) if n == max(new)]
        best = min(chosen, key=lambda row: sum(used[one] for one in enumerate(row)))
        left.difference_update(_parts(best, together))
        used.update(enumerate(best))
        yield best


def _parts(row: tuple[int, ...], n: int) -> Iterator[tuple[tuple[int, int], ...]]:
    """Yield what a row has in each choice of ``n`` columns."""
    return combinations(enumerate(row), n)
