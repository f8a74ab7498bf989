"""Tree block coordinate descent (Sontag and Jaakkola 2009): all messages of a spanning tree at a time.

The messages of the factors of a tree T are one block.  What the variables have without them, ``b_v``, and the tables of
T make a problem without cycles, whose max-marginals dynamic programming finds exactly:

* from the leaves to the root each factor sends its max-marginals m to its variable nearest to the root;
* from the root to the leaves each variable in turn holds ``B_v``, the max-marginals of what is not given out yet: it
  keeps an equal share of it, one part of the number of variables that are still to get theirs, and passes the rest on
  through its factors, to each as many parts as there are variables beyond it::

      message[parent slot] = m - (parts of the factor / parts left at v) B_v
      B_c = gamma_c + b_c ,    gamma_c the factor's max-marginals less its other messages
      message[child slot] = (parts of c / parts left at the factor) B_c - b_c

The bound of the tree's part is its best score afterwards, which no messages of T can undercut: an exact minimisation
over the block.  What is left of a factor, at most 0, goes back to all its variables but the last, as in a handshake of
MPLP++ (:mod:`ssvm_backends.dual.descent.block_descent`); that does not raise the bound, and other trees profit.

An iteration goes through trees (:mod:`ssvm_backends.dual.descent.spanning_trees`) until every factor has been in one.
Equal shares are those of the paper's sequential algorithm; shares by the number of factors that a variable has in other
trees were no better on any of the graphs below.

Measured (``make bench ARGS=loopy``): a tree of 2000 variables of 5 states with 20 more edges, numbered at random, takes
one iteration and a quarter of the time of ``trws``, which takes 19.  On grids and dense graphs iterations lower the
bound as much as those of ``trws`` or less and take three times as long; ``trws`` and ``mplp`` are faster there.  One
set of trees for all iterations (``trees="cover"``) is slower still.
"""

from __future__ import annotations

import numpy as np

from ssvm_backends.dual.answers.decode import decode, offer, polish
from ssvm_backends.dual.collect import collect
from ssvm_backends.dual.descent.block_descent import add_up
from ssvm_backends.dual.descent.spanning_trees import SpanningTrees, begin_round, draw_trees, no_trees
from ssvm_backends.dual.kernels import (
    PHASE,
    VISIT,
    begin,
    dual_bound,
    end_iteration,
    extent,
    fill_visits,
    n_messages,
    publish,
    shift_of,
)  # fmt: skip
from ssvm_backends.dual.pieces import PIECE, Pieces, Steps, ranges
from ssvm_backends.dual.progress import VISIT_COST, SolverProgress
from ssvm_backends.graphs.graph import Graph, Instance
from ssvm_dsl.ir import F64, I64
from ssvm_dsl.kernels import borrow, njit

#: More trees than an iteration ever has: the numbers by which those of successive iterations are drawn differ by it.
MANY = 1 << 32


@njit(cache=True, nogil=True)
def descend_trees(
    graph: Graph, node: F64, pool: F64, ids: I64, messages: F64, max_iterations: int, tol: float, redraw: bool,
    progress: SolverProgress,
) -> None:  # fmt: skip
    """Lower the bound and look for labellings, example by example.

    Parameters
    ----------
    graph, node, pool, ids, messages, tol, progress
        As for :func:`~ssvm_backends.dual.descent.block_descent.descend`.
    max_iterations : int
        Iterations (trees until every factor has been in one) for each example in this call.
    redraw : bool
        Whether each iteration draws trees of its own; else all have the same ones.
    """
    g, best = borrow(graph), borrow(progress)
    node, pool, messages = borrow(node), borrow(pool), borrow(messages)
    longest, widest, _, n_slots = extent(g, ids)
    labels, visits = np.zeros(longest, np.int32), np.empty(VISIT * n_slots, np.int64)
    value, belief, trees = np.empty(widest), np.empty(widest * longest), no_trees(g, ids)
    at, place, no, yes, zero = np.int64(0), np.int64(0), np.bool_(False), np.bool_(True), np.int64(0)
    for i in range(len(ids)):
        e = ids[i]
        shift, best_decoded = shift_of(g, e, at), -np.inf
        if not best.done[i] and max_iterations > 0:
            begin(g, e, i, at, messages, best)
            fill_visits(g, e, shift, yes, visits)
            add_up(g, node, best.current, shift, e, belief)
            for j in range(max_iterations):
                number = best.iterations[i] * MANY if redraw else zero
                left = begin_round(g, e, number, trees)
                while left > 0:
                    size, n_new = draw_trees(g, e, number, trees)
                    collect_up(g, visits, pool, best.current, shift, e, belief, trees, zero, size)
                    hand_down(g, visits, pool, best.current, shift, e, belief, trees, zero, size)
                    left, number = left - n_new, number + 1
                n, bound = best.iterations[i] + 1, np.inf
                if j + 1 == max_iterations or n % PHASE == 0 or n & (n - 1) == 0:
                    decode(g, node, pool, best.current, shift, e, labels, value, g.var_ptr[e], g.var_ptr[e + 1])
                    best_decoded = offer(g, node, pool, e, i, labels, best, place, best_decoded)
                    bound, _, _ = dual_bound(g, node, pool, best.current, shift, e)
                if end_iteration(g, node, pool, e, i, at, messages, best, bound, tol, no):
                    break
            publish(g, node, pool, e, i, at, messages, best)
            polish(g, node, pool, e, i, best, place)
        at += n_messages(g, e)
        place += g.var_ptr[e + 1] - g.var_ptr[e]


@njit(cache=True, nogil=True)
def collect_up(
    g: Graph, visits: I64, pool: F64, messages: F64, shift: int, example: int, belief: F64, trees: SpanningTrees,
    lo: int, hi: int,
) -> None:  # fmt: skip
    """Send max-marginals from the leaves towards the roots, over the listed factors ``hi - 1`` down to ``lo``.

    Afterwards the messages of a factor to its variables away from the root are what it takes from them, ``-b``.

    Parameters
    ----------
    g : Graph
        Structure; read only.
    visits : ndarray of int64
        What a visit to each slot needs, in the order of slots; see :func:`~ssvm_backends.dual.kernels.fill_visits`.
    pool : ndarray of float64
        Tables of all examples.
    messages : ndarray of float64
        Packed messages, updated in place.
    shift : int
        What to add to ``message_ptr`` for this example.
    example : int
        The example.
    belief : ndarray of float64, shape (at least the example's states,)
        Unary scores plus messages, from 0 for the example's first state; kept up to date in place.
    trees : Trees
        ``below`` is written; ``weight`` grows by the variables below.
    lo, hi : int
        Range in the list of factors.
    """
    g, trees, visits, pool = borrow(g), borrow(trees), borrow(visits), borrow(pool)
    messages, belief = borrow(messages), borrow(belief)
    first = g.var_ptr[example]
    origin, slots = g.state_ptr[first], g.slot_ptr[g.factor_ptr[example]]
    for j in range(hi - 1, lo - 1, -1):
        f, top, parts = trees.factor[j], trees.parent[j], 0.0
        for k in range(g.slot_ptr[f], g.slot_ptr[f + 1]):
            v, mine = g.scope[k], visits[VISIT * (k - slots)]
            sums = g.state_ptr[v] - origin
            for s in range(g.card[v]):
                belief[sums + s] -= messages[mine + s]
            if k != top:
                parts += trees.weight[v - first]
                for s in range(g.card[v]):
                    messages[mine + s] = -belief[sums + s]
        v, at = g.scope[top], VISIT * (top - slots)
        sums, mine = g.state_ptr[v] - origin, visits[at]
        collect(g, visits, at, pool, messages, shift, g.card[v], 0.0)
        for s in range(g.card[v]):
            belief[sums + s] += messages[mine + s]
        trees.weight[v - first] += parts
        trees.below[j] = parts


@njit(cache=True, nogil=True)
def hand_down(
    g: Graph, visits: I64, pool: F64, messages: F64, shift: int, example: int, belief: F64, trees: SpanningTrees,
    lo: int, hi: int,
) -> None:  # fmt: skip
    """Give every variable its share, from the roots to the leaves, over the listed factors ``lo`` to ``hi``.

    Parameters
    ----------
    g, visits, pool, messages, shift, example, belief, lo, hi
        As for :func:`collect_up`, which has gone over the whole list.
    trees : Trees
        ``weight`` is used up: 1 for every variable at the end.
    """
    g, trees, visits, pool = borrow(g), borrow(trees), borrow(visits), borrow(pool)
    messages, belief = borrow(messages), borrow(belief)
    first = g.var_ptr[example]
    origin, slots = g.state_ptr[first], g.slot_ptr[g.factor_ptr[example]]
    for j in range(lo, hi):
        f, top, parts = trees.factor[j], trees.parent[j], trees.below[j]
        begin_at, last = g.slot_ptr[f], g.slot_ptr[f + 1] - 1
        last -= last == top
        v, mine = g.scope[top], visits[VISIT * (top - slots)]
        share, sums = parts / trees.weight[v - first], g.state_ptr[v] - origin
        trees.weight[v - first] -= parts
        for s in range(g.card[v]):
            moved = share * belief[sums + s]
            belief[sums + s] -= moved
            messages[mine + s] -= moved
        for k in range(begin_at, last + 1):
            if k != top:
                v, at = g.scope[k], VISIT * (k - slots)
                share, sums, mine = trees.weight[v - first] / parts, g.state_ptr[v] - origin, visits[at]
                parts -= trees.weight[v - first]
                collect(g, visits, at, pool, messages, shift, g.card[v], 0.0)
                for s in range(g.card[v]):
                    total = share * (messages[mine + s] + belief[sums + s])
                    messages[mine + s] = total - belief[sums + s]
                    belief[sums + s] = total
        for k in range(g.slot_ptr[f + 1] - 1, begin_at - 1, -1):
            if k != last:
                v, at = g.scope[k], VISIT * (k - slots)
                sums, mine = g.state_ptr[v] - origin, visits[at]
                for s in range(g.card[v]):
                    belief[sums + s] -= messages[mine + s]
                collect(g, visits, at, pool, messages, shift, g.card[v], 0.0)
                for s in range(g.card[v]):
                    belief[sums + s] += messages[mine + s]


class TreePieces(Pieces):
    """The same on one large example, piece by piece.

    Parameters
    ----------
    instance, example, messages, progress, tol
        See :class:`~ssvm_backends.dual.pieces.Pieces`.
    redraw : bool
    """

    by_factor = True

    def __init__(
        self, instance: Instance, example: int, messages: F64, progress: SolverProgress, tol: float, redraw: bool
    ) -> None:
        super().__init__(instance, example, messages, progress, tol)
        self.redraw, self.trees = redraw, no_trees(self.g, np.array([example], dtype=np.int64))
        self.belief = np.empty(self.widest * len(self.labels))

    def start(self) -> Steps:
        """Prepare the list of visits and the beliefs."""
        yield from super().start()
        add_up(self.g, self.node, self.best.current, self.shift, self.example, self.belief)
        yield 0.0

    def iteration(self, most: int) -> Steps:
        """Go through trees until every factor has been in one."""
        g, e = self.g, self.example
        number = int(self.best.iterations[0]) * MANY if self.redraw else 0
        left = int(begin_round(g, e, number, self.trees))
        while left > 0:
            yield 0.0
            size, n_new = draw_trees(g, e, number, self.trees)
            yield 0.0
            factors = self.trees.factor[:size]
            parts = ranges((g.table_size[factors] + VISIT_COST) * np.diff(g.slot_ptr)[factors], 0, PIECE)
            for step, order in ((collect_up, reversed(parts)), (hand_down, iter(parts))):
                for lo, hi, work in order:
                    step(
                        g, self.visits, self.pool, self.best.current, self.shift, e, self.belief, self.trees, lo, hi
                    )
                    yield work
            left, number = left - int(n_new), number + 1
        n, bound = int(self.best.iterations[0]) + 1, np.inf
        if n == most or n % PHASE == 0 or n & (n - 1) == 0:
            yield from self.decode()
            yield from self.offer()
            yield from self.publish()
            bound = float(self.best.bound[0])
        yield from self.end_iteration(bound, False)
