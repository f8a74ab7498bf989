"""Constraints as users write them: printing, JSON, equality, mistakes, builders, inheritance."""

from __future__ import annotations

import pickle

import pytest

import ssvm_dsl
from ssvm_dsl import (
    AnyOf,
    AtLeast,
    AtMost,
    Constraint,
    Dim,
    Exactly,
    ExactlyOne,
    Factor,
    Hamming,
    Implies,
    Input,
    Label,
    Linear,
    Model,
    ModelBuilder,
    Not,
    chain,
    estimate,
)
from ssvm_dsl.errors import ModelError


class Rota(Model):
    D, P = Dim(7), Dim()
    skill = Input(P, 3)
    most = Input(1)
    cost = Input(D, P)
    on = Label(D, P, 2)
    lead = Label(D, ["none", "some"])
    score = Factor(on)
    rest = Factor(lead)
    crew = AtMost(most, on.is_(1), along=D)
    fair = AtLeast(1, on.is_(1), along=P)
    two = Exactly(2, [on.is_(1), Not(lead.is_("none"))], along=[D, P])
    days = ExactlyOne(lead.is_("some"))
    any_day = AnyOf(on.is_(1), lead.is_("some"))
    led = Implies(on.is_(1), lead.is_("some"))
    budget = Linear({on.is_(1): cost, lead.is_("some"): 2.5}, "<=", 30)
    floor = Linear([(on.is_(1), 1)], ">=", most)
    own = Constraint("few-runs", on.is_(1), along=P, runs=2, strict=True, weight=cost, day=D)
    loss = Hamming(on)


TEXTS = {
    "crew": "AtMost(most, on.is_(1), along=D)",
    "fair": "AtLeast(1, on.is_(1), along=P)",
    "two": "Exactly(2, [on.is_(1), Not(lead.is_('none'))], along=[D, P])",
    "days": "ExactlyOne(lead.is_('some'))",
    "any_day": "AnyOf(on.is_(1), lead.is_('some'))",
    "led": "Implies(on.is_(1), lead.is_('some'))",
    "budget": "Linear({on.is_(1): cost, lead.is_('some'): 2.5}, '<=', 30)",
    "floor": "Linear({on.is_(1): 1}, '>=', most)",
    "own": "Constraint('few-runs', on.is_(1), along=P, runs=2, strict=True, weight=cost, day=D)",
}


@pytest.mark.parametrize("name", TEXTS)
def test_they_read_as_they_are_written(name):
    assert repr(Rota.declaration.find(name)) == TEXTS[name]
    assert TEXTS[name] in str(Rota)
    assert eval(TEXTS[name], vars(ssvm_dsl) | {n: getattr(ssvm_dsl, n) for n in ssvm_dsl.__all__} | {
        symbol.name: symbol for symbol in Rota.declaration.symbols
    }).arguments() == Rota.declaration.find(name).arguments()  # fmt: skip


def test_json_and_pickle_keep_them():
    again = Model.from_json(Rota.to_json())
    assert again.declaration == Rota.declaration
    assert str(again) == str(Rota)
    assert pickle.loads(pickle.dumps(Rota.declaration)) == Rota.declaration


def test_they_show_in_notebooks_and_estimates():
    assert "AtLeast(1, on.is_(1), along=P)" in Rota._repr_html_()
    X = [{"skill": [[0.0] * 3] * p, "most": [2], "cost": [[1.0] * p] * 7} for p in (2, 3)]
    text = str(estimate(Rota, X))
    assert "crew     AtMost(most, on.is_(1), along=D): 14 constraints of 35 literals" in text
    assert "led      Implies(on.is_(1), lead.is_('some')): 35 constraints of 70 literals" in text


def test_inheritance_and_builders():
    class Calm(Rota):
        crew = AtMost(1, Rota.on.is_(1), along=Rota.D)
        fair = None

    assert [one.name for one in Calm.declaration.constraints].count("crew") == 1
    assert Calm.declaration.find("fair") is None
    m = ModelBuilder("Few")
    k, y = m.dim("K", 3), None
    x, y = m.input("x", 2), m.label("y", k, 2)
    m.factor("f", y, features=x)
    m.constraint("budget", AtMost(1, y.is_(1)))
    assert "budget = AtMost(1, y.is_(1))" in str(m.build())


def test_literals_of_unnamed_labels_are_not_mixed_up():
    class Two(Model):
        x = Input(1)
        a = Label(2)
        b = Label(2)
        f = Factor(a, features=x)
        least = Linear({a.is_(1): 2.0, b.is_(1): -1.0}, "<=", 1)

    assert [literal.label.name for literal in Two.least.literals] == ["a", "b"]


def mistakes(**symbols):
    body = {"K": Dim(4), "T": Dim(), "x": Input(4), "z": Input(1), "n": Input(1)}
    body |= {"y": Label(body["K"], 2), "w": Label(body["K"], "ab")}
    body["f"] = Factor(body["y"], features=body["x"])
    body |= {name: make(body) for name, make in symbols.items()}
    with pytest.raises(ModelError) as caught:
        type(Model)("M", (Model,), body)
    return str(caught.value)


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda b: AtMost(-1, b["y"].is_(1)), "AtMost: the number of literals must be a whole number of at least 0"),
        (lambda b: AtMost(1.5, b["y"].is_(1)), "or an Input(1), got 1.5"),
        (lambda b: AtMost(True, b["y"].is_(1)), "or an Input(1), got True"),
        (lambda b: AtLeast(5, b["y"].is_(1)), "5 literals cannot be true, there are 4"),
        (lambda b: AtLeast(2, b["y"].is_(1), along=b["K"]), "2 literals cannot be true, there are 1"),
        (lambda b: AtMost(1, b["y"]), "a literal says which class a variable has, as y.is_(1) does, got y"),
        (lambda b: AtMost(1, chain(b["y"])), "got chain(y)"),
        (lambda b: AtMost(1, b["y"].is_(2)), "is_(2): not one of the classes"),
        (lambda b: AtMost(1, Not(b["y"])), "Not: a literal says which class"),
        (lambda b: AtMost(1, []), "at least one literal is needed"),
        (lambda b: AtMost(1, b["y"].is_(1), along=b["T"]), "along: an axis of a literal's label, got T"),
        (lambda b: AtMost(1, b["y"].is_(1), along="K"), "AtMost: along: axes are Dims, got 'K'"),
        (lambda b: AtMost(b["x"], b["y"].is_(1)), "one number for each constraint, with axes of along only"),
        (lambda b: Linear({}, "<=", 1), "the terms must be a dict of literals and numbers"),
        (lambda b: Linear({b["y"].is_(1): float("nan")}, "<=", 1), "coefficient must be a finite number"),
        (lambda b: Linear({b["y"].is_(1): 1}, "<", 1), "the comparison must be one of <=, >=, ==, got '<'"),
        (lambda b: Linear({b["y"].is_(1): b["x"]}, "<=", 1), "one number for each literal"),
        (lambda b: Constraint("", b["y"].is_(1)), "the first argument is the name of a kind"),
        (lambda b: Constraint("k", b["y"].is_(1), a="b"), "a must be a finite number or an Input, got 'b'"),
        (lambda b: Constraint("k", b["y"].is_(1), at=b["T"]), "at: an axis of the literal's label, got T"),
        (lambda b: AtMost(1, Label(2).is_(1)), "the label an unnamed Label is not an attribute of this model"),
        (lambda b: AtMost(Input(1), b["y"].is_(1)), "the input an unnamed Input is not an attribute"),
    ],
)
def test_mistakes_are_noticed(make, text):
    found = mistakes(c=make)
    assert text in found
    assert "test_constraint_language.py" in found


def test_all_mistakes_come_together_and_used_literals_are_no_strays():
    found = mistakes(a=lambda b: AtMost(-1, b["y"].is_(1)), b=lambda b: AnyOf(b["w"]), lit=lambda b: b["y"].is_(1))
    assert "3 mistakes" in found
    assert "write lit = Factor(y.is_(1))" in found

    class Fine(Model):
        x = Input(2)
        y = Label(2)
        lit = y.is_(1)
        f = Factor(y, features=x)
        never = AtMost(0, lit)

    assert "never" in str(Fine)


def test_names_that_are_not_there_get_a_hint():
    with pytest.raises(ImportError, match=r"cannot import name 'AtMots' from 'ssvm_dsl'; did you mean AtMost\?"):
        from ssvm_dsl import AtMots  # noqa: F401
    with pytest.raises(AttributeError, match="has no attribute 'Exacty'; did you mean Exactly"):
        ssvm_dsl.Exacty  # noqa: B018
    assert not hasattr(ssvm_dsl, "Nothing_like_it")
