"""Examples without a labelling are explained by constraints that cannot be kept together, none of them too many."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest

from constraints.constraint_cases import group_of, random_constraints, unlinked
from ssvm_dsl import AtLeast, AtMost, Dim, ExactlyOne, Factor, Hamming, Input, Label, Model, StructuredSVM
from ssvm_dsl.errors import InfeasibleError
from ssvm_dsl.inference.diagnosis.conflicts import conflict
from ssvm_dsl.inference.rules import with_rules
from ssvm_dsl.ir import Primal, Question, Theta
from ssvm_dsl.registry import registry
from ssvm_dsl.testing.brute_force import BruteForceSession


class Shifts(Model):
    D, P = Dim(2), Dim()
    x = Input(D, P, 1)
    k = Input(1)
    on = Label(D, P, 2)
    f = Factor(on, features=x)
    crew = AtMost(k, on.is_(1), along=D)
    fair = AtLeast(1, on.is_(1), along=P)
    calm = AtMost(5, on.is_(1))
    one = ExactlyOne(on.is_(0))
    loss = Hamming(on)


@pytest.mark.parametrize("backend", ["auto", "brute-force", "ilp"])
def test_the_error_names_example_and_constraints(backend):
    X = [{"x": np.ones((2, p, 1)), "k": [k]} for p, k in ((2, 2), (2, 1), (1, 1))]
    svm = StructuredSVM(Shifts, backend=backend, max_passes=2)
    Y = [[[1, 1], [1, 0]], None, [[1], [0]]]
    svm.fit([X[0], X[2]], [Y[0], Y[2]])
    with pytest.raises(InfeasibleError) as caught:
        svm.predict(X)
    text = str(caught.value)
    assert text.startswith("example 1 has no labelling that its masks and constraints allow: the constraints")
    assert "'crew' at D = 0 and 'crew' at D = 1 and 'one' cannot be kept together" in text
    assert "calm" not in text


def feasible(program, items):
    groups = tuple(
        group.only(np.array(sorted(k for name, k in items if name == group.name), np.int64))
        for group in program.constraints
    )
    some = replace(program, constraints=groups)
    return BruteForceSession(some).solve(Question(Theta.zeros(some))).primal[0] == Primal.FEASIBLE


@pytest.mark.parametrize("seed", range(8))
def test_what_is_named_is_irreducible(seed):
    rng = np.random.default_rng(seed)
    program, every = None, []
    while program is None or feasible(program, every):
        groups = [random_constraints(rng, unlinked([[2, 3, 2]]), kind) for kind in ("count", "linear", "count")]
        groups = [replace(group, name=name) for group, name in zip(groups, "abc", strict=True)]
        program = with_rules(unlinked([[2, 3, 2]], *groups), registry())
        every = [(group.name, k) for group in program.constraints for k in range(group.n_constraints)]
    text = conflict(program, Theta.zeros(program), 0)
    found = {(name, int(number or 1) - 1) for name, number in re.findall(r"'(\w)'(?: \(number (\d))?", text)}
    assert found <= set(every)
    assert not feasible(program, found)
    assert all(feasible(program, found - {one}) for one in found)


def test_masks_and_scores_are_told_apart_from_constraints():
    group = group_of("count", [[[(0, 1)]]], lower=[0], upper=[1])
    program = with_rules(unlinked([[2, 2]], group), registry())
    theta = Theta.of(program, [-np.inf, -np.inf, 0.0, 0.0])
    assert conflict(program, theta, 0) == "masks and scores of -inf leave no labelling, even without the constraints"
    never = with_rules(unlinked([[2, 2]], group_of("count", [[[(0, 1)]]], lower=[2], upper=[3])), registry())
    assert conflict(never, Theta.zeros(never), 0) == "nothing keeps the constraint 'c'"
