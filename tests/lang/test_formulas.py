"""Rules over variables at positions, compared with plain Python over all labellings."""

from __future__ import annotations

import types
from itertools import pairwise, permutations, product

import numpy as np
import pytest

from ssvm_dsl import (
    AllOf,
    AnyOf,
    AtMost,
    Circuit,
    Count,
    Dim,
    Factor,
    Given,
    Hamming,
    Iff,
    Implies,
    Input,
    Label,
    Linear,
    Matching,
    Model,
    Not,
    Path,
    Same,
    StructuredSVM,
    ground,
)
from ssvm_dsl.errors import DataError, InfeasibleError, ModelError
from ssvm_dsl.inference.planning.planner import plan
from ssvm_dsl.inference.rules import with_rules
from ssvm_dsl.inference.session import open_plan
from ssvm_dsl.ir.need import Task
from ssvm_dsl.ir.question import Question
from ssvm_dsl.registry import registry
from ssvm_dsl.requirements.programs import program_need


def best(states, left, score):
    """The best labellings by hand: those that are left, of the highest score."""
    found = [np.array(y) for y in product(states, repeat=score.shape[0]) if left(np.array(y))]
    worth = [sum(score[k] for k in range(len(y)) if y[k]) for y in found]
    return found[int(np.argmax(worth))], max(worth)


def answer(model, x):
    """The best labelling of a model whose scores are given."""
    grounded = ground(model, [x])
    program = with_rules(grounded.program, registry())
    theta = grounded.parameters.scores(np.zeros(grounded.parameters.dim))
    opened = open_plan(plan(program_need(program, frozenset({Task.MAP}))), program)
    return grounded.layout.decode(opened.solve(Question(theta)).labels)[0]


def test_a_budget_at_positions():
    class Knapsack(Model):
        N = Dim()
        i = N.index()
        s, cost, cap = Input(N), Input(N), Input(1)
        y = Label(N, 2)
        own = Given(y[i].is_(1), scores=s[i])
        budget = Linear({y[i].is_(1): cost[i]}, "<=", cap, over=i)

    rng = np.random.default_rng(0)
    for _ in range(5):
        x = {"s": rng.normal(size=5), "cost": rng.uniform(1, 3, size=5), "cap": np.array([5.0])}
        _, worth = best((0, 1), lambda y, x=x: x["cost"] @ y <= 5.0, x["s"])
        assert x["s"] @ answer(Knapsack, x) == pytest.approx(worth)
    assert Model.from_json(Knapsack.to_json()).declaration == Knapsack.declaration
    assert "Linear({y[i].is_(1): cost[i]}, '<=', cap, over=i)" in str(Knapsack)


def test_one_matching_for_each_of_the_other_indices():
    class Tracks(Model):
        F, I, J = Dim(), Dim(), Dim()
        f, i, j = F.index(), I.index(), J.index()
        s = Input(F, I, J)
        y = Label(F, I, J, 2)
        own = Given(y[f, i, j].is_(1), scores=s[f, i, j])
        one = Matching(y[f, i, j].is_(1), rows=i, cols=j, perfect=True)

    s = np.random.default_rng(1).normal(size=(2, 3, 3))
    y = answer(Tracks, {"s": s})
    for f in range(2):
        worth = max(sum(s[f, i, p[i]] for i in range(3)) for p in permutations(range(3)))
        assert (s[f] * y[f]).sum() == pytest.approx(worth)
        assert (y[f].sum(axis=0) == 1).all()
        assert (y[f].sum(axis=1) == 1).all()
    assert Model.from_json(Tracks.to_json()).declaration == Tracks.declaration


def test_tours_and_paths_over_pairs():
    class Tour(Model):
        N = Dim()
        i, j = N.index(2)
        s = Input(N, N)
        y = Label(N, N, 2)
        own = Given(y[i, j].is_(1), scores=s[i, j])
        tour = Circuit(y[i, j].is_(1), tail=i, head=j, all_nodes=True)

    class Way(Model):
        N = Dim()
        i, j = N.index(2)
        s = Input(N, N)
        y = Label(N, N, 2)
        own = Given(y[i, j].is_(1), scores=s[i, j])
        way = Path(y[i, j].is_(1), tail=i, head=j, source=0, target=-1)

    s = np.random.default_rng(2).normal(size=(4, 4))
    y = answer(Tour, {"s": s})
    assert not y.diagonal().any()
    tours = [(0, *p) for p in permutations((1, 2, 3))]
    worth = max(sum(s[p[k], p[(k + 1) % 4]] for k in range(4)) for p in tours)
    assert (s * y).sum() == pytest.approx(worth)
    y = answer(Way, {"s": s})
    ways = [(0, *p, 3) for n in range(3) for p in permutations((1, 2), n)]
    assert (s * y).sum() == pytest.approx(max(sum(s[a, b] for a, b in pairwise(w)) for w in ways))


def test_a_chain_with_rules_that_miss_a_position_stays_a_chain():
    class Tags(Model):
        T = Dim()
        t = T.index()
        x = Input(T, 2)
        y = Label(T, ["O", "B", "I"])
        emit = Factor(y[t], features=x[t])
        trans = Factor((y[t], y[t + 1]))
        scheme = Implies(y[t].is_("I"), Not(y[t - 1].is_("O")), outside=False)
        first = Implies(y[0].is_("I"), y[0].is_("B"))
        loss = Hamming(y)

    rng = np.random.default_rng(0)
    X = [rng.normal(size=(n, 2)) for n in (4, 3, 6)]
    Y = [np.array(["B", "I", "O", "B"]), np.array(["O", "B", "I"]), np.array(["O"] * 6)]
    svm = StructuredSVM(Tags, random_state=0).fit(X, Y)
    assert "backend    chain" in str(svm.prediction_plan(X))
    assert all(y[0] != "I" for y in svm.predict(X))
    with pytest.raises(DataError, match="rule 'scheme'"):
        svm.fit(X[:1], [np.array(["O", "I", "O", "B"])])


def test_what_no_labels_satisfy_is_named_with_its_positions():
    class Odd(Model):
        N = Dim()
        i, j = N.index(2)
        x = Input(N)
        y = Label(N, 2)
        own = Factor(y[i].is_(1), features=x[i])
        some = AnyOf(y[j].is_(1), over=j, where=(i < j) & (i < 2))
        loss = Hamming(y)

    with pytest.raises(InfeasibleError, match="rule 'some' is false at i = 1"):
        ground(Odd, [np.zeros(2)])


def test_weights_of_counts():
    class Counted(Model):
        N = Dim(3)
        i = N.index()
        x = Input(N)
        y = Label(N, 2)
        size = Factor(Count(y[i].is_(1), over=i))
        some = Factor(AnyOf(y[i].is_(1), over=i))
        loss = Hamming(y)

    grounded = ground(Counted, [np.zeros(3)])
    assert grounded.program.blocks[0].shape == (4,)
    assert grounded.program.blocks[1].shape == ()


WRONG = {
    "a bare literal has no effect": lambda y, i, j: y[i].is_("a"),
    "a Count has no effect": lambda y, i, j: Count(y[i].is_("a"), over=i, most=2),
    "a list as an attribute holds rules": lambda y, i, j: [Factor(y[i])],
    "and used outside": lambda y, i, j: AllOf(y[i].is_("a"), AnyOf(y[i].is_("b"), over=i)),
    "where= belongs to the whole rule": lambda y, i, j: AllOf(AnyOf(y[i].is_("a"), where=i < j), y[j].is_("b")),
    "over= is an index of its members": lambda y, i, j: AtMost(1, y[i].is_("a"), over=j),
    "along= is for whole labels": lambda y, i, j: AtMost(1, y[i].is_("a"), along=y.dims[0]),
    "is never true": lambda y, i, j: AllOf(y[i].is_("a"), Not(y[i].is_("a"))),
    "most= is needed": lambda y, i, j: Factor(Count(y[i].is_("a"), over=i)),
    "outside=False is for literals": lambda y, i, j: Same(y[i], y[j], outside=False),
}


@pytest.mark.parametrize("text", WRONG)
def test_mistakes_say_what_to_do(text):
    def body(space):
        n = Dim()
        i, j = n.index(2)
        y = Label(n, "ab")
        space.update(N=n, i=i, j=j, x=Input(n), y=y, loss=Hamming(y), thing=WRONG[text](y, i, j))

    with pytest.raises(ModelError) as caught:
        types.new_class("M", (Model,), {}, body)
    assert text in str(caught.value)


def test_a_rule_is_hard_or_a_part_of_another_one():
    with pytest.raises(ModelError, match="build it in a function"):

        class Both(Model):
            N = Dim()
            i, j = N.index(2)
            x = Input(N)
            y = Label(N, "ab")
            rule = Iff(y[i].is_("a"), y[j].is_("a"))
            soft = Factor(rule, where=i < j)
            loss = Hamming(y)
