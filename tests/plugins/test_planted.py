"""Problems with known optima against brute force; searches that are cut short and lie are found."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from sloppy_backends import Right
from sloppy_backends import spec_of as described

from ssvm_dsl.ir import Caps, Question, Solution, Stop, Task, Topology
from ssvm_dsl.plugin_api import Verdict, score_labels
from ssvm_dsl.testing import check_backend
from ssvm_dsl.testing.backends.limits import PlantedJudge, planted, planted_chain
from ssvm_dsl.testing.brute_force import BruteForceSession

CAPS = {
    "loopy": Caps(topology=Topology.LOOPY),
    "binary": Caps(topology=Topology.LOOPY, requires=frozenset({"binary"})),
    "metric": Caps(topology=Topology.LOOPY, requires=frozenset({"metric"})),
    "submodular": Caps(topology=Topology.LOOPY, requires=frozenset({"binary", "submodular"})),
    "chain": Caps(topology=Topology.CHAIN),
    "chain, metric": Caps(topology=Topology.CHAIN, requires=frozenset({"metric"})),
    "no factors": Caps(topology=Topology.LOOPY, max_arity=1),
}


@pytest.mark.parametrize("caps", CAPS)
def test_the_best_score_is_the_planted_one(caps):
    for problem in (planted(CAPS[caps], 4), planted(CAPS[caps], 6), planted_chain(CAPS[caps], 5)):
        best = BruteForceSession(problem.program).solve(Question(problem.theta))
        assert problem.best == pytest.approx(best.score[0], rel=1e-12)
        assert PlantedJudge(problem, CAPS[caps]).plain_score(0, best.labels) == pytest.approx(problem.best)
        if not np.isnan(problem.log_partition):
            total = BruteForceSession(problem.program).solve(Question(problem.theta, task=Task.MARGINALS))
            assert problem.log_partition == pytest.approx(total.log_partition[0], rel=1e-12)


@pytest.mark.parametrize("caps", CAPS)
def test_examples_are_those_that_capabilities_cover(caps):
    for n in (16, 400):
        problem = planted(CAPS[caps], n)
        assert problem.program.n_variables == n
        assert problem.program.hardest_topology <= CAPS[caps].topology
        assert CAPS[caps].max_arity > 1 or not problem.program.groups
        assert "binary" not in CAPS[caps].requires or problem.program.card.max() == 2
    assert planted(CAPS["loopy"], 16).program.hardest_topology is Topology.LOOPY


def spec_of(kind):
    return replace(described(kind), factory=f"{__name__}:{kind.__name__}")


class FirstGuess(Right):
    """Any labelling of a large example, as the best one there can be: its score is the bound where time ends."""

    def check(self, need):
        return Verdict(True, cost=1e9)

    def open(self, program, options):
        return super().open(program, options) if program.n_variables < 20 else Guessing(program)


class Guessing:
    def __init__(self, program):
        self.program = program

    def solve(self, question):
        labels = np.zeros(self.program.n_variables, np.int32)
        found = Solution.exact(labels, score_labels(self.program, question.theta, labels))
        return replace(found, stop=np.array([Stop.TIME], np.int8))


def test_a_score_that_is_called_the_bound_when_time_ends_is_found():
    report = check_backend(spec_of(FirstGuess), n_problems=0, only=["cut short"])
    assert report.failed == ["cut short"]
    assert "about a chain of 10000 variables" in str(report)
    assert "is below the best score" in str(report)


class Costly(Right):
    def check(self, need):
        return Verdict(True, cost=1e9 * need.max_labellings * need.n_variables)


class Free(Right):
    def check(self, need):
        return Verdict(True, cost=0.0)


@pytest.mark.parametrize("kind", [Costly, Free])
def test_costs_that_are_far_off_are_found(kind):
    assert check_backend(spec_of(kind), n_problems=0, only=["cost"]).failed == ["cost"]


class Scratch(Right):
    """Keeps the question it is asked in one place for all threads."""

    def open(self, program, options):
        return Shared(super().open(program, options))


class Shared:
    def __init__(self, inner):
        self.inner = inner

    def solve(self, question):
        self.question = question
        return self.inner.solve(self.question)


def test_what_threads_share_is_found():
    assert check_backend(spec_of(Scratch), n_problems=4, only=["interleaved threads"]).failed == ["interleaved threads"]
