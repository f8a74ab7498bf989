"""A backend on SciPy's assignment: a constraint of the kind "matching" an example, at most one link in a row or column.

The kind also has other limits (``row_most=2`` ...): ``check`` reads them and says no.
``docs/plugins/constraint_kinds.md`` shows it.
"""

import numpy as np
from scipy.optimize import linear_sum_assignment

from ssvm_dsl.ir import Caps, Guarantee, Task, Topology
from ssvm_dsl.plugin_api import BackendSpec, ExampleAnswer, ExampleSession, Verdict, hookimpl


@hookimpl
def ssvm_backends():
    caps = Caps(tasks=frozenset({Task.MAP}), topology=Topology.CHAIN, guarantee=Guarantee.EXACT, max_arity=1,
                constraint_kinds=frozenset({"matching"}))  # fmt: skip
    return [BackendSpec("scipy-assignment", "scipy_assignment:Backend", "linear_sum_assignment", caps=caps)]


class Backend:
    def check(self, need):
        limits = [need.numbers("matching", f"{axis}_{end}") for axis in ("row", "col") for end in ("least", "most")]
        if any((numbers != end).any() for numbers, end in zip(limits, (0, 1, 0, 1))):
            return Verdict(False, reasons=("takes rows and columns of at most one link, none of them needed",))
        if need.max_constraints > 1 or need.shared_literals:
            return Verdict(False, reasons=("takes one matching of different variables",))
        return Verdict(True, cost=10.0 * need.n_variables * need.max_variables**0.5)

    def open(self, program, options):
        return Session(program)


class Session(ExampleSession):
    def answer(self, example, clock, warm):
        labels = np.array([scores.argmax() for scores in example.node], np.int32)
        for group in (one for one in self.program.example(example.number).constraints if one.n_constraints):
            ends = []  # the best states of each literal's variable with which it is true, and false
            for v, state, negated in zip(group.variable, group.state, group.negated):
                others = np.where(np.arange(len(example.node[v])) == state, -np.inf, example.node[v]).argmax()
                ends.append((others, state) if negated else (state, others))
            true, false = np.array(ends, int).reshape(-1, 2).T
            gain = np.array([example.node[v][t] - example.node[v][f] for v, t, f in zip(group.variable, true, false)])
            gain[gain == np.inf] = 1.0 + np.abs(gain[np.isfinite(gain)]).sum()  # what masks ask for comes first
            row, col = group.literal_meta["row"], group.literal_meta["col"]
            table = np.zeros((int(group.meta["n_rows"][0]), int(group.meta["n_cols"][0])))
            table[row, col] = np.fmax(gain, 0.0)  # what gains nothing is left out
            pairs = set(zip(*linear_sum_assignment(table, maximize=True)))
            linked = np.array([(r, c) in pairs and g > 0.0 for r, c, g in zip(row, col, gain)], bool)
            labels[group.variable] = np.where(linked, true, false)
        return ExampleAnswer.exact(labels, example.score(labels))
