"""Smoking, cancer and friends: the rules of Markov logic's best known example, hard and with weights.

    python examples/smokers.py
"""

import numpy as np

from ssvm_dsl import (
    Dim,
    Factor,
    Hamming,
    Implies,
    Input,
    Label,
    Model,
    Same,
    StructuredSVM,
    label_accuracy,
)


class Smokers(Model):
    N = Dim()
    a, b = N.index(2)
    friend = Input(N, N)
    z = Input(N, 2)
    smokes, cancer = Label(N, 2), Label(N, 2)
    habit = Factor(smokes[a].is_(1), features=z[a])
    ill = Factor(cancer[a].is_(1))
    causes = Factor(Implies(smokes[a].is_(1), cancer[a].is_(1)))
    alike = Factor(Same(smokes[a], smokes[b]), where=(a < b) & friend[a, b])
    loss = Hamming(smokes) + Hamming(cancer)


def circles(n, rng):
    """Return circles of people: who are friends, a hint at who smokes, and who does and who is ill."""
    X, Y = [], []
    for _ in range(n):
        size = int(rng.integers(6, 11))
        smokes = rng.random(size) < 0.4
        same = np.equal.outer(smokes, smokes)
        friend = np.triu(rng.random((size, size)) < np.where(same, 0.4, 0.1), 1)
        cancer = rng.random(size) < np.where(smokes, 0.7, 0.1)
        hint = rng.normal(size=size) + np.where(smokes, 0.8, -0.8)
        z = np.stack([hint, np.ones(size)], axis=1)
        X.append({"friend": (friend | friend.T).astype(float), "z": z})
        Y.append({"smokes": smokes.astype(int), "cancer": cancer.astype(int)})
    return X, Y


def main():
    rng = np.random.default_rng(0)
    (X, Y), (X_test, Y_test) = circles(60, rng), circles(60, rng)
    for risk in ("margin", "log"):
        svm = StructuredSVM(Smokers, risk=risk, C=1.0, random_state=0).fit(X, Y)
        found = svm.predict(X_test)
        right = [label_accuracy([y[k] for y in Y_test], [y[k] for y in found]) for k in ("smokes", "cancer")]
        weights = ", ".join(f"{name} {float(svm.weights_[name]):.2f}" for name in ("causes", "alike"))
        print(f"{risk:7} smokes {right[0]:.3f}, cancer {right[1]:.3f}; {weights}")


if __name__ == "__main__":
    main()
