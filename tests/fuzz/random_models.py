"""Random small models with data, all of whose labellings can be listed; and what is known of them independently."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import model_table
from small import Case, Data
from ssvm_dsl import (
    ANTISYMMETRIC,
    POTTS,
    SYMMETRIC,
    Cost,
    CountLoss,
    Hamming,
    JointFeature,
    ModelBuilder,
    NoLoss,
    ZeroOne,
    along,
    chain,
    cliques,
    complete,
    cross,
    grid,
    pairs,
)

#: The most labellings of an example.
MOST = 81


def pair_table(x: Any) -> Any:
    """Return two features of each transition between two of three states."""
    t = max(len(x) - 1, 0)
    return np.cos(np.arange(18.0).reshape(1, 3, 3, 2) / 5 + np.asarray(x, float)[:t, :1, None, None])


def _form(rng: Any, c: int) -> Any:
    """Return a form of tables of c by c states, or nothing."""
    basis = rng.integers(-2, 3, size=(2, c, c)).astype(float)
    basis[0, 0, 0] += 5.0  # a basis may not be zero everywhere
    basis[1, 0, 1] += 5.0
    return [None, POTTS, SYMMETRIC, ANTISYMMETRIC, basis][rng.integers(5)]


def _options(rng: Any, c: int, features: Any = None, form: bool = True) -> dict[str, Any]:
    """Return options of a factor of two variables."""
    out: dict[str, Any] = {}
    picked = _form(rng, c) if form else None
    if picked is not None:
        out["form"] = picked
    if features is not None and rng.random() < 0.5:
        out["features"] = features
    if rng.random() < 0.25:
        out["nonneg"] = True
    return out


def _chain(m: ModelBuilder, rng: Any) -> Any:
    c, T = int(rng.integers(2, 4)), m.dim("T")
    x, z = m.input("x", T, 2), m.input("z", 2)
    y = m.label("y", T, c if rng.random() < 0.5 else "abc"[:c])
    m.factor("emit", y, features=x)
    if rng.random() < 0.3:
        m.factor("bias", y.is_(y.classes[1] if y.classes else 1), nonneg=bool(rng.random() < 0.5))
    m.factor("trans", chain(y), **_options(rng, c, [x, z][rng.integers(2)]))
    if rng.random() < 0.3:
        m.factor("again", chain(y), **_options(rng, c, x))
    if rng.random() < 0.3:
        m.factor("far", chain(y, order=2), form=POTTS)
    if c == 3 and rng.random() < 0.3:
        m.factor("joint", chain(y), features=JointFeature(pair_table, width=2))
    return y


def _grid(m: ModelBuilder, rng: Any) -> Any:
    H, W = m.dim("H"), m.dim("W")
    x = m.input("x", H, W, 2)
    y = m.label("y", H, W, 2)
    m.factor("data", y, features=x)
    if rng.random() < 0.5:
        m.factor("net", grid(y), **_options(rng, 2))
    else:
        m.factor("rows", pairs(y, W), **_options(rng, 2, x))
        m.factor("columns", pairs(y, H), **_options(rng, 2, x))
    return y


def _graph(m: ModelBuilder, rng: Any) -> Any:
    c, N, M = int(rng.integers(2, 4)), m.dim("N"), m.dim("M")
    x, e, f = m.input("x", N, 2), m.edges("e", M, over=N), m.input("f", M, 2)
    y = m.label("y", N, c)
    m.factor("node", y, features=x)
    m.factor("edge", along(y, e), **_options(rng, c, f))
    return y


def _set(m: ModelBuilder, rng: Any) -> Any:
    K = m.dim("K", 4)
    x = m.input("x", 2)
    y = m.label("y", K, 2)
    m.factor("unary", y, features=x, per=K if rng.random() < 0.7 else None)
    if rng.random() < 0.8:
        edges = {"per": "edge"} if rng.random() < 0.5 else {}
        m.factor("pair", complete(y), **_options(rng, 2, x), **edges)
    if rng.random() < 0.4:
        m.factor("triple", cliques(y, [(0, 1, 2), (3, 2, 1)][: rng.integers(1, 3)]), per="edge")
    return y


def _layers(m: ModelBuilder, rng: Any) -> Any:
    T = m.dim("T")
    x = m.input("x", T, 2)
    a, b, c = m.label("a", T, 2), m.label("b", T, "uvw"[: rng.integers(2, 4)]), m.label("c", 2)
    m.factor("ax", a, features=x)
    m.factor("bx", b, features=x)
    m.factor("ab", cross(a, b))
    if rng.random() < 0.5:
        m.factor("bc", cross(b, c), features=x)
    if rng.random() < 0.5:
        m.factor("ac", cross(a, c), **_options(rng, 2, x))
    if rng.random() < 0.5:
        m.factor("aa", chain(a), **_options(rng, 2, x))
    m.loss(Hamming(a) + 0.5 * Hamming(b, normalize=True) + 2.0 * Cost(c, [[0, 1], [3, 0]]))


def _single(m: ModelBuilder, rng: Any) -> Any:
    x = m.input("x", 3)
    y = m.label("y", int(rng.integers(2, 5)))
    m.factor("score", y, features=x, nonneg=bool(rng.random() < 0.2))
    if rng.random() < 0.5:
        m.factor("bias", y)
    return y


#: Kinds of models: how each is declared, and the sizes of its axes.
KINDS: dict[str, tuple[Callable[[ModelBuilder, Any], Any], tuple[int, ...]]] = {
    "chain": (_chain, (0, 1, 2, 3, 1, 2, 3)),
    "grid": (_grid, (1, 2)),
    "graph": (_graph, (1, 2, 3, 4)),
    "set": (_set, (1,)),
    "layers": (_layers, (1, 2)),
    "single": (_single, (1,)),
}


def _loss(rng: Any, y: Any, additive: bool) -> Any:
    """Return a random loss of one label."""
    c = y.n_states
    matrix = rng.integers(0, 4, size=(c, c)).astype(float) * (1 - np.eye(c))
    matrix[0, 1] += 1.0
    choices = [Hamming(y), Hamming(y, weights=rng.uniform(0.2, 2.0, size=c).tolist())]
    if y.dims:
        choices += [Hamming(y, normalize=True), Cost(y, matrix.tolist(), normalize=True)]
    choices += [Cost(y, matrix.tolist())]
    if not additive:
        positive = y.classes[1] if y.classes else 1
        choices += [2.0 * ZeroOne(y), NoLoss()]
        choices += [CountLoss(y, "f1", positive=positive)] if y.dims else []
    return choices[rng.integers(len(choices))]


def draw_model(rng: Any, kind: str, additive: bool) -> Any:
    """Return a random model of a kind."""
    m = ModelBuilder("Random")
    declare, _ = KINDS[kind]
    y = declare(m, rng)
    if y is not None:
        m.loss(_loss(rng, y, additive))
    return m.build()


def draw_data(rng: Any, model: Any, kind: str, n: int) -> tuple[list[Any], list[Any], list[Any], list[Any]]:
    """Return (X, Y, inputs, labels) of n random examples; the last two by name, in states."""
    inputs: list[Any] = []
    labels: list[Any] = []
    while len(inputs) < n:
        one, sizes = model_table.make_inputs(model, rng, KINDS[kind][1])
        states = model_table.make_labels(model, rng, sizes)
        cards = [y.n_states ** np.size(states[y.name]) for y in model.declaration.labels]
        if np.prod(cards) <= MOST and (np.prod(cards) > 1 or labels):  # not the empty ones alone
            inputs.append(one)
            labels.append(states)
    X = [model_table.user_inputs(model, one) for one in inputs]
    return X, [model_table.user_labels(model, one) for one in labels], inputs, labels


def draw(rng: Any, kind: str | None = None, additive: bool | None = None, n: int | None = None) -> Data:
    """Return a random model with data; ``kind`` is the tag of its case."""
    kind = kind or list(KINDS)[rng.integers(len(KINDS))]
    model = draw_model(rng, kind, bool(rng.random() < 0.7) if additive is None else additive)
    n = n or int(rng.integers(1, 6))
    X, Y, inputs, labels = draw_data(rng, model, kind, n)
    weight = rng.choice([0.0, 0.5, 1.0, 3.0], size=n) if rng.random() < 0.3 else None
    if weight is not None and not weight.any():
        weight[0] = 1.0
    names = [f.name for f in model.declaration.factors if f.tie is None]
    scales = [0.1, 1.0, 3.0, 0.0] if rng.random() < 0.2 else [0.1, 1.0, 3.0]
    scaled = {name: float(rng.choice(scales)) for name in names} if rng.random() < 0.4 else {}
    C = float(f"{10.0 ** rng.uniform(*((-2, 1.3) if rng.random() < 0.8 else (-8, 4))):.3g}")
    known = [{name: np.zeros(np.shape(states), bool) for name, states in one.items()} for one in labels]
    return Data(Case(model, n, C, regularization=scaled, tag=kind), X, Y, inputs, labels, known, weight)
