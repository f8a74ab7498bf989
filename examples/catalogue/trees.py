"""Trees and paths: heads of words, phrases, routes and tours."""

import numpy as np

from ssvm_dsl import (
    AllOf,
    Arborescence,
    Circuit,
    Dim,
    Edges,
    Factor,
    Grammar,
    Hamming,
    Input,
    Label,
    Model,
    Path,
    leaves,
    rules,
)

GRAMMAR = Grammar([("S", ("N", "S")), ("S", ("N", "V")), ("S", ("S", "V"))], ["S"], tags=["N", "V"])


class Dependency(Model):
    """Each word has a head, and all of them form a tree."""

    T = Dim()
    i, j = T.index(2)
    x = Input(T, T, 3)
    head = Label(T, over=T, null=True)
    arc = Factor(head[i].is_(j), features=x[i, j])
    tree = Arborescence(head, single_root=True)
    loss = Hamming(head)


class SecondOrder(Model):
    """Heads with terms of two arcs: words of one head, and heads of heads."""

    T = Dim()
    i, j, k = T.index(3)
    x = Input(T, T, 3)
    head = Label(T, over=T, null=True)
    arc = Factor(head[i].is_(j), features=x[i, j])
    siblings = Factor(AllOf(head[i].is_(k), head[j].is_(k)), where=i < j)
    above = Factor(AllOf(head[i].is_(j), head[j].is_(k)))
    tree = Arborescence(head)
    loss = Hamming(head)


class Route(Model):
    """The best path from the first node of a graph to the last."""

    N, M = Dim(), Dim()
    m = M.index()
    z = Input(N, 1)
    e = Edges(M, over=N)
    f = Input(M, 3)
    y = Label(M, 2)
    worth = Factor(y[m].is_(1), features=f[m])
    way = Path(y.is_(1), e, source=0, target=-1)
    loss = Hamming(y)


class Tour(Model):
    """A round trip through all cities."""

    N = Dim()
    i, j = N.index(2)
    x = Input(N, N, 2)
    y = Label(i, j, 2, where=i.is_not(j))
    worth = Factor(y[i, j].is_(1), features=x[i, j])
    trip = Circuit(y[i, j].is_(1), tail=i, head=j, all_nodes=True)
    loss = Hamming(y)


class Constituency(Model):
    """Phrases within phrases, by a grammar."""

    T = Dim()
    x = Input(T, 3)
    y = Label(T, grammar=GRAMMAR)
    tags = Factor(leaves(y), features=x)
    rule = Factor(rules(y))
    loss = Hamming(y)


def graph(rng, n):
    """Return a graph with a path from the first node to the last, and other edges."""
    steps = [(k, k + 1) for k in range(n - 1)]
    e = np.array(steps + [tuple(rng.choice(n, size=2, replace=False)) for _ in range(n)])
    return {"z": np.zeros((n, 1)), "e": e, "f": rng.normal(size=(len(e), 3))}


#: For each model a function that draws the inputs of an example of n positions, and true weights where random ones
#: would say little.
MODELS = {
    Dependency: (lambda rng, n: {"x": rng.normal(size=(n, n, 3))}, {}),
    SecondOrder: (lambda rng, n: {"x": rng.normal(size=(n, n, 3))}, {"siblings": 0.4, "above": -0.4}),
    Route: (graph, {}),
    Tour: (lambda rng, n: {"x": rng.normal(size=(n, n, 2))}, {}),
    Constituency: (lambda rng, n: {"x": rng.normal(size=(n, 3))}, {"rule": [[0.0, 0.3], [0.0, 0.2]]}),
}
