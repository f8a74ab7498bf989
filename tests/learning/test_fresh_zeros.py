"""Zeros in pages of their own, which take memory as they are written to and give it back."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest

from ssvm_dsl.memory import OWN_PAGES, fresh_zeros


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
