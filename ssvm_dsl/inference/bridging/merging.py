"""Factors over the same variables become one before a relaxation is asked, and those inside of others join these.

The best labellings are the same, and so are their scores.  The relaxation is tighter: it knows of one joint state for
each set of variables, where several factors could each have their own (two factors over one pair agree on the states of
each variable alone).  Where fractional labellings are asked for, factors stay as they were declared: trainers that know
the relaxation themselves, and those that ask a backend, then minimise one and the same risk.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import combinations
from math import prod

import numpy as np

from ssvm_dsl.array_types import I32, I64
from ssvm_dsl.ir.program import Group, Program
from ssvm_dsl.ir.question import Question
from ssvm_dsl.ir.ragged import members, owners, pointers, runs
from ssvm_dsl.ir.shapes import Shapes, kinds_of_rows
from ssvm_dsl.ir.solution import Marginals, Solution
from ssvm_dsl.ir.theta import Theta

#: Entries of all tables, each factor with its own, beyond which factors stay as they are.
MOST_ENTRIES = 10_000_000

#: Variables of factors whose parts are looked for among other factors.
MOST_VARIABLES = 6


@dataclass(frozen=True, eq=False)
class _Link:
    """Factors of one group whose scores are added to factors of the same or another group, in the same way.

    Parameters
    ----------
    source, host : int
        The groups.
    start : ndarray of int64, shape (K + 1,)
        Links ``start[k]:start[k + 1]`` belong to examples of kind k.
    factor, of : ndarray of int64, shape (n,)
        The number of each factor in its example's factors of the source group, and of the one it is added to.
    state : ndarray of int64, shape (prod(cards of the host),)
        The joint state of the source in each joint state of the host.
    """

    source: int
    host: int
    start: I64
    factor: I64
    of: I64
    state: I64


@dataclass(frozen=True, eq=False)
class Merging:
    """A program in which several factors are one, and the way there and back.

    Parameters
    ----------
    original, program : Program
        What is answered, and what is asked instead.
    kind : ndarray of int32, shape (B,)
        Examples of one kind have the same factors.
    links : list of _Link
    """

    original: Program
    program: Program
    kind: I32
    links: list[_Link]

    def question(self, question: Question) -> Question:
        """Return the question to the program with fewer factors."""
        given, ids = question.theta, question.ids(self.original)
        made = Theta.zeros(self.program, given.node)  # pages that are not written to take no time
        for link in self.links:
            mine, owner = self._members(link, ids)
            example, group = ids[owner], self.original.groups[link.source]
            local = link.factor[mine] + group.shapes.start[group.shapes.of[example]]
            row = group.rows[local] + group.table_base[example]
            place = self.program.groups[link.host].shapes.ptr[example] + link.of[mine]
            np.add.at(made.tables[link.host], place, given.tables[link.source][row][:, link.state])
        return question.replace(theta=replace(made, const=given.const))

    def lift(self, question: Question, solution: Solution) -> Solution:
        """Return the answer to the question about the original program; joint states of parts are summed."""
        found = solution.marginals
        if found is None:
            return solution
        ids = question.ids(self.original)
        tables = [np.zeros((int(g.shapes.counts[ids].sum()), prod(g.cards))) for g in self.original.groups]
        begin = [pointers(g.shapes.counts[ids])[:-1] for g in self.original.groups]
        there = [pointers(g.shapes.counts[ids])[:-1] for g in self.program.groups]
        for link in self.links:
            if not found.tables[link.host].size:
                continue
            mine, owner = self._members(link, ids)
            sums = np.zeros((len(link.state), tables[link.source].shape[1]))
            sums[np.arange(len(link.state)), link.state] = 1.0
            given = found.tables[link.host][there[link.host][owner] + link.of[mine]]
            tables[link.source][begin[link.source][owner] + link.factor[mine]] = given @ sums
        if not any(one.size for one in found.tables):
            tables = [one[:0] for one in tables]
        return replace(solution, marginals=Marginals(found.node, tuple(tables)))

    def _members(self, link: _Link, ids: I64) -> tuple[I64, I64]:
        """Return (the links of some examples, the place of the example of each)."""
        kind = self.kind[ids]
        return members(link.start, kind), np.repeat(np.arange(len(ids)), np.diff(link.start)[kind])


def merged_factors(program: Program) -> Merging | None:
    """Return a program in which no two factors are over the same variables, ``None`` where it has none already.

    Parameters
    ----------
    program : Program
    """
    groups = program.groups
    entries = sum(float(group.shapes.n_factors) * prod(group.cards) for group in groups)
    if not groups or any(group.of_spans for group in groups) or entries > MOST_ENTRIES:
        return None
    kind, chosen = kinds_of_rows([group.shapes.of for group in groups], program.n_examples)
    if not _any_together(program, chosen):
        return None
    found = [_hosts(program, int(example)) for example in chosen]
    kept = [[[f for f in range(int(g.shapes.counts[i])) if (k, f) not in host] for k, g in enumerate(groups)]
            for i, host in zip(chosen, found, strict=True)]  # fmt: skip
    numbers = [[{f: n for n, f in enumerate(one)} for one in each] for each in kept]
    made = tuple(_kept(program, g, kind, [each[g] for each in kept], chosen) for g in range(len(groups)))
    listed: dict[tuple[int, int, tuple[int, ...]], list[list[tuple[int, int]]]] = {}
    for g, group in enumerate(groups):
        listed[g, g, tuple(range(len(group.cards)))] = [[(f, n) for f, n in one[g].items()] for one in numbers]
    for k, host in enumerate(found):
        for (g, f), (h, to, axes) in host.items():
            if (g, h, axes) not in listed:
                listed[g, h, axes] = [[] for _ in found]
            listed[g, h, axes][k].append((f, numbers[k][h][to]))
    links = [_link(program, key, pairs) for key, pairs in listed.items()]
    return Merging(replace(program), replace(program, groups=made), kind, links)


def _any_together(program: Program, chosen: I64) -> bool:
    """Return whether the variables of some factor are those of another one, or inside of them, in some examples."""
    keys: dict[int, list[I64]] = {}
    parts: dict[int, list[I64]] = {}
    sizes = {group.shapes.arity for group in program.groups}
    n = int(np.diff(program.var_ptr).max(initial=0)) + 1
    if float(n) ** max(sizes) * len(chosen) > 2.0**62:
        return True
    for group in program.groups:
        shapes, arity = group.shapes, group.shapes.arity
        of = shapes.of[chosen]
        scope = np.sort(shapes.scope[members(shapes.start, of)], axis=1).astype(np.int64)
        owner = np.repeat(np.arange(len(chosen)), np.diff(shapes.start)[of])
        for size in sizes if arity <= MOST_VARIABLES else {arity}:
            for columns in combinations(range(arity), size):
                key = owner
                for column in columns:
                    key = key * n + scope[:, column]
                (keys if size == arity else parts).setdefault(size, []).append(key)
    for size, listed in keys.items():
        every = np.concatenate(listed)
        if len(np.unique(every)) < len(every) or np.isin(every, np.concatenate(parts.get(size, [every[:0]]))).any():
            return True
    return False


def _hosts(program: Program, example: int) -> dict[tuple[int, int], tuple[int, int, tuple[int, ...]]]:
    """Return for each factor of an example that joins another: the group, the number of that, the axes that it has."""
    scopes = [g.shapes.scope[g.shapes.factors(example)] for g in program.groups]
    by_size = sorted(range(len(scopes)), key=lambda g: -scopes[g].shape[1])
    first: dict[tuple[int, ...], tuple[int, int]] = {}  # of each set of variables
    inside: dict[tuple[int, ...], tuple[int, int]] = {}
    found: dict[tuple[int, int], tuple[int, int, tuple[int, ...]]] = {}
    sizes = sorted({scope.shape[1] for scope in scopes})
    for g in by_size:
        arity = scopes[g].shape[1]
        smaller = [size for size in sizes if size < arity <= MOST_VARIABLES]
        for f, (variables, key) in enumerate(zip(scopes[g].tolist(), np.sort(scopes[g], axis=1).tolist(), strict=True)):
            other = first.get(tuple(key), inside.get(tuple(key)))
            if other is None:
                first[tuple(key)] = g, f
                for size in smaller:
                    for part in combinations(key, size):
                        inside.setdefault(part, (g, f))
            else:
                place = scopes[other[0]][other[1]].tolist()
                found[g, f] = (*other, tuple(place.index(v) for v in variables))
    return found


def _kept(program: Program, g: int, kind: I32, kept: list[list[int]], chosen: I64) -> Group:
    """Return a group without the factors that join others, each of its factors with its own table."""
    group, shapes = program.groups[g], program.groups[g].shapes
    start = pointers(np.array([len(one) for one in kept], dtype=np.int64))
    local = np.array([f for one in kept for f in one], dtype=np.int64)
    scope = shapes.scope[local + shapes.start[shapes.of[chosen]][owners(start)]]
    made = Shapes(kind, start, np.ascontiguousarray(scope), shapes.first)
    rows = runs(np.zeros(len(kept), np.int64), np.diff(start)).astype(np.int32)
    return replace(group, shapes=made, rows=rows, table_base=made.ptr[:-1], n_tables=made.n_factors)


def _link(program: Program, key: tuple[int, int, tuple[int, ...]], pairs: list[list[tuple[int, int]]]) -> _Link:
    """Return the links of one kind."""
    source, host, axes = key
    cards, own = program.groups[host].cards, program.groups[source].cards
    states = np.indices(cards).reshape(len(cards), -1)
    state = np.ravel_multi_index(tuple(states[axis] for axis in axes), own)
    flat = np.array([pair for one in pairs for pair in one], dtype=np.int64).reshape(-1, 2)
    start = pointers(np.array([len(one) for one in pairs], dtype=np.int64))
    return _Link(source, host, start, flat[:, 0], flat[:, 1], np.asarray(state, dtype=np.int64))
