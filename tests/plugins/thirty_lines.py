"""A whole backend in about thirty lines: exact MAP on chains and forests by max-product, in plain numpy."""

import numpy as np

from ssvm_dsl.ir import Caps, Guarantee, Solution, Task, Topology
from ssvm_dsl.plugin_api import BackendSpec, Verdict, hookimpl


@hookimpl
def ssvm_backends():
    caps = Caps(tasks=frozenset({Task.MAP}), topology=Topology.FOREST, guarantee=Guarantee.EXACT)
    return [BackendSpec("thirty-lines", "thirty_lines:Backend", "max-product in plain numpy", caps=caps)]


class Backend:
    def check(self, need):
        return Verdict(True, cost=100.0 * need.n_variables * need.max_card**2)

    def open(self, program, options):
        return Session(program)


class Session:
    def __init__(self, program):
        self.program = program

    def solve(self, theta, *, examples=None, task=Task.MAP, clamp=None, warm=None, limits=None, k=1):
        ids = range(self.program.n_examples) if examples is None else examples
        answers = [self.best(theta, i) for i in ids]
        labels = [state for states, _ in answers for state in states]
        return Solution.exact(np.array(labels, dtype=np.int32), np.array([score for _, score in answers], dtype=float))

    def best(self, theta, i):
        p, pair, later, label, score = self.program, {}, {}, {}, theta.const[i]
        order = [int(v) for v in p.order[p.var_ptr[i] : p.var_ptr[i + 1]]]
        node = {v: theta.node[p.state_ptr[v] : p.state_ptr[v + 1]].copy() for v in order}
        for v in order if p.allowed is not None else ():
            node[v][~p.allowed[p.state_ptr[v] : p.state_ptr[v + 1]]] = -np.inf
        for group, table in zip(p.groups, theta.tables):
            for f in range(group.ptr[i], group.ptr[i + 1]):
                u, v = map(int, group.scope[f])
                pair[u, v] = pair.get((u, v), 0.0) + table[group.table[f]].reshape(group.cards)
                pair[v, u] = pair[u, v].T
        for n, v in enumerate(order):  # leaves first: a variable has at most one neighbour later in the order
            later[v] = next((u for u in order[n + 1 :] if (v, u) in pair), None)
            if later[v] is None:
                score += node[v].max()
            else:
                node[later[v]] += (node[v][:, None] + pair[v, later[v]]).max(axis=0)
        for v in reversed(order):
            u = later[v]
            label[v] = int((node[v] if u is None else node[v] + pair[v, u][:, label[u]]).argmax())
        return [label[v] for v in sorted(order)], score
