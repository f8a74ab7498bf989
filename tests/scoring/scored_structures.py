"""Small models of every structure, with all their labellings and what each scores written down by hand."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import combinations, product
from typing import Any

import networkx
import numpy as np

from model_table import matching
from ssvm_dsl import (
    POTTS,
    SYMMETRIC,
    Arborescence,
    AtMost,
    Dim,
    Edges,
    Factor,
    Forbid,
    Given,
    Hamming,
    Input,
    Label,
    Model,
    ProjectiveTree,
    along,
    chain,
    cliques,
    complete,
    cross,
    grid,
    pairs,
    spans,
    starts,
)


class Chain(Model):
    T = Dim()
    x = Input(T, 5)
    y = Label(T, 3)
    emit = Factor(y, features=x)
    trans = Factor(chain(y))
    first = Factor(y.at(0))
    loss = Hamming(y)


class SecondOrder(Model):
    T = Dim()
    x = Input(T, 2)
    y = Label(T, "ab")
    emit = Factor(y, features=x)
    skip = Factor(chain(y, order=2))
    loss = Hamming(y)


class Net(Model):
    T = Dim()
    logits = Input(T, 3)
    y = Label(T, ["x", "y", "z"])
    net = Given(y, scores=logits)
    same = Factor(chain(y), form=SYMMETRIC)
    rule = Forbid(chain(y), [("x", "z")])
    loss = Hamming(y)


class Tree(Model):
    N, M = Dim(), Dim()
    e = Edges(M, over=N)
    x = Input(N, 2)
    f = Input(M, 2)
    y = Label(N, 3)
    node = Factor(y, features=x)
    edge = Factor(along(y, e), features=f)
    loss = Hamming(y)


class Pixels(Model):
    H, W = Dim(), Dim()
    x = Input(H, W, 2)
    y = Label(H, W, 2)
    data = Factor(y, features=x)
    right = Factor(pairs(y, W), features=x)
    any_ = Factor(grid(y), form=POTTS, nonneg=True)
    loss = Hamming(y)


class Tags(Model):
    K = Dim(4)
    x = Input(3)
    y = Label(K, 2)
    unary = Factor(y, features=x, per=K)
    pair = Factor(complete(y), per="edge")
    triple = Factor(cliques(y, [(0, 1, 2), (1, 2, 3)]))
    budget = AtMost(2, y.is_(1))
    loss = Hamming(y)


Links = matching(2)


class Heads(Model):
    T = Dim()
    x = Input(T, T, 2)
    y = Label(T, over=T, null=True)
    arc = Factor(y, features=x)
    top = Factor(y.is_(None))
    tree = Arborescence(y)
    loss = Hamming(y)


class Projective(Heads):
    tree = ProjectiveTree(Heads.y)


class Pieces(Model):
    T = Dim()
    x = Input(T, 2)
    y = Label(T, ["N", "V"], segments=2)
    whole = Factor(spans(y))
    step = Factor(chain(y))
    head = Factor(starts(y), features=x)
    inside = Factor(y, features=x)
    loss = Hamming(y)


class Two(Model):
    T = Dim()
    x = Input(T, 2)
    a = Label(T, 2)
    b = Label(3)
    up = Factor(a, features=x)
    both = Factor(cross(a, b))
    top = Factor(b)
    loss = Hamming(a) + Hamming(b)


class Alike(Model):
    K = Dim(4)
    x = Input(3)
    y = Label(K, 2)
    unary = Factor(y, features=x, per=K)
    all_ = Factor(cliques(y, [(0, 1, 2, 3)]), form=POTTS, nonneg=True)
    loss = Hamming(y)


class Candidates(Model):
    T = Dim()
    may = Input(T, 3)
    k = Input(1)
    y = Label(T, 3, allowed=may)
    extra = Input(T)
    bonus = Given(y.is_(2), scores=extra)
    trans = Factor(chain(y), form=[np.eye(3), np.ones((3, 3)) - np.eye(3)])
    few = AtMost(k, y.is_(1))
    loss = Hamming(y)


Scores = dict[str, Any]


@dataclass(frozen=True)
class Structure:
    """A model, the sizes of some examples, and what they score.

    Parameters
    ----------
    model : Model class
    sizes : list
        Of each example, as ``shapes`` and ``labellings`` take them.
    shapes : callable
        size -> shape of the scores of each factor.
    labellings : callable
        size -> all labellings, as users write them.
    score : callable
        (labelling, scores of one example) -> number.
    tied : tuple of str
        Factors whose scores are one table.
    nonneg : tuple of str
    data : dict
        What comes with the examples.
    lengths : callable
        sizes -> lengths by axis.
    """

    model: type[Model]
    sizes: list[Any]
    shapes: Callable[[Any], dict[str, tuple[int, ...]]]
    labellings: Callable[[Any], Iterator[Any]]
    score: Callable[[Any, Scores], float]
    lengths: Callable[[list[Any]], dict[str, list[int]]]
    tied: tuple[str, ...] = ()
    nonneg: tuple[str, ...] = ()
    data: dict[str, list[Any]] = field(default_factory=dict)

    def draw(self, rng: np.random.Generator) -> Scores:
        """Random scores: one table where it is tied, else a list of arrays."""
        shapes = [self.shapes(size) for size in self.sizes]
        out = {}
        for name in shapes[0]:
            made = [rng.normal(size=one[name]) for one in shapes]
            made = [np.abs(one) for one in made] if name in self.nonneg else made
            out[name] = made[0] if name in self.tied else made
        return out

    def of(self, scores: Scores, i: int) -> Scores:
        """The scores of one example."""
        return {name: value if name in self.tied else value[i] for name, value in scores.items()}

    def all(self, scores: Scores, i: int) -> list[tuple[Any, float]]:
        """All labellings of an example with their scores."""
        mine = self.of(scores, i)
        return [(y, self.score(y, mine)) for y in self.labellings(self.sizes[i])]


def _sequences(n_states: int | str) -> Callable[[Any], Iterator[Any]]:
    states = list(range(n_states)) if isinstance(n_states, int) else list(n_states)
    return lambda size: (np.array(y) for y in product(states, repeat=size))


def _lengths(*names: str) -> Callable[[list[Any]], dict[str, list[int]]]:
    if len(names) == 1:
        return lambda sizes: {names[0]: list(sizes)}
    return lambda sizes: {name: [size[k] for size in sizes] for k, name in enumerate(names)}


def _chain(y: Any, s: Scores) -> float:
    total = sum(s["emit"][t, y[t]] for t in range(len(y))) + s["first"][y[0]]
    return total + sum(s["trans"][y[t], y[t + 1]] for t in range(len(y) - 1))


def _second(y: Any, s: Scores) -> float:
    z = ["ab".index(one) for one in y]
    total = sum(s["emit"][t, z[t]] for t in range(len(z)))
    return total + sum(s["skip"][t, z[t], z[t + 1], z[t + 2]] for t in range(len(z) - 2))


def _net(y: Any, s: Scores) -> float:
    z = ["xyz".index(one) for one in y]
    place = {pair: k for k, pair in enumerate([(0, 0), (0, 1), (0, 2), (1, 1), (1, 2), (2, 2)])}
    total = sum(s["net"][t, z[t]] for t in range(len(z)))
    return total + sum(s["same"][t, place[tuple(sorted(z[t : t + 2]))]] for t in range(len(z) - 1))


def _net_labellings(size: int) -> Iterator[Any]:
    for y in product("xyz", repeat=size):
        if not any(y[t : t + 2] == ("x", "z") for t in range(size - 1)):
            yield np.array(y)


EDGES = [np.array([[0, 1], [0, 2], [3, 2]]), np.array([[1, 0]])]


def _tree(y: Any, s: Scores) -> float:
    edges = EDGES[0] if len(y) == 4 else EDGES[1]
    total = sum(s["node"][t, y[t]] for t in range(len(y)))
    return total + sum(s["edge"][m, y[a], y[b]] for m, (a, b) in enumerate(edges))


def _images(size: tuple[int, int]) -> Iterator[Any]:
    return (np.array(y).reshape(size) for y in product(range(2), repeat=size[0] * size[1]))


def _pixels(y: Any, s: Scores) -> float:
    (h, w), total, k = y.shape, 0.0, 0
    for i, j in product(range(h), range(w)):
        total += s["data"][i, j, y[i, j]]
        if j + 1 < w:
            total += s["right"][i, j, y[i, j], y[i, j + 1]]
    for di, dj in ((1, 0), (0, 1)):
        for i, j in product(range(h - di), range(w - dj)):
            total += s["any_"][k] * (y[i, j] == y[i + di, j + dj])
            k += 1
    return total


def _subsets(size: Any) -> Iterator[Any]:
    return (np.array(y) for y in product(range(2), repeat=4) if sum(y) <= 2)


def _tags(y: Any, s: Scores) -> float:
    total = sum(s["unary"][t, y[t]] for t in range(4)) + s["triple"][y[0], y[1], y[2]] + s["triple"][y[1], y[2], y[3]]
    return total + sum(s["pair"][m, y[a], y[b]] for m, (a, b) in enumerate(combinations(range(4), 2)))


def _matchings(size: tuple[int, int]) -> Iterator[Any]:
    return (y for y in _images(size) if (y.sum(0) <= 1).all() and (y.sum(1) <= 1).all())


def _trees(size: int) -> Iterator[Any]:
    for heads in product(range(-1, size), repeat=size):
        graph = networkx.DiGraph([(h, t) for t, h in enumerate(heads)])
        if networkx.is_arborescence(graph) and all(h != t for t, h in enumerate(heads)):
            yield np.array(heads)


def _projective(size: int) -> Iterator[Any]:
    for heads in _trees(size):
        arcs = [(min(h, t), max(h, t)) for t, h in enumerate(heads.tolist())]
        if not any(a < c < b < d for (a, b), (c, d) in product(arcs, arcs)):
            yield heads


def _heads(y: Any, s: Scores) -> float:
    return sum(s["top"][t] if h < 0 else s["arc"][t, h] for t, h in enumerate(y.tolist()))


def _segmentations(size: int) -> Iterator[Any]:
    def divide(start: int) -> Iterator[list[tuple[int, int, str]]]:
        if start == size:
            yield []
        for end in range(start + 1, min(size, start + 2) + 1):
            for name in "NV":
                yield from ([(start, end, name), *rest] for rest in divide(end))

    return divide(0)


def _pieces(y: Any, s: Scores) -> float:
    total, before = 0.0, None
    for start, end, name in y:
        c = "NV".index(name)
        total += s["whole"][start, end - start - 1, c] + s["head"][start, c]
        total += sum(s["inside"][t, c] for t in range(start, end))
        total += 0.0 if before is None else s["step"][before, c]
        before = c
    return total


def _pairs_of(size: int) -> Iterator[Any]:
    for *a, b in product(*[range(2)] * size, range(3)):
        yield {"a": np.array(a, dtype=int), "b": b}


def _two(y: Any, s: Scores) -> float:
    a, b = y["a"], y["b"]
    return s["top"][b] + sum(s["up"][t, a[t]] + s["both"][t, a[t], b] for t in range(len(a)))


def _alike(y: Any, s: Scores) -> float:
    return sum(s["unary"][t, y[t]] for t in range(4)) + s["all_"][0] * (len(set(y.tolist())) == 1)


MAY = [np.array([[1, 1, 0], [1, 1, 1], [0, 1, 1]]), np.array([[1, 0, 1], [1, 1, 1]])]


def _candidates(size: int) -> Iterator[Any]:
    may, most = (MAY[0], 2) if size == 3 else (MAY[1], 1)
    for y in product(range(3), repeat=size):
        if all(may[t, y[t]] for t in range(size)) and sum(s == 1 for s in y) <= most:
            yield np.array(y)


def _bonus(y: Any, s: Scores) -> float:
    total = sum(s["bonus"][t] * (y[t] == 2) for t in range(len(y)))
    return total + sum(s["trans"][t, int(y[t] != y[t + 1])] for t in range(len(y) - 1))


STRUCTURES = {
    "chain": Structure(
        Chain, [3, 1, 2], lambda n: {"emit": (n, 3), "trans": (3, 3), "first": (3,)}, _sequences(3), _chain,
        _lengths("T"), tied=("trans",),
    ),
    "second order": Structure(
        SecondOrder, [4, 2], lambda n: {"emit": (n, 2), "skip": (max(n - 2, 0), 2, 2, 2)}, _sequences("ab"), _second,
        _lengths("T"),
    ),
    "given, form, rule": Structure(
        Net, [3, 2], lambda n: {"net": (n, 3), "same": (n - 1, 6)}, _net_labellings, _net, _lengths("T")
    ),
    "tree": Structure(
        Tree, [(4, 3), (2, 1)], lambda n: {"node": (n[0], 3), "edge": (n[1], 3, 3)},
        lambda n: _sequences(3)(n[0]), _tree, _lengths("N", "M"), data={"e": EDGES},
    ),
    "grid": Structure(
        Pixels, [(2, 3), (2, 2)],
        lambda n: {"data": (*n, 2), "right": (n[0], n[1] - 1, 2, 2), "any_": (2 * n[0] * n[1] - n[0] - n[1],)},
        _images, _pixels, _lengths("H", "W"), nonneg=("any_",),
    ),
    "complete, budget": Structure(
        Tags, [None, None], lambda n: {"unary": (4, 2), "pair": (6, 2, 2), "triple": (2, 2, 2)}, _subsets, _tags,
        lambda sizes: {}, tied=("triple",),
    ),
    "matching": Structure(
        Links, [(2, 3), (2, 2)], lambda n: {"sim": n}, _matchings, lambda y, s: float((s["sim"] * y).sum()),
        _lengths("I", "J"),
    ),
    "arborescence": Structure(
        Heads, [3, 2], lambda n: {"arc": (n, n), "top": (n,)}, _trees, _heads, _lengths("T")
    ),
    "projective": Structure(
        Projective, [4, 2], lambda n: {"arc": (n, n), "top": (n,)}, _projective, _heads, _lengths("T")
    ),
    "segments": Structure(
        Pieces, [3, 1, 2], lambda n: {"whole": (n, 2, 2), "step": (2, 2), "head": (n, 2), "inside": (n, 2)},
        _segmentations, _pieces, _lengths("T"), tied=("step",),
    ),
    "all alike": Structure(
        Alike, [None, None], lambda n: {"unary": (4, 2), "all_": (1,)},
        lambda n: (np.array(y) for y in product(range(2), repeat=4)), _alike, lambda sizes: {}, nonneg=("all_",),
    ),
    "candidates": Structure(
        Candidates, [3, 2], lambda n: {"bonus": (n,), "trans": (n - 1, 2)}, _candidates, _bonus, _lengths("T"),
        data={"may": MAY, "k": [np.array([2.0]), np.array([1.0])]},
    ),
    "two labels": Structure(
        Two, [2, 3], lambda n: {"up": (n, 2), "both": (n, 2, 3), "top": (3,)}, _pairs_of, _two, _lengths("T")
    ),
}  # fmt: skip
