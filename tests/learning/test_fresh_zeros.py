"""Zeros in pages of their own, which take memory as they are written to and give it back."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest

from ssvm_dsl.memory import OWN_PAGES, forget, fresh_zeros


@pytest.mark.parametrize("n", [0, 1, 1000, OWN_PAGES // 8, OWN_PAGES // 8 + 3])
def test_they_are_zeros_of_their_own(n):
    values = fresh_zeros(n)
    assert values.dtype == np.float64
    assert values.shape == (n,)
    assert values.flags.c_contiguous
    assert not values.any()
    values += np.arange(n)
    for other in (copy.deepcopy(values), pickle.loads(pickle.dumps(values))):
        np.testing.assert_array_equal(other, np.arange(n))


@pytest.mark.parametrize("n", [10, 1000, 300_000])
@pytest.mark.parametrize("share", [(0.0, 1.0), (0.1, 0.9), (0.5, 0.5003), (0.3, 0.3)])
def test_what_is_forgotten_is_zero_or_as_it_was_and_nothing_else_changes(n, share):
    values, where = fresh_zeros(n), slice(*(round(end * n) for end in share))
    values += 1.0
    forget(values, where)
    assert (values[: where.start] == 1.0).all()
    assert (values[where.stop :] == 1.0).all()
    assert ((values[where] == 0.0) | (values[where] == 1.0)).all()
    values[where] = 2.0
    assert (values[where] == 2.0).all()
