"""``circuit``: best directed circuits and tours, by CP-SAT's circuit constraint.

Exact; exponential in the worst case, as tours are a hard problem.  The solver propagates the constraint itself
(``AddCircuit``) in place of linear rows with flows, which is what ``ilp`` has.  A node that may be left out gets a
loop.

Gains of arcs are rounded to multiples of a power of two so that all of them together stay below 2^52, which the
solver's bound, a float64, holds exactly; the reported bound includes the rounding errors.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import ceil, log2
from typing import Any

import numpy as np

from ssvm_backends.programs.ortools_modules import import_ortools
from ssvm_backends.structures.session import verdict
from ssvm_dsl.ir import F64, I32, I64, Bools, ConstraintGroup, Need, Program, Stop
from ssvm_dsl.plugin_api import Clock, ExampleAnswer, ExampleSession, PlainExample, Verdict, call_in_thread

#: All gains together are below 2 to this power, in whole numbers.
MAX_BITS = 52

#: Seconds for each arc to compute its gain, to write the model and to pass it to the solver.
ARC_SECONDS = 2e-5


class CircuitBackend:
    """Best directed circuits by CP-SAT; exact, exponential in the worst case."""

    def check(self, need: Need) -> Verdict:
        """Accept constraints over different variables."""
        return verdict(need, 5e6 + 1e3 * float(need.max_variables) ** 1.5)

    def open(self, program: Program, options: Mapping[str, Any]) -> CircuitSession:
        """Return a session."""
        import_ortools("ortools.sat.python.cp_model")
        return CircuitSession(program, int(options["num_workers"]))


@dataclass(frozen=True, eq=False)
class Found:
    """The result of one circuit.

    Parameters
    ----------
    chosen : ndarray of bool, optional
        The literals that are true; ``None`` without a circuit.
    bound : float
        Upper bound on the gain of every circuit, ``-inf`` where there is none.
    stop : Stop
    """

    chosen: Bools | None
    bound: float
    stop: Stop = Stop.FINISHED


class CircuitSession(ExampleSession):
    """Circuits of one program.

    Parameters
    ----------
    program : Program
    num_workers : int
        Threads of one search.
    """

    def __init__(self, program: Program, num_workers: int) -> None:
        super().__init__(program)
        self.num_workers = num_workers
        self.groups = [group for group in program.constraints if group.n_constraints]

    def answer(self, example: PlainExample, clock: Clock, warm: Any) -> ExampleAnswer:
        """Answer for one example: every variable by itself, then circuit by circuit."""
        best = [int(scores.argmax()) for scores in example.node]
        bound = example.const + sum(float(scores[s]) for scores, s in zip(example.node, best, strict=True))
        if bound == -np.inf:
            return ExampleAnswer(bound=-np.inf)
        labels, stop = np.array(best, dtype=np.int32), Stop.FINISHED
        complete = True
        for group in self.groups:
            for k in range(group.ptr[example.number], group.ptr[example.number + 1]):
                clock.afford(ARC_SECONDS * float(group.literal_ptr[k + 1] - group.literal_ptr[k]))
                on, off, states = scores_of_literals(group, k, example.node)
                answer = self.circuit(group, k, on - off, clock)
                base = np.where(off > -np.inf, off, on)
                bound += float((base - np.maximum(on, off)).sum()) + answer.bound
                stop = max(stop, answer.stop)
                if answer.chosen is None:
                    complete = False
                else:
                    labels[group.variable[group.literals(k)]] = np.where(answer.chosen, states[0], states[1])
        if not complete:
            return ExampleAnswer(bound=bound, stop=stop)
        return ExampleAnswer(labels, bound=max(bound, example.score(labels)), stop=stop)

    def circuit(self, group: ConstraintGroup, k: int, gain: F64, clock: Clock) -> Found:
        """Return the best circuit of one constraint, given the gains of its literals."""
        from ortools.sat.python import cp_model

        part, n_nodes = group.literals(k), int(group.meta["n_nodes"][k])
        tail, head = (group.literal_meta[name][part].astype(np.int64) for name in ("tail", "head"))
        if n_nodes == 0:
            return Found(np.zeros(0, dtype=bool), 0.0)
        gain = np.where((tail == head) & (gain < np.inf), -np.inf, gain)
        forced, open_ = gain == np.inf, gain > -np.inf
        ends = [set(one[open_ & (tail != head)].tolist()) for one in (tail, head)]
        if (forced & (tail == head)).any() or (group.meta["all_nodes"][k] and min(map(len, ends)) < n_nodes):
            return Found(None, -np.inf)
        whole, unit, excess = whole_gains(np.where(forced | ~open_, 0.0, gain))
        model = cp_model.CpModel()
        arcs = [(int(t), int(h), model.new_bool_var("")) for t, h in zip(tail[open_], head[open_], strict=True)]
        literals = [literal for _, _, literal in arcs]
        for place in np.flatnonzero(forced[open_]):
            model.add(literals[place] == 1)
        if not group.meta["all_nodes"][k]:
            model.add_bool_or(literals)
            arcs += [(v, v, model.new_bool_var("")) for v in range(n_nodes)]
        model.add_circuit(arcs)
        model.maximize(cp_model.LinearExpr.weighted_sum(literals, whole[open_].tolist()))
        answer = self._solved(model, literals, open_, unit, excess, clock)
        if answer.bound < np.inf:
            return answer
        return replace(answer, bound=float(np.maximum(gain[open_ & ~forced], 0.0).sum()))

    def _solved(
        self, model: Any, literals: list[Any], open_: Bools, unit: float, excess: float, clock: Clock
    ) -> Found:
        """Run the solver; the bound is ``inf`` where it has found no circuit in time."""
        from ortools.sat.python import cp_model

        solver = cp_model.CpSolver()
        solver.parameters.num_workers, solver.parameters.random_seed = self.num_workers, 0
        solver.parameters.catch_sigint_signal = False
        if clock.end < np.inf:
            solver.parameters.max_time_in_seconds = clock.left
        if clock.limits.iterations is not None:
            solver.parameters.max_number_of_conflicts = clock.limits.iterations
        ended = call_in_thread(lambda: solver.solve(model), solver.stop_search, clock)
        status = ended.value
        if status == cp_model.INFEASIBLE:
            return Found(None, -np.inf)
        stop = Stop.INTERRUPTED if ended.stop is Stop.INTERRUPTED else Stop.FINISHED
        if status != cp_model.OPTIMAL and stop is Stop.FINISHED:
            stop = Stop.TIME if clock.limits.iterations is None or clock.over else Stop.ITERATIONS
        if status not in (cp_model.OPTIMAL, cp_model.FEASIBLE):
            return Found(None, np.inf, stop)
        chosen = np.zeros(len(open_), dtype=bool)
        chosen[np.flatnonzero(open_)] = [bool(solver.value(literal)) for literal in literals]
        return Found(chosen, float(solver.best_objective_bound) * unit + excess, stop)


def scores_of_literals(group: ConstraintGroup, k: int, node: list[F64]) -> tuple[F64, F64, tuple[I32, I32]]:
    """Return for each literal of a constraint the best scores of its variable that make it true and false, and states.

    Returns
    -------
    on, off : ndarray of float64
    states : (ndarray of int32, ndarray of int32)
        The states that have them.
    """
    part = group.literals(k)
    rows = []
    for v, s, negated in zip(group.variable[part], group.state[part], group.negated[part], strict=True):
        others = node[v].copy()
        others[s] = -np.inf
        named, rest = (float(node[v][s]), int(s)), (float(others.max()), int(others.argmax()))
        rows.append((*rest, *named) if negated else (*named, *rest))
    table = np.array(rows, dtype=np.float64).reshape(-1, 4)
    return table[:, 0], table[:, 2], (table[:, 1].astype(np.int32), table[:, 3].astype(np.int32))


def whole_gains(gain: F64) -> tuple[I64, float, float]:
    """Return gains as multiples of a power of two, the power, and the sum of the rounding errors."""
    total = float(np.abs(gain).sum())
    if total == 0.0:
        return np.zeros(len(gain), dtype=np.int64), 1.0, 0.0
    unit = 2.0 ** max(ceil(log2(total)) - MAX_BITS + 1, -1021)
    unit = min(unit, 1.0) if np.array_equal(gain, np.rint(gain)) and total < 2.0**MAX_BITS else unit
    scaled = gain / unit
    whole = np.rint(scaled)
    return whole.astype(np.int64), unit, float(np.abs(whole - scaled).sum() * unit)
