"""``assignment``: best matchings (Kuhn 1955), by shortest augmenting paths.

Rows and columns that hold at most one literal make an assignment problem
(:mod:`ssvm_backends.structures.matchings.best_matchings`): rectangular, with literals that are ruled out, rows and
columns that may stay empty.  Other limits are flows of least cost, but
where columns hold any number: then every row takes its best.

Kernels turn the scores of a whole batch into cost matrices, solve them, and turn matches back into labels: all in all
0.75 of the time of bare calls of SciPy's ``linear_sum_assignment`` at 5 x 5, 1.1 at 15 x 15, 1.3 at 300 x 300.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import ceil, frexp, log2
from typing import Any, NamedTuple

import numpy as np

from ssvm_backends.structures.literals import Batch, set_literals, write_gains
from ssvm_backends.structures.matchings.matching_kernels import ASSIGNMENT, FLOW, ROWS_ALONE, Matchings, take_rows_alone
from ssvm_backends.structures.packing import CALL, structure_oracle
from ssvm_backends.structures.session import StructureSession, verdict
from ssvm_dsl.ir import F64, I32, I64, Bools, ConstraintGroup, Need, Program, SideLimits, matching_limits, members
from ssvm_dsl.plugin_api import CompiledOracle, Verdict

#: The numbers that a constraint of kind ``matching`` has; one of the kind ``transport`` has the first two.
NUMBERS = ("n_rows", "n_cols", "row_least", "row_most", "col_least", "col_most")


class Assignment:
    """Best matchings ``max sum_ij gain[i, j] x[i, j]`` (Kuhn 1955): O(n^3) for n rows and columns."""

    def check(self, need: Need) -> Verdict:
        """Accept constraints over different variables."""
        return verdict(need, 1e3 + 4.0 * float(need.max_variables) ** 1.5)

    def open(self, program: Program, options: Mapping[str, Any]) -> AssignmentSession:
        """Return a session."""
        return AssignmentSession(program)


def matchings_of(program: Program, group: ConstraintGroup) -> Matchings:
    """Return the constraints as a record, with who solves each."""
    row, col = (np.asarray(group.literal_meta[name], dtype=np.int32) for name in ("row", "col"))
    none = np.full(group.n_constraints, -1, dtype=np.int64)
    numbers = {name: np.asarray(group.meta.get(name, none), dtype=np.int64) for name in NUMBERS}
    method = np.full(len(numbers["n_rows"]), FLOW, dtype=np.int8)
    if "row_least" not in group.meta:  # rows and columns have limits of their own
        return Matchings(row, col, **numbers, method=method, grid=np.zeros(len(method), dtype=bool))
    method[(numbers["col_least"] <= 0) & (numbers["col_most"] >= np.diff(group.literal_ptr))] = ROWS_ALONE
    single = (numbers["row_most"] == 1) & (numbers["col_most"] == 1)
    single &= (numbers["row_least"] <= 1) & (numbers["col_least"] <= 1)
    method[single] = ASSIGNMENT
    return Matchings(row, col, **numbers, method=method, grid=grids(program, group, row, col, numbers["n_cols"]))


def grids(program: Program, group: ConstraintGroup, row: I32, col: I32, n_cols: I64) -> Bools:
    """Return which constraints are about "has state 1" of consecutive binary variables, row by row; ``shape (m,)``."""
    sizes, start = np.diff(group.literal_ptr), group.literal_ptr[:-1]
    place = np.arange(len(row)) - np.repeat(start, sizes)
    first = np.repeat(program.var_ptr[:-1], np.diff(group.literal_ptr[group.ptr]))
    plain = (place == row * np.repeat(n_cols, sizes) + col) & (program.card[first + group.variable] == 2)
    plain &= (group.state == 1) & ~group.negated
    plain[1:] &= (np.diff(group.variable) == 1) | (place[1:] == 0)
    whole = np.bincount(group.constraint_of, plain, len(sizes)) == sizes
    return np.asarray(whole & (sizes == np.asarray(group.meta["n_rows"]) * n_cols) & (sizes > 0))


class AssignmentSession(StructureSession):
    """Matchings of one program."""

    def __init__(self, program: Program) -> None:
        super().__init__(program)
        self.matchings = [matchings_of(program, group) for group in self.groups]
        self.limits = [tuple(matching_limits(group, side) for side in ("row", "col")) for group in self.groups]

    def choose(self, group: int, batch: Batch, excess: F64) -> None:
        """Write the best matchings; see :class:`~ssvm_backends.structures.session.StructureSession`."""
        from ssvm_backends.structures.matchings.best_matchings import assign_all

        literals, matchings = self.literals[group], self.matchings[group]
        constraints = members(literals.ptr, batch.ids)
        methods = matchings.method[constraints]
        if (methods == ASSIGNMENT).any():
            assign_all(literals, matchings, batch)
        if (methods == ROWS_ALONE).any():
            take_rows_alone(literals, matchings, batch)
        if (methods == FLOW).any():
            self._flow(group, batch, excess)

    def compiled(self) -> CompiledOracle | None:
        """Return the oracle for trainers that call it inside their own kernels, where no constraint is a flow."""
        if any((matchings.method == FLOW).any() for matchings in self.matchings):
            return None
        if any((matchings.method == ROWS_ALONE).any() for matchings in self.matchings):
            from ssvm_backends.structures.matchings.best_matchings import rows_oracle as oracle
        else:
            from ssvm_backends.structures.matchings.best_matchings import assignment_oracle as oracle
        n = np.concatenate([np.zeros(0), *(np.maximum(one.n_rows, one.n_cols) for one in self.matchings)])
        work = CALL + float((n**3).sum()) / max(self.program.n_examples, 1)
        return structure_oracle(oracle, self, self.matchings, work)

    def _flow(self, group: int, batch: Batch, excess: F64) -> None:
        literals, matchings = self.literals[group], self.matchings[group]
        node, ids, ptr, labels, feasible = batch
        for place, i in enumerate(ids.tolist()):
            lo = literals.var_ptr[i]
            for k in range(literals.ptr[i], literals.ptr[i + 1]):
                if matchings.method[k] != FLOW:
                    continue
                mine = slice(*literals.literal_ptr[k : k + 2])
                gain = np.empty(mine.stop - mine.start)
                write_gains(literals, node, lo, k, False, gain)
                rows, cols = (FlowLimits.from_limits(side, k) for side in self.limits[group])
                chosen, error = best_matching(matchings.row[mine], matchings.col[mine], gain, rows, cols)
                if chosen is None:
                    feasible[place] = False
                else:
                    set_literals(literals, node, lo, k, chosen, labels[ptr[place] :])
                    excess[place] += error


# -- Other limits than one: flows of maximum gain in whole numbers (OR-Tools ``SimpleMinCostFlow``) ------------------
#
# Every literal is an arc of capacity 1 from its row to its column; a row with ``least <= count <= most`` supplies
# ``least`` and gets up to ``most - least`` more from the source, a column likewise.  Flows of whole capacities are
# whole.
#
# Why in whole numbers.  The other candidate, HiGHS on the totally unimodular rows, is right up to its tolerance (1e-7
# in
# every reduced cost); here the error is known and far smaller.  Gains are rounded to multiples of a power of two, the
# finest for which costs times nodes squared stay below ``2^MAX_BITS`` (the solver multiplies costs by the number of
# nodes, and adds up as many), which is at least 2^-36 of the largest gain for a thousand nodes.  No choice of literals
# is
# worth more than the answer by more than the sum of the rounding errors of all literals, which is reported as
# ``excess``:
# 0 where gains are multiples of the unit, as whole numbers below 2^36 are.

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
    def from_limits(cls, side: SideLimits, k: int) -> FlowLimits:
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
