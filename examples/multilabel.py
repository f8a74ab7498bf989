"""Predict several labels at once: each alone, and all together with a weight for every pair of labels.

Three of six things are picked, the three largest.  Seen alone, a label cannot know how many others are on; a weight
for every pair of labels can count.  The graph of labels is complete, so the exact backends for chains and trees
refuse it; it is small enough for exact elimination, and `auto` takes `junction-tree`.

    python examples/multilabel.py [FILE.png]           FILE.png shows the labels of 20 new examples
"""

import numpy as np

from ssvm_dsl import Dim, Factor, Hamming, Input, Label, Model, StructuredSVM, complete
from ssvm_dsl.report import plot_label_maps, save_for_script


class Alone(Model):
    K = Dim(6)
    x = Input(6)
    y = Label(K, 2)
    unary = Factor(y, features=x, per=K)  # for each label its own weights: w[6, 2, 6]
    bias = Factor(y, per=K)
    loss = Hamming(y)


class Together(Alone):
    pair = Factor(complete(Alone.y), per="edge")  # for each pair of labels a table: w[15, 2, 2]


def make_data(n, seed):
    """Draw examples: six sizes seen through noise, and which are the three largest."""
    rng = np.random.default_rng(seed)
    size = np.exp(rng.normal(size=(n, 6)))
    largest = size >= np.sort(size, axis=1)[:, 3:4]
    return list(size + 0.1 * rng.normal(size=(n, 6))), list(largest.astype(int))


def main():
    X, Y = make_data(200, seed=1)
    X_test, Y_test = make_data(500, seed=2)
    print(f"{'model':10} {'backend':12} {'wrong labels':>12} {'wrong examples':>14} {'gap':>7}")
    for model in (Alone, Together):
        svm = StructuredSVM(model, C=0.3, tol=0.001, random_state=0).fit(X, Y)
        found = np.array(svm.predict(X_test))
        wrong = found != np.array(Y_test)
        backend, gap = svm.plan_.backend, svm.report_.relative_gap
        print(f"{model.__name__:10} {backend:12} {wrong.mean():12.1%} {wrong.any(axis=1).mean():14.1%} {gap:7.2%}")
    shown = {"truth": np.array(Y_test), "prediction": found, "mistakes": wrong.astype(int)}
    save_for_script(plot_label_maps, {name: labels[:20].T for name, labels in shown.items()})


if __name__ == "__main__":
    main()
