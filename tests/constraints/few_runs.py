"""A stranger's kind of constraints: true literals come in a limited number of runs; and a bridge for it."""

from __future__ import annotations

import numpy as np

from ssvm_dsl.ir import ConstraintGroup, Program, Theta, pointers
from ssvm_dsl.plugin_api import BridgeSpec, ConstraintSpec, LinearRows, Rewrite, Verdict, hookimpl


@hookimpl
def ssvm_constraints():
    return [ConstraintSpec("few-runs", "few_runs:FewRuns", "at most so many runs of ones", parameters=("runs",))]


@hookimpl
def ssvm_bridges():
    return [
        BridgeSpec("runs-to-states", "few_runs:RunsToStates", "runs so far as states", kinds=frozenset({"few-runs"}))
    ]


class FewRuns:
    def violated(self, group, true):
        before = np.append(False, true[:-1])
        before[group.literal_ptr[:-1][np.diff(group.literal_ptr) > 0]] = False  # a constraint begins
        return np.bincount(group.constraint_of, true & ~before, group.n_constraints) > group.meta["runs"]

    def rows(self, group, k):
        """A start s_i >= x_i - x_(i-1) for each literal; all starts together are at most the number of runs."""
        n = int(np.diff(group.literal_ptr)[k])
        x, s = np.arange(n), n + np.arange(n)
        first = [[(i, 1.0), *([(i - 1, -1.0)] if i else []), (s[i], -1.0)] for i in x]
        entries = [*first, [(start, 1.0) for start in s]]
        flat = [entry for row in entries for entry in row]
        return LinearRows(
            pointers(np.array(list(map(len, entries)))),
            np.array([column for column, _ in flat], np.int32),
            np.array([value for _, value in flat], np.float64),
            np.full(n + 1, -np.inf),
            np.append(np.zeros(n), float(group.meta["runs"][k])),
            np.zeros(n),
            np.ones(n),
            np.ones(n, bool),
        )

    def problem(self, rng):
        lengths = rng.integers(0, 7, 3)
        ptr = pointers(lengths)
        counts = rng.integers(0, 2, 3)
        literal = [np.arange(n) for n, there in zip(lengths, counts, strict=True) if there]
        flat = np.concatenate([np.zeros(0, int), *literal]).astype(np.int32)
        runs = rng.integers(-1, 3, counts.sum())
        group = ConstraintGroup(
            "few-runs", "few", pointers(counts), pointers(np.array(list(map(len, literal)), int)), flat,
            np.ones_like(flat), np.zeros(len(flat), bool), {"runs": runs},
        )  # fmt: skip
        program = Program(ptr, np.full(ptr[-1], 2, np.int32), (), (group,))
        return program, Theta.of(program, rng.integers(-3, 4, program.n_states).astype(float))


class RunsToStates:
    """An automaton reads the literals: its states are the runs so far, and whether the last literal was true."""

    def check(self, example):
        group = example.constraints[0]
        return Verdict(True, 8.0 * len(group.variable) * float(np.max(group.meta["runs"], initial=0) + 1) ** 2)

    def lower(self, example):
        group, made = example.constraints[0], Rewrite.of(example)
        for k in range(group.n_constraints):
            runs, before = int(group.meta["runs"][k]), None
            if runs < 0:
                made.never()
                continue
            for i in range(group.literal_ptr[k], group.literal_ptr[k + 1]):
                v = int(group.variable[i])
                true = (np.arange(example.card[v]) == group.state[i]) != group.negated[i]
                after = made.variable(2 * (runs + 1))
                if before is None:
                    made.table((v, after), step(runs, true)[0])
                else:
                    made.table((before, v, after), step(runs, true))
                before = after
        return made


def step(runs, true):
    """Which states follow which, by the state of the variable that is read; 0 is where it begins."""
    allowed = np.zeros((2 * (runs + 1), len(true), 2 * (runs + 1)), bool)
    for before in range(2 * (runs + 1)):
        for state, holds in enumerate(true):
            after = 2 * (before // 2 + (holds and before % 2 == 0)) + holds
            if after < 2 * (runs + 1):
                allowed[before, state, after] = True
    return allowed
