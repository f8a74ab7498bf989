r"""Matchings with limits other than one, as flows of maximum gain in whole numbers (OR-Tools ``SimpleMinCostFlow``).

Every literal is an arc of capacity 1 from its row to its column; a row with ``least <= count <= most`` supplies
``least`` and gets up to ``most - least`` more from the source, a column likewise.  Flows of whole capacities are whole.

Why in whole numbers.  The other candidate, HiGHS on the totally unimodular rows, is right up to its tolerance (1e-7 in
every reduced cost); here the error is known and far smaller.  Gains are rounded to multiples of a power of two, the
finest for which costs times nodes squared stay below ``2^MAX_BITS`` (the solver multiplies costs by the number of
nodes, and adds up as many), which is at least 2^-36 of the largest gain for a thousand nodes.  No choice of literals is
worth more than the answer by more than the sum of the rounding errors of all literals, which is reported as ``excess``:
0 where gains are multiples of the unit, as whole numbers below 2^36 are.
"""

from __future__ import annotations

from math import ceil, frexp, log2
from typing import NamedTuple

import numpy as np

from ssvm_dsl.ir import F64, I32, I64, Bools, SideLimits

#: Costs times the number of nodes squared are below 2 to this power.
MAX_BITS = 60


class FlowLimits(NamedTuple):
    """How many literals of the rows (or columns) of a constraint may be true.

    Parameters
    ----------
    least, most : ndarray of int64
    """

    least: I64
    most: I64

    @classmethod
    def of(cls, side: SideLimits, k: int) -> FlowLimits:
        """Return those of constraint k."""
        part = slice(int(side.ptr[k]), int(side.ptr[k + 1]))
        return cls(side.least[part], side.most[part])

    def less(self, taken: I64) -> FlowLimits:
        """Return the remaining limits when some literals of each row (``taken``) are true already."""
        return FlowLimits(np.maximum(self.least - taken, 0), self.most - taken)

    @property
    def possible(self) -> bool:
        """Whether any count is within the limits everywhere."""
        return bool((self.most >= np.maximum(self.least, 0)).all())


def best_matching(row: I32, col: I32, gain: F64, rows: FlowLimits, cols: FlowLimits) -> tuple[Bools | None, float]:
    """Return which literals are true in a choice of maximum gain (``None``: there is none), and its excess.

    Parameters
    ----------
    row, col : ndarray of int32, shape (l,)
        Where each literal stands.
    gain : ndarray of float64, shape (l,)
        ``-inf``: never true; ``inf``: always.
    rows, cols : FlowLimits
    """
    if np.isnan(gain).any():
        return None, 0.0
    chosen, free = gain == np.inf, np.flatnonzero(np.isfinite(gain))
    rows = rows.less(np.bincount(row[chosen], minlength=len(rows.least)))
    cols = cols.less(np.bincount(col[chosen], minlength=len(cols.least)))
    if not (rows.possible and cols.possible):
        return None, 0.0
    whole, excess = whole_gains(gain[free], len(rows.least) + len(cols.least) + 2)
    flow = flow_of(row[free], col[free], whole, rows, cols)
    if flow is None:
        return None, 0.0
    chosen[free[flow > 0]] = True
    return chosen, excess


def whole_gains(gain: F64, n_nodes: int) -> tuple[I64, float]:
    """Return gains as multiples of a power of two, and the sum of the rounding errors."""
    largest = float(np.abs(gain).max(initial=0.0))
    if largest == 0.0:
        return np.zeros(len(gain), dtype=np.int64), 0.0
    bits = MAX_BITS - 2 * ceil(log2(n_nodes + 1))
    unit = 2.0 ** max(frexp(largest)[1] - bits, -1021)
    scaled = gain / unit
    whole = np.rint(scaled)
    return whole.astype(np.int64), float(np.abs(whole - scaled).sum() * unit)


def flow_of(row: I32, col: I32, gain: I64, rows: FlowLimits, cols: FlowLimits) -> I64 | None:
    """Return the flow through each literal, ``None`` where no flow respects the limits.

    Raises
    ------
    ValueError
        The solver refuses the costs.
    """
    from ortools.graph.python.min_cost_flow import SimpleMinCostFlow

    n, m = len(rows.least), len(cols.least)
    source, sink = n + m, n + m + 1
    row_nodes, col_nodes = np.arange(n), n + np.arange(m)
    tail = np.concatenate([row, np.full(n, source), col_nodes, [source]]).astype(np.int32)
    head = np.concatenate([n + col, row_nodes, np.full(m, sink), [sink]]).astype(np.int32)
    # flow that no row needs goes straight from the source to the sink
    supply = int(cols.most.sum()) + int(rows.least.sum())
    capacity = np.concatenate([np.ones(len(row)), rows.most - rows.least, cols.most - cols.least, [supply]])
    cost = np.concatenate([-gain, np.zeros(n + m + 1, dtype=np.int64)])
    flow = SimpleMinCostFlow()
    arcs = flow.add_arcs_with_capacity_and_unit_cost(tail, head, capacity.astype(np.int64), cost)
    demand = int(rows.least.sum()) + supply - int(cols.least.sum())
    supplies = np.concatenate([rows.least, -cols.least, [supply, -demand]]).astype(np.int64)
    flow.set_nodes_supplies(np.arange(n + m + 2, dtype=np.int32), supplies)
    status = flow.solve()
    if status == flow.OPTIMAL:
        return np.asarray(flow.flows(arcs[: len(row)]))
    if status == flow.INFEASIBLE:
        return None
    raise ValueError(f"min-cost flow: the solver answers {status} for gains up to {np.abs(gain).max(initial=0)}")
