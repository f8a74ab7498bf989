"""``chain`` and ``tree``: the conformance kit, and time limits by a clock of ticks."""

from __future__ import annotations

import numpy as np
import pytest

from clocks import looks_of
from combinations import some
from kit import keeps_its_promises
from ssvm_backends.trees.chain import natural_links
from ssvm_backends.trees.forest import build_forest
from ssvm_dsl.ir import Limits, Question, Stop, Task, Topology
from ssvm_dsl.plugin_api import BackendSpec
from ssvm_dsl.registry import registry
from ssvm_dsl.testing.problems import Recipe, seeded

NAMES = ("chain", "tree")


@pytest.mark.parametrize("name", NAMES)
def test_conformance(name):
    keeps_its_promises(name)


@pytest.mark.parametrize("task", [Task.MAP, Task.KBEST, Task.MARGINALS])
@pytest.mark.parametrize("name", NAMES)
def test_time_limits_are_kept(name, task):
    problem = seeded(Recipe(topology=Topology.CHAIN, n_examples=3000, max_variables=3, max_card=2), 0)
    spec = registry().find(BackendSpec, name)
    session = spec.load()().open(problem.program, spec.resolve(None))
    question = Question(problem.theta, task=task, k=2 if task is Task.KBEST else 1)
    whole = session.solve(question)
    assert (whole.stop == Stop.FINISHED).all()
    limited, looks = looks_of(lambda: session.solve(question.replace(limits=Limits(time=0.006))))
    assert looks <= 8
    late = limited.stop == Stop.TIME
    assert 0 < late.sum() < 3000
    assert not late[: np.argmax(late)].any()
    assert late[np.argmax(late) :].all()
    found, expected = (one.log_partition if task is Task.MARGINALS else one.score for one in (limited, whole))
    np.testing.assert_array_equal(found[..., ~late], expected[..., ~late])
    nothing = np.isnan(found[..., late]) if task is Task.MARGINALS else found[..., late] == -np.inf
    assert nothing.all()


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
