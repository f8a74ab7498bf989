"""Labellings read off marginals: any of the best ones where the local polytope is exact, ties included."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from ssvm_dsl.ir.program import Group, Program
from ssvm_dsl.ir.ragged import pointers
from ssvm_dsl.ir.solution import Marginals
from ssvm_dsl.scores.marginals import rounded


def pairs_program(card, edges):
    """One example, a group for each pair of numbers of states."""
    kinds = sorted({(card[a], card[b]) for a, b in edges})
    groups = []
    for cards in kinds:
        scope = np.array([edge for edge in edges if (card[edge[0]], card[edge[1]]) == cards], dtype=np.int32)
        table = np.arange(len(scope), dtype=np.int32)
        ptr, var_ptr = np.array([0, len(scope)]), np.array([0, len(card)])
        groups.append(Group.of(f"g{cards}", cards, scope, ptr, table, len(scope), var_ptr))
    return Program(np.array([0, len(card)]), np.array(card, dtype=np.int32), tuple(groups))


def mixture(program, labellings, shares):
    """The marginals of a distribution over labellings."""
    node, tables = np.zeros(program.n_states), [np.zeros((g.n_factors, g.n_configs)) for g in program.groups]
    for labels, share in zip(labellings, shares):
        labels = np.array(labels)
        node[program.state_ptr[:-1] + labels] += share
        for group, table in zip(program.groups, tables):
            table[np.arange(group.n_factors), labels[group.scope] @ group.strides] += share
    return Marginals(node, tuple(tables))


def forest(rng, n):
    order = rng.permutation(n)
    edges = [(int(order[rng.integers(k)]), int(order[k])) for k in range(1, n) if rng.random() < 0.85]
    return [edge if rng.random() < 0.5 else edge[::-1] for edge in edges]


@pytest.mark.parametrize("seed", range(5))
def test_on_forests_the_labelling_has_positive_marginals_everywhere(seed):
    """Then it is as good as the marginals wherever these are best: it violates no complementary slackness."""
    rng = np.random.default_rng(seed)
    card = rng.integers(2, 5, size=9).tolist()
    program = pairs_program(card, forest(rng, 9))
    labellings = [[int(rng.integers(c)) for c in card] for _ in range(3)]
    marginals = mixture(program, labellings, [1 / 3] * 3)
    labels = rounded(program, marginals)
    assert marginals.node[program.state_ptr[:-1] + labels].min() > 0.3
    for group, table in zip(program.groups, marginals.tables):
        assert table[np.arange(group.n_factors), labels[group.scope] @ group.strides].min() > 0.3


def test_a_labelling_stays_what_it_is_on_any_graph():
    card, edges = [3, 2, 3, 4], list(itertools.combinations(range(4), 2))
    program = pairs_program(card, edges)
    for labels in itertools.product(*map(range, card)):
        np.testing.assert_array_equal(rounded(program, mixture(program, [labels], [1.0])), labels)


def test_ties_of_opposite_labellings_are_not_mixed():
    """State by state, two variables that always differ would both take their first state."""
    program = pairs_program([2, 2, 2], [(0, 1), (1, 2), (2, 0)])
    pair = pairs_program([2, 2], [(0, 1)])
    assert rounded(pair, mixture(pair, [(0, 1), (1, 0)], [0.5, 0.5])).tolist() == [0, 1]
    half = Marginals(np.full(6, 0.5), (np.tile([0.0, 0.5, 0.5, 0.0], (3, 1)),))  # no labelling has all three pairs
    assert sorted(rounded(program, half).tolist()) in ([0, 0, 1], [0, 1, 1])


def test_factors_of_three_variables_and_several_examples():
    scope = np.array([[0, 1, 2], [4, 5, 3]], dtype=np.int32)
    rows, var_ptr = np.arange(2, dtype=np.int32), np.array([0, 3, 7])
    group = Group.of("triples", (2, 3, 2), scope, np.array([0, 1, 2]), rows, 2, var_ptr)
    card = np.array([2, 3, 2, 2, 2, 3, 2], dtype=np.int32)
    program = Program(pointers(np.array([3, 4])), card, (group,))
    labellings = [(0, 2, 1, 1, 0, 0, 1), (1, 0, 0, 0, 1, 2, 1)]
    labels = rounded(program, mixture(program, labellings, [0.5, 0.5])).tolist()
    assert labels[:3] in [list(one[:3]) for one in labellings]
    assert labels[3:6] in [list(one[3:6]) for one in labellings]
    assert labels[6] == 1
