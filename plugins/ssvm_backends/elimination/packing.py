"""The plans of all examples of a program as the two arrays of a compiled oracle, and how its kernel reads them."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from ssvm_backends.elimination.blocks import make_walk
from ssvm_backends.elimination.plan import Compiled, EliminationPlan
from ssvm_backends.graphs.graph import Graph
from ssvm_dsl.ir import I32, I64
from ssvm_dsl.kernels import njit, pack, packed_longs

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
        plan, walk = compiled.plan, make_walk(compiled)
        n_best = -(-int(plan.arg[-1]) // 8)
        most = max(most, compiled.work + 2 * compiled.scratch + n_best)
        sizes = [compiled.work, compiled.scratch, n_best, len(walk.digit), len(walk.position)]
        first[key] = len(arrays)
        arrays += [np.array(sizes, dtype=np.int64), *plan]
    arrays[GRAPH] = np.array([first[key] for key in keys], dtype=np.int64)
    ints, longs = pack(*arrays)
    return ints, longs, most


@njit
def graph_in(ints: I32, longs: I64) -> Graph:
    """Return a graph of which kernels find the scores of an example's states and factors; the rest is empty."""
    none, nothing = longs[:0], ints[:0]
    return Graph(
        packed_longs(longs, GRAPH + 1),
        packed_longs(longs, GRAPH + 2),
        nothing,
        packed_longs(longs, GRAPH + 3),
        none,
        nothing,
        packed_longs(longs, GRAPH + 4),
        none,
        none,
        none,
        none,
        none,
        none,
    )


@njit
def plan_in(longs: I64, first: int) -> EliminationPlan:
    """Return the plan whose arrays, in the order of its fields, begin at number ``first``."""
    return EliminationPlan(
        packed_longs(longs, first + 0),
        packed_longs(longs, first + 1),
        packed_longs(longs, first + 2),
        packed_longs(longs, first + 3),
        packed_longs(longs, first + 4),
        packed_longs(longs, first + 5),
        packed_longs(longs, first + 6),
        packed_longs(longs, first + 7),
        packed_longs(longs, first + 8),
        packed_longs(longs, first + 9),
        packed_longs(longs, first + 10),
        packed_longs(longs, first + 11),
        packed_longs(longs, first + 12),
        packed_longs(longs, first + 13),
        packed_longs(longs, first + 14),
        packed_longs(longs, first + 15),
        packed_longs(longs, first + 16),
        packed_longs(longs, first + 17),
        packed_longs(longs, first + 18),
        packed_longs(longs, first + 19),
        packed_longs(longs, first + 20),
        packed_longs(longs, first + 21),
        packed_longs(longs, first + 22),
        packed_longs(longs, first + 23),
        packed_longs(longs, first + 24),
        packed_longs(longs, first + 25),
        packed_longs(longs, first + 26),
        packed_longs(longs, first + 27),
        packed_longs(longs, first + 28),
    )
