"""Shapes: structure is stored once for each distinct shape, and what is derived from it equals a plain listing."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ssvm_dsl import (
    Dim,
    Edges,
    Factor,
    Hamming,
    Input,
    Label,
    Model,
    along,
    chain,
    complete,
    cross,
    grid,
    ground,
    pairs,
)
from ssvm_dsl.ir.program import Group, Program
from ssvm_dsl.ir.ragged import pointers
from ssvm_dsl.ir.shapes import first_of_each, kinds_of_rows


@st.composite
def listed(draw):
    """(var_ptr, scope, ptr, table, n_tables) of pairwise factors, drawn from a few patterns for each example."""
    sizes = draw(st.lists(st.integers(0, 4), max_size=7))
    var_ptr, scope, counts, table = pointers(np.array(sizes, dtype=np.int64)), [], [], []
    tied = draw(st.booleans())
    for first, size in zip(var_ptr, sizes):
        pool = [(u, v) for u in range(size) for v in range(size) if u != v]
        few = draw(st.lists(st.sampled_from(pool), max_size=3)) if pool else []
        scope += [(first + u, first + v) for u, v in few]
        table += [draw(st.integers(0, 2)) if tied else len(table) + k for k in range(len(few))]
        counts.append(len(few))
    pairwise = np.array(scope, dtype=np.int32).reshape(-1, 2)
    rows = np.array(table, dtype=np.int32)
    return var_ptr, pairwise, pointers(np.array(counts, dtype=np.int64)), rows, max(3, len(rows))


def keys(var_ptr, scope, ptr, table):
    """Of each example what makes its shape: local scopes, and rows counted from the smallest one."""
    found = []
    for i in range(len(ptr) - 1):
        mine, rows = scope[ptr[i] : ptr[i + 1]] - var_ptr[i], table[ptr[i] : ptr[i + 1]]
        found.append((mine.tolist(), (rows - rows.min(initial=10**9)).tolist()))
    return found


@settings(max_examples=60)
@given(listed())
def test_groups_found_by_content_list_the_same_factors(problem):
    var_ptr, scope, ptr, table, n_tables = problem
    group = Group.of("g", (2, 2), scope, ptr, table, n_tables, var_ptr)
    np.testing.assert_array_equal(group.scope, scope)
    np.testing.assert_array_equal(group.ptr, ptr)
    np.testing.assert_array_equal(group.table, table)
    assert group.scope.dtype == group.table.dtype == np.int32
    assert group.ptr.dtype == np.int64
    assert group.n_factors == len(scope)
    np.testing.assert_array_equal(group.table_uses(), np.bincount(table, minlength=n_tables))
    expected = keys(*problem[:4])
    assert group.shapes.n_shapes == len({str(key) for key in expected})
    for i, key in enumerate(expected):
        assert [key == other for other in expected] == (group.shapes.of == group.shapes.of[i]).tolist()
    Program(var_ptr, np.full(int(var_ptr[-1]), 2, np.int32), (group,)).validate()


@settings(max_examples=40)
@given(listed(), st.data())
def test_some_examples_are_taken_as_a_plain_listing_says(problem, data):
    var_ptr, scope, ptr, table, n_tables = problem
    group = Group.of("g", (2, 2), scope, ptr, table, n_tables, var_ptr)
    card = np.full(int(var_ptr[-1]), 2, np.int32)
    whole = Program(var_ptr, card, (group,), allowed=np.arange(2 * len(card)) % 3 > 0)
    n = len(ptr) - 1
    ids = np.array(data.draw(st.lists(st.integers(0, n - 1), max_size=5)) if n else [], dtype=np.int64)
    part = whole.take(ids).validate()
    at = 0
    for k, i in enumerate(ids):
        assert part.var_ptr[k + 1] - part.var_ptr[k] == var_ptr[i + 1] - var_ptr[i]
        mine = slice(*part.groups[0].ptr[k : k + 2])
        np.testing.assert_array_equal(part.groups[0].scope[mine] - at, scope[ptr[i] : ptr[i + 1]] - var_ptr[i])
        np.testing.assert_array_equal(part.groups[0].table[mine], table[ptr[i] : ptr[i + 1]])
        at += var_ptr[i + 1] - var_ptr[i]
    inner = np.concatenate([np.arange(2 * var_ptr[i], 2 * var_ptr[i + 1]) for i in ids] or [np.zeros(0, int)])
    np.testing.assert_array_equal(part.allowed, whole.allowed[inner.astype(np.int64)])
    np.testing.assert_array_equal(group.table_rows(ids), part.groups[0].table)
    np.testing.assert_array_equal(part.topology, whole.topology[ids])


@settings(max_examples=40)
@given(listed())
def test_topology_and_order_of_a_shape_are_those_of_each_example(problem):
    var_ptr, scope, ptr, table, n_tables = problem
    card = np.full(int(var_ptr[-1]), 2, np.int32)
    whole = Program(var_ptr, card, (Group.of("g", (2, 2), scope, ptr, table, n_tables, var_ptr),))
    assert whole.representatives.n_examples == len(set(whole.shape.tolist()))
    orders = {}
    for i, shape in enumerate(whole.shape.tolist()):
        one = whole.example(i)
        assert one.topology[0] == whole.topology[i]
        order = (whole.order[var_ptr[i] : var_ptr[i + 1]] - var_ptr[i]).tolist()
        assert sorted(order) == list(range(len(order)))
        assert orders.setdefault(shape, order) == order


def test_numbers_of_states_make_shapes_too():
    group = Group.of(
        "g", (2, 3), np.array([[0, 1], [3, 2], [4, 5]], np.int32), np.arange(4), np.zeros(3, np.int32), 1,
        np.array([0, 2, 4, 6]),
    )  # fmt: skip
    made = Program(np.array([0, 2, 4, 6]), np.array([2, 3, 3, 2, 2, 3], np.int32), (group,)).validate()
    assert made.shape.tolist() == [0, 1, 0]
    assert group.shapes.of.tolist() == [0, 1, 0]


def test_kinds_are_numbered_as_they_first_occur():
    of, first = first_of_each(["b", "a", "b", "c"])
    assert (of.tolist(), first.tolist()) == ([0, 1, 0, 2], [0, 1, 3])
    of, first = kinds_of_rows([np.array([7, 3, 7, 3]), np.array([1, 1, 1, 0])], 4)
    assert (of.tolist(), first.tolist()) == ([0, 1, 0, 2], [0, 1, 3])
    assert [len(part) for part in kinds_of_rows([], 0)] == [0, 0]
    assert kinds_of_rows([], 3)[0].tolist() == [0, 0, 0]


# -- what the compiler makes -------------------------------------------------------------------------------


class Everything(Model):
    """Most ways of laying factors, over axes that differ from example to example."""

    H, W, N, M, K = Dim(), Dim(), Dim(), Dim(), Dim(4)
    x = Input(H, W, 2)
    v = Input(N, 2)
    e = Edges(M, over=N)
    f = Input(M, 3)
    k = Input(2)
    a = Label(H, W, 2)
    b = Label(N, 3)
    c = Label(K, 2)
    own = Factor(a, features=x)
    rows = Factor(pairs(a, W), features=x)
    slant = Factor(pairs(a, W, H), features=x)
    all = Factor(grid(a))
    node = Factor(b, features=v)
    step = Factor(chain(b), features=v)
    edge = Factor(along(b, e), features=f)
    bias = Factor(c, features=k, per=K)
    pair = Factor(complete(c), per="edge")
    mix = Factor(cross(b, c), features=v)
    loss = Hamming(a, ignore=9) + Hamming(b, ignore=9)


def draw_example(rng, like=None):
    H, W, N = rng.integers(1, 3), rng.integers(1, 4), rng.integers(1, 4)
    edges = np.array([(u, u + 1) for u in range(N - 1) if rng.random() < 0.7], dtype=np.int64).reshape(-1, 2)
    X = {
        "x": rng.normal(size=(H, W, 2)), "v": rng.normal(size=(N, 2)), "e": edges,
        "f": rng.normal(size=(len(edges), 3)), "k": rng.normal(size=2),
    }  # fmt: skip
    ignored = rng.random() < 0.5
    Y = {"a": rng.integers(0, 2, (H, W)), "b": rng.integers(0, 3, N), "c": rng.integers(0, 2, 4)}
    if ignored:
        Y["b"][rng.integers(N)] = 9
    return X, Y


@pytest.mark.parametrize("seed", range(5))
def test_a_batch_lists_what_its_examples_list_alone(seed):
    rng = np.random.default_rng(seed)
    some = [draw_example(rng) for _ in range(8)]
    X, Y = zip(*some, *some[:3], strict=True)
    whole, at = ground(Everything, list(X), list(Y)), 0
    w, shapes = rng.normal(size=whole.parameters.dim), whole.program.shape
    whole.program.validate()
    theta = whole.parameters.scores(w)
    assert shapes.max() < 8
    for i, (x, y) in enumerate(zip(X, Y, strict=True)):
        alone = ground(Everything, [x], [y])
        one, part = alone.program, whole.program.example(i)
        expected = alone.parameters.scores(w)
        states = slice(*whole.program.state_ptr[whole.program.var_ptr[i : i + 2]])
        np.testing.assert_allclose(theta.node[states], expected.node)
        np.testing.assert_array_equal(one.topology, part.topology)
        for mine, other, have, want in zip(part.groups, one.groups, theta.tables, expected.tables, strict=True):
            np.testing.assert_array_equal(mine.scope, other.scope)
            np.testing.assert_allclose(have[mine.table], want[other.table])
        for mine, other in zip(whole.parameters.maps, alone.parameters.maps, strict=True):
            own = slice(*mine.ptr[i : i + 2])
            np.testing.assert_array_equal(mine.scope[own] - at, other.scope)
            assert (mine.unit is None) == (other.unit is None)
            if mine.unit is not None:
                np.testing.assert_array_equal(mine.unit[own], other.unit)
        at += one.n_variables


def test_examples_of_one_shape_are_stored_once():
    rng = np.random.default_rng(0)
    X, Y = draw_example(rng)
    many = ground(Everything, [X] * 50, [Y] * 50)
    for group in many.program.groups:
        assert group.shapes.n_shapes == 1
        assert group.n_factors == 50 * len(group.shapes.scope)
    assert many.program.representatives.n_examples == 1
