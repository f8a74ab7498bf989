"""The files that ``ssvm plugins new --bridge`` writes: counts become partial sums, held by auxiliary variables."""

from __future__ import annotations

from ssvm_dsl.cli.plugins.templates import PackageTemplate

HOOKS = '''\
"""What ssvm-dsl reads at start: descriptions only, the bridge is not imported here."""

from ssvm_dsl.plugin_api import BridgeSpec, hookimpl


@hookimpl
def ssvm_bridges():
    summary = "bounds on counts become partial sums, from the first literal on"
    return [BridgeSpec("{name}", "{module}.bridge:Bridge", summary, kinds=frozenset({"count"}))]
'''

BRIDGE = '''\
"""Counts as partial sums: an auxiliary variable behind each literal holds how many of them are true so far."""

import numpy as np

from ssvm_dsl.plugin_api import Rewrite, Verdict

MOST = 64  # largest count that is followed


def sums_of(group, k):
    """Return how many different sums matter to constraint k: all above its upper bound break it alike."""
    n = len(group.variable[group.literals(k)])
    return 1 + int(min(n, group.meta["upper"][k]))


class Bridge:
    def check(self, example):
        group = example.constraints[0]
        sizes = [sums_of(group, k) for k in range(group.n_constraints)]
        if max(sizes, default=0) > MOST:
            return Verdict(False, reasons=(f"a count goes up to {max(sizes) - 1}, expected {MOST - 1} at most",))
        return Verdict(True, cost=float(sum(n * n for n in sizes) * len(group.variable)))

    def lower(self, example):
        group, made = example.constraints[0], Rewrite.of(example)
        for k in range(group.n_constraints):
            lower, n_sums, before = int(group.meta["lower"][k]), sums_of(group, k), None
            if group.meta["upper"][k] < max(lower, 0) or not len(group.variable[group.literals(k)]):
                if group.meta["upper"][k] < 0 or lower > 0:
                    made.never()
                continue
            for i in range(group.literal_ptr[k], group.literal_ptr[k + 1]):
                v = int(group.variable[i])
                true = (np.arange(example.card[v]) == group.state[i]) != group.negated[i]
                step = np.zeros((n_sums, len(true), n_sums), dtype=bool)  # sum before, state, sum behind
                for state, holds in enumerate(true):
                    for here in range(n_sums - int(holds)):
                        step[here, state, here + int(holds)] = True
                after = made.variable(n_sums)
                if before is None:
                    made.table((v, after), step[0])
                else:
                    made.table((before, v, after), step)
                before = after
            made.table((before,), np.arange(n_sums) >= lower)
        return made
'''

TEST = '''\
"""The conformance kit of ssvm-dsl: answers behind the bridge, against brute force."""


def test_conformance(bridge_conformance):
    bridge_conformance("{name}")
'''

TEMPLATE = PackageTemplate(
    "bridge",
    HOOKS,
    {"bridge.py": ("the bridge: `check`, `lower`", BRIDGE)},
    ("test_{module}.py", "the conformance kit", TEST),
    'Use it by name, behind a backend: `StructuredSVM(MyModel, backend="junction-tree through {name}")`.',
)
