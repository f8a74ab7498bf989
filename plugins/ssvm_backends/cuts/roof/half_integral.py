"""The optimum of the local polytope of a binary pairwise problem, from the states that roof duality decides.

Decided variables have their state, the others half of each.  A factor has half of (low, low) and (high, high) or half
of (low, high) and (high, low), where an open variable is low in one state and high in the other: the better pair
(Hammer, Hansen and Simeone 1984).  Where a variable is decided both pairs are the same.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ssvm_backends.graphs.graph import Graph, Instance, factor_origin, instance_of
from ssvm_dsl.ir import F64, I32, I64, Marginals, Primal, Program, Theta, pointers
from ssvm_dsl.kernels import borrow, njit

_FRACTIONAL, _NONE, _INFEASIBLE = int(Primal.FRACTIONAL), int(Primal.NONE), int(Primal.INFEASIBLE)


class Halves:
    """Marginals of the examples of a program with two states for each variable (or one).

    Parameters
    ----------
    program : Program
    graph : Graph
        ``build_graph(program)``.
    """

    def __init__(self, program: Program, graph: Graph) -> None:
        self.program, self.graph, groups = program, graph, program.groups
        self.group, number = factor_origin(program)
        owner = np.repeat(np.arange(graph.n_examples), np.diff(graph.factor_ptr))
        first = np.array([one.ptr for one in groups], dtype=np.int64).reshape(len(groups), program.n_examples + 1)
        #: Where the table of a factor starts among those of its example and group.
        self.offset = (number - first[self.group, owner]) * graph.table_size
        #: Marginals of an example: of its variables, then of its factors by group.
        states = np.diff(program.state_ptr[program.var_ptr])
        self.sizes = np.stack([states, *(np.diff(one.ptr) * one.n_configs for one in groups)])

    def solution(
        self, theta: Theta, ids: I64, decided: I32, reached: NDArray[np.bool_], bound: F64
    ) -> tuple[Marginals, F64, NDArray[np.int8]]:
        """Return (marginals, scores, :class:`~ssvm_dsl.ir.Primal` values) of some examples.

        Parameters
        ----------
        ids : ndarray of int64, shape (n,)
        decided : ndarray of int32
            Packed states of these examples' variables, -1 where open.
        reached : ndarray of bool, shape (n,)
            The others have no score, and marginals of zero.
        bound : ndarray of float64, shape (n,)
            Upper bounds; those below the score by rounding are lifted to it, in place.
        """
        n = len(ids)
        ptr = pointers(self.sizes[:, ids].ravel())
        mu, score, primal = np.zeros(ptr[-1]), np.empty(n), np.empty(n, np.int8)
        out = HalfIntegral(ptr, mu, score, bound, primal)
        write_halves(instance_of(self.graph, theta), self.group, self.offset, ids, decided, reached, out)
        ends = ptr[n::n].tolist() if n else [0] * len(self.sizes)
        parts = zip(ends[:-1], ends[1:], self.program.groups, strict=True)
        tables = tuple(mu[first:end].reshape(-1, one.n_configs) for first, end, one in parts)
        return Marginals(mu[: ends[0]], tables), score, primal


class HalfIntegral(NamedTuple):
    """The optima of n local polytopes.

    Parameters
    ----------
    ptr : ndarray of int64, shape (n + n_groups n + 1,)
        Where the marginals of the variables of each example start, then of its factors of the first group, and so on.
    mu : ndarray of float64
        Marginals; zero before.
    score, bound : ndarray of float64, shape (n,)
        Scores, and bounds that are lifted to them.
    primal : ndarray of int8, shape (n,)
    """

    ptr: I64
    mu: F64
    score: F64
    bound: F64
    primal: NDArray[np.int8]


@njit(cache=True, nogil=True)
def write_halves(
    instance: Instance, group: I64, offset: I64, ids: I64, decided: I32, reached: NDArray[np.bool_], out: HalfIntegral
) -> None:
    """Write marginals and scores, and lift bounds to them.

    Parameters
    ----------
    instance : Instance
        Factors of two variables.
    group, offset : ndarray of int64, shape (F,)
        See :class:`Halves`.
    ids : ndarray of int64, shape (n,)
    decided : ndarray of int32
        Packed over ``ids``.
    reached : ndarray of bool, shape (n,)
    out : HalfIntegral
        Written.
    """
    instance, group, offset, decided = borrow(instance), borrow(group), borrow(offset), borrow(decided)
    out = borrow(out)
    graph, node, pool, const = instance.graph, instance.node, instance.pool, instance.const
    ptr, mu, score, bound, primal = out.ptr, out.mu, out.score, out.bound, out.primal
    at, n = 0, len(ids)
    for k in range(n):
        i, to = ids[k], ptr[k]
        shift, total = at - graph.var_ptr[i], const[i]
        at += graph.var_ptr[i + 1] - graph.var_ptr[i]
        if not reached[k]:
            score[k], primal[k] = -np.inf, _INFEASIBLE if bound[k] == -np.inf else _NONE
            continue
        for v in range(graph.var_ptr[i], graph.var_ptr[i + 1]):
            a, s = decided[v + shift], graph.state_ptr[v]
            low, high = max(a, 0), (1 if a < 0 else a)
            mu[to + low] += 0.5
            mu[to + high] += 0.5
            total += 0.5 * (node[s + low] + node[s + high])
            to += graph.state_ptr[v + 1] - s
        for f in range(graph.factor_ptr[i], graph.factor_ptr[i + 1]):
            slot, table = graph.slot_ptr[f], graph.table_ptr[f]
            a, b = decided[graph.scope[slot] + shift], decided[graph.scope[slot + 1] + shift]
            step = graph.stride[slot]
            p, q = max(a, 0) * step + max(b, 0), (1 if a < 0 else a) * step + (1 if b < 0 else b)
            if a < 0 and b < 0 and pool[table] + pool[table + 3] < pool[table + 1] + pool[table + 2]:
                p, q = 1, 2
            to = ptr[(group[f] + 1) * n + k] + offset[f]
            mu[to + p] += 0.5
            mu[to + q] += 0.5
            total += 0.5 * (pool[table + p] + pool[table + q])
        score[k], bound[k], primal[k] = total, max(total, bound[k]), _FRACTIONAL
