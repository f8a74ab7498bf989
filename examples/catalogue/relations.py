"""Relations: a variable for each pair of things, which must fit together."""

import numpy as np

from ssvm_dsl import (
    AnyOf,
    AtMost,
    Dim,
    Equivalence,
    Factor,
    Given,
    Hamming,
    Input,
    Label,
    LinearOrder,
    Model,
    Transitive,
)


class Coreference(Model):
    """Which mentions speak of the same thing: a clustering of all of them."""

    N = Dim()
    i, j = N.index(2)
    x = Input(N, N, 3)
    same = Label(i, j, 2, where=i < j)
    link = Factor(same[i, j], features=x[i, j])
    one = Equivalence(same)
    loss = Hamming(same)


class CorrelationClustering(Model):
    """Some pairs attract or repel each other by numbers that are given; one learnt weight says what a tie is worth."""

    N = Dim()
    i, j = N.index(2)
    sign = Input(N, N)
    near = Input(N, N)
    same = Label(i, j, 2, where=(i < j) & near[i, j])
    given = Given(same[i, j].is_(1), scores=sign[i, j])
    tie = Factor(same[i, j].is_(1))
    one = Equivalence(same)
    loss = Hamming(same)


class RankingWithTies(Model):
    """`r[i, j]`: i is at least as good as j.  Total and transitive, so both ways is a tie."""

    N = Dim()
    i, j = N.index(2)
    x = Input(N, N, 2)
    r = Label(i, j, 2, where=i.is_not(j))
    better = Factor(r[i, j].is_(1), features=x[i, j])
    total = AnyOf(r[i, j].is_(1), r[j, i].is_(1), where=i < j)
    order = Transitive(r)
    loss = Hamming(r)


class Ranking(Model):
    """An order of all things without ties: a linear ordering."""

    N = Dim()
    i, j = N.index(2)
    x = Input(N, N, 2)
    before = Label(i, j, 2, where=i < j)
    better = Factor(before[i, j].is_(1), features=x[i, j])
    order = LinearOrder(before)
    loss = Hamming(before)


class Adjacency(Model):
    """A graph is predicted: an edge or none between each two nodes, and no more at a node than it has hands."""

    N = Dim()
    i, j = N.index(2)
    x = Input(N, N, 2)
    hands = Input(N)
    edge = Label(i, j, 2, symmetric=True)
    link = Factor(edge[i, j].is_(1), features=x[i, j], where=i < j)
    most = AtMost(hands[i], edge[i, j].is_(1), over=j)
    loss = Hamming(edge)


class ContactMap(Model):
    """Which residues of a protein touch; contacts continue along and across the diagonal."""

    N = Dim()
    i, j = N.index(2)
    x = Input(N, N, 2)
    touch = Label(i, j, 2, where=j - i >= 3)
    unary = Factor(touch[i, j], features=x[i, j])
    along = Factor((touch[i, j], touch[i + 1, j + 1]), where=j - i >= 3)
    across = Factor((touch[i, j], touch[i + 1, j - 1]), where=j - i >= 5)
    loss = Hamming(touch)


def pairs(rng, n, width):
    """Return features of pairs that are the same both ways."""
    x = rng.normal(size=(n, n, width))
    return x + x.transpose(1, 0, 2)


def signed(rng, n):
    near = np.triu(rng.random((n, n)) < 0.7, 1)
    return {"sign": pairs(rng, n, 1)[..., 0], "near": near.astype(float)}


#: For each model a function that draws the inputs of an example of n positions, and true weights where random ones
#: would say little.
MODELS = {
    Coreference: (lambda rng, n: {"x": pairs(rng, n, 3)}, {}),
    CorrelationClustering: (signed, {"tie": 0.3}),
    RankingWithTies: (lambda rng, n: {"x": rng.normal(size=(n, n, 2))}, {}),
    Ranking: (lambda rng, n: {"x": rng.normal(size=(n, n, 2))}, {}),
    Adjacency: (lambda rng, n: {"x": pairs(rng, n, 2), "hands": rng.integers(1, 3, size=n).astype(float)}, {}),
    ContactMap: (
        lambda rng, n: {"x": rng.normal(size=(n + 3, n + 3, 2))},
        {"along": np.eye(2) / 2, "across": np.eye(2) / 2},
    ),
}
