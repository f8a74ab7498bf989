"""The files that ``ssvm plugins new`` writes for a backend.

The backend is small and exact: depth-first search with a bound.  It handles graphs and factors of any shape,
so every part of the contract is to be seen, and refuses what it could not finish.
"""

from __future__ import annotations

from ssvm_dsl.cli.plugins.templates import PackageTemplate

HOOKS = '''\
"""What ssvm-dsl reads at start: descriptions only, no solver is imported here."""

from ssvm_dsl.ir import Caps, Guarantee, Task, Topology
from ssvm_dsl.plugin_api import BackendSpec, hookimpl


@hookimpl
def ssvm_backends():
    caps = Caps(
        tasks=frozenset({Task.MAP}),  # questions it answers
        topology=Topology.LOOPY,  # graphs of any shape
        max_arity=8,  # largest factor
        guarantee=Guarantee.EXACT,  # the best labelling, and its score is the bound
    )
    return [BackendSpec("{name}", "{module}.backend:Backend", "depth-first search with a bound", caps=caps)]
'''

BACKEND = '''\
"""Exact search for small examples: depth first, leaving branches that cannot beat the best labelling so far."""

import numpy as np

from ssvm_dsl.ir import Stop
from ssvm_dsl.plugin_api import ExampleAnswer, ExampleSession, Verdict

MOST = 1e6  # labellings of an example


class Backend:
    def check(self, need):
        if need.max_labellings > MOST:
            return Verdict(False, reasons=(f"{need.max_labellings:.2g} labellings, more than {MOST:.2g}",))
        return Verdict(True, cost=100.0 * need.n_examples * need.max_labellings)

    def open(self, program, options):
        return Session(program)


class Session(ExampleSession):
    def answer(self, example, clock, warm):
        node, tables = example.node, [[] for _ in example.node]  # those of the factors whose last variable it is
        for scope, table in example.factors:
            tables[scope.max()].append((scope, table))
        most = [scores.max() + sum(table.max() for _, table in mine) for scores, mine in zip(node, tables)]
        rest = np.append(np.cumsum(most[::-1])[::-1], 0.0)  # what variables v, v + 1, ... can add at most
        best, labels = (-np.inf, None), np.zeros(len(node), dtype=np.int32)

        def visit(v, score):
            nonlocal best
            if v == len(node):
                best = (score, labels.tolist())
                return
            for state in np.argsort(-node[v]):
                labels[v] = state
                now = score + node[v][state] + sum(table[tuple(labels[scope])] for scope, table in tables[v])
                if now + rest[v + 1] > best[0] and not clock.over:
                    visit(v + 1, now)

        visit(0, example.const)
        score, found = best
        if clock.over:
            return ExampleAnswer(found, score, bound=max(score, example.const + rest[0]), stop=Stop.TIME)
        return ExampleAnswer.exact(found, score)
'''

TEST = '''\
"""The conformance kit of ssvm-dsl: everything the backend claims, against brute force."""


def test_conformance(backend_conformance):
    backend_conformance("{name}", quick=True)  # the whole kit: ssvm plugins check {name}
'''

TEMPLATE = PackageTemplate(
    "inference backend",
    HOOKS,
    {"backend.py": ("the backend: `check`, `open`, `solve`", BACKEND)},
    ("test_{module}.py", "the conformance kit", TEST),
    "Use it by name: `StructuredSVM(MyModel, backend=\"{name}\")`.",
)
