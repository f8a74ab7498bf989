"""One small model for each template kind, with a maker of random examples."""

from __future__ import annotations

import numpy as np
from scipy.sparse import csr_array, issparse

from ssvm_dsl.lang.dims import Dim
from ssvm_dsl.lang.factors import Factor
from ssvm_dsl.lang.features.sources import (
    Feature,
    Hashed,
    JointFeature,
    PLiF,
    Polynomial,
    Quantiles,
    Standardized,
    Whitened,
)
from ssvm_dsl.lang.forms import ANTISYMMETRIC, POTTS, SYMMETRIC
from ssvm_dsl.lang.inputs import Attributes, Edges, Input
from ssvm_dsl.lang.losses.label_losses import Hamming
from ssvm_dsl.lang.model import Model
from ssvm_dsl.lang.outputs.labels import Label
from ssvm_dsl.lang.outputs.targets import along, chain, cliques, complete, cross, grid, pairs


def square(x):
    return np.asarray(x, dtype=float) ** 2


def contrast(x):
    return np.abs(np.diff(np.asarray(x, dtype=float), axis=1)).sum(axis=2).reshape(-1, 1)


def joint_chain(x):
    t = len(x)
    rng = np.random.default_rng(int(abs(np.sum(x)) * 1000) % 2**31)
    return rng.standard_normal((max(t - 1, 0), 3, 3, 2))


class Word(Model):
    T = Dim()
    x = Input(T, 4)
    y = Label(T, "abc")
    emit = Factor(y, features=x)
    bias = Factor(y)
    trans = Factor(chain(y))
    loss = Hamming(y)


class Rich(Model):
    """Features on transitions, forms, ties, second order, per-example features."""

    T = Dim()
    x = Input(T, 3)
    z = Input(2)
    y = Label(T, 3)
    emit = Factor(y, features=[x, Feature(square, T, width=3)])
    glob = Factor(y, features=z)
    one = Factor(y.is_(2), features=x)
    step = Factor(chain(y), features=x)
    agree = Factor(chain(y), form=POTTS, nonneg=True)
    sym = Factor(chain(y), form=SYMMETRIC, features=z)
    anti = Factor(chain(y), form=ANTISYMMETRIC)
    far = Factor(chain(y, order=2), form=POTTS)
    joint = Factor(chain(y), features=JointFeature(joint_chain, width=2))
    own = Factor(chain(y), form=np.arange(18.0).reshape(2, 3, 3) / 10)
    tied = Factor(chain(y), form=SYMMETRIC, features=z, tie=sym)
    loss = Hamming(y)


class Seg(Model):
    H, W = Dim(), Dim()
    x = Input(H, W, 2)
    y = Label(H, W, 3)
    data = Factor(y, features=x)
    horiz = Factor(pairs(y, W), form=POTTS, nonneg=True)
    vert = Factor(pairs(y, H), features=x)
    edge = Factor(pairs(y, W), features=Feature(contrast, pairs(y, W), width=1))
    net = Factor(grid(y))
    slant = Factor(pairs(y, H, W), features=x)
    loss = Hamming(y, ignore=255)


class Scene(Model):
    K = Dim(4)
    x = Input(5)
    y = Label(K, 2)
    unary = Factor(y, features=x, per=K)
    plain = Factor(y, per=K)
    pair = Factor(complete(y), per="edge")
    mood = Factor(complete(y), per="edge", features=x, form=POTTS)
    triple = Factor(cliques(y, [(0, 1, 2), (3, 2, 1)]), per="edge")
    loss = Hamming(y)


class Graph(Model):
    N, M = Dim(), Dim()
    x = Input(N, 3)
    e = Edges(M, over=N)
    f = Input(M, 2)
    y = Label(N, 4)
    node = Factor(y, features=x)
    edge = Factor(along(y, e), features=f)
    loss = Hamming(y)


class Hyper(Model):
    """Edges between two labels, hyperedges of three positions, and edges of both."""

    N, K, M, E, D = Dim(), Dim(), Dim(), Dim(), Dim()
    x = Input(N, 2)
    z = Input(K, 2)
    e = Edges(M, over=(N, K))
    h = Edges(E, over=N, arity=3)
    d = Edges(D, over=[N, K, K])
    f = Input(M, 2)
    y = Label(N, 2)
    t = Label(K, "abc")
    node = Factor(y, features=x)
    tail = Factor(t, features=z)
    link = Factor(along((y, t), e), features=f)
    triple = Factor(along(y, h), form=POTTS)
    both = Factor(along((y, t, t), d))
    loss = Hamming(y) + Hamming(t)


class Layers(Model):
    """Two label layers, cross edges with and without shared axes, a third single label."""

    T = Dim()
    x = Input(T, 3)
    a = Label(T, 2)
    b = Label(T, ["u", "v", "w"])
    c = Label(2)
    ax = Factor(a, features=x)
    bx = Factor(b, features=x)
    ab = Factor(cross(a, b))
    bc = Factor(cross(b, c), features=x)
    aa = Factor(chain(a))
    loss = Hamming(a) + 0.5 * Hamming(b, normalize=True) + Hamming(c)


class Tokens(Model):
    T = Dim()
    t = Attributes(T)
    y = Label(T, 3)
    emit = Factor(y, features=t)
    step = Factor(chain(y), features=t)
    only = Factor(y.is_(0), features=t)
    loss = Hamming(y)


class Observed(Model):
    """Weights for pairs that occur in the training data; joint states that do not fit in one word of bits."""

    T = Dim()
    t, u = Attributes(T), Attributes(T)
    s = Input(T, 6, sparse=True)
    y = Label(T, "abcdefghi")
    emit = Factor(y, features=t, weights="observed")
    both = Factor(y, features=[t, s, u], weights="observed", nonneg=True)
    step = Factor(chain(y), features=[u, s], weights="observed")
    trans = Factor(chain(y))
    loss = Hamming(y)


class Sparse(Model):
    T, K = Dim(), Dim(3)
    s = Input(T, 6, sparse=True)
    x = Input(T, 2)
    g = Input(4, sparse=True)
    y = Label(T, 3)
    z = Label(K, 2)
    emit = Factor(y, features=[s, x])
    step = Factor(chain(y), features=s)
    zg = Factor(z, features=g, per=K)
    loss = Hamming(y)


class Fitted(Model):
    T = Dim()
    x = Input(T, 2)
    y = Label(T, 2)
    p = PLiF(x, Quantiles(4))
    emit = Factor(y, features=p)
    poly = Factor(y, features=Polynomial(Standardized(x), 2))
    fixed = Factor(y, features=PLiF(x, [-1.0, 0.0, 2.0]))
    loss = Hamming(y)


class White(Model):
    T = Dim()
    x = Input(T, 3)
    t = Attributes(T)
    y = Label(T, 2)
    emit = Factor(y, features=Whitened(x))
    hashed = Factor(y, features=Hashed(t, 16))
    loss = Hamming(y)


def make_inputs(model, rng, ragged=(1, 2, 4)):
    """One random example of a model."""
    declaration = model.declaration
    sizes = {dim.name: dim.size or int(rng.choice(ragged)) for dim in declaration.dims}
    edges = {}
    for symbol in declaration.inputs:
        if type(symbol).__name__ == "Edges":
            spots = np.ndindex(*(sizes[dim.name] for dim in symbol.ends))
            apart = declaration.apart(symbol)
            every = [row for row in spots if all([row[k] for k in a] != [row[k] for k in b] for a, b in apart)]
            m = min(len(every), int(rng.integers(0, 5)))
            picked = rng.permutation(len(every))[:m]
            edges[symbol.name] = np.array([every[k] for k in picked], dtype=int).reshape(-1, symbol.arity)
            sizes[symbol.dim.name] = m
    out = {}
    for symbol in declaration.inputs:
        kind = type(symbol).__name__
        if kind == "Edges":
            out[symbol.name] = edges[symbol.name]
        elif kind == "Attributes":
            out[symbol.name] = [
                {f"n{rng.integers(5)}": float(rng.normal()) for _ in range(2)}
                if rng.random() < 0.5
                else [f"n{rng.integers(5)}", "bias"]
                for _ in range(sizes[symbol.dims[0].name])
            ]
        elif symbol.sparse:
            rows = sizes[symbol.dims[0].name] if symbol.dims else 1
            dense = rng.normal(size=(rows, symbol.width)) * (rng.random((rows, symbol.width)) < 0.5)
            out[symbol.name] = csr_array(dense)
        else:
            out[symbol.name] = rng.normal(size=(*(sizes[d.name] for d in symbol.dims), *symbol.shape))
    return out, sizes


def make_labels(model, rng, sizes):
    """Random labels of one example, as states."""
    return {
        label.name: rng.integers(0, label.n_states, size=tuple(sizes[d.name] for d in label.dims))
        for label in model.declaration.labels
    }


def user_labels(model, labels):
    """States to the users' class names, in the form fit takes."""
    named = {}
    for label in model.declaration.labels:
        states = labels[label.name]
        names = states if label.classes is None else np.array(label.classes)[states]
        named[label.name] = names if np.ndim(names) else names.item()
    return named if len(named) > 1 else next(iter(named.values()))


def user_inputs(model, inputs):
    return inputs if len(inputs) > 1 else next(iter(inputs.values()))


def densely(weights):
    """The weights of a factor as an array."""
    return weights.toarray() if issparse(weights) else weights


def make_data(model, n, seed, ragged=(1, 2, 4)):
    """n random examples: X, Y as users pass them, and the inputs and states by name."""
    rng = np.random.default_rng(seed)
    inputs, labels = [], []
    for _ in range(n):
        one, sizes = make_inputs(model, rng, ragged)
        inputs.append(one)
        labels.append(make_labels(model, rng, sizes))
    X = [user_inputs(model, one) for one in inputs]
    Y = [user_labels(model, one) for one in labels]
    return X, Y, inputs, labels


ALL = [Word, Rich, Seg, Scene, Graph, Hyper, Layers, Tokens, Observed, Sparse, Fitted, White]
