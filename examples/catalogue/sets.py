"""Sets and hierarchies: several labels of one thing, and how many of them there may be."""

import numpy as np

from ssvm_dsl import (
    AllOf,
    AtMost,
    Dim,
    Edges,
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
    short = Linear({y.is_(1): words}, "<=", 10.0)
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
    fits = Linear({y.is_(1): weight}, "<=", 8.0)
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
    Summary: (sentences, {"repeats": [-2.0]}),
    Knapsack: (luggage, {}),
}
