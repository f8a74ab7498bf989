"""Match the points of two pictures: the second one is turned, noisy, and lists its points in any order.

    python examples/points.py [FILE.png]               FILE.png shows the links between two new pictures
"""

import numpy as np

from ssvm_dsl import Dim, Factor, Hamming, Input, Label, Matching, Model, StructuredSVM
from ssvm_dsl.report import plot_links, save_for_script


class Points(Model):
    I, J = Dim(), Dim()
    x = Input(I, J, 5)  # how much two points differ, each described by its distances to its neighbours
    y = Label(I, J, 2)
    link = Factor(y.is_(1), features=x)
    bias = Factor(y.is_(1))
    one = Matching(y.is_(1), rows=I, cols=J)
    loss = Hamming(y)


def described(points):
    """Return the distances of each point to the four nearest others, and to the middle: turning leaves them as is."""
    apart = np.linalg.norm(points[:, None] - points[None], axis=2)
    return np.c_[np.sort(apart, axis=1)[:, 1:5], np.linalg.norm(points - points.mean(axis=0), axis=1)]


def pictures(n, rng):
    """Return pairs of pictures as features of pairs of points, and which points belong together."""
    X, Y = [], []
    for _ in range(n):
        points, angle = rng.random((10, 2)), rng.uniform(0, 2 * np.pi)
        turned = points @ np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
        order = rng.permutation(10)
        other = turned[order] + 0.02 * rng.normal(size=(10, 2))
        X.append(np.abs(described(points)[:, None] - described(other)[None]))
        Y.append((np.arange(10)[:, None] == order[None]).astype(int))
    return X, Y


def main():
    rng = np.random.default_rng(0)
    (X, Y), (X_test, Y_test) = pictures(100, rng), pictures(100, rng)
    svm = StructuredSVM(Points, C=1.0, tol=0.001).fit(X, Y)
    found, weights = svm.predict(X_test), svm.weights_["link"]
    nearest = [np.eye(10, dtype=int)[(x @ weights).argmax(axis=1)] for x in X_test]  # no matching: each by itself
    for name, links in (("matching", found), ("each point by itself", nearest)):
        right = np.mean([(a * b).sum() / 10 for a, b in zip(links, Y_test, strict=True)])
        print(f"{name}: {right:.1%} of the points of {len(X_test)} new pairs have the right partner")
    print(f"backend {svm.report_.plan.backend}, gap {svm.report_.relative_gap:.1%}")
    save_for_script(plot_links, range(10), range(10), np.argwhere(found[0]).tolist(), np.argwhere(Y_test[0]).tolist())


if __name__ == "__main__":
    main()
