"""A backend of one's own, registered for this process: best labellings by asking every variable in turn.

A heuristic (iterated conditional modes): it gives no bound, so that training ends without a certificate.
For a backend to give to others, start with `ssvm plugins new NAME`.
"""

import sys

import numpy as np

from ssvm_dsl import Dim, Factor, Hamming, Input, Label, Model, StructuredSVM, grid, register
from ssvm_dsl.datasets import make_stripes
from ssvm_dsl.ir import Caps, Guarantee, Solution
from ssvm_dsl.ir.ragged import members
from ssvm_dsl.ir.solution import score_labels, select
from ssvm_dsl.plugin_api import BackendSpec, Verdict, hookimpl
from ssvm_dsl.testing.conformance import check_backend


@hookimpl
def ssvm_backends():
    caps = Caps(max_arity=2, guarantee=Guarantee.HEURISTIC)  # any graph of factors over pairs
    return [BackendSpec("ask-in-turn", f"{__name__}:Backend", "iterated conditional modes", caps=caps)]


class Backend:
    def check(self, need):
        return Verdict(True, cost=10.0 * need.n_factors * need.max_card)

    def open(self, program, options):
        return Session(program)


class Session:
    def __init__(self, program):
        self.program = program
        self.near = [[] for _ in range(program.n_variables)]  # (group, table row, other variable, I come first)
        for g, group in enumerate(program.groups):
            for (u, v), row in zip(group.scope, group.table, strict=True):
                self.near[u].append((g, row, v, True))
                self.near[v].append((g, row, u, False))

    def solve(self, theta, *, examples=None, **question):
        p, ids = self.program, select(self.program, examples)
        allowed = 0.0 if p.allowed is None else np.where(p.allowed, 0.0, -np.inf)
        node = np.split(theta.node + allowed, p.state_ptr[1:-1])
        tables = [t.reshape(-1, *group.cards) for group, t in zip(p.groups, theta.tables, strict=True)]
        y, mine = np.zeros(p.n_variables, dtype=np.int32), members(p.var_ptr, ids)
        for sweep in range(5):
            for v in mine:  # first each variable alone
                near = self.near[v] if sweep else []
                told = [tables[g][row][:, y[u]] if first else tables[g][row][y[u]] for g, row, u, first in near]
                y[v] = (node[v] + sum(told)).argmax()
        impossible = [any(node[v][y[v]] == -np.inf for v in range(*p.var_ptr[i : i + 2])) for i in ids]
        answer = Solution.exact(y[mine], np.where(impossible, -np.inf, score_labels(p, theta, y[mine], ids)))
        answer.bound[:] = np.nan  # nothing is known about better ones
        return answer


class Stripes(Model):
    H, W = Dim(), Dim()
    x = Input(H, W, 3)
    y = Label(H, W, 3)
    data = Factor(y, features=x)
    net = Factor(grid(y))
    loss = Hamming(y)


def main():
    register(sys.modules[__name__], "my-plug-in")
    print("conformance:", str(check_backend("ask-in-turn", n_problems=10)).splitlines()[0])
    X, Y = make_stripes(20, noise=1.0, random_state=1)
    X_test, Y_test = make_stripes(20, noise=1.0, random_state=2)
    svm = StructuredSVM(Stripes, backend="ask-in-turn", trainer="subgradient", max_passes=6, random_state=0).fit(X, Y)
    print(f"right pixels: {svm.score(X_test, Y_test):.1%}; certified: {svm.report_.certified}")


if __name__ == "__main__":
    main()
