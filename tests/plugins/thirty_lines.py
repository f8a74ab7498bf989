"""A whole backend in about thirty lines: exact MAP on chains and forests by max-product, in plain numpy."""


from ssvm_dsl.ir import Caps, Guarantee, Task, Topology
from ssvm_dsl.plugin_api import BackendSpec, ExampleAnswer, ExampleSession, Verdict, hookimpl


@hookimpl
def ssvm_backends():
    caps = Caps(tasks=frozenset({Task.MAP}), topology=Topology.FOREST, guarantee=Guarantee.EXACT)
    return [BackendSpec("thirty-lines", "thirty_lines:Backend", "max-product in plain numpy", caps=caps)]


class Backend:
    def check(self, need):
        return Verdict(True, cost=100.0 * need.n_variables * need.max_card**2)

    def open(self, program, options):
        return Session(program)


class Session(ExampleSession):
    def answer(self, example, clock, warm):
        pair, later, label, score = {}, {}, {}, example.const
        first, stop = self.program.var_ptr[example.number : example.number + 2]
        order = (self.program.order[first:stop] - first).tolist()
        node = [scores.copy() for scores in example.node]
        for (u, v), table in example.factors:
            pair[u, v] = pair.get((u, v), 0.0) + table
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
        return ExampleAnswer.exact([label[v] for v in sorted(order)], score)
