"""Matchings: rows and columns that are paired, once, per frame, with terms of two pairs, or by rules."""

import numpy as np

from ssvm_dsl import AllOf, AnyOf, AtMost, Count, Dim, Factor, Feature, Hamming, Input, Label, Matching, Model


class Bipartite(Model):
    """Rows and columns are paired: at most one in each."""

    I, J = Dim(), Dim()
    i, j = I.index(), J.index()
    x = Input(I, J, 3)
    y = Label(I, J, 2)
    near = Factor(y[i, j].is_(1), features=x[i, j])
    one = Matching(y[i, j].is_(1), rows=i, cols=j)
    loss = Hamming(y)


class Tracks(Model):
    """Detections of a film are matched with objects: a matching for each frame."""

    F, I, J = Dim(), Dim(), Dim()
    f, i, j = F.index(), I.index(), J.index()
    x = Input(F, I, J, 3)
    y = Label(F, I, J, 2)
    near = Factor(y[f, i, j].is_(1), features=x[f, i, j])
    one = Matching(y[f, i, j].is_(1), rows=i, cols=j)
    loss = Hamming(y)


def product(i, k, j, l, g, h):
    """Return the product of the length of an edge of one graph and of the length of one of the other."""
    return g[i, k] * h[j, l]


class GraphMatching(Model):
    """Points of two graphs are matched so that their edges fit: terms of two pairs."""

    I, J = Dim(), Dim()
    i, k = I.index(2)
    j, l = J.index(2)
    x, g, h = Input(I, J, 2), Input(I, I), Input(J, J)
    y = Label(I, J, 2)
    near = Factor(y[i, j].is_(1), features=x[i, j])
    both = Feature(product, i, k, j, l, width=1)
    fits = Factor(AllOf(y[i, j].is_(1), y[k, l].is_(1)), features=both, where=(i < k) & j.is_not(l))
    one = Matching(y[i, j].is_(1), rows=i, cols=j)
    loss = Hamming(y)


class StableMatching(Model):
    """No two who are not matched prefer each other to whom they got."""

    I, J = Dim(), Dim()
    i, k = I.index(2)
    j, l = J.index(2)
    x, likes, liked = Input(I, J, 2), Input(I, J), Input(I, J)
    y = Label(I, J, 2)
    near = Factor(y[i, j].is_(1), features=x[i, j])
    one = Matching(y[i, j].is_(1), rows=i, cols=j)
    stable = AnyOf(
        AnyOf(y[i, l].is_(1), over=l, where=likes[i, l] >= likes[i, j]),
        AnyOf(y[k, j].is_(1), over=k, where=liked[k, j] > liked[i, j]),
    )
    loss = Hamming(y)


class Alignment(Model):
    """Words are aligned with words of another language: each of these with at most one, and a weight for how often."""

    I, J = Dim(), Dim()
    i, j = I.index(), J.index()
    x = Input(I, J, 3)
    y = Label(I, J, 2)
    link = Factor(y[i, j].is_(1), features=x[i, j])
    fertility = Factor(Count(y[i, j].is_(1), over=j, most=2))
    one = AtMost(1, y[i, j].is_(1), over=i)
    loss = Hamming(y)


def table(rng, n, m, width=3):
    return rng.normal(size=(n, m, width))


def two_graphs(rng, n):
    g, h = rng.random((n, n)), rng.random((n, n))
    return {"x": table(rng, n, n, 2), "g": g + g.T, "h": h + h.T}


def market(rng, n):
    likes = rng.permuted(np.tile(np.arange(n), (n, 1)), axis=1)
    liked = rng.permuted(np.tile(np.arange(n)[:, None], (1, n)), axis=0)
    return {"x": table(rng, n, n, 2), "likes": likes.astype(float), "liked": liked.astype(float)}


#: For each model a function that draws the inputs of an example of n positions, and true weights where random ones
#: would say little.
MODELS = {
    Bipartite: (lambda rng, n: {"x": table(rng, n, n + 1)}, {}),
    Tracks: (lambda rng, n: {"x": rng.normal(size=(2, n - 1, n - 1, 3))}, {}),
    GraphMatching: (two_graphs, {"fits": [0.7]}),
    StableMatching: (market, {}),
    Alignment: (lambda rng, n: {"x": table(rng, n, n + 1)}, {"fertility": [-1.0, 1.0, 0.5]}),
}
