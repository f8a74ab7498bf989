"""Label the nodes of trees: each example brings its own edges, from every node to its parent.

    python examples/trees.py [FILE.png]                FILE.png shows the weights of edges
    ssvm explain examples/trees.py:Tree --trees
"""

import numpy as np

from ssvm_dsl import Dim, Edges, Factor, Hamming, Input, Label, Model, StructuredSVM, along
from ssvm_dsl.report import plot_weights, save_for_script

KINDS = ["root", "branch", "twig", "leaf"]


class Nodes(Model):
    N, M = Dim(), Dim()
    x = Input(N, 4)
    parent = Edges(M, over=N)  # rows (child, parent)
    y = Label(N, KINDS)
    node = Factor(y, features=x)
    loss = Hamming(y)


class Tree(Nodes):
    edge = Factor(along(Nodes.y, Nodes.parent))  # a weight for (kind of the child, kind of its parent)


def make_tree(rng):
    """Return one example: a random tree whose kinds follow the depth, seen through noise."""
    n = int(rng.integers(6, 25))
    parent = np.array([rng.integers(0, i) for i in range(1, n)])
    depth = np.zeros(n, dtype=int)
    for child, up in enumerate(parent, 1):
        depth[child] = min(depth[up] + 1, 3)
    edges = np.stack([np.arange(1, n), parent], axis=1)
    return {"x": np.eye(4)[depth] + 0.9 * rng.normal(size=(n, 4)), "parent": edges}, np.array(KINDS)[depth]


def make_data(n, seed):
    rng = np.random.default_rng(seed)
    return map(list, zip(*(make_tree(rng) for _ in range(n)), strict=True))


def main():
    X, Y = make_data(80, seed=1)
    X_test, Y_test = make_data(200, seed=2)
    print(f"{'model':8} {'backend':8} {'right nodes':>12} {'gap':>7}")
    for model in (Nodes, Tree):
        svm = StructuredSVM(model, C=1.0, tol=0.0001, random_state=0).fit(X, Y)
        right, gap = svm.score(X_test, Y_test), svm.report_.relative_gap
        print(f"{model.__name__:8} {svm.plan_.backend:8} {right:12.1%} {gap:7.2%}")
    print("\nweights of child (row) and parent (column):")
    for kind, row in zip(KINDS, svm.weights_[Tree.edge], strict=True):
        print(f"  {kind:8}", " ".join(f"{value:6.2f}" for value in row))
    save_for_script(plot_weights, svm.weights_[Tree.edge], KINDS, KINDS)


if __name__ == "__main__":
    main()
