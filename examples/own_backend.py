"""Write a backend: each variable in turn, a heuristic that certifies nothing, registered for this process.

    python examples/own_backend.py [FILE.png]          FILE.png shows stripes and how they are labelled
"""

import sys

from ssvm_dsl import Dim, Factor, Hamming, Input, Label, Model, StructuredSVM, grid, register
from ssvm_dsl.datasets import make_stripes
from ssvm_dsl.ir import Caps, Guarantee
from ssvm_dsl.plugin_api import BackendSpec, ExampleAnswer, ExampleSession, Verdict, hookimpl
from ssvm_dsl.report import plot_label_maps, save_for_script
from ssvm_dsl.testing import check_backend


@hookimpl
def ssvm_backends():
    caps = Caps(max_arity=2, guarantee=Guarantee.HEURISTIC)  # any graph of factors over pairs
    return [BackendSpec("ask-in-turn", f"{__name__}:Backend", "iterated conditional modes", caps=caps)]


class Backend:
    def check(self, need):
        return Verdict(True, cost=10.0 * need.n_factors * need.max_card)

    def open(self, program, options):
        return Session(program)


class Session(ExampleSession):
    def answer(self, example, clock, warm):
        near, y = [[] for _ in example.node], [int(scores.argmax()) for scores in example.node]
        for v, one in [(v, factor) for factor in example.factors for v in factor[0]]:
            near[v].append(one)  # the factors of each variable; y begins with each variable alone
        for _ in range(4):
            for v, scores in enumerate(example.node):
                rows = [table[tuple(slice(None) if u == v else y[u] for u in scope)] for scope, table in near[v]]
                y[v] = int((scores + sum(rows)).argmax())
            if clock.over:
                break
        return ExampleAnswer(y)  # its score is computed; nothing is known about better ones


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
    svm = StructuredSVM(Stripes, backend="ask-in-turn", trainer="subgradient", max_passes=6, random_state=0).fit(X, Y)
    X_test, Y_test = make_stripes(20, noise=1.0, random_state=2)
    print(f"right pixels: {svm.score(X_test, Y_test):.1%}; certified: {svm.report_.certified}")
    save_for_script(plot_label_maps, {"truth": Y_test[0], "prediction": svm.predict(X_test[:1])[0]})


if __name__ == "__main__":
    main()
