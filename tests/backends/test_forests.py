"""``chain`` and ``tree``: the conformance kit, and time limits by a clock of ticks."""

from __future__ import annotations

import numpy as np
import pytest

from combinations import some
from ssvm_backends.trees.chain import natural_links
from ssvm_backends.trees.forest import build_forest
from ssvm_dsl.ir import Topology
from ssvm_dsl.testing.problems import Recipe, seeded


def links_of_forests(program):
    """Return where the tables of chains in natural order start, from what any forest is prepared into."""
    forest = build_forest(program)
    linked = forest.parent >= 0
    following = (forest.parent[linked] == np.flatnonzero(linked) + 1).all()
    if not program.uniform_card or not following or (np.diff(forest.entry_ptr)[linked] != 1).any():
        return None
    link = np.full(program.n_variables, -1)
    link[linked] = forest.entry_offset
    return None if forest.entry_flip.any() else link


@pytest.mark.parametrize("seed", some(range(150), 30))
def test_plain_chains_are_recognised_by_their_factors(seed):
    rng = np.random.default_rng(seed)
    recipe = Recipe(topology=Topology.CHAIN, n_examples=4, max_variables=4, max_card=2)
    program = seeded(recipe, seed).program
    for one in (program, program.take(rng.integers(4, size=3)), *(program.example(i) for i in range(4))):
        found, expected = natural_links(one), links_of_forests(one)
        assert (found is None) == (expected is None)
        if found is not None:
            np.testing.assert_array_equal(found, expected)
