"""The structures that ``regret`` asks ``auto`` about: models of a few lines, with random inputs of several sizes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from model_table import complete_labels, diagonal_matching, few, graph, hidden_chain, matching, roads, tagger
from ssvm_dsl import (
    POTTS,
    Arborescence,
    AtLeast,
    AtMost,
    Circuit,
    Dim,
    Exactly,
    Factor,
    Hamming,
    Input,
    Label,
    Linear,
    Model,
    Path,
    ProjectiveTree,
    chain,
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


Chain = tagger(4, 5)
class Few(Chain):
    budget = AtMost(3, Chain.y.is_(1))


class Half(Chain):
    budget = AtLeast(8, Chain.y.is_(1))


class Twice(Chain):
    some = AtMost(3, Chain.y.is_(1))
    more = Exactly(2, Chain.y.is_(2))


class Weighed(Chain):
    load = Linear({Chain.y.is_(1): 2.0, Chain.y.is_(2): 1.0}, "<=", 6.0)


def drawn(edges: Callable[[Rng, int], Any]) -> Maker:
    """Return what draws graphs with these edges."""

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


def budget_model(size: int) -> type[Model]:
    """Return the model of so many labels of a text, at most four of them, with weights for all pairs."""
    base = complete_labels(size, 10, 2)

    class Budget(base):
        few = AtMost(4, base.y.is_(1))

    return Budget


class Knapsack(Model):
    T = Dim()
    x = Input(T, 4)
    weight = Input(T)
    y = Label(T, 2)
    emit = Factor(y, features=x)
    load = Linear({y.is_(1): weight}, "<=", 12.0)
    loss = Hamming(y)


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
    return {"z": np.zeros((n * n, 1)), "e": edges.astype(np.int32), "f": rng.normal(size=(len(edges), 4))}


def cities(rng: Rng, n: int) -> Example:
    """Draw roads among n cities."""
    edges = np.array([(a, b) for a in range(n) for b in range(n) if a != b], dtype=np.int32)
    return {"z": np.zeros((n, 1)), "e": edges, "f": rng.normal(size=(len(edges), 4))}


def _always(model: type[Model]) -> Callable[[int], type[Model]]:
    return lambda size: model


_POTTS = {"form": POTTS, "nonneg": True}

STRUCTURES = (
    Structure("chain, 5 states", _always(Chain), positions, (4, 20, 2000), 50),
    Structure("chain, 26 states", _always(tagger(4, 26)), positions, (4, 20, 500), 50),
    Structure("chain, at most 3", _always(Few), positions, (4, 30, 1000), 20),
    Structure("chain, at least 8", _always(Half), positions, (9, 30, 300), 20),
    Structure("chain, two counts", _always(Twice), positions, (4, 15, 60), 20),
    Structure("chain, a weighted sum", _always(Weighed), positions, (4, 30, 300), 20),
    Structure("tree, 4 states", _always(graph(3, 4)), drawn(tree_edges), (4, 30, 1000), 50),
    Structure("grid, 2 states, Potts", _always(graph(3, 2, **_POTTS)), drawn(grid_edges), (3, 8, 40), 20),
    Structure("grid, 2 states", _always(graph(3, 2)), drawn(grid_edges), (3, 8, 20), 10),
    Structure("grid, 4 states", _always(graph(3, 4)), drawn(grid_edges), (3, 6, 12), 10),
    Structure("grid, 4 states, Potts", _always(graph(3, 4, **_POTTS)), drawn(grid_edges), (3, 6, 12), 10),
    Structure("complete, 2 states", lambda size: complete_labels(size, 10, 2), text, (4, 6, 14, 20, 30, 45), 20),
    Structure("complete, 4 states", _always(graph(3, 4)), drawn(complete_edges), (3, 6, 12), 10),
    Structure("labels, budget", budget_model, text, (5, 14, 30), 20),
    Structure("budget alone", _always(few(4, 2, 4)), positions, (4, 14, 500), 50),
    Structure("knapsack", _always(Knapsack), loads, (4, 15, 60), 20),
    Structure("matching", _always(matching(6)), square, (3, 8, 25), 20),
    Structure("matching, diagonals", _always(diagonal_matching(6)), square, (3, 6, 10), 10),
    Structure("tree of heads", _always(Heads), arcs, (3, 8, 25), 20),
    Structure("projective heads", _always(Projective), arcs, (3, 8, 25), 20),
    Structure("segments", _always(Segments), positions, (4, 20, 400), 20),
    Structure("path", _always(roads(4, Path, source=0, target=-1)), squares, (3, 8, 25), 20),
    Structure("tour", _always(roads(4, Circuit, all_nodes=True)), cities, (4, 6, 9), 5),
    Structure("latent chain", _always(hidden_chain(4, 4, 2)), positions, (3, 8, 30), 20),
)
