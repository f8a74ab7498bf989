"""An example without a labelling: errors name the rules in conflict, whatever form they have inside."""

from __future__ import annotations

import re
from itertools import pairwise, product

import numpy as np
import pytest

from ssvm_dsl import (
    Allow,
    AtLeast,
    Different,
    Dim,
    Forbid,
    Given,
    Hamming,
    Input,
    Label,
    ModelBuilder,
    Same,
    StructuredSVM,
    chain,
    complete,
)
from ssvm_dsl.errors import InfeasibleError

T = 3


def said(x=None, given=None, states="ab", mask=False, **rules):
    """Return the error for three positions under rules, which are made of the label."""
    build = ModelBuilder("Ruled")
    axis = build.add("T", Dim())
    scores = build.add("s", Input(axis, len(states)))
    allowed = build.add("m", Input(axis, len(states))) if mask else None
    y = build.add("y", Label(axis, states, allowed=allowed))
    build.add("g", Given(y, scores=scores))
    for name, make in rules.items():
        build.add(name, make(y))
    build.add("loss", Hamming(y))
    svm = StructuredSVM.from_weights(build.build(), {})
    with pytest.raises(InfeasibleError) as raised:
        svm.predict([np.zeros((T, len(states))) if x is None else x], given=given)
    return str(raised.value)


def test_one_rule_that_nothing_keeps():
    assert said(d=lambda y: Different(complete(y))).endswith("allow: no labelling keeps 'd' (Different)")
    assert said(up=lambda y: Allow(chain(y), [("a", "b")])).endswith("no labelling keeps 'up' (Allow)")


def test_tables_constraints_masks_scores_and_known_labels_are_named_together():
    def same(y):
        return Same(chain(y))

    ends = "cannot be kept together; loosen one of them"
    found = said(same=same, first=lambda y: AtLeast(1, y.is_("a")), second=lambda y: AtLeast(1, y.is_("b")))
    assert found.endswith(f"'same' (Same) and 'first' (AtLeast) and 'second' (AtLeast) {ends}")
    zeros, sides = np.zeros((T, 2)), np.array([[1, 0], [1, 1], [0, 1]])
    found = said({"s": zeros, "m": sides}, mask=True, same=same, spare=lambda y: Forbid(chain(y), [("a", "b")]))
    assert re.search(rf"('same' \(Same\)|'spare' \(Forbid\)) and the mask 'm' of label 'y' {ends}", found)
    assert said(same=same, given=[["a", None, "b"]]).endswith(f"'same' (Same) and the given labels {ends}")
    barred = np.where(sides == 1, 0.0, -np.inf)
    assert said(barred, same=same).endswith(f"'same' (Same) and the scores of -inf in 'g' {ends}")


def test_constraints_alone_are_told_apart_one_by_one():
    found = said(one=lambda y: AtLeast(2, y.is_("a")), two=lambda y: AtLeast(2, y.is_("b")))
    assert found.endswith("the constraints 'one' and 'two' cannot be kept together; loosen one of them")


def test_what_rules_out_all_states_of_a_variable_is_named():
    found = said(a=lambda y: Forbid(y, ["a"]), b=lambda y: Forbid(y, ["b"]), c=lambda y: Forbid(chain(y), [("a", "b")]))
    assert found.endswith("all states of y[0] are ruled out, by 'a' (Forbid) and 'b' (Forbid)")


@pytest.mark.parametrize("seed", range(6))
def test_what_is_named_cannot_be_kept_and_no_part_of_it_is_to_blame(seed):
    rng = np.random.default_rng(seed)
    while True:
        banned = {f"r{i}": [(a, b) for a, b in product("ab", "ab") if rng.random() < 0.35] for i in range(4)}
        banned = {name: pairs for name, pairs in banned.items() if 0 < len(pairs) < 4}
        if not left(banned):
            break
    found = said(**{name: lambda y, pairs=pairs: Forbid(chain(y), pairs) for name, pairs in banned.items()})
    named = re.findall(r"'(r\d)' \(Forbid\)", found)
    assert not left({name: banned[name] for name in named})
    for name in named:
        assert left({other: banned[other] for other in named if other != name})


def left(banned):
    """Return the labellings that keep rules about neighbours, by brute force."""
    every = ["".join(one) for one in product("ab", repeat=T)]
    gone = {pair for pairs in banned.values() for pair in pairs}
    return [y for y in every if not any(pair in gone for pair in pairwise(y))]
