"""Bounded variable elimination: maximise variables out while the resulting tables stay small.

Taking out v joins the factors that hold it into ``max_s sum_f table_f(.., v = s)`` over its neighbours (Bertele &
Brioschi 1972).  It is exact; best states of v for each labelling of its neighbours are kept for backtracking.
Factors over some of the variables of another are added to it in the end.  Fewer and larger factors make the dual
bounds of the rest tighter: on noisy-or networks, by far.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ssvm_backends.graphs.graph import Instance, make_graph
from ssvm_dsl.ir import F64, I32, I64, pointers

Scope = tuple[int, ...]


@dataclass(frozen=True, eq=False)
class Eliminated:
    """The rest after elimination, and the map back from its labellings.

    Parameters
    ----------
    instance : Instance
        One example; its variables are ``kept`` in increasing order.
    kept : ndarray of int64
    steps : list of (variable, scope, choice)
        In the order of elimination; ``choice`` is the best state of the variable for each labelling of the scope.
    n_variables : int
        Variables before.
    """

    instance: Instance
    kept: I64
    steps: list[tuple[int, Scope, NDArray[np.int32]]]
    n_variables: int

    def lift(self, labels: I32) -> I32:
        """Return labels of all variables from labels of those that are left."""
        full = np.zeros(self.n_variables, dtype=np.int32)
        full[self.kept] = labels
        for v, scope, choice in reversed(self.steps):
            full[v] = choice[tuple(full[list(scope)])]
        return full

    def restrict(self, labels: I32) -> I32:
        """Return labels of the variables that are left."""
        return labels[self.kept]


class _Model:
    """Factors by their sorted scopes, and the scopes of each variable."""

    def __init__(self, instance: Instance, example: int) -> None:
        g = instance.graph
        self.lo, hi = int(g.var_ptr[example]), int(g.var_ptr[example + 1])
        self.card = g.card[self.lo : hi].tolist()
        self.node = [instance.node[g.state_ptr[v] : g.state_ptr[v + 1]] for v in range(self.lo, hi)]
        self.tables: dict[Scope, F64] = {}
        self.of: list[set[Scope]] = [set() for _ in self.card]
        self.const = float(instance.const[example])
        for f in range(g.factor_ptr[example], g.factor_ptr[example + 1]):
            scope = g.scope[g.slot_ptr[f] : g.slot_ptr[f + 1]] - self.lo
            order = np.argsort(scope)
            table = instance.pool[g.table_ptr[f] : g.table_ptr[f] + g.table_size[f]]
            table = table.reshape(g.card[scope + self.lo]).transpose(order)
            self.add(tuple(scope[order].tolist()), table)

    def add(self, scope: Scope, table: F64) -> None:
        """Add a factor with a sorted scope."""
        if not scope:
            self.const += float(table)
        elif len(scope) == 1:
            self.node[scope[0]] = self.node[scope[0]] + table
        elif scope in self.tables:
            self.tables[scope] = self.tables[scope] + table
        else:
            self.tables[scope] = table
            for v in scope:
                self.of[v].add(scope)

    def take(self, scope: Scope) -> F64:
        """Remove a factor and return its table."""
        for v in scope:
            self.of[v].discard(scope)
        return self.tables.pop(scope)

    def absorb(self) -> None:
        """Add factors to a factor over more variables, where there is one."""
        for scope in sorted(self.tables, key=len):
            first = min(scope, key=lambda v: len(self.of[v]))
            mine = set(scope)
            larger = [other for other in self.of[first] if len(other) > len(scope) and mine.issubset(other)]
            if larger:
                into = min(larger, key=lambda other: (len(other), other))
                self.tables[into] = self.tables[into] + _spread(self.take(scope), scope, into)


def _spread(table: F64, scope: Scope, into: Scope) -> F64:
    """Return the table as one that broadcasts over a larger scope in the same order."""
    sizes = iter(table.shape)
    return table.reshape([next(sizes) if v in scope else 1 for v in into])


def eliminate(
    instance: Instance, example: int, most_entries: int, most_arity: int, over: Callable[[], bool] = bool
) -> Eliminated:
    """Take out variables while each new table has at most so many entries and variables.

    Parameters
    ----------
    instance : Instance
    example : int
    most_entries, most_arity : int
        A variable with ``p`` neighbours goes when ``p <= most_arity`` and their table has at most
        ``most_entries`` entries, or no more than one of its factors has (it then never costs anything).
    over : callable
        Whether time is up; eliminations so far are kept.
    """
    model = _Model(instance, example)
    steps: list[tuple[int, Scope, NDArray[np.int32]]] = []
    gone = np.zeros(len(model.card), dtype=bool)
    pending = set(range(len(model.card)))
    while pending:
        sizes = {v: _size(model, v) for v in pending}
        pending = set()
        for v in sorted(sizes, key=lambda v: (sizes[v], v)):
            neighbours = _neighbours(model, v)
            if over():
                return _left(model, gone, steps)
            if gone[v] or not _small(model, v, neighbours, most_entries, most_arity):
                continue
            gone[v] = True
            steps.append((v, neighbours, _maximise(model, v, neighbours)))
            pending.update(neighbours)
        pending = {v for v in pending if not gone[v]}
    model.absorb()
    return _left(model, gone, steps)


def untouched(instance: Instance) -> Eliminated:
    """Return an instance of one example as the rest when nothing is taken out."""
    n = instance.graph.n_variables
    return Eliminated(instance, np.arange(n, dtype=np.int64), [], n)


def _neighbours(model: _Model, v: int) -> Scope:
    return tuple(sorted({w for scope in model.of[v] for w in scope if w != v}))


def _entries(model: _Model, scope: Scope) -> int:
    total = 1
    for v in scope:
        total *= model.card[v]
    return total


def _size(model: _Model, v: int) -> int:
    return _entries(model, _neighbours(model, v))


def _small(model: _Model, v: int, neighbours: Scope, most_entries: int, most_arity: int) -> bool:
    """Whether eliminating variable v leaves a table within the limits of entries and variables."""
    if len(neighbours) <= 1:
        return True
    largest = max(model.tables[scope].size for scope in model.of[v])
    entries = _entries(model, neighbours)
    return entries <= largest or (len(neighbours) <= most_arity and entries <= most_entries)


def _maximise(model: _Model, v: int, neighbours: Scope) -> NDArray[np.int32]:
    """Take v out; return its best state for each labelling of its neighbours."""
    whole = (*neighbours, v)
    order = {w: k for k, w in enumerate(whole)}
    joint = np.zeros([model.card[w] for w in neighbours] + [model.card[v]]) + model.node[v]
    for scope in sorted(model.of[v]):
        table = model.take(scope)
        axes = sorted(range(len(scope)), key=lambda k: order[scope[k]])
        joint += _spread(table.transpose(axes), tuple(scope[k] for k in axes), whole)
    choice = joint.argmax(axis=-1).astype(np.int32)
    model.add(neighbours, joint.max(axis=-1))
    return choice


def _left(model: _Model, gone: NDArray[np.bool_], steps: list[tuple[int, Scope, NDArray[np.int32]]]) -> Eliminated:
    """Return the rest as an instance of one example."""
    kept = np.flatnonzero(~gone)
    new = np.cumsum(~gone) - 1
    card = np.array([model.card[v] for v in kept], dtype=np.int32)
    scopes = sorted(model.tables)
    flat = np.array([new[v] for scope in scopes for v in scope], dtype=np.int32)
    graph = make_graph(
        np.array([0, len(kept)], dtype=np.int64),
        card,
        np.array([0, len(scopes)], dtype=np.int64),
        pointers(np.array([len(scope) for scope in scopes], dtype=np.int64)),
        flat,
    )
    pool = np.concatenate([model.tables[scope].ravel() for scope in scopes]) if scopes else np.zeros(0)
    node = np.concatenate([model.node[v] for v in kept]) if len(kept) else np.zeros(0)
    instance = Instance(graph, node, pool, np.array([model.const]))
    return Eliminated(instance, kept.astype(np.int64), steps, len(model.card))
