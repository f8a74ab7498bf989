"""Junction trees of all examples: marginals of the cliques of triangulated graphs, which are those of distributions.

Where a graph has cycles, marginals of its factors that agree with their variables need not be those of any
distribution over labellings.  Marginals of the maximal cliques of a triangulation are, once neighbours in a junction
tree agree on their separator: ``prod_cliques mu / prod_separators mu`` is such a distribution (Taskar, Guestrin and
Koller 2003, section 4; Koller and Friedman 2009, section 10.4).  Each factor, and each variable, belongs to one clique
that contains it.

A *cell* is a joint state of a clique.  A *row* is a joint state of the separator between a clique and its parent (one
in all where there is none), and the marginals x >= 0 of cells obey, for every row r,

    sum over cells of the clique with r  -  sum over cells of the parent with r  =  0        (at roots: the first = 1).

No row follows from others: the cells of a leaf are in the rows of its separator only.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import prod
from typing import Any, NamedTuple

import numpy as np
from scipy.sparse import csr_array

from ssvm_dsl.ir import F64, I32, I64, Bools, Program, members, owners, pointers
from ssvm_dsl.kernels import borrow, njit
from ssvm_dsl.plugin_api import eliminations, pause


class JunctionTrees(NamedTuple):
    """The junction trees of a batch; numbers of cliques, cells, rows and variables are those of all examples together.

    Parameters
    ----------
    clique_ptr : ndarray of int64, shape (B + 1,)
        Cliques of each example, each after all that are below it.
    parent : ndarray of int64, shape (n_cliques,)
        -1 at roots.
    cell_ptr, row_ptr : ndarray of int64, shape (n_cliques + 1,)
        Cells of each clique, and rows between it and its parent.
    up : ndarray of int64, shape (n_cells,)
        The row of each cell, of those of its clique.
    down_ptr : ndarray of int64, shape (n_cliques + 1,)
        Where each clique has its part of ``down``, one number for each cell of its parent ...
    down : ndarray of int64
        ... the row, of those of the clique.
    member_ptr : ndarray of int64, shape (n_cliques + 1,)
        Variables of each clique ...
    member, stride : ndarray of int64
        ... and how far apart cells are whose states of one differ by 1.
    score_ptr : ndarray of int64, shape (n_cells + 1,)
        The scores that add up to that of a cell ...
    score : ndarray of int64
        ... by their numbers in a :class:`~ssvm_dsl.ir.Theta`: ``node``, then ``pool``.
    """

    clique_ptr: I64
    parent: I64
    cell_ptr: I64
    row_ptr: I64
    up: I64
    down_ptr: I64
    down: I64
    member_ptr: I64
    member: I64
    stride: I64
    score_ptr: I64
    score: I64

    @property
    def n_cells(self) -> int:
        """Number of cells."""
        return len(self.up)

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return int(self.row_ptr[-1])

    def owner(self) -> I64:
        """Return the example of each cell; ``ndarray, shape (n_cells,)``."""
        return np.repeat(owners(self.clique_ptr), np.diff(self.cell_ptr))

    def labelling_cells(self, labels: I32) -> I64:
        """Return the cell that a labelling of all examples has in each clique; ``ndarray, shape (n_cliques,)``."""
        places = np.append(0, np.cumsum(labels[self.member] * self.stride))
        return np.asarray(self.cell_ptr[:-1] + places[self.member_ptr[1:]] - places[self.member_ptr[:-1]])

    def scores_of_cells(self, n_scores: int) -> Any:
        """Return the 0/1 matrix that adds up scores to those of cells; ``csr_array, shape (n_cells, n_scores)``."""
        ones = np.ones(len(self.score))
        return csr_array((ones, self.score, self.score_ptr), shape=(self.n_cells, n_scores))

    def equations(self) -> Any:
        """Return the matrix of the rows; ``csr_array, shape (n_rows, n_cells)``."""
        cell, _ = self._links()
        rows, columns = np.concatenate([self.up, self.down]), np.concatenate([np.arange(self.n_cells), cell])
        signs = np.repeat([1.0, -1.0], [self.n_cells, len(self.down)])
        return csr_array((signs, (rows, columns)), shape=(self.n_rows, self.n_cells))

    def right(self) -> F64:
        """Return the right-hand sides of the rows; ``ndarray, shape (n_rows,)``."""
        right = np.zeros(self.n_rows)
        right[self.row_ptr[:-1][self.parent < 0]] = 1.0
        return right

    def possible(self, cells: Bools) -> Bools:
        """Return the cells, of some, that labellings have which consist of these; ``ndarray, shape (n_cells,)``."""
        cell, root = self._links()
        cells = cells.copy()
        while True:
            above = np.zeros(self.n_rows, dtype=bool)
            above[self.down[cells[cell]]] = True
            above[root] = True
            below = np.zeros(self.n_rows, dtype=bool)
            below[self.up[cells]] = True
            gone = cells & ~above[self.up]
            gone[cell[~below[self.down]]] = True
            if not (cells & gone).any():
                return cells
            cells &= ~gone

    def _links(self) -> tuple[I64, I64]:
        """Return (the cell of the parent that each entry of ``down`` is for, the rows of roots)."""
        child = np.flatnonzero(self.parent >= 0)
        return members(self.cell_ptr, self.parent[child]), self.row_ptr[:-1][self.parent < 0]


def junction_trees(program: Program) -> JunctionTrees:
    """Return the junction trees of all examples; masks and constraints are ignored.

    Time and memory are those of the cells: products of the numbers of states of each clique.
    """
    program = replace(program, allowed=None, constraints=())
    few, shape = program.representatives, program.shape.astype(np.int64)
    trees = [_tree_of(few, k, order) for k, order in enumerate(one.order.tolist() for one in eliminations(few))]

    def numbered(name: str, base: I64 | int) -> I64:
        pause()
        parts = [getattr(tree, name) for tree in trees]
        ptr = pointers(np.array([len(part) for part in parts], dtype=np.int64))
        values = np.concatenate([np.zeros(0, np.int64), *parts])
        return np.asarray(values[members(ptr, shape)] + np.repeat(base, np.diff(ptr)[shape]))

    clique_ptr, cell_ptr, row_ptr, down_ptr, member_ptr, score_ptr = (
        pointers(sizes)
        for sizes in (
            np.array([len(tree.parent) for tree in trees], dtype=np.int64)[shape],
            *(numbered(name, np.zeros(len(shape), np.int64)) for name in _SIZES),
        )
    )
    parent = numbered("parent", clique_ptr[:-1])
    parent[numbered("parent", np.zeros(len(shape), np.int64)) < 0] = -1
    return JunctionTrees(
        clique_ptr, parent, cell_ptr, row_ptr, numbered("up", row_ptr[clique_ptr[:-1]]), down_ptr,
        numbered("down", row_ptr[clique_ptr[:-1]]), member_ptr, numbered("member", program.var_ptr[:-1]),
        numbered("stride", np.zeros(len(shape), np.int64)), score_ptr, _score_numbers(program, trees, shape),
    )  # fmt: skip


#: Fields of a tree with sizes: cells, rows, entries of ``down``, members of each clique, and scores of each cell.
_SIZES = ("cells", "rows", "downs", "n_members", "n_scores")


@dataclass(frozen=True, eq=False)
class _Tree:
    """The junction tree of one shape; fields as in :class:`JunctionTrees`, with sizes in place of pointers.

    Cliques, rows and variables are counted within the example; ``score`` is the state, counted from the first one of
    the example, or the entry, counted from the example's first table of a group, and ``source`` 0 or the group + 1.
    """

    parent: I64
    cells: I64
    rows: I64
    downs: I64
    n_members: I64
    n_scores: I64
    up: I64
    down: I64
    member: I64
    stride: I64
    score: I64
    source: I64


def _score_numbers(program: Program, trees: list[_Tree], shape: I64) -> I64:
    """Return the numbers in ``Theta`` of the scores of all cells."""
    sizes = np.array([group.n_tables * group.n_configs for group in program.groups], dtype=np.int64)
    starts = program.n_states + pointers(sizes)[:-1]
    first = [program.state_ptr[program.var_ptr[:-1]]]
    first += [start + group.table_base * group.n_configs for start, group in zip(starts, program.groups, strict=True)]
    ptr = pointers(np.array([len(tree.score) for tree in trees], dtype=np.int64))
    none = np.zeros(0, np.int64)
    pause()
    at, counts = members(ptr, shape), np.diff(ptr)[shape]
    pause()
    source = np.concatenate([none, *(tree.source for tree in trees)])[at]
    pause()
    base = np.stack(first)[source, np.repeat(np.arange(len(shape)), counts)]
    return np.asarray(np.concatenate([none, *(tree.score for tree in trees)])[at] + base)


def maximal_cliques(card: list[int], scopes: list[list[int]], order: list[int]) -> tuple[list[list[int]], list[int]]:
    """Return the maximal cliques of a triangulated graph and the parent of each, below which it comes; -1 for none.

    Eliminating a variable joins its neighbours; it forms a clique with them, which is maximal unless that of a
    variable eliminated before holds it (Blair and Peyton 1993).

    Parameters
    ----------
    card : list of int
        Variables with one state are separate cliques.
    scopes : list of list of int
        Variables that are neighbours of each other.
    order : list of int
        In which the variables are eliminated.

    Returns
    -------
    cliques : list of list of int
        Their variables, ascending.
    parents : list of int
    """
    place = {v: k for k, v in enumerate(order)}
    adjacent: list[set[int]] = [set() for _ in card]
    for scope in scopes:
        free = {v for v in scope if card[v] > 1}
        for v in free:
            adjacent[v] |= free - {v}
    later: list[set[int]] = [set() for _ in card]
    for v in order:
        pause()
        later[v] = {u for u in adjacent[v] if place[u] > place[v]}
        for u in later[v]:
            adjacent[u] |= later[v] - {u}
    cliques: list[set[int]] = []
    parents: list[int] = []
    of: dict[int, int] = {}
    for v in reversed(order):
        above = of[min(later[v], key=place.__getitem__)] if later[v] else -1
        if above >= 0 and cliques[above] == later[v]:
            cliques[above].add(v)
            of[v] = above
            continue
        of[v] = len(cliques)
        cliques.append(later[v] | {v})
        parents.append(above)
    return _bottom_up([sorted(clique) for clique in cliques], parents)


def _bottom_up(cliques: list[list[int]], parents: list[int]) -> tuple[list[list[int]], list[int]]:
    """Return cliques after all that are below them, each subtree in one piece."""
    children: dict[int, list[int]] = {}
    for k, parent in enumerate(parents):
        children.setdefault(parent, []).append(k)
    order, waiting = [], list(children.get(-1, []))
    while waiting:
        order.append(waiting.pop())
        waiting += children.get(order[-1], [])
    order.reverse()
    place = {k: number for number, k in enumerate(order)}
    return [cliques[k] for k in order], [place[parents[k]] if parents[k] >= 0 else -1 for k in order]


def _tree_of(program: Program, example: int, order: list[int]) -> _Tree:
    """Return the junction tree of one example of a shape."""
    lo, hi = program.var_ptr[example : example + 2].tolist()
    card = program.card[lo:hi].tolist()
    factors: list[tuple[int, list[int], int]] = []
    for g, group in enumerate(program.groups):
        scopes, table = group.factors(example)
        tables = (table - group.table_base[example]) * group.n_configs
        factors += [(g, variables, at) for variables, at in zip(scopes.tolist(), tables.tolist(), strict=True)]
    cliques, parents = maximal_cliques(card, [scope for _, scope, _ in factors], order)
    digits = [_digits(card, clique) for clique in cliques]
    of, assigned = _assigned(card, cliques, [scope for _, scope, _ in factors], order)
    state = np.append(0, np.cumsum(card))
    parts: list[list[tuple[Any, int]]] = [[] for _ in cliques]
    for v, k in enumerate(of):
        pause()
        parts[k].append((state[v] + digits[k][v], 0))
    for (g, scope, at), k in zip(factors, assigned, strict=True):
        pause()
        strides = program.groups[g].strides.tolist()
        config = sum((digits[k][v] * s for v, s in zip(scope, strides, strict=True) if card[v] > 1), np.int64(0))
        parts[k].append((np.broadcast_to(at + config, digits[k][-1].shape), g + 1))
    up, down, rows, downs = [], [], [], []
    for k, clique in enumerate(cliques):
        pause()
        shared = [v for v in clique if parents[k] >= 0 and v in digits[parents[k]]]
        rows.append(prod(card[v] for v in shared))
        downs.append(len(digits[parents[k]][-1]) if parents[k] >= 0 else 0)
        first = sum(rows[:-1])
        up.append(first + _joint(card, shared, digits[k]))
        if parents[k] >= 0:
            down.append(first + _joint(card, shared, digits[parents[k]]))
    score = [np.stack([numbers for numbers, _ in part], axis=1).ravel() for part in parts if part]
    source = [np.tile([group for _, group in part], len(one[-1])) for part, one in zip(parts, digits, strict=True)]
    strides_of = [prod(card[u] for u in clique[k + 1 :]) for clique in cliques for k in range(len(clique))]
    whole = [np.repeat(len(part), len(one[-1])) for part, one in zip(parts, digits, strict=True)]
    return _Tree(
        _ints(parents), _ints([len(one[-1]) for one in digits]), _ints(rows), _ints(downs),
        _ints([len(clique) for clique in cliques]), _joined(whole), _joined(up), _joined(down),
        _ints([v for clique in cliques for v in clique]), _ints(strides_of), _joined(score), _joined(source),
    )  # fmt: skip


def _digits(card: list[int], clique: list[int]) -> dict[int, I64]:
    """Return the state of each variable in each cell of a clique; at -1 zeros."""
    states = np.indices([card[v] for v in clique]).reshape(len(clique), -1)
    return dict(zip(clique, states, strict=True)) | {-1: np.zeros(states.shape[1], dtype=np.int64)}


def _joint(card: list[int], variables: list[int], digits: dict[int, I64]) -> I64:
    """Return the joint state of some variables in each cell."""
    out = digits[-1].copy()
    for v in variables:
        out = out * card[v] + digits[v]
    return out


def _assigned(
    card: list[int], cliques: list[list[int]], scopes: list[list[int]], order: list[int]
) -> tuple[list[int], list[int]]:
    """Return the clique of each variable, and of each factor: the smallest that holds it."""
    holding: list[list[int]] = [[] for _ in card]
    for k in sorted(range(len(cliques)), key=lambda k: prod(card[v] for v in cliques[k])):
        for v in cliques[k]:
            holding[v].append(k)
    inside = [set(clique) for clique in cliques]
    clique_of = []
    for scope in scopes:
        free = [v for v in scope if card[v] > 1] or scope[:1]
        clique_of.append(next(k for k in holding[free[0]] if inside[k].issuperset(free)))
    return [holding[v][0] for v in range(len(card))], clique_of


def _ints(values: list[int]) -> I64:
    return np.array(values, dtype=np.int64)


def _joined(parts: list[Any]) -> I64:
    return np.concatenate([np.zeros(0, np.int64), *parts]).astype(np.int64)


# -- Compiled passes over junction trees: up for sums, down for marginals --------------------------------------------
#
# A distribution over the labellings of an example is the product, over its cliques, of the conditional probability of
# each clique's cell given the row it shares with the parent's.


@njit(cache=True, nogil=True)
def to_conditionals(trees: JunctionTrees, scores: F64, largest: F64, total: F64, begin: int, end: int) -> None:
    """Replace scores of cells by log-probabilities given the row, of ``q(y) ~ exp(sum of the scores of its cells)``.

    With ``m(r) = log sum_{c in r} exp(s_c)``, from the cliques at the bottom up: ``s_c <- s_c - m(row of c)``, and the
    parent's cells that agree with r gain m(r).

    Parameters
    ----------
    trees : JunctionTrees
        Read only.
    scores : ndarray of float64, shape (n_cells,)
        Changed in place; ``-inf`` where a cell is ruled out.
    largest, total : ndarray of float64, shape (n_rows,)
        Work space; overwritten.
    begin, end : int
        The first clique of some examples, and the one after their last.
    """
    t, scores, largest, total = borrow(trees), borrow(scores), borrow(largest), borrow(total)
    for k in range(begin, end):
        lo, hi = t.cell_ptr[k], t.cell_ptr[k + 1]
        for r in range(t.row_ptr[k], t.row_ptr[k + 1]):
            largest[r], total[r] = -np.inf, 0.0
        for c in range(lo, hi):
            largest[t.up[c]] = max(largest[t.up[c]], scores[c])
        for c in range(lo, hi):
            if scores[c] > -np.inf:
                total[t.up[c]] += np.exp(scores[c] - largest[t.up[c]])
        for r in range(t.row_ptr[k], t.row_ptr[k + 1]):
            if total[r] > 0.0:
                largest[r] += np.log(total[r])
        for c in range(lo, hi):
            if scores[c] > -np.inf:
                scores[c] -= largest[t.up[c]]
        p = t.parent[k]
        if p >= 0:
            first, at = t.cell_ptr[p], t.down_ptr[k]
            for c in range(first, t.cell_ptr[p + 1]):
                scores[c] += largest[t.down[at + c - first]]


@njit(cache=True, nogil=True)
def from_conditionals(trees: JunctionTrees, conditional: F64, out: F64, begin: int, end: int) -> None:
    """Write the marginals of all cells, from the roots down: the row's, times the probability given the row.

    Parameters
    ----------
    trees : JunctionTrees
        Read only.
    conditional : ndarray of float64, shape (n_cells,)
        They add up to 1 for each row that cells with a positive marginal have; read only.
    out : ndarray of float64, shape (n_cells,)
        Overwritten; may be the same array.
    begin, end : int
        As for :func:`to_conditionals`.
    """
    t, conditional, out = borrow(trees), borrow(conditional), borrow(out)
    shift = t.row_ptr[begin]
    of_row = np.zeros(t.row_ptr[end] - shift)
    for k in range(end - 1, begin - 1, -1):
        p = t.parent[k]
        if p < 0:
            of_row[t.row_ptr[k] - shift] = 1.0
        else:
            first, at = t.cell_ptr[p], t.down_ptr[k]
            for c in range(first, t.cell_ptr[p + 1]):
                of_row[t.down[at + c - first] - shift] += out[c]
        for c in range(t.cell_ptr[k], t.cell_ptr[k + 1]):
            out[c] = of_row[t.up[c] - shift] * conditional[c]
