"""What cannot be meant is refused where it is written, with the line, the pattern and what to write in its place."""

from __future__ import annotations

import types

import numpy as np
import pytest

from ssvm_dsl import (
    AllOf,
    AnyOf,
    AtMost,
    Dim,
    Factor,
    Forbid,
    Hamming,
    Implies,
    Input,
    Label,
    Model,
    Pattern,
    Same,
    StructuredSVM,
    ground,
)
from ssvm_dsl.errors import ModelError, TooLargeError


def complaint(make):
    """The message of a model in whose body something is wrong."""

    def body(space):
        T, U, K = Dim(), Dim(), Dim(3)
        i, j = T.index(2)
        space.update(T=T, U=U, K=K, t=T.index(), i=i, j=j, u=U.index(), k=K.index())
        space.update(x=Input(T, 3), f=Input(T, T), g=Input(T), v=Input(U), y=Label(T, "ab"), z=Label(K, 2))
        space.update(own=Factor(space["y"], features=space["x"]), loss=Hamming(space["y"]))
        space["wrong"] = make(types.SimpleNamespace(**space))

    with pytest.raises(ModelError) as caught:
        types.new_class("M", (Model,), {}, body)
    assert "test_answers_to_mistakes.py:" in str(caught.value)
    return str(caught.value)


COMPARED = "Python has compared already: use .is_ in place of =="
WRONG = {
    "v[t]: a position on T, expected one on U; t.on(U) is the same number there": lambda p: Factor(
        p.y[p.t], features=p.v[p.t]
    ),
    "z[k + 3]: no position k + 3 exists on an axis of 3": lambda p: Factor(p.z[p.k + 3]),
    "no position -5 - k exists on an axis of 3": lambda p: Factor((p.z[p.k], p.z[-5 - p.k])),
    "Implies(z[k].is_(1), z[k - 4].is_(1)): no position k - 4 exists": lambda p: Implies(
        p.z[p.k].is_(1), p.z[p.k - 4].is_(1)
    ),
    "(z[k + 2], z[k - 1]): its positions never exist together": lambda p: Factor((p.z[p.k + 2], p.z[p.k - 1])),
    "has the index i, which is not one of y[t]": lambda p: Factor(p.y[p.t], features=p.f[p.t, p.i]),
    "per: an index of the pattern, got k": lambda p: Factor(p.y[p.t], per=p.k),
    "i == u: positions on T and on U, two axes": lambda p: Factor(p.y[p.i], where=p.i.is_(p.u)),
    "got False; " + COMPARED: lambda p: Factor((p.y[p.i], p.y[p.j]), where=p.y[p.i] == p.y[p.j]),
    "a formula of such, got False; " + COMPARED: lambda p: Implies(p.y[p.i].is_("a"), p.y[p.j] == "b"),
    "as y.is_(1) does, got False; " + COMPARED: lambda p: AnyOf(p.y[p.i] == "a", p.y[p.j] == "b"),
    "AtMost: a literal at positions, as y[t].is_(1), or a formula of such, got False; " + COMPARED: lambda p: AtMost(
        1, p.y[p.i] == "a", over=p.i
    ),
    "features: an Input, a feature or a list of them, got False; " + COMPARED: lambda p: Factor(
        p.y[p.i], features=p.g[p.i] == 1
    ),
    "not about variables: that is a rule": lambda p: Factor((p.y[p.i], p.y[p.j]), where=p.y[p.i].is_("a")),
    "&: a condition such as i < j": lambda p: Factor((p.y[p.i], p.y[p.j]), where=(p.i < p.j) & p.y[p.i]),
    "Pattern(y[i], where=i < i): where= is never true: i < i": lambda p: Factor(p.y[p.i], where=p.i < p.i),
    "where= is never true: (i < j) & (j < i)": lambda p: Factor((p.y[p.i], p.y[p.j]), where=(p.i < p.j) & (p.j < p.i)),
    "where= is never true: k > 5": lambda p: Same(p.z[p.k], p.z[p.k - 1], where=p.k > 5),
    "where= is never true where its positions exist": lambda p: Factor((p.z[p.k], p.z[p.k + 1]), where=p.k >= 2),
    "where= is never true: i.is_not(i)": lambda p: Factor(p.y[p.i], where=p.i.is_not(p.i)),
    "it has several numbers, name one: ": lambda p: Factor(p.y[p.t], where=p.x[p.t]),
    "got Factor(y[i]); give each thing a name of its own": lambda p: [Factor(p.y[p.i])],
    "got Factor(y[j]); give each thing a name of its own": lambda p: {"one": Factor(p.y[p.j])},
    "a list as an attribute holds rules, got x": lambda p: (p.x, p.f),
    "a bare pattern has no effect; write wrong = Factor((y[i], y[j]))": lambda p: Pattern((p.y[p.i], p.y[p.j])),
    "times or by 2 is no position; put the positions into Positions": lambda p: Factor(p.y[2 * p.t]),
    "is no position; put the positions into Positions": lambda p: Factor(p.y[p.t // 2]),
    "&, | and ~ join conditions; of rules write AllOf(a, b), AnyOf(a, b), Not(a)": lambda p: Factor(
        p.y[p.i].is_("a") & p.y[p.j].is_("a")
    ),
    "of rules write AllOf(a, b)": lambda p: ~AnyOf(p.y[p.i].is_("a"), p.y[p.j].is_("a")),
    "3): write Not(": lambda p: Factor(p.y[p.i], where=~(p.i < 3)),
    "has no truth value in Python: write Not, AllOf, AnyOf": lambda p: Factor(p.y[p.i].is_("a") or p.y[p.j].is_("a")),
    "is one variable and cannot be iterated": lambda p: list(p.y[p.t]),
    "positions take ints, got True": lambda p: Factor(p.y[p.t + True]),
    "positions take ints, got 1.5": lambda p: Factor(p.y[p.t + 1.5]),
    "put the positions of an array into Positions": lambda p: Factor(p.y[p.t + np.arange(2)]),
}


@pytest.mark.parametrize("words", WRONG)
def test_a_mistake_is_answered(words):
    assert words in complaint(WRONG[words])


def test_patterns_that_may_exist_are_not_refused():
    class Edge(Model):
        K, T = Dim(3), Dim()
        (k, m), t = K.index(2), T.index()
        x = Input(T)
        z, y = Label(K, 2), Label(T, 2)
        own = Factor(y[t], features=x[t])
        last = Factor((z[k], z[k + 2]))
        first = Factor(z[-3 - k], where=k <= 0)
        far = Factor((y[t], y[t + 50]))
        ring = Factor((z[k], z[(k + 2) % K]))
        both = Factor((z[k], z[m]), where=(k < m) & (m <= 1))
        loss = Hamming(z) + Hamming(y)

    counts = [group.n_factors for group in ground(Edge, [np.zeros(2)]).program.groups]
    assert counts[0] == 1
    assert counts[-1] == 1


def test_a_pattern_of_a_billion_instances_is_refused_with_its_line():
    class Huge(Model):
        N = Dim()
        i, j, k = N.index(3)
        x = Input(N)
        y = Label(N, 2)
        own = Factor(y[i], features=x[i])
        all_ = Factor((y[i], y[j], y[k]))
        loss = Hamming(y)

    with pytest.raises(TooLargeError, match=r"\(y\[i\], y\[j\], y\[k\]\)(.|\n)*narrow its where="):
        ground(Huge, [np.zeros(3000)])


def test_a_relation_in_an_order_that_it_does_not_have():
    def body(make):
        class Related(Model):
            N = Dim()
            i, j, k = N.index(3)
            x = Input(N, N)
            same = Label(i, j, 2, where=i < j)
            link = Factor(same, features=x)
            rule = make(same, i, j, k)
            loss = Hamming(same)

        return Related

    def triangle(same, i, j, k, where=None):
        return Implies(AllOf(same[i, j].is_(1), same[j, k].is_(1)), same[i, k].is_(1), where=where)

    for make in (triangle, lambda same, i, j, k: triangle(same, i, j, k, (i < j) & (j < k))):
        with pytest.raises(ModelError, match=r"one of three rules of a triangle; write Equivalence\(same\)"):
            body(make)
    two = body(lambda same, i, j, k: Forbid((same[i, j], same[j, k]), [(1, 1)]))
    with pytest.raises(ModelError, match=r"test_answers.*:\d+: \(same\[i, j\], same\[j, k\]\): same.*symmetric=True"):
        ground(two, [np.zeros((3, 3))])


def test_indices_of_a_base_are_inherited_named_and_written():
    class Base(Model):
        N = Dim()
        i, j = N.index(2)
        x = Input(N, 2)
        y = Label(N, 2)
        own = Factor(y[i], features=x[i])
        loss = Hamming(y)

    class Plain(Base):
        pair = Factor((Base.y[Base.i], Base.y[Base.j]), where=Base.i < Base.j)

    class Said(Base):
        i, j = Base.i, Base.j
        y = Base.y
        pair = Factor((y[i], y[j]), where=i < j)

    for model in (Plain, Said):
        again = Model.from_json(model.to_json())
        assert again.to_json() == model.to_json()
        assert str(again) == str(model)
    assert str(Said).partition("\n")[2] == str(Plain).partition("\n")[2]
    with pytest.raises(ModelError, match="not this model's own N; declare i with this model's"):

        class Other(Base):
            N = Dim()
            x = Input(N, 2)
            y = Label(N, 2)
            own = Factor(y, features=x)
            loss = Hamming(y)

    with pytest.raises(ModelError, match="i runs over the N of another model; make an index here"):

        class Foreign(Model):
            N = Dim()
            x = Input(N)
            y = Label(N, 2)
            own = Factor(y[Base.i], features=x[Base.i])
            loss = Hamming(y)


def neighbours(y, x):
    """Factors whose indices nobody names: the one declared first is written last."""
    late, early = (y.dims[0].index() for _ in range(2))
    return Factor((y[early], y[late]), features=[x[early], x[late]], where=early < late)


def test_indices_that_nobody_names_keep_their_order_in_files():
    class Made(Model):
        N = Dim()
        x = Input(N, 2)
        y = Label(N, 2)
        own = Factor(y, features=x)
        pair = neighbours(y, x)
        loss = Hamming(y)

    assert "an unnamed index" in str(Made)
    again = Model.from_json(Made.to_json())
    assert again.to_json() == Made.to_json()
    scopes = [ground(model, [np.arange(8.0).reshape(4, 2)]).program.groups[0].shapes.scope.tolist()
              for model in (Made, again)]  # fmt: skip
    assert scopes[0] == scopes[1]
    assert scopes[0][:3] == [[0, 1], [0, 2], [1, 2]]
    rng = np.random.default_rng(0)
    X = [rng.normal(size=(n, 2)) for n in (3, 4)]
    svm = StructuredSVM(Made, random_state=0).fit(X, [np.arange(3) % 2, np.arange(4) % 2])
    assert np.isfinite(svm.coef_).all()
