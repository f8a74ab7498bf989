"""Group mentions of the same thing: a clustering of pairs, whose scores are learnt.

    python examples/coreference.py [FILE.png]          FILE.png shows the pairs of a new document
"""

import numpy as np

from ssvm_dsl import Dim, Equivalence, Factor, Hamming, Input, Label, Model, StructuredSVM, clusters
from ssvm_dsl.report import plot_label_maps, save_for_script


class Coreference(Model):
    N = Dim()
    i, j = N.index(2)
    x = Input(N, N, 4)  # features of each pair of mentions
    same = Label(i, j, 2, where=i < j)
    link = Factor(same[i, j].is_(1), features=x[i, j])
    one = Equivalence(same)
    loss = Hamming(same)


class Pairs(Coreference):
    one = None  # each pair is judged by itself


def documents(n, rng):
    """Return documents: pairs of mentions (head words agree, gender agrees, near), and which are of the same thing."""
    X, Y = [], []
    for _ in range(n):
        size = int(rng.integers(8, 16))
        of = rng.integers(0, 4, size)
        same = np.equal.outer(of, of)
        head = rng.random((size, size)) < np.where(same, 0.75, 0.15)
        gender = rng.random((size, size)) < np.where(same, 0.9, 0.5)
        near = np.exp(-np.abs(np.subtract.outer(np.arange(size), np.arange(size))) / 4.0)
        X.append(np.stack([head, gender, near, np.ones((size, size))], axis=2))
        Y.append(same.astype(int))
    return X, Y


def pair_f1(found, truth):
    """Return F1 of the pairs of one thing."""
    upper = np.triu_indices(len(truth), 1)
    a, b = np.ma.getdata(found)[upper] == 1, truth[upper] == 1
    return 2 * (a & b).sum() / max(a.sum() + b.sum(), 1)


def main():
    rng = np.random.default_rng(0)
    (X, Y), (X_test, Y_test) = documents(40, rng), documents(40, rng)
    for model in (Pairs, Coreference):
        svm = StructuredSVM(model, C=1.0, random_state=0).fit(X, Y)
        found = svm.predict(X_test)
        score = np.mean([pair_f1(*both) for both in zip(found, Y_test, strict=True)])
        print(f"{model.__name__:12} {svm.report_.plan.backend}, gap {svm.report_.relative_gap:.1%}, F1 {score:.2f}")
    print("found", clusters(found[0]))
    print("right", clusters(Y_test[0]))
    shown = np.triu(np.ma.filled(found[0], 0), 1)
    save_for_script(plot_label_maps, {"found": shown, "right": np.triu(Y_test[0], 1)})


if __name__ == "__main__":
    main()
