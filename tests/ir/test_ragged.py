"""Parts of packed arrays, against NumPy's own way or a loop."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ssvm_dsl.ir import Program, pointers, reduced, runs

parts = st.one_of(
    st.lists(st.integers(1, 20), max_size=12),
    st.tuples(st.integers(1, 12), st.integers(0, 12)).map(lambda one: [one[0]] * one[1]),
)


@given(parts, st.integers(0, 2**32 - 1), st.sampled_from([np.maximum, np.minimum, np.logical_and]))
def test_parts_are_reduced_as_numpy_does(lengths, seed, ufunc):
    ptr = pointers(np.array(lengths, dtype=np.int64))
    values = np.random.default_rng(seed).normal(size=ptr[-1])
    values[::3] = -np.inf
    values = values > 0.0 if ufunc is np.logical_and else values
    wanted = [ufunc.reduce(values[a:b]) for a, b in itertools.pairwise(ptr)]
    found = reduced(ufunc, values, ptr[:-1])
    assert found.tolist() == wanted
    assert not lengths or not np.shares_memory(found, values)


@pytest.mark.parametrize("width", [0, 1, 3])
def test_pointers_of_many_parts_of_one_size(width):
    for n in (0, 1, 1000, 1001, 3000):
        lengths = np.full(n, width, dtype=np.int32)
        assert pointers(lengths).tolist() == np.cumsum([0, *lengths.tolist()]).tolist()
    lengths[-1] += 1
    assert pointers(lengths)[-1] == 3000 * width + 1


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 4)), max_size=6))
def test_runs_are_ranges_one_after_the_other(pairs):
    starts, lengths = np.array(pairs, dtype=np.int64).reshape(-1, 2).T
    wanted = [a + i for a, n in pairs for i in range(n)]
    assert runs(starts, lengths).tolist() == wanted


@given(st.lists(st.lists(st.integers(1, 4), max_size=4), min_size=1, max_size=5), st.data())
def test_the_states_of_some_examples_are_counted_among_theirs(cards, data):
    card = np.array([one for example in cards for one in example], dtype=np.int32)
    program = Program(pointers(np.array(list(map(len, cards)))), card, ())
    chosen = data.draw(st.lists(st.integers(0, len(cards) - 1), max_size=5))
    wanted = np.cumsum([0, *(one for i in chosen for one in cards[i])])
    assert program.own_state_ptr(np.array(chosen, dtype=np.int64)).tolist() == wanted.tolist()
    assert (program.own_state_ptr(None) == program.state_ptr).all()
