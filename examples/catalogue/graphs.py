"""Grids and graphs: pixels, regions, nodes of several types, trees whose parents come with the data, hyperedges."""

import numpy as np

from ssvm_dsl import (
    POTTS,
    AnyOf,
    Dim,
    Edges,
    Factor,
    Feature,
    Hamming,
    Input,
    Label,
    Model,
    Positions,
    Same,
)


class Neighbours(Model):
    """Pixels tend to agree with their four neighbours, and a little less with the four diagonal ones."""

    H, W = Dim(), Dim()
    h, w = H.index(), W.index()
    x = Input(H, W, 2)
    y = Label(H, W, 3)
    unary = Factor(y[h, w], features=x[h, w])
    four = Factor([(y[h, w], y[h + 1, w]), (y[h, w], y[h, w + 1])], form=POTTS, nonneg=True)
    eight = Factor([(y[h, w], y[h + 1, w + 1]), (y[h, w], y[h + 1, w - 1])], form=POTTS, nonneg=True)
    loss = Hamming(y)


def likeness(a, b, c, d, x):
    """Return how alike the pixels (a, b) and (c, d) of an image are."""
    return np.exp(-np.abs(x[a, b] - x[c, d]))


class Contrast(Model):
    """Neighbours agree the more, the more alike their pixels are: a contrast-sensitive Potts model."""

    H, W = Dim(), Dim()
    h, w = H.index(), W.index()
    x = Input(H, W, 2)
    y = Label(H, W, 2)
    unary = Factor(y[h, w], features=x[h, w])
    right = Factor((y[h, w], y[h, w + 1]), features=Feature(likeness, h, w, h, w + 1, width=2), form=POTTS, nonneg=True)
    down = Factor(
        (y[h, w], y[h + 1, w]), features=Feature(likeness, h, w, h + 1, w, width=2), form=POTTS, nonneg=True, tie=right
    )
    loss = Hamming(y)


class LabelCosts(Model):
    """Each class that is used at all has a cost, however many nodes have it."""

    N, M, K = Dim(), Dim(), Dim(3)
    n, m, k = N.index(), M.index(), K.index()
    x = Input(N, 2)
    e = Edges(M, over=N)
    y = Label(N, 3)
    unary = Factor(y[n], features=x[n])
    edge = Factor((y[e[m, 0]], y[e[m, 1]]), form=POTTS)
    used = Factor(AnyOf(y[n].is_(k), over=n), per=k)
    loss = Hamming(y)


class Superpixels(Model):
    """All pixels of a superpixel tend to have one class: a P^n Potts model."""

    N, S = Dim(), Dim()
    n, s = N.index(), S.index()
    x = Input(N, 2)
    size = Input(S)
    region = Positions(N, over=S)
    y = Label(N, 3)
    unary = Factor(y[n], features=x[n])
    alike = Factor(Same(y[n], over=n, where=region[n].is_(s)), features=size[s])
    loss = Hamming(y)


class NodeTypes(Model):
    """Nodes of two types, such as people and places, have weights by type; edges by the types of both ends."""

    N, M, K = Dim(), Dim(), Dim(2)
    n, m = N.index(), M.index()
    x = Input(N, 2)
    e = Edges(M, over=N)
    kind = Positions(N, over=K)
    y = Label(N, 3)
    unary = Factor(y[n], features=x[n], per=kind[n])
    edge = Factor((y[e[m, 0]], y[e[m, 1]]), per=(kind[e[m, 0]], kind[e[m, 1]]))
    loss = Hamming(y)


class ParentTree(Model):
    """A tree in which each node reads the number of its parent; that of the root is -1."""

    N = Dim()
    n = N.index()
    x = Input(N, 3)
    parent = Positions(N, over=N)
    y = Label(N, 3)
    unary = Factor(y[n], features=x[n])
    edge = Factor((y[n], y[parent[n]]))
    loss = Hamming(y)


class Star(Model):
    """One variable in the middle, such as the topic of a page, is joined with all others."""

    N = Dim()
    n = N.index()
    x = Input(N, 3)
    topic = Label(["sports", "news", "arts"])
    y = Label(N, 2)
    unary = Factor(y[n], features=x[n])
    prior = Factor(topic)
    ray = Factor((topic, y[n]))
    loss = Hamming(topic) + Hamming(y)


class Hypergraph(Model):
    """Each hyperedge joins three nodes, and has features."""

    N, M = Dim(), Dim()
    n, m = N.index(), M.index()
    x = Input(N, 2)
    e = Edges(M, over=N, arity=3)
    f = Input(M, 2)
    y = Label(N, 2)
    unary = Factor(y[n], features=x[n])
    triple = Factor((y[e[m, 0]], y[e[m, 1]], y[e[m, 2]]), features=f[m])
    loss = Hamming(y)


def image(rng, n):
    return {"x": rng.normal(size=(2, n // 2 + 1, 2))}


def edges(rng, n, arity=2):
    """Return as many random edges, or hyperedges, as there are nodes."""
    return np.array([rng.choice(n, size=arity, replace=False) for _ in range(n)])


#: For each model a function that draws the inputs of an example of n positions, and true weights where random ones
#: would say little.
MODELS = {
    Neighbours: (image, {"four": 0.6, "eight": 0.3}),
    Contrast: (image, {"right": [1.0, 0.5]}),
    LabelCosts: (
        lambda rng, n: {"x": rng.normal(size=(n, 2)), "e": edges(rng, n)},
        {"edge": 0.3, "used": [-2.0, -1.0, -0.5]},
    ),
    Superpixels: (
        lambda rng, n: {
            "x": rng.normal(size=(n, 2)), "region": np.arange(n) // 3, "size": np.full((n + 2) // 3, 1.0)
        },
        {"alike": [1.5]},
    ),
    NodeTypes: (lambda rng, n: {"x": rng.normal(size=(n, 2)), "e": edges(rng, n), "kind": rng.integers(2, size=n)}, {}),
    ParentTree: (
        lambda rng, n: {"x": rng.normal(size=(n, 3)), "parent": [-1, *(rng.integers(k) for k in range(1, n))]},
        {},
    ),
    Star: (
        lambda rng, n: {"x": rng.normal(size=(n, 3))},
        {"prior": [0.0, 0.2, 0.0], "ray": [[0.7, -0.7], [0.0, 0.0], [-0.7, 0.7]]},
    ),
    Hypergraph: (
        lambda rng, n: {"x": rng.normal(size=(n, 2)), "e": edges(rng, n, 3), "f": rng.normal(size=(n, 2))},
        {},
    ),
}  # fmt: skip
