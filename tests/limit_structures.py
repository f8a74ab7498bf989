"""Models of every structure in any size, for calls with limits: tests of small ones, the fuzzer of large ones.

Whether labels keep a structure is judged here anew, from the users' labels alone.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import networkx
import numpy as np

from ssvm_dsl import (
    AllDifferent,
    Arborescence,
    AtMost,
    Circuit,
    Dim,
    Edges,
    Exactly,
    Factor,
    Forbid,
    Grammar,
    Hamming,
    Input,
    Label,
    Latent,
    Linear,
    Matching,
    Model,
    ParseTree,
    Path,
    ProjectiveTree,
    StructuredSVM,
    along,
    chain,
    complete,
    cross,
    grid,
    leaves,
    pairs,
    rules,
    siblings,
)
from standard import matching


@dataclass(frozen=True)
class Structure:
    """A structure in any size.

    Parameters
    ----------
    model : Model class
    example : callable
        Makes (inputs, labels that keep the structure) of a size and a generator.
    keeps : callable
        Whether labels of some inputs keep the structure.
    sizes : tuple of int
        Tiny, one that fits, and ten times that.
    hard : bool
        Whether finding any labelling is a hard question.
    """

    model: type[Model]
    example: Callable[[int, np.random.Generator], tuple[Any, Any]]
    keeps: Callable[[Any, Any], bool]
    sizes: tuple[int, int, int]
    hard: bool = False


def anything(x, y):
    return True


class Chain(Model):
    T = Dim()
    x = Input(T, 3)
    y = Label(T, 5)
    own = Factor(y, features=x)
    next = Factor(chain(y))
    loss = Hamming(y)


class Tagged(Model):
    T = Dim()
    x = Input(T, 3)
    y = Label(T, ["O", "B", "I", "J"])
    own = Factor(y, features=x)
    next = Factor(chain(y))
    legal = Forbid(chain(y), [("O", "I"), ("O", "J"), ("J", "B"), ("I", "J")])
    begin = Forbid(y.at(0), ["I", "J"])
    loss = Hamming(y)


def legal_tags(x, y):
    never = {("O", "I"), ("O", "J"), ("J", "B"), ("I", "J")}
    return not (len(y) and y[0] in "IJ") and not any(pair in never for pair in itertools.pairwise(y))


class Few(Model):
    T = Dim()
    x = Input(T, 3)
    y = Label(T, 5)
    own = Factor(y, features=x)
    next = Factor(chain(y))
    few = AtMost(3, y.is_(1))
    loss = Hamming(y)


class Tree(Model):
    T, M = Dim(), Dim()
    x = Input(T, 3)
    e = Edges(M, over=T)
    y = Label(T, 4)
    own = Factor(y, features=x)
    edge = Factor(along(y, e))
    loss = Hamming(y)


class Grid(Model):
    H, W = Dim(), Dim()
    x = Input(H, W, 3)
    y = Label(H, W, 5)
    own = Factor(y, features=x)
    edge = Factor(grid(y))
    loss = Hamming(y)


class Complete(Model):
    K = Dim()
    x = Input(K, 3)
    y = Label(K, 5)
    own = Factor(y, features=x)
    pair = Factor(complete(y))
    loss = Hamming(y)


class Many(Model):
    K = Dim()
    x = Input(K, 3)
    y = Label(K, 2)
    own = Factor(y, features=x)
    pair = Factor(complete(y))
    loss = Hamming(y)


class Budget(Model):
    K = Dim()
    x = Input(K, 3)
    b = Input(1)
    y = Label(K, 2)
    own = Factor(y, features=x)
    pair = Factor(complete(y))
    most = Exactly(b, y.is_(1))
    loss = Hamming(y)


Align = matching(2)


class Diagonal(Align):
    near = Factor(pairs(Align.y, Align.I, Align.J), form=[[[0, 0], [0, 1]]])


class Assigned(Model):
    I, J = Dim(), Dim()
    x = Input(I, J, 2)
    y = Label(I, J, 2)
    sim = Factor(y.is_(1), features=x)
    one = Matching(y.is_(1), rows=I, cols=J, perfect=True)
    loss = Hamming(y)


class Both(Align):
    most = AtMost(3, Align.y.is_(1))


def matched(most=None, perfect=False, limit=None):
    def keeps(x, y):
        rows, cols = y.sum(axis=1), y.sum(axis=0)
        right = rows.max(initial=0) <= 1 and cols.max(initial=0) <= 1
        right = right and (not perfect or (rows.min(initial=1) == 1 and cols.min(initial=1) == 1))
        return bool(right and (limit is None or y.sum() <= limit))

    return keeps


class Permutation(Model):
    T = Dim()
    x = Input(T, T, 2)
    y = Label(T, over=T)
    own = Factor(y, features=x)
    all = AllDifferent(y)
    loss = Hamming(y)


class Heads(Model):
    T = Dim()
    x = Input(T, T, 2)
    r = Input(T, 2)
    y = Label(T, over=T, null=True)
    arc = Factor(y, features=x)
    root = Factor(y.is_(None), features=r)
    tree = Arborescence(y, single_root=True)
    loss = Hamming(y)


class Siblings(Heads):
    both = Factor(siblings(Heads.y))


class Nested(Model):
    T = Dim()
    x = Input(T, T, 2)
    r = Input(T, 2)
    y = Label(T, over=T, null=True)
    arc = Factor(y, features=x)
    root = Factor(y.is_(None), features=r)
    tree = ProjectiveTree(y)
    loss = Hamming(y)


def arcs_of(y):
    graph = networkx.DiGraph([(int(head) + 1, d + 1) for d, head in enumerate(y)])
    graph.add_node(0)
    return graph


def a_tree(x, y):
    graph = arcs_of(y)
    return len(graph) == len(y) + 1 and (len(y) == 0 or networkx.is_arborescence(graph))


def one_root(x, y):
    return a_tree(x, y) and int((np.asarray(y) == -1).sum()) == min(1, len(y))


def nested(x, y):
    ends = sorted((min(h + 1, d + 1), max(h + 1, d + 1)) for d, h in enumerate(np.asarray(y).tolist()))
    stack: list[int] = []
    for lo, hi in sorted(ends, key=lambda one: (one[0], -one[1])):
        while stack and stack[-1] <= lo:
            stack.pop()
        if stack and stack[-1] < hi:
            return False
        stack.append(hi)
    return a_tree(x, y)


class Segments(Model):
    T = Dim()
    x = Input(T, 3)
    y = Label(T, ["O", "A", "B"], segments=6)
    own = Factor(y, features=x)
    next = Factor(chain(y))
    loss = Hamming(y)


def divided(x, y):
    ends = [0, *(stop for _, stop, _ in y)]
    return all(lo == start < stop <= lo + 6 for lo, (start, stop, _) in zip(ends, y)) and ends[-1] == len(x)


class Route(Model):
    N, M = Dim(), Dim()
    z = Input(N, 1)
    e = Edges(M, over=N)
    f = Input(M, 2)
    y = Label(M, 2)
    cost = Factor(y.is_(1), features=f)
    way = Path(y.is_(1), e, source=0, target=-1)
    loss = Hamming(y)


class Round(Model):
    N, M = Dim(), Dim()
    z = Input(N, 1)
    e = Edges(M, over=N)
    f = Input(M, 2)
    y = Label(M, 2)
    cost = Factor(y.is_(1), features=f)
    way = Circuit(y.is_(1), e)
    loss = Hamming(y)


class Tour(Model):
    N, M = Dim(), Dim()
    z = Input(N, 1)
    e = Edges(M, over=N)
    f = Input(M, 2)
    y = Label(M, 2)
    cost = Factor(y.is_(1), features=f)
    way = Circuit(y.is_(1), e, all_nodes=True)
    loss = Hamming(y)


def route(x, y):
    graph = networkx.DiGraph(x["e"][np.asarray(y) == 1].tolist())
    source, target = 0, len(x["z"]) - 1
    if source == target:
        return not y.any()
    simple = all(graph.out_degree(v) <= 1 and graph.in_degree(v) <= 1 for v in graph)
    ends = graph.has_node(source) and graph.in_degree(source) == 0 and graph.out_degree(target) == 0
    return simple and ends and networkx.is_weakly_connected(graph)


def circuit(every):
    def keeps(x, y):
        graph = networkx.DiGraph(x["e"][np.asarray(y) == 1].tolist())
        simple = len(graph) > 1 and all(graph.out_degree(v) == graph.in_degree(v) == 1 for v in graph)
        return simple and networkx.is_weakly_connected(graph) and (not every or len(graph) == len(x["z"]))

    return keeps


class Rows(Model):
    K, R = Dim(), Dim()
    x = Input(K, 3)
    a = Input(K)
    y = Label(K, 2)
    own = Factor(y, features=x)
    most = Linear({y.is_(1): a}, "<=", 10.0)
    least = Linear({y.is_(1): a}, ">=", 2.0)
    some = AtMost(9, y.is_(1))
    loss = Hamming(y)


def rows(x, y):
    total = float(np.dot(x["a"], y))
    return 2.0 - 1e-6 <= total <= 10.0 + 1e-6 and y.sum() <= 9


class Parts(Model):
    T = Dim()
    x = Input(T, 3)
    h = Latent(T, 4)
    y = Label(3)
    emit = Factor(h, features=x)
    joint = Factor(cross(h, y))
    next = Factor(chain(h))
    loss = Hamming(y)


#: Every symbol divides into any two of symbols and tags.
ANY = Grammar.from_trees(
    [
        ParseTree.of(f"(S ({top} {one} {other}) (N w))")
        for top in "AB"
        for one in ("(A (N w) (N w))", "(B (V w) (V w))", "(N w)", "(V w)")
        for other in ("(A (N w) (V w))", "(B (V w) (N w))", "(N w)", "(V w)")
    ]
)


class Parsed(Model):
    T = Dim()
    x = Input(T, 3)
    y = Label(T, grammar=ANY)
    leaf = Factor(leaves(y), features=x)
    rule = Factor(rules(y))
    loss = Hamming(y)


def derived(x, y):
    def right(tree):
        inner = tree.trees
        return all(one.label in "ABNV" and right(one) for one in inner) and len(inner) in (0, 2)

    return len(y.words) == len(x) and y.label == "S" and right(y) and y.trees[1].label == "N"


def _parsed(n, rng):
    def tree(n):
        if n == 1:
            return f"({rng.choice(['N', 'V'])} w)"
        k = 1 if rng.random() < 0.2 else n // 2  # not deep
        return f"({rng.choice(['A', 'B'])} {tree(k)} {tree(n - k)})"

    return rng.normal(size=(n, 3)), ParseTree.of(f"(S {tree(n - 1)} (N w))")


def plain(states):
    def example(n, rng):
        return rng.normal(size=(n, 3)), rng.integers(states, size=n)

    return example


def _tags(n, rng):
    return rng.normal(size=(n, 3)), np.array(["O"] * n)


def _few(n, rng):
    return rng.normal(size=(n, 3)), 2 * rng.integers(2, size=n)


def _tree(n, rng):
    edges = [(int(rng.integers(max(0, v - 20), v)), v) for v in range(1, n)]
    return {"x": rng.normal(size=(n, 3)), "e": np.array(edges, np.int32).reshape(-1, 2)}, rng.integers(4, size=n)


def _grid(n, rng):
    return rng.normal(size=(n, n, 3)), rng.integers(5, size=(n, n))


def _budget(n, rng):
    y = np.zeros(n, int)
    y[: max(1, n // 5)] = 1
    return {"x": rng.normal(size=(n, 3)), "b": np.array([y.sum()])}, y


def _matrix(n, rng):
    return rng.normal(size=(n, n, 2)), np.eye(n, dtype=int)


def _some(n, rng):
    y = np.zeros((n, n), int)
    y[0, 0] = 1
    return rng.normal(size=(n, n, 2)), y


def _permutation(n, rng):
    return rng.normal(size=(n, n, 2)), rng.permutation(n)


def _heads(n, rng):
    return {"x": rng.normal(size=(n, n, 2)), "r": rng.normal(size=(n, 2))}, np.arange(n) - 1


def _segments(n, rng):
    return rng.normal(size=(n, 3)), np.array(["O", "A", "B"])[rng.integers(3, size=n)].tolist()


def _onwards(n, rng):
    pairs = {(v, v + 1) for v in range(n - 1)}
    pairs |= {(int(u), int(min(n - 1, u + rng.integers(1, 10)))) for u in rng.integers(0, n - 1, 4 * n)}
    edges = np.array(sorted(pair for pair in pairs if pair[0] != pair[1]), np.int32)
    y = (edges[:, 1] == edges[:, 0] + 1).astype(int)
    return {"z": np.zeros((n, 1)), "e": edges, "f": rng.normal(size=(len(edges), 2))}, y


def _both_ways(n, rng):
    edges = np.array([(u, v) for u in range(n) for v in range(n) if u != v], np.int32)
    y = (edges[:, 1] == (edges[:, 0] + 1) % n).astype(int)
    return {"z": np.zeros((n, 1)), "e": edges, "f": rng.normal(size=(len(edges), 2))}, y


def _weights(n, rng):
    a = np.round(rng.uniform(0.5, 3.0, n), 1)
    y = np.zeros(n, int)
    y[:2] = 1
    a[:2] = 2.0
    return {"x": rng.normal(size=(n, 3)), "a": a}, y


def _parts(n, rng):
    return rng.normal(size=(n, 3)), int(rng.integers(3))


class Labels(Model):
    """Labels of which each two have weights of their own."""

    K = Dim(40)
    x = Input(20)
    y = Label(K, 2)
    own = Factor(y, features=x, per=K)
    pair = Factor(complete(y), per="edge")
    loss = Hamming(y)


def _labels(size, rng):
    return rng.normal(size=20), rng.integers(2, size=40)


STRUCTURES = {
    "labels": Structure(Labels, _labels, anything, (40, 40, 40)),
    "chain": Structure(Chain, plain(5), anything, (2, 2000, 20000)),
    "tags": Structure(Tagged, _tags, legal_tags, (2, 2000, 20000)),
    "few": Structure(Few, _few, lambda x, y: (y == 1).sum() <= 3, (4, 1000, 20000)),
    "tree": Structure(Tree, _tree, anything, (3, 2000, 20000)),
    "grid": Structure(Grid, _grid, anything, (2, 25, 250)),
    "complete": Structure(Complete, plain(5), anything, (3, 10, 60)),
    "many": Structure(Many, plain(2), anything, (3, 20, 100)),
    "budget": Structure(Budget, _budget, lambda x, y: y.sum() == x["b"][0], (3, 20, 150)),
    "matching": Structure(Align, _matrix, matched(), (2, 40, 300)),
    "assigned": Structure(Assigned, _matrix, matched(perfect=True), (2, 40, 300)),
    "diagonal": Structure(Diagonal, _matrix, matched(), (2, 8, 60)),
    "both": Structure(Both, _some, matched(limit=3), (2, 20, 150)),
    "permutation": Structure(Permutation, _permutation, lambda x, y: sorted(y) == list(range(len(y))), (2, 40, 300)),
    "arborescence": Structure(Heads, _heads, one_root, (2, 30, 250)),
    "siblings": Structure(Siblings, _heads, one_root, (2, 12, 80)),
    "projective": Structure(Nested, _heads, nested, (2, 20, 150)),
    "segments": Structure(Segments, _segments, divided, (3, 500, 5000)),
    "path": Structure(Route, _onwards, route, (3, 200, 3000)),
    "circuit": Structure(Round, _both_ways, circuit(every=False), (3, 12, 60)),
    "tour": Structure(Tour, _both_ways, circuit(every=True), (3, 10, 60), hard=True),
    "rows": Structure(Rows, _weights, rows, (3, 50, 1000), hard=True),
    "parses": Structure(Parsed, _parsed, derived, (3, 30, 300)),
    "latent": Structure(Parts, _parts, anything, (3, 100, 3000)),
}


def weighted(structure, rng, **options):
    """Return an estimator with random weights."""
    tiny = [structure.example(structure.sizes[0], rng) for _ in range(2)]
    svm = StructuredSVM(structure.model, max_passes=1, tol=1e9, random_state=0)
    if structure.model.declaration.latents:
        svm.set_params(latent_options={"rounds": 1})
    svm.fit([x for x, _ in tiny], [y for _, y in tiny])
    svm.coef_ = rng.normal(size=svm.coef_.shape)
    return svm.set_params(**options)
