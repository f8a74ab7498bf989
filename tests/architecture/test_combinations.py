"""Tests that run with some combinations of cases meet every case, and what depends on each other together."""

from __future__ import annotations

from itertools import combinations as choices
from itertools import product

import pytest

from combinations import covering, some


@pytest.mark.parametrize(("sizes", "together", "most"), [((4, 3), 1, 4), ((3, 4, 3), 2, 12), ((4, 5, 2, 2), 2, 20)])
def test_every_choice_is_met(sizes, together, most):
    rows = list(covering(sizes, together))
    assert len(rows) <= most
    for columns in choices(range(len(sizes)), together):
        met = {tuple(row[k] for k in columns) for row in rows}
        assert met == set(product(*(range(sizes[k]) for k in columns)))


def test_some_values_are_spread():
    assert list(some(range(12), 40)) == list(range(12))
    assert len(some(range(12), 4)) in (4, 12)
