"""Sets and hierarchies: several labels of one thing, and how many of them there may be."""

import numpy as np

from ssvm_dsl import (
    AllOf,
    AtMost,
    Count,
    Dim,
    Edges,
    Exactly,
    Factor,
    Hamming,
    Implies,
    Input,
    Label,
    Linear,
    Model,
    Positions,
)


class MultiLabel(Model):
    """Any labels of five may go together, and each pair has weights: a complete graph."""

    K = Dim(5)
    i, j = K.index(2)
    x = Input(4)
    y = Label(K, 2)
    unary = Factor(y[i], features=x, per=i)
    pair = Factor((y[i], y[j]), where=i < j, per=(i, j))
    loss = Hamming(y)


class Topics(Model):
    """Topics form a tree: whatever has a topic has its parent topic, too."""

    K = Dim(6)
    k = K.index()
    x = Input(4)
    parent = Positions([-1, 0, 0, 1, 1, 2], over=K)
    y = Label(K, 2)
    unary = Factor(y[k], features=x, per=k)
    up = Implies(y[k].is_(1), y[parent[k]].is_(1))
    loss = Hamming(y)


class Groups(Model):
    """Six properties in three groups: exactly one of each group holds."""

    K, G = Dim(6), Dim(3)
    k, g = K.index(), G.index()
    x = Input(4)
    group = Positions([0, 0, 1, 1, 1, 2], over=G)
    y = Label(K, 2)
    unary = Factor(y[k].is_(1), features=x, per=k)
    one = Exactly(1, y[k].is_(1), over=k, where=group[k].is_(g))
    loss = Hamming(y)


class Teams(Model):
    """People belong to teams, and each team can send as many as it has places."""

    N, G = Dim(), Dim()
    n, g = N.index(), G.index()
    x = Input(N, 3)
    team = Positions(N, over=G)
    places = Input(G)
    y = Label(N, 2)
    worth = Factor(y[n].is_(1), features=x[n])
    most = AtMost(places[g], y[n].is_(1), over=n, where=team[n].is_(g))
    loss = Hamming(y)


class Cardinality(Model):
    """How many members a set has is worth something: a weight for each number."""

    N = Dim()
    n = N.index()
    x = Input(N, 3)
    y = Label(N, 2)
    worth = Factor(y[n].is_(1), features=x[n])
    size = Factor(Count(y[n].is_(1), over=n, most=4))
    loss = Hamming(y)


class Summary(Model):
    """The best sentences within a budget of words, none of which repeats another."""

    N = Dim()
    i, j = N.index(2)
    x = Input(N, 3)
    alike = Input(N, N)
    words = Input(N)
    y = Label(N, 2)
    worth = Factor(y[i].is_(1), features=x[i])
    repeats = Factor(AllOf(y[i].is_(1), y[j].is_(1)), features=alike[i, j], where=i < j)
    short = Linear({y[i].is_(1): words[i]}, "<=", 10.0, over=i)
    loss = Hamming(y)


class Knapsack(Model):
    """Things of known weight are packed; some two of them must not travel together."""

    N, M = Dim(), Dim()
    n, m = N.index(), M.index()
    x = Input(N, 3)
    weight = Input(N)
    clash = Edges(M, over=N)
    y = Label(N, 2)
    worth = Factor(y[n].is_(1), features=x[n])
    fits = Linear({y[n].is_(1): weight[n]}, "<=", 8.0, over=n)
    apart = AtMost(1, [y[clash[m, 0]].is_(1), y[clash[m, 1]].is_(1)])
    loss = Hamming(y)


def items(rng, n):
    return {"x": rng.normal(size=(n, 3))}


def sentences(rng, n):
    alike = rng.random((n, n))
    return items(rng, n) | {"alike": (alike + alike.T) / 2, "words": rng.integers(1, 6, size=n).astype(float)}


def luggage(rng, n):
    clash = np.array([rng.choice(n, size=2, replace=False) for _ in range(n // 2)])
    return items(rng, n) | {"weight": rng.integers(1, 5, size=n).astype(float), "clash": clash}


#: For each model a function that draws the inputs of an example of n positions, and true weights where random ones
#: would say little.
MODELS = {
    MultiLabel: (lambda rng, n: {"x": rng.normal(size=4)}, {}),
    Topics: (lambda rng, n: {"x": rng.normal(size=4)}, {}),
    Groups: (lambda rng, n: {"x": rng.normal(size=4)}, {}),
    Teams: (
        lambda rng, n: items(rng, n) | {"team": np.arange(n) % 2, "places": rng.integers(1, 3, size=2).astype(float)},
        {},
    ),
    Cardinality: (items, {"size": [0.0, 1.0, 0.5, -1.0, -3.0]}),
    Summary: (sentences, {"repeats": [-2.0]}),
    Knapsack: (luggage, {}),
}
