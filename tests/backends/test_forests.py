"""``chain`` and ``tree``: the conformance kit, and time limits by a clock of ticks."""

from __future__ import annotations

import numpy as np
import pytest

from clocks import looks_of
from kit import keeps_its_promises
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
