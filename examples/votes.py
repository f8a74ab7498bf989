"""Friends vote alike: a rule with a weight, as in Markov logic, learnt by margins and by likelihood.

    python examples/votes.py
"""

import numpy as np

from ssvm_dsl import Dim, Factor, Hamming, Input, Label, Model, Same, StructuredSVM, label_accuracy


class Votes(Model):
    N = Dim()
    a, b = N.index(2)
    friend = Input(N, N)
    z = Input(N, 3)
    vote = Label(N, ["left", "right"])
    own = Factor(vote[a], features=z[a])
    alike = Factor(Same(vote[a], vote[b]), where=(a < b) & friend[a, b])
    loss = Hamming(vote)


class Alone(Votes):
    alike = None  # everybody votes by themselves


def towns(n, rng):
    """Return towns: who are friends, what is known of everybody, and how they vote."""
    X, Y = [], []
    for _ in range(n):
        size = int(rng.integers(8, 15))
        side = rng.random(size) < 0.5
        same = np.equal.outer(side, side)
        friend = np.triu(rng.random((size, size)) < np.where(same, 0.35, 0.05), 1)
        z = rng.normal(size=(size, 3))
        z[:, 0] += np.where(side, 0.7, -0.7)
        z[:, 2] = 1.0
        X.append({"friend": (friend | friend.T).astype(float), "z": z})
        Y.append(np.where(side, "right", "left"))
    return X, Y


def main():
    rng = np.random.default_rng(0)
    (X, Y), (X_test, Y_test) = towns(60, rng), towns(60, rng)
    for model, risk in ((Alone, "margin"), (Votes, "margin"), (Votes, "log")):
        svm = StructuredSVM(model, risk=risk, C=1.0, random_state=0).fit(X, Y)
        accuracy = label_accuracy(Y_test, svm.predict(X_test))
        weight = "" if model is Alone else f", friends alike {float(svm.weights_['alike']):.2f}"
        print(f"{model.__name__:6} {risk:7} accuracy {accuracy:.3f}{weight}")


if __name__ == "__main__":
    main()
