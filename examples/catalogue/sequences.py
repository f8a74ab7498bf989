"""Sequences: a label for each position; neighbours, equal words and whole stretches go together."""

import numpy as np

from ssvm_dsl import (
    POTTS,
    Allow,
    AnyOf,
    AtMost,
    Different,
    Dim,
    Duration,
    Factor,
    Hamming,
    Implies,
    Input,
    Label,
    Latent,
    Model,
)


class Chain(Model):
    """Each label goes with the words around it, and with the label before."""

    T = Dim()
    t = T.index()
    x = Input(T, 3)
    y = Label(T, "abc")
    emit = Factor(y[t], features=[x[t - 1], x[t], x[t + 1]])
    trans = Factor((y[t], y[t + 1]))
    loss = Hamming(y)


class ThirdOrder(Model):
    """Four successive labels have a weight together: a chain of order 3."""

    T = Dim()
    t = T.index()
    x = Input(T, 3)
    y = Label(T, "ab")
    emit = Factor(y[t], features=x[t])
    first = Factor(y[0])
    four = Factor((y[t], y[t + 1], y[t + 2], y[t + 3]))
    loss = Hamming(y)


class SkipChain(Model):
    """A chain in which equal words tend to have equal labels, however far apart they are."""

    T = Dim()
    t, i, j = T.index(3)
    x = Input(T, 3)
    word = Input(T)
    y = Label(T, "abc")
    emit = Factor(y[t], features=x[t])
    trans = Factor((y[t], y[t + 1]))
    skip = Factor((y[i], y[j]), form=POTTS, where=(i < j) & word[i].is_(word[j]))
    loss = Hamming(y)


class Factorial(Model):
    """Two chains over one sentence, tags and chunks, joined at every word."""

    T = Dim()
    t = T.index()
    x = Input(T, 3)
    tag = Label(T, "NVD")
    chunk = Label(T, "BI")
    emit = Factor(tag[t], features=x[t])
    tags = Factor((tag[t], tag[t + 1]))
    chunks = Factor((chunk[t], chunk[t + 1]))
    both = Factor((tag[t], chunk[t]))
    loss = Hamming(tag) + Hamming(chunk)


class Bio(Model):
    """An `I` stands after a `B` or another `I`, never at the first position."""

    T = Dim()
    t = T.index()
    x = Input(T, 3)
    y = Label(T, "BIO")
    emit = Factor(y[t], features=x[t])
    trans = Factor((y[t], y[t + 1]))
    legal = Implies(y[t].is_("I"), AnyOf(y[t - 1].is_("B"), y[t - 1].is_("I")), outside=False)
    loss = Hamming(y)


class Stages(Model):
    """Stages of a disease in order: none is skipped, none lasts less than two visits."""

    T = Dim()
    t = T.index()
    x = Input(T, 3)
    y = Label(T, 3)
    emit = Factor(y[t], features=x[t])
    order = Allow((y[t], y[t + 1]), [(0, 0), (0, 1), (1, 1), (1, 2), (2, 2)])
    lasts = Duration(y, least=2, cut=True)
    loss = Hamming(y)


class Annotators(Model):
    """Two annotators mark one text: what both see is a latent chain, and each errs differently."""

    T = Dim()
    t = T.index()
    x = Input(T, 3)
    seen = Latent(T, 2)
    ann, bob = Label(T, 2), Label(T, 2)
    emit = Factor(seen[t], features=x[t])
    trans = Factor((seen[t], seen[t + 1]))
    ann_reads = Factor((seen[t], ann[t]), features=[x[t]], form=POTTS)
    bob_reads = Factor((seen[t], bob[t]), features=[x[t]], form=POTTS)
    loss = Hamming(ann) + Hamming(bob)


class ChangePoints(Model):
    """A signal has levels, and changes its level at most twice."""

    T = Dim()
    t = T.index()
    x = Input(T, 3)
    y = Label(T, 3)
    emit = Factor(y[t], features=x[t])
    few = AtMost(2, Different(y[t], y[t + 1]), over=t)
    loss = Hamming(y)


def annotated(rng, n):
    """Return texts whose words come from two clusters."""
    x = rng.normal(size=(n, 3))
    x[:, 0] = 0.3 * x[:, 0] + 2 * rng.choice([-1, 1], size=n)
    return {"x": x}


#: For each model a function that draws the inputs of an example of n positions, and true weights where random ones
#: would say little.
MODELS = {
    Chain: (lambda rng, n: {"x": rng.normal(size=(n, 3))}, {}),
    ThirdOrder: (lambda rng, n: {"x": rng.normal(size=(n, 3))}, {}),
    SkipChain: (
        lambda rng, n: {"x": rng.normal(size=(n, 3)), "word": rng.integers(3, size=n).astype(float)},
        {"skip": 1.5},
    ),
    Factorial: (lambda rng, n: {"x": rng.normal(size=(n, 3))}, {}),
    Bio: (lambda rng, n: {"x": rng.normal(size=(n, 3))}, {}),
    Stages: (lambda rng, n: {"x": rng.normal(size=(n, 3))}, {}),
    Annotators: (
        annotated,
        {
            "emit": [[1.0, 0.0, 0.0], [-1.0, 0.0, 0.0]], "trans": np.eye(2) / 2,
            "ann_reads": [0.0, 1.0, 0.0], "bob_reads": [0.0, 0.0, 1.0],
        },
    ),
    ChangePoints: (lambda rng, n: {"x": rng.normal(size=(n, 3))}, {}),
}  # fmt: skip
