"""Rows of ``ready`` for tables: one class for each row of numbers."""

from __future__ import annotations

from typing import Any

import numpy as np
from ready import Task, row
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import accuracy_score, balanced_accuracy_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MaxAbsScaler, StandardScaler

from ssvm_dsl.datasets import load_dependency_treebank, load_letters
from ssvm_dsl.models import Classifier


def scaled_regression(task: Task) -> Any:
    """Logistic regression of standardised columns, or of sparse ones divided by their largest."""
    scaler = MaxAbsScaler() if hasattr(task.X, "tocsr") else StandardScaler()
    return make_pipeline(scaler, LogisticRegression(max_iter=1000)).fit(task.X, task.Y).predict(task.X_test)


def balanced_regression(task: Task) -> Any:
    """The same with the weights of classes that make them equal."""
    made = make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000, class_weight="balanced"))
    return made.fit(task.X, task.Y).predict(task.X_test)


SCALED = ("scaled logistic regression", scaled_regression)
BALANCED = ("the same, balanced", balanced_regression)


def held_out(X: Any, Y: Any, seed: int, share: float = 0.3, most: int | None = None) -> Task:
    """Return some rows to learn from (at most so many), and a share of all to judge by."""
    order = np.random.default_rng(seed).permutation(len(Y))
    n = int(share * len(Y))
    test, train = order[:n], order[n:][:most]
    return Task(X[train], Y[train], X[test], Y[test])


def customers(seed: int, n: int = 6000) -> Task:
    """Age, income and number of orders, on their own scales; four classes, one of them 82 % of all."""
    r = np.random.default_rng(seed)
    X = np.c_[r.normal(45, 15, n), np.exp(r.normal(10, 0.6, n)), r.poisson(4, n)]
    X[r.random(n) < 0.1, 0] = 0
    worth = np.c_[
        np.full(n, 2.2), 0.05 * (X[:, 0] - 45), 1.1 * np.log(X[:, 1] / 22000) - 0.3, 0.4 * (X[:, 2] - 4)
    ]  # fmt: skip
    return held_out(X, (worth + 0.7 * r.gumbel(size=(n, 4))).argmax(axis=1), seed, 0.5)


row("tables: customers, 82 % of one class", Classifier, SCALED, accuracy_score, draws=3, small={"n": 1000})(customers)


row(
    "tables: customers, classes made equal", lambda: Classifier(class_weight="balanced"), BALANCED,
    balanced_accuracy_score, draws=3, small={"n": 1000},
)(customers)  # fmt: skip


@row("tables: breast cancer, unscaled", Classifier, SCALED, accuracy_score, draws=5, small={})
def cancer(seed: int) -> Task:
    """Thirty columns whose sizes differ by five orders of magnitude."""
    from sklearn.datasets import load_breast_cancer

    return held_out(*load_breast_cancer(return_X_y=True), seed)


@row("tables: wine, unscaled", Classifier, SCALED, accuracy_score, draws=5, small={})
def wine(seed: int) -> Task:
    """Thirteen columns, 178 rows."""
    from sklearn.datasets import load_wine

    return held_out(*load_wine(return_X_y=True), seed)


@row("tables: digits", Classifier, SCALED, accuracy_score, draws=3)
def digits(seed: int) -> Task:
    """Images of 8 by 8 pixels, ten classes."""
    from sklearn.datasets import load_digits

    return held_out(*load_digits(return_X_y=True), seed)


@row("tables: letters one by one", Classifier, SCALED, accuracy_score)
def letters(seed: int) -> Task:
    """128 binary pixels, 26 classes, some 5000 letters to learn from."""
    split = load_letters(fold=1 + seed)
    parts = (split.X_train, split.Y_train, split.X_test[:1000], split.Y_test[:1000])
    return Task(*map(np.concatenate, parts))


@row("tables: parts of speech of single words, sparse", Classifier, SCALED, accuracy_score)
def words(seed: int) -> Task:
    """Letters at the ends of 3000 words, one-hot; some 40 classes."""
    from sklearn.feature_extraction import DictVectorizer

    found = [pair for one in load_dependency_treebank()[:250] for pair in zip(one.words, one.pos, strict=True)]
    named = [{f"s{k}": word[-k:] for k in (1, 2, 3)} | {"p": word[:2], "length": len(word)} for word, _ in found]
    return held_out(DictVectorizer().fit_transform(named), np.array([tag for _, tag in found]), seed)
