"""Put documents in order: a permutation, in which each document points to its place.

    python examples/ranking.py [FILE.png]              FILE.png shows the places of a new list
"""

import numpy as np

from ssvm_dsl import AllDifferent, Dim, Factor, Hamming, Input, Label, Model, StructuredSVM
from ssvm_dsl.report import plot_links, save_for_script


class Ranking(Model):
    T = Dim()
    x = Input(T, T, 4)  # features of each (document, place)
    place = Label(T, over=T)
    worth = Factor(place, features=x)
    order = AllDifferent(place)
    loss = Hamming(place)


def lists(n, rng):
    """Return lists of documents of four features, and where each belongs: by a sum of features, and some noise."""
    X, Y = [], []
    for _ in range(n):
        documents = rng.normal(size=(int(rng.integers(4, 9)), 4))
        value = documents @ [2.0, -1.0, 0.5, 0.0] + 0.05 * rng.normal(size=len(documents))
        # good documents in the first places: the sum of value * height is largest when both are sorted
        height = np.linspace(1.0, -1.0, len(documents))
        X.append(documents[:, None, :] * height[None, :, None])
        Y.append(np.argsort(np.argsort(-value)))
    return X, Y


def main():
    rng = np.random.default_rng(0)
    (X, Y), (X_test, Y_test) = lists(100, rng), lists(50, rng)
    svm = StructuredSVM(Ranking, C=10.0, tol=0.0001).fit(X, Y)
    weights = svm.weights_["worth"].round()
    print(f"backend {svm.report_.plan.backend}, gap {svm.report_.relative_gap:.1%}; weights {weights}")
    print(f"documents at their place in {len(X_test)} new lists: {svm.score(X_test, Y_test):.0%}")
    print("right order ", np.argsort(Y_test[0]), "\nfound order ", np.argsort(svm.predict(X_test[:1])[0]))
    n, found = len(Y_test[0]), svm.predict(X_test[:1])[0]
    save_for_script(plot_links, range(n), [f"place {k + 1}" for k in range(n)], enumerate(found), enumerate(Y_test[0]))


if __name__ == "__main__":
    main()
