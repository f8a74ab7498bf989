"""The plans of all examples of a program as the two arrays of a compiled oracle, and how its kernel reads them."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from ssvm_backends.elimination.blocks import make_walk
from ssvm_backends.elimination.plan import Compiled, EliminationPlan
from ssvm_backends.graphs.graph import Graph
from ssvm_dsl.ir import I32, I64
from ssvm_dsl.kernels import pack, packed_record

#: Number of the array that says where the arrays of each example's plan begin; those of the graph come after it.
GRAPH = 0

#: Fields of a :class:`~ssvm_backends.graphs.graph.Graph` that are packed.
OF_GRAPH = ("var_ptr", "state_ptr", "factor_ptr", "table_ptr")


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
    arrays = [np.zeros(0, np.int64), *(getattr(graph, name) for name in OF_GRAPH)]
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


#: How the places of an example's states and factors in a graph are read, and the plan that begins at some number.
graph_in, plan_in = packed_record(Graph, OF_GRAPH), packed_record(EliminationPlan)
