"""Choose tags within a budget: at most k of twelve tags, where k comes with each example (`AtMost`).

Every labelling that is predicted, or that training holds against the truth, keeps the budget: what is known need not be
learnt.  One budget over tags without pairs is a matter of sorting, and `auto` says so.  A second piece of knowledge,
that each tag needs a broader one (`Implies`), is more than counting takes, and `auto` plans integer programs.

    python examples/budget.py [FILE.png]               FILE.png shows the tags of 20 new examples
"""

import numpy as np

from ssvm_dsl import AtMost, Dim, Factor, Hamming, Implies, Input, Label, Model, StructuredSVM
from ssvm_dsl.report import plot_label_maps, save_for_script


class Free(Model):
    K = Dim(12)
    x = Input(12)
    k = Input(1)
    y = Label(K, 2)
    unary = Factor(y, features=x, per=K)
    bias = Factor(y, per=K)
    loss = Hamming(y)


class Budget(Free):
    budget = AtMost(Free.k, Free.y.is_(1))


class Taxonomy(Budget):
    broad = Label(2)  # whether any of the tags applies at all
    root = Factor(broad)
    needs = Implies(Free.y.is_(1), broad.is_(1))


def make_data(n, seed, taxonomy=False):
    """Draw examples: the k largest of twelve values are tagged, if they are above zero; the values come with noise."""
    rng = np.random.default_rng(seed)
    value, k = rng.normal(size=(n, 12)), rng.integers(1, 4, n)
    rank = np.argsort(np.argsort(-value, axis=1), axis=1)
    tags = ((rank < k[:, None]) & (value > 0)).astype(int)
    X = [{"x": x, "k": [few]} for x, few in zip(value + 0.2 * rng.normal(size=(n, 12)), k, strict=True)]
    return X, [{"y": y, "broad": int(y.any())} for y in tags] if taxonomy else list(tags)


def main():
    print(f"{'model':9} {'backend':13} {'wrong labels':>12} {'over budget':>11}")
    for model in (Free, Budget, Taxonomy):
        X, Y = make_data(80, seed=1, taxonomy=model is Taxonomy)
        X_test, Y_test = make_data(200, seed=2)
        svm = StructuredSVM(model, C=0.3, tol=0.05, random_state=0).fit(X, Y)
        found = np.array([z["y"] if isinstance(z, dict) else z for z in svm.predict(X_test)])
        over = np.mean([z.sum() > x["k"][0] for z, x in zip(found, X_test, strict=True)])
        print(f"{model.__name__:9} {svm.plan_.backend:13} {np.mean(found != Y_test):12.1%} {over:11.1%}")
    save_for_script(plot_label_maps, {"truth": np.array(Y_test)[:20].T, "prediction": found[:20].T})


if __name__ == "__main__":
    main()
