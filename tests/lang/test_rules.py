"""What is ruled out, and given scores, as plain data: masks by definition, JSON, printing, mistakes."""

from __future__ import annotations

from itertools import pairwise, product

import numpy as np
import pytest

from ssvm_dsl import (
    BIO,
    BIOES,
    Allow,
    Different,
    Dim,
    Edges,
    Factor,
    Feature,
    Forbid,
    Given,
    Hamming,
    Input,
    Label,
    Model,
    ModelBuilder,
    Same,
    along,
    chain,
    cross,
    pairs,
)
from ssvm_dsl.errors import ModelError

TAGS = ["O", "B-X", "I-X", "B-Y", "I-Y"]
LONG = ["O", "B-X", "I-X", "E-X", "S-X", "B-Y", "I-Y", "E-Y", "S-Y"]


class Tagger(Model):
    T = Dim()
    x = Input(T, 3)
    candidates = Input(T, 5)
    logits = Input(T, 5)
    y = Label(T, TAGS, allowed=candidates)
    z = Label(T, TAGS)
    emit = Factor(y, features=x)
    start = Factor(y.at(0))
    scheme = Forbid(chain(y), BIO(y))
    begin = Forbid(y.at(0), BIO(y))
    last = Allow(y.at(-1), ["O", "I-X"])
    equal = Same(y, z)
    net = Given(y, scores=logits)
    bigrams = Given(chain(z), scores=np.arange(25.0).reshape(5, 5))
    one = Given(y.is_("O"), scores=2.5)


def test_a_model_with_rules_prints_and_survives_json():
    again = Model.from_json(Tagger.to_json())
    assert again.declaration == Tagger.declaration
    assert str(again) == str(Tagger)
    text = str(Tagger)
    assert "y[0]" in text
    assert "rules out 6 of 25 states" in text
    assert "Same(y, z)" in text
    assert "allowed=candidates" in text
    assert Tagger.declaration.n_weights() == 15 + 5


def bio(tags):
    """Return whether a tagging is one of segments, by reading it."""
    return all(t[0] != "I" or (k and tags[k - 1][0] in "BI" and tags[k - 1][2:] == t[2:]) for k, t in enumerate(tags))


def bioes(tags):
    open_ = None
    for tag in tags:
        place, kind = tag[0], tag[2:]
        if open_ is None and place in "IE":
            return False
        if open_ is not None and (place not in "IE" or kind != open_):
            return False
        open_ = kind if place in "BI" else None
    return open_ is None


@pytest.mark.parametrize(("names", "scheme", "right"), [(TAGS, BIO, bio), (LONG, BIOES, bioes)])
def test_schemes_allow_just_the_taggings_that_are_segmentations(names, scheme, right):
    y = Label(Dim(), names)
    step = Forbid(chain(y), scheme(names)).mask().reshape(len(names), -1)
    first, last = (Forbid(y.at(k), scheme(y)).mask() for k in (0, -1))
    for n in (1, 2, 3):
        for tagging in product(range(len(names)), repeat=n):
            kept = first[tagging[0]] and last[tagging[-1]] and all(step[a, b] for a, b in pairwise(tagging))
            assert kept == right([names[k] for k in tagging])


def test_the_same_rule_in_four_forms():
    y = Label(Dim(), "abc")
    array = np.zeros((3, 3), dtype=bool)
    array[0, 2] = array[1, 1] = True
    rules = [
        Forbid(chain(y), [("a", "c"), ["b", "b"]]),
        Forbid(chain(y), array),
        Forbid(chain(y), array.tolist()),
        Allow(chain(y), ~array),
    ]
    assert len({rule.forbidden for rule in rules}) == 1
    assert (rules[0].mask() == ~array.ravel()).all()
    assert Forbid(y, ["b"]).mask().tolist() == [True, False, True]
    assert Forbid(y, np.array([False, True, False])) == Forbid(y, ["b"])


def test_equal_and_different_states():
    T = Dim()
    a, b, e = Label(T, 3), Label(T, 3), Edges(Dim(), over=T)
    assert (Same(a, b).mask().reshape(3, 3) == np.eye(3, dtype=bool)).all()
    assert (Different(cross(a, b)).mask().reshape(3, 3) == ~np.eye(3, dtype=bool)).all()
    assert (Different(along(a, e)).mask() == Different(pairs(a, T)).mask()).all()


def mistakes(*symbols, **named):
    m = ModelBuilder("Wrong")
    for k, symbol in enumerate(symbols):
        m.add(f"s{k}", symbol)
    for name, symbol in named.items():
        m.add(name, symbol)
    with pytest.raises(ModelError) as caught:
        m.build()
    return str(caught.value)


T = Dim()
Y = Label(T, "ab")
X = Input(T, 2)


@pytest.mark.parametrize(
    ("make", "found"),
    [
        (lambda: Forbid(Y, "a"), "a list of states, of tuples of states, or an array of bool, got 'a'"),
        (lambda: Forbid(Y, ["c"]), "Forbid: not a state of y: 'c'"),
        (lambda: Forbid(chain(Y), ["a"]), "Forbid: not 2 states of chain(y): 'a'"),
        (lambda: Forbid(chain(Y), np.ones((3, 2), dtype=bool)), "an array of bool has the shape (2, 2), got (3, 2)"),
        (lambda: Forbid(Y, ["a", "b"]), "it rules out every state of y"),
        (lambda: Allow(Y, []), "Allow: it rules out every state of y"),
        (lambda: Forbid(Y.is_("a"), ["a"]), "the label or pattern first, then its states"),
        (lambda: Forbid(Y.at(1.5), ["a"]), "at: the position must be an int, such as 0 or -1, got 1.5"),
        (lambda: Forbid(chain(Y), BIO(Y)), "BIO: tags are O, or begin with B- or I-, got 'a'"),
        (lambda: Forbid(chain(Y), BIO(TAGS)), "BIO: these are not the classes of y"),
        (lambda: Forbid(chain(Y, order=2), BIO(Y)), "BIO: it is about chain(y), y.at(0) and y.at(-1)"),
        (lambda: Same(Y, 3), "Same: two labels, or one pattern such as along(y, edges), got 3"),
        (lambda: Different(chain(Y, order=2)), "is not about two variables with the same states"),
        (lambda: Given(Y, scores="x"), "scores must be an Input"),
        (lambda: Given(Y, scores=[1.0, np.nan]), "scores are numbers or -inf, not nan or +inf"),
        (lambda: Given(Y, scores=[1.0, 2.0, 3.0]), "an array of scores has the shape (2,), got (3,)"),
        (lambda: Given(chain(Y), scores=X), "expected 4 numbers, one for each joint state of the target, 2 are"),
        (lambda: Given(Y, scores=Input(T, 2, sparse=True)), "scores must be a dense Input, another dense feature"),
    ],
)
def test_mistakes_are_named(make, found):
    assert found in mistakes(T=T, x=X, y=Y, f=Factor(Y, features=X), wrong=make())


def test_masks_have_the_axes_and_classes_of_their_label():
    N = Dim()
    for mask, found in [(Input(T, 3), "expected an Input(T, 2)"), (Input(N, 2), "allowed: expected an Input(T, 2)")]:
        y = Label(T, 2, allowed=mask)
        assert found in mistakes(T=T, N=N, x=X, n=Input(N), mask=mask, y=y, f=Factor(y, features=X))
    assert "allowed must be an Input" in mistakes(T=T, x=X, y=Label(T, 2, allowed=[1, 0]))
    m = ModelBuilder("Other")
    t = m.dim("T")
    m.factor("f", m.label("y", t, 2, allowed=Input(t, 2)), features=m.input("x", t, 2))
    with pytest.raises(ModelError, match="the input an unnamed Input is not an attribute of this model"):
        m.build()


def test_features_of_given_scores_have_the_axes_of_the_target():
    N = Dim()
    y = Label(T, 2)
    n = Input(N, 2)
    text = mistakes(T=T, N=N, x=X, n=n, y=y, f=Factor(y, features=X), g=Given(y, scores=n))
    assert "they have the axis N" in text
    scored = Given(y, scores=Feature(lambda x: x, T, width=2))
    m = ModelBuilder("Fine")
    m.add("T", T), m.add("x", X), m.add("y", y), m.add("g", scored), m.add("loss", Hamming(y))
    assert m.build().declaration.given == (scored,)
