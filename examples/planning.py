"""Learn what a walker avoids: paths on a grid map, given their first and last square.

    python examples/planning.py [FILE.png]             FILE.png shows a new map and the path on it
"""

from itertools import pairwise

import networkx
import numpy as np

from ssvm_dsl import Dim, Edges, Factor, Hamming, Input, Label, Model, Path, StructuredSVM
from ssvm_dsl.report import plot_label_maps, save_for_script


class Walk(Model):
    N, M = Dim(), Dim()
    ground = Input(N, 3)  # what each square is: grass, sand, water
    e = Edges(M, over=N)  # steps to the east and to the south
    f = Input(M, 3)  # what each step leads to
    y = Label(M, 2)
    cost = Factor(y.is_(1), features=f)
    route = Path(y.is_(1), e, source=0, target=-1)
    loss = Hamming(y)


def maps(n, size, rng):
    """Return random maps, and the paths of least effort: grass 1, sand 2, water 6."""
    X, Y = [], []
    square = np.arange(size * size).reshape(size, size)
    steps = [*zip(square[:, :-1].ravel(), square[:, 1:].ravel(), strict=True)]
    steps += [*zip(square[:-1].ravel(), square[1:].ravel(), strict=True)]
    for _ in range(n):
        ground = np.eye(3)[rng.choice(3, size * size, p=[0.5, 0.3, 0.2])]
        graph = networkx.DiGraph()
        graph.add_weighted_edges_from((a, b, ground[b] @ [1.0, 2.0, 6.0]) for a, b in steps)
        taken = networkx.shortest_path(graph, 0, size * size - 1, weight="weight")
        X.append({"ground": ground, "e": np.array(steps), "f": ground[[b for _, b in steps]]})
        Y.append(np.array([step in set(pairwise(taken)) for step in steps], dtype=int))
    return X, Y


def main():
    rng = np.random.default_rng(0)
    (X, Y), (X_test, Y_test) = maps(40, 6, rng), maps(20, 10, rng)
    svm = StructuredSVM(Walk, C=1.0, tol=0.0001).fit(X, Y)
    found, effort = svm.predict(X_test), np.array([1.0, 2.0, 6.0])
    spent = [sum(float(y @ (x["f"] @ effort)) for x, y in zip(X_test, way, strict=True)) for way in (found, Y_test)]
    weights = svm.weights_["cost"].round(1)
    print(f"backend {svm.report_.plan.backend}, gap {svm.report_.relative_gap:.1%}; weights {weights}")
    print(f"effort on {len(X_test)} larger maps: {spent[0]:.0f}, the least is {spent[1]:.0f}")
    ground, paths = X_test[0]["ground"].argmax(axis=1).reshape(10, 10), {}
    for name, taken in (("path of least effort", Y_test[0]), ("path found", found[0])):
        paths[name] = np.isin(np.arange(100), X_test[0]["e"][taken == 1]).reshape(10, 10) * 2
    save_for_script(plot_label_maps, {"grass, sand, water": ground, **paths})


if __name__ == "__main__":
    main()
