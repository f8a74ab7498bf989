"""The structures that ``regret`` asks ``auto`` about: models of a few lines, with random inputs of several sizes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from ssvm_dsl import (
    POTTS,
    Arborescence,
    AtLeast,
    AtMost,
    Circuit,
    Dim,
    Edges,
    Exactly,
    Factor,
    Hamming,
    Input,
    Label,
    Latent,
    Linear,
    Matching,
    Model,
    Path,
    ProjectiveTree,
    along,
    chain,
    complete,
    cross,
    pairs,
)

Rng = np.random.Generator
Example = dict[str, Any]
Maker = Callable[[Rng, int], Example]


@dataclass(frozen=True, eq=False)
class Structure:
    """A structure.

    Parameters
    ----------
    name : str
    model : callable
        The model for a size.
    example : callable
        The inputs of a random example of a size.
    sizes : tuple of int
        The first one is tiny: it only loads what is needed.
    n : int
        Examples of a batch and of a fit.
    """

    name: str
    model: Callable[[int], type[Model]]
    example: Maker
    sizes: tuple[int, ...]
    n: int = 20


class Chain(Model):
    T = Dim()
    x = Input(T, 4)
    y = Label(T, 5)
    emit = Factor(y, features=x)
    trans = Factor(chain(y))
    loss = Hamming(y)


class Wide(Model):
    T = Dim()
    x = Input(T, 4)
    y = Label(T, 26)
    emit = Factor(y, features=x)
    trans = Factor(chain(y))
    loss = Hamming(y)


class Few(Chain):
    budget = AtMost(3, Chain.y.is_(1))


class Half(Chain):
    budget = AtLeast(8, Chain.y.is_(1))


class Twice(Chain):
    some = AtMost(3, Chain.y.is_(1))
    more = Exactly(2, Chain.y.is_(2))


class Weighed(Chain):
    load = Linear({Chain.y.is_(1): 2.0, Chain.y.is_(2): 1.0}, "<=", 6.0)


def graph_model(states: int, **form: Any) -> type[Model]:
    """Return the model of any graph whose variables have so many states."""

    class Graph(Model):
        N, M = Dim(), Dim()
        x = Input(N, 3)
        e = Edges(M, over=N)
        y = Label(N, states)
        node = Factor(y, features=x)
        edge = Factor(along(y, e), **form)
        loss = Hamming(y)

    return Graph


def graph(edges: Callable[[Rng, int], Any]) -> Maker:
    """Return what draws examples of :func:`graph_model` with these edges."""

    def example(rng: Rng, size: int) -> Example:
        links = np.asarray(edges(rng, size), dtype=np.int32)
        return {"x": rng.normal(size=(int(links.max()) + 1, 3)), "e": links}

    return example


def tree_edges(rng: Rng, n: int) -> Any:
    """Return the edges of a random tree."""
    return [(child, int(rng.integers(child))) for child in range(1, n)]


def grid_edges(rng: Rng, n: int) -> Any:
    """Return the edges of a square grid."""
    at = np.arange(n * n).reshape(n, n)
    both = ((at[:, :-1], at[:, 1:]), (at[:-1], at[1:]))
    return np.concatenate([np.stack([a.ravel(), b.ravel()], axis=1) for a, b in both])


def complete_edges(rng: Rng, n: int) -> Any:
    """Return the edges of a complete graph."""
    return np.stack(np.triu_indices(n, 1), axis=1)


def labels_model(size: int) -> type[Model]:
    """Return the model of so many labels of a text, with weights for all pairs."""

    class Topics(Model):
        K = Dim(size)
        x = Input(10)
        y = Label(K, 2)
        unary = Factor(y, features=x, per=K)
        pair = Factor(complete(y), per="edge")
        loss = Hamming(y)

    return Topics


def budget_model(size: int) -> type[Model]:
    """Return :func:`labels_model` with at most four labels."""
    base: Any = labels_model(size)

    class Budget(base):  # type: ignore[misc]
        few = AtMost(4, base.y.is_(1))

    return Budget


class Bare(Model):
    T = Dim()
    x = Input(T, 4)
    y = Label(T, 2)
    emit = Factor(y, features=x)
    few = AtMost(4, y.is_(1))
    loss = Hamming(y)


class Knapsack(Model):
    T = Dim()
    x = Input(T, 4)
    weight = Input(T)
    y = Label(T, 2)
    emit = Factor(y, features=x)
    load = Linear({y.is_(1): weight}, "<=", 12.0)
    loss = Hamming(y)


class Links(Model):
    I, J = Dim(), Dim()
    x = Input(I, J, 6)
    y = Label(I, J, 2)
    sim = Factor(y.is_(1), features=x)
    one = Matching(y.is_(1), rows=I, cols=J)
    loss = Hamming(y)


class Diagonals(Links):
    both = Factor(pairs(Links.y, Links.I, Links.J), form=[[[0, 0], [0, 1]]])


class Heads(Model):
    T = Dim()
    x = Input(T, T, 5)
    r = Input(T, 5)
    head = Label(T, over=T, null=True)
    arc = Factor(head, features=x)
    root = Factor(head.is_(None), features=r, tie=arc)
    tree = Arborescence(head)
    loss = Hamming(head)


class Projective(Heads):
    tree = ProjectiveTree(Heads.head)


class Segments(Model):
    T = Dim()
    x = Input(T, 4)
    y = Label(T, 4, segments=6)
    word = Factor(y, features=x)
    follow = Factor(chain(y))
    loss = Hamming(y)


class Route(Model):
    N, M = Dim(), Dim()
    at = Input(N, 2)
    e = Edges(M, over=N)
    f = Input(M, 4)
    y = Label(M, 2)
    cost = Factor(y.is_(1), features=f)
    way = Path(y.is_(1), e, source=0, target=-1)
    loss = Hamming(y)


class Tour(Model):
    N, M = Dim(), Dim()
    at = Input(N, 2)
    e = Edges(M, over=N)
    f = Input(M, 4)
    y = Label(M, 2)
    cost = Factor(y.is_(1), features=f)
    way = Circuit(y.is_(1), e, all_nodes=True)
    loss = Hamming(y)


class Hidden(Model):
    T = Dim()
    x = Input(T, 4)
    h = Latent(T, 4)
    y = Label(2)
    emit = Factor(h, features=x)
    joint = Factor(cross(h, y))
    trans = Factor(chain(h))
    loss = Hamming(y)


def square(rng: Rng, n: int) -> Example:
    """Draw features of all pairs of n and n words."""
    return {"x": rng.normal(size=(n, n, 6))}


def arcs(rng: Rng, n: int) -> Example:
    """Draw features of all arcs among n tokens."""
    return {"x": rng.normal(size=(n, n, 5)), "r": rng.normal(size=(n, 5))}


def positions(rng: Rng, n: int) -> Example:
    """Draw features of n positions."""
    return {"x": rng.normal(size=(n, 4))}


def loads(rng: Rng, n: int) -> Example:
    """Draw features and weights of n things."""
    return {"x": rng.normal(size=(n, 4)), "weight": rng.integers(1, 9, n).astype(float)}


def text(rng: Rng, n: int) -> Example:
    """Draw features of a text."""
    return {"x": rng.normal(size=10)}


def squares(rng: Rng, n: int) -> Example:
    """Draw a map of n by n squares with steps to the east and to the south."""
    edges = grid_edges(rng, n)
    return {"at": np.zeros((n * n, 2)), "e": edges.astype(np.int32), "f": rng.normal(size=(len(edges), 4))}


def cities(rng: Rng, n: int) -> Example:
    """Draw roads among n cities."""
    edges = np.array([(a, b) for a in range(n) for b in range(n) if a != b], dtype=np.int32)
    return {"at": np.zeros((n, 2)), "e": edges, "f": rng.normal(size=(len(edges), 4))}


def _always(model: type[Model]) -> Callable[[int], type[Model]]:
    return lambda size: model


_POTTS = {"form": POTTS, "nonneg": True}

STRUCTURES = (
    Structure("chain, 5 states", _always(Chain), positions, (4, 20, 2000), 50),
    Structure("chain, 26 states", _always(Wide), positions, (4, 20, 500), 50),
    Structure("chain, at most 3", _always(Few), positions, (4, 30, 1000), 20),
    Structure("chain, at least 8", _always(Half), positions, (9, 30, 300), 20),
    Structure("chain, two counts", _always(Twice), positions, (4, 15, 60), 20),
    Structure("chain, a weighted sum", _always(Weighed), positions, (4, 30, 300), 20),
    Structure("tree, 4 states", _always(graph_model(4)), graph(tree_edges), (4, 30, 1000), 50),
    Structure("grid, 2 states, Potts", _always(graph_model(2, **_POTTS)), graph(grid_edges), (3, 8, 40), 20),
    Structure("grid, 2 states", _always(graph_model(2)), graph(grid_edges), (3, 8, 20), 10),
    Structure("grid, 4 states", _always(graph_model(4)), graph(grid_edges), (3, 6, 12), 10),
    Structure("grid, 4 states, Potts", _always(graph_model(4, **_POTTS)), graph(grid_edges), (3, 6, 12), 10),
    Structure("complete, 2 states", labels_model, text, (4, 6, 14, 20, 30, 45), 20),
    Structure("complete, 4 states", _always(graph_model(4)), graph(complete_edges), (3, 6, 12), 10),
    Structure("labels, budget", budget_model, text, (5, 14, 30), 20),
    Structure("budget alone", _always(Bare), positions, (4, 14, 500), 50),
    Structure("knapsack", _always(Knapsack), loads, (4, 15, 60), 20),
    Structure("matching", _always(Links), square, (3, 8, 25), 20),
    Structure("matching, diagonals", _always(Diagonals), square, (3, 6, 10), 10),
    Structure("tree of heads", _always(Heads), arcs, (3, 8, 25), 20),
    Structure("projective heads", _always(Projective), arcs, (3, 8, 25), 20),
    Structure("segments", _always(Segments), positions, (4, 20, 400), 20),
    Structure("path", _always(Route), squares, (3, 8, 25), 20),
    Structure("tour", _always(Tour), cities, (4, 6, 9), 5),
    Structure("latent chain", _always(Hidden), positions, (3, 8, 30), 20),
)
