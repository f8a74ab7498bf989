"""A structure that is new to the package, binary trees over words (Cocke, Kasami, Younger), needs its rule only."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

from ssvm_backends.graphs.recursions import (
    BEST,
    SHARE,
    SUM,
    TRACE,
    Items,
    RowSources,
    begin,
    extend,
    join,
    list_rows,
    no_lists,
    step_at,
    take,
)
from ssvm_dsl.kernels import exp_all, njit


@njit
def rule(task, n, w, items, item):
    """A scored span is made of a bare one, and a bare one of two scored ones that meet somewhere."""
    scored, i, j = item // (n * n) == 0, item // n % n, item % n
    if scored:
        extend(task, items, item, n * n + item, w[item])
    else:
        join(task, items, item, i * n + i, 1, (i + 1) * n + j, n, j - i)


@njit
def sweep(task, n, w, items):
    for place in range(n - 1):
        width = 1 + step_at(task, place, n - 1)
        for i in range(n - width):
            at = i * n + i + width
            for number in range(2):
                rule(task, n, w, items, at if step_at(task, number, 2) else n * n + at)


@njit
def best_spans(n, w, items, found):
    begin(items.agenda, n - 1)
    while items.agenda[0] > 0:
        item = take(items.agenda)
        if item < n * n:
            found[item] = True
        if item // n % n != item % n:
            rule(TRACE, n, w, items, item)


def room(n):
    value = np.zeros(2 * n * n)
    return Items(value, np.zeros(2 * n * n), np.zeros(n), np.zeros(4 * n + 2, np.int64))


@cache
def binary_trees(i, j):
    """The spans of all trees over the words i to j."""
    if i == j:
        return [frozenset()]
    return [
        left | right | {(i, j)} for k in range(i, j) for left in binary_trees(i, k) for right in binary_trees(k + 1, j)
    ]


@pytest.mark.parametrize("scale", [0.0, 1.0, 1e5, 1e18])
@pytest.mark.parametrize("n", [2, 3, 6])
def test_trees_of_a_new_structure_are_those_of_brute_force(n, scale):
    w = np.random.default_rng(n).normal(size=(n, n)) * scale
    trees = binary_trees(0, n - 1)
    scores = np.array([sum(w[span] for span in sorted(tree)) for tree in trees])
    items = room(n)
    sweep(BEST, n, w.ravel(), items)
    assert items.value[n - 1] == pytest.approx(scores.max(), rel=1e-12)
    found = np.zeros(n * n, dtype=bool)
    best_spans(n, w.ravel(), items, found)
    best = found.reshape(n, n) & ~np.eye(n, dtype=bool)
    assert frozenset(zip(*map(np.ndarray.tolist, np.nonzero(best)), strict=True)) in trees
    assert w[best].sum() == pytest.approx(scores.max(), rel=1e-12)

    items = room(n)
    sweep(SUM, n, w.ravel(), items)
    p = np.exp(scores - scores.max())
    assert items.value[n - 1] == pytest.approx(scores.max() + np.log(p.sum()), rel=1e-12)
    items.outer[n - 1] = 1.0
    sweep(SHARE, n, w.ravel(), items)
    likely = np.zeros((n, n))
    for tree, one in zip(trees, p / p.sum(), strict=True):
        for span in tree:
            likely[span] += one
    shares = items.outer[: n * n].reshape(n, n)
    np.testing.assert_allclose(np.triu(shares, 1), likely, atol=1e-9 * (1 + 1e-5 * scale) if scale < 1e6 else 1e-2)


@pytest.mark.parametrize("each", [0, 1])
def test_lists_of_rows_agree_with_their_definition(each):
    """The best of ``value[of + k of_step + j of_each] + scores[at + k at_step + j]`` over ways and entries of lists."""
    rng, n, width, out = np.random.default_rng(each), 4, 3, 12
    sources = RowSources(n, width, 9 if each else 1, -3 if each else 1, each, 2, 3)
    scores, value = rng.normal(size=20), rng.normal(size=15)
    terms = np.array(
        [
            [value[sources.of + k * sources.of_step + j * each] + scores[2 + 3 * k + j] for k in range(n)]
            for j in range(width)
        ]
    )
    lists = no_lists(15, 3)
    lists.value[:out, 0] = value[:out]
    lists.value[:out, 1] = value[:out] - 0.3
    list_rows(lists, out, sources, scores)
    both = np.concatenate([terms, terms - 0.3], axis=1)
    np.testing.assert_allclose(lists.value[out:], -np.sort(-both, axis=1)[:, :3])


def test_exponentials_of_many_numbers_are_those_of_the_library():
    given = np.concatenate([np.linspace(-707.0, 2.0, 4001), [-np.inf, -1e300, -708.5, 0.0, -1e-300]])
    found = given.copy()
    exp_all(found, len(found))
    np.testing.assert_allclose(found, np.where(given > -708.0, np.exp(given), 0.0), rtol=1e-15)
