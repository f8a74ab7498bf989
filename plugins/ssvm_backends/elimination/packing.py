"""The plans of all examples of a program as the two arrays of a compiled oracle, and how its kernel reads them."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from ssvm_backends.elimination.blocks import Walk
from ssvm_backends.elimination.plan import Compiled, EliminationPlan
from ssvm_backends.graphs.graph import Graph
from ssvm_dsl.ir import F64, I32, I64, U8
from ssvm_dsl.kernels import njit, pack, packed_record

#: Number of the array that says where the arrays of each example's plan begin; those of the graph come after it.
GRAPH = 0


def elimination_parts(graph: Graph, plans: Mapping[bytes, Compiled], keys: list[bytes]) -> tuple[I32, I64, int]:
    """Return (ints, longs, floats of work space) of a compiled oracle.

    Parameters
    ----------
    graph : Graph
    plans : mapping
        The plan of each structure.
    keys : list of bytes
        The structure of each example.
    """
    first, most = dict[bytes, int](), 1
    arrays = [np.zeros(0, np.int64), graph.var_ptr, graph.state_ptr, graph.factor_ptr, graph.table_ptr]
    for key, compiled in plans.items():
        most = max(most, compiled.max_work)
        first[key] = len(arrays)
        arrays += [compiled.sizes, *compiled.plan]
    arrays[GRAPH] = np.array([first[key] for key in keys], dtype=np.int64)
    ints, longs = pack(*arrays)
    return ints, longs, most


#: How the plan that begins at some number is read.
plan_in = packed_record(EliminationPlan)


@njit(inline="always")
def work_of(sizes: I64, work: F64) -> tuple[F64, U8, Walk]:
    """Return (messages, best states, walk) in a work space.

    Parameters
    ----------
    sizes : ndarray of int64, shape (5,)
        As of :class:`~ssvm_backends.elimination.plan.Compiled`.
    work : ndarray of float64
    """
    n_work, n_block, n_best = sizes[0], sizes[1], sizes[2]
    rest = work[n_work:]
    best = rest[2 * n_block : 2 * n_block + n_best].view(np.uint8)
    digit, position = np.zeros(sizes[3], np.int64), np.zeros(sizes[4], np.int64)
    return work[:n_work], best, Walk(rest[:n_block], rest[n_block : 2 * n_block], digit, position)
