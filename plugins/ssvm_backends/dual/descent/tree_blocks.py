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
over the block.  The rest of a factor, at most 0, goes back to all its variables but the last, as in a handshake of
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

from typing import NamedTuple

import numpy as np

from ssvm_backends.dual.collect import collect
from ssvm_backends.dual.descent.block_descent import add_up
from ssvm_backends.dual.descent.spanning_trees import SpanningTrees, begin_round, draw_trees, no_trees
from ssvm_backends.dual.driver import (
    END,
    FIFTH,
    FOURTH,
    NEXT,
    PREPARE,
    SECOND,
    SIXTH,
    SWEEP,
    THIRD,
    MessageTask,
    decode_next,
    drive,
    factor_work,
    looks_after,
    publish_bound,
    site_of,
)
from ssvm_backends.dual.kernels import VISIT, Site, extent
from ssvm_backends.graphs.graph import Instance
from ssvm_dsl.ir import F64, I64
from ssvm_dsl.kernels import borrow, njit

#: More trees than an iteration ever has: the numbers by which those of successive iterations are drawn differ by it.
MANY = 1 << 32


class TreeSpace(NamedTuple):
    """What descent by trees works with.

    Parameters
    ----------
    redraw : bool
        Whether each iteration draws new trees; else all have the same ones.
    belief : ndarray of float64, shape (at least the example's states,)
        Unary scores plus messages, from 0 for the example's first state; kept up to date in place.
    trees : SpanningTrees
    """

    redraw: bool
    belief: F64
    trees: SpanningTrees

    @classmethod
    def start(cls, instance: Instance, ids: I64, redraw: bool) -> TreeSpace:
        """Return work space for block descent over spanning trees of some examples."""
        longest, widest, _, _ = extent(instance.graph, ids)
        return cls(redraw, np.empty(widest * longest), no_trees(instance.graph, ids))


@njit(cache=True, nogil=True)
def descend_trees(task: MessageTask, space: TreeSpace, budget: float) -> bool:
    """Lower bounds and look for labellings until all is done (True) or the budget is spent (False).

    An iteration is as many trees as it takes until every factor has been in one.

    Parameters
    ----------
    task : MessageTask
        Visits in the order of slots.
    space : TreeSpace
    budget : float
        About how much work to do, in table entries.
    """
    t, trees, belief, d = borrow(task), borrow(space.trees), borrow(space.belief), task.state[0]
    g, d.left = t.instance.graph, budget
    while drive(t):
        e = t.ids[d.example]
        if d.stage == PREPARE:
            add_up(g, t.instance.node, t.progress.current, d.shift, e, belief)
            d.stage = NEXT
        elif d.stage == SWEEP:
            d.number = t.progress.iterations[d.example] * MANY if space.redraw else 0
            d.uncovered = begin_round(g, e, d.number, trees)
            d.stage = SECOND
        elif d.stage == SECOND:
            if d.uncovered == 0:
                d.stage = END
                if looks_after(t):
                    decode_next(t, FIFTH)
            else:
                d.listed, d.n_new = draw_trees(g, e, d.number, trees)
                d.left -= d.work
                d.place, d.stage = d.listed, THIRD
        elif d.stage == THIRD:
            lo = slice_of_list(t, trees.factor, d.place, -1)
            collect_up(site_of(t), t.visits, belief, trees, lo, d.place)
            d.place = lo
            if lo == 0:
                d.stage = FOURTH
        elif d.stage == FOURTH:
            hi = slice_of_list(t, trees.factor, d.place, d.listed)
            hand_down(site_of(t), t.visits, belief, trees, d.place, hi)
            d.place = hi
            if hi == d.listed:
                d.uncovered, d.number, d.stage = d.uncovered - d.n_new, d.number + 1, SECOND
        elif d.stage == FIFTH:
            publish_bound(t, SIXTH)
        else:
            d.bound, d.stage = d.total, END
    return d.example == len(t.ids)


@njit(cache=True, nogil=True)
def slice_of_list(t: MessageTask, factor: I64, at: int, last: int) -> int:
    """Return where a slice of the listed factors ``at`` to ``last`` ends; with -1, where that up to ``at`` begins."""
    d, g, work, to, step = t.state[0], t.instance.graph, 0.0, at, 1
    if last < 0:
        last, step = 0, -1
    if d.work <= t.slice:
        d.left -= d.work
        return last
    while to != last and work < t.slice:
        work += factor_work(g, factor[to - (step < 0)])
        to += step
    d.left -= work
    return to


@njit(cache=True, nogil=True)
def collect_up(site: Site, visits: I64, belief: F64, trees: SpanningTrees, lo: int, hi: int) -> None:
    """Send max-marginals from the leaves towards the roots, over the listed factors ``hi - 1`` down to ``lo``.

    Afterwards the messages of a factor to its variables away from the root are ``-b``, the scores taken from them.

    Parameters
    ----------
    site : Site
        Its messages are updated in place.
    visits : ndarray of int64
        Data for the visit to each slot, in the order of slots; see :func:`~ssvm_backends.dual.kernels.fill_visits`.
    belief : ndarray of float64, shape (at least the example's states,)
        Unary scores plus messages, from 0 for the example's first state; kept up to date in place.
    trees : SpanningTrees
        ``below`` is written; ``weight`` grows by the variables below.
    lo, hi : int
        Range in the list of factors.
    """
    g, pool, messages, shift, example = site.graph, site.pool, site.messages, site.shift, site.example
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
def hand_down(site: Site, visits: I64, belief: F64, trees: SpanningTrees, lo: int, hi: int) -> None:
    """Give every variable its share, from the roots to the leaves, over the listed factors ``lo`` to ``hi``.

    Parameters
    ----------
    site, visits, belief, lo, hi
        As for :func:`collect_up`, which has gone over the whole list.
    trees : SpanningTrees
        ``weight`` is used up: 1 for every variable at the end.
    """
    g, pool, messages, shift, example = site.graph, site.pool, site.messages, site.shift, site.example
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
