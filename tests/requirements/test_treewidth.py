"""Elimination orders: widths of graphs whose treewidth is known, and orders replayed naively."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from ssvm_dsl.deadline import within
from ssvm_dsl.errors import OutOfTime
from ssvm_dsl.ir import Group, Program
from ssvm_dsl.plugin_api import program_need
from ssvm_dsl.requirements.treewidth import GIVE_UP, MAX_MIN_FILL, eliminations, find_orders
from ssvm_dsl.testing.problems import Recipe, seeded


def key_of(n, scopes, card=2):
    cards = np.full(n, card) if np.isscalar(card) else card
    flat = [v for scope in scopes for v in scope]
    return np.array([n, len(scopes), *cards, *(len(s) for s in scopes), *flat], np.int32).tobytes()


def order_of(n, scopes, card=2):
    return find_orders([key_of(n, scopes, card)])[0]


def replay(n, scopes, card, order):
    """(width, log2 of the largest table, log2 of all tables) of an order, by the definition."""
    near = {v: set() for v in range(n)}
    for scope in scopes:
        for u, v in itertools.permutations([v for v in scope if card[v] > 1], 2):
            near[u].add(v)
    width, sizes = 0, [1]
    for v in order:
        width = max(width, len(near[v]))
        sizes.append(int(np.prod([int(card[u]) for u in near[v]], dtype=object)) * int(card[v]))
        for u in near[v]:
            near[u] |= near[v] - {u}
            near[u].discard(v)
        del near[v]
    return width, np.log2(float(max(sizes))), np.log2(float(sum(sizes[1:])))


def grid(h, w):
    at = np.arange(h * w).reshape(h, w)
    return [*zip(at[:, :-1].ravel(), at[:, 1:].ravel()), *zip(at[:-1].ravel(), at[1:].ravel())]


def k_tree(n, k, seed):
    """Each new vertex is joined to a clique of k earlier ones; treewidth k by construction."""
    rng = np.random.default_rng(seed)
    cliques = [tuple(range(k))]
    edges = list(itertools.combinations(range(k), 2))
    for v in range(k, n):
        clique = cliques[rng.integers(len(cliques))]
        edges += [(u, v) for u in clique]
        cliques += [(*(u for u in clique if u != gone), v) for gone in clique]
    number = rng.permutation(n)
    return [(int(number[u]), int(number[v])) for u, v in edges]


def random_tree(n, seed):
    rng = np.random.default_rng(seed)
    return [(int(rng.integers(v)), v) for v in range(1, n)]


KNOWN = {
    "nothing": (5, [], 0),
    "tree": (200, random_tree(200, 0), 1),
    "star": (300, [(0, v) for v in range(1, 300)], 1),
    "large tree": (MAX_MIN_FILL + 100, random_tree(MAX_MIN_FILL + 100, 1), 1),
    "large star": (MAX_MIN_FILL + 100, [(7, v) for v in range(MAX_MIN_FILL + 100) if v != 7], 1),
    "cycle": (50, [(v, (v + 1) % 50) for v in range(50)], 2),
    "large cycle": (2 * MAX_MIN_FILL, [(v, (v + 1) % (2 * MAX_MIN_FILL)) for v in range(2 * MAX_MIN_FILL)], 2),
    "2-tree": (150, k_tree(150, 2, 0), 2),
    "5-tree": (150, k_tree(150, 5, 1), 5),
    "complete": (14, list(itertools.combinations(range(14), 2)), 13),
    "one large factor": (6, [(4, 0, 2, 5)], 3),
    "narrow grid": (4 * 30, grid(4, 30), 4),
    "long grid": (12 * 80, grid(12, 80), 12),
    "bipartite": (20, [(u, v) for u in range(8) for v in range(8, 20)], 8),
}


@pytest.mark.parametrize("name", KNOWN)
def test_widths_of_known_graphs(name):
    n, scopes, width = KNOWN[name]
    found = order_of(n, scopes)
    assert found.complete
    assert sorted(found.order.tolist()) == list(range(n))
    slack = 1 if name == "long grid" else 0  # walking from end to end costs one more than the best
    assert width <= found.width <= width + slack
    expected = replay(n, scopes, np.full(n, 2), found.order.tolist())
    assert (found.width, found.log2_largest, found.log2_total) == pytest.approx(expected)


@pytest.mark.parametrize("seed", range(6))
def test_sizes_are_those_of_the_order(seed):
    rng = np.random.default_rng(seed)
    n = int(rng.integers(3, 25))
    card = rng.integers(1, 6, size=n)
    scopes = [tuple(rng.permutation(n)[: rng.integers(2, 4)].tolist()) for _ in range(int(rng.integers(2 * n)))]
    found = order_of(n, scopes, card)
    expected = replay(n, scopes, card, found.order.tolist())
    assert (found.width, found.log2_largest, found.log2_total) == pytest.approx(expected)


def test_orders_look_at_the_clock():
    class Over:
        left = 0.0

    with within(Over()), pytest.raises(OutOfTime):
        order_of(4, [(0, 1), (1, 2), (2, 3), (3, 0)])


def test_cardinalities_decide():
    """A star whose middle has few states next to one whose leaves have few: both end at one edge's table."""
    star = [(0, v) for v in range(1, 6)]
    assert order_of(6, star, [100, 2, 2, 2, 2, 2]).log2_largest == pytest.approx(np.log2(200))
    # of a 4-cycle with two large variables across, a small one goes first and would join them: 2 * 50 * 50
    found = order_of(4, [(0, 1), (1, 2), (2, 3), (3, 0)], [2, 50, 2, 50])
    assert found.log2_largest == pytest.approx(np.log2(2 * 2 * 50))


def test_large_dense_graphs_are_given_up_before_all_variables_are_eliminated():
    complete = list(itertools.combinations(range(300), 2))
    for n, scopes in ((300, complete), (3600, grid(60, 60)), (14400, grid(120, 120))):
        found = order_of(n, scopes)
        assert not found.complete
        assert found.log2_largest > GIVE_UP
        assert len(found.order) < (2 if n == 300 else 0.9 * n)


def program_of(problem_scopes, cards, allowed=None):
    var_ptr = np.concatenate([[0], np.cumsum([len(c) for c in cards])]).astype(np.int64)
    scope = np.array([[v + var_ptr[e] for v in s] for e, scopes in enumerate(problem_scopes) for s in scopes], np.int32)
    ptr = np.concatenate([[0], np.cumsum([len(s) for s in problem_scopes])]).astype(np.int64)
    rows = np.arange(len(scope), dtype=np.int32)
    card = np.concatenate(cards).astype(np.int32)
    group = Group.of("g", (int(card[0]),) * 2, scope, ptr, rows, len(scope), var_ptr)
    return Program(var_ptr, card, (group,), allowed=allowed).validate()


def test_each_example_has_an_order_and_a_largest_table():
    ring = [(v, (v + 1) % 6) for v in range(6)]
    program = program_of([ring, ring, ring[:-1], ring], [[3] * 6] * 4)
    assert [one.width for one in eliminations(program)] == [2, 2, 1, 2]
    assert [one.log2_largest for one in eliminations(program, np.array([2]))] == pytest.approx([np.log2(9)])
    assert program_need(program).max_clique_table == pytest.approx(np.log2(27))


def test_masked_variables_do_not_count():
    ring = [(v, (v + 1) % 6) for v in range(6)]
    allowed = np.ones(12, dtype=bool)
    allowed[2 * 3] = False  # variable 3 has one state left, which cuts the ring open
    assert program_need(program_of([ring], [[2] * 6])).max_clique_table == pytest.approx(3.0)
    assert program_need(program_of([ring], [[2] * 6], allowed)).max_clique_table == pytest.approx(2.0)


@pytest.mark.parametrize("seed", range(5))
def test_programs_with_factors_of_any_arity(seed):
    program = seeded(Recipe(max_arity=4, turned=True, repeats=True), seed).program
    for example, found in enumerate(eliminations(program)):
        lo, hi = program.var_ptr[example], program.var_ptr[example + 1]
        scopes = [
            (scope - lo).tolist() for g in program.groups for scope in g.scope[g.ptr[example] : g.ptr[example + 1]]
        ]
        expected = replay(int(hi - lo), scopes, program.card[lo:hi], found.order.tolist())
        assert (found.width, found.log2_largest) == pytest.approx(expected[:2])
