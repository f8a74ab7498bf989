"""Rows of ``ready`` for trees, matchings and orders."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from ready import Task, row
from scipy.optimize import linear_sum_assignment, linprog
from scipy.sparse import eye_array, kron, vstack
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from ssvm_dsl import attachment_score
from ssvm_dsl.datasets import arc_features, link_features, load_alignments, load_dependency_treebank
from ssvm_dsl.models import Assigner, DependencyParser, Matcher, Ranker

# -- trees ---------------------------------------------------------------------------------------------


def heads_one_by_one(task: Task) -> list[Any]:
    """Judge each (word, head) by logistic regression, and take the likeliest head of each word."""

    def arcs(sentence: Any) -> Any:
        """Return features of all (word, head), the root last."""
        pairs, root = arc_features(*sentence)
        n = root.shape[0]
        rows = [part for t in range(n) for part in (pairs[t * n : (t + 1) * n], root[t : t + 1])]
        return vstack(rows, format="csr")

    made = [arcs(one) for one in task.X]
    right = [(np.arange(len(y) + 1) == np.where(np.asarray(y) < 0, len(y), y)[:, None]).ravel() for y in task.Y]
    model = LogisticRegression(max_iter=100).fit(vstack(made, format="csr"), np.concatenate(right))
    out = []
    for one in task.X_test:
        n = len(one[0])
        score = model.decision_function(arcs(one)).reshape(n, n + 1)
        score[np.arange(n), np.arange(n)] = -np.inf
        best = score.argmax(axis=1)
        out.append(np.where(best == n, -1, best))
    return out


ONE_BY_ONE = ("logistic regression of each arc", heads_one_by_one)


def parsed(first: int, n: int, n_test: int, longest: int) -> Task:
    """Return parsed sentences of at most so many words."""
    short = [one for one in load_dependency_treebank() if 2 <= len(one.words) <= longest]
    some = short[first : first + n + n_test]
    X, Y = [(one.words, one.pos) for one in some], [one.heads for one in some]
    return Task(X[:n], Y[:n], X[n:], Y[n:])


row("trees: sentences, 100 to learn from", DependencyParser, ONE_BY_ONE, attachment_score)(
    lambda seed: parsed(0, 100, 300, 20)
)
row("trees: sentences, 400 to learn from", DependencyParser, ONE_BY_ONE, attachment_score)(
    lambda seed: parsed(0, 400, 300, 20)
)
row("trees: projective, 200 short sentences", lambda: DependencyParser(projective=True), ONE_BY_ONE, attachment_score)(
    lambda seed: parsed(500, 200, 300, 12)
)


# -- matchings -----------------------------------------------------------------------------------------


def links_and_assignment(task: Task) -> list[Any]:
    """Judge each link by logistic regression, and take the best assignment of log-odds above 0."""
    width = np.shape(task.X[0])[-1]
    model = make_pipeline(StandardScaler(), LogisticRegression(max_iter=500))
    model.fit(
        np.concatenate([np.reshape(x, (-1, width)) for x in task.X]), np.concatenate([np.ravel(y) for y in task.Y])
    )
    out = []
    for x in task.X_test:
        odds = np.maximum(model.decision_function(np.reshape(x, (-1, width))).reshape(np.shape(x)[:2]), 0.0)
        links = np.zeros(odds.shape, dtype=int)
        rows, columns = linear_sum_assignment(-odds)
        links[rows, columns] = odds[rows, columns] > 0
        out.append(links)
    return out


def link_f1(truth: Sequence[Any], predicted: Sequence[Any]) -> float:
    """Return F1 over the links of all examples."""
    both = sum(int((np.asarray(t) & np.asarray(p)).sum()) for t, p in zip(truth, predicted, strict=True))
    return 2.0 * both / max(sum(int(np.sum(one)) for side in (truth, predicted) for one in side), 1)


ASSIGNED = ("logistic regression, Hungarian method", links_and_assignment)


@row("matchings: word alignment", Matcher, ASSIGNED, link_f1)
def alignment(seed: int) -> Task:
    """Hansards: sentences and their translations, sure links; 200 pairs to learn from."""
    pairs = load_alignments()
    X = link_features([(one.source, one.target) for one in pairs])
    Y = []
    for one in pairs:
        links = np.zeros((len(one.source), len(one.target)), dtype=int)
        for i, j in sorted(one.sure):
            if not links[i].any() and not links[:, j].any():
                links[i, j] = 1
        Y.append(links)
    return Task(X[:200], Y[:200], X[300:], Y[300:])


def _linked(seed: int, n: int, noise: float, size: tuple[int, int]) -> Task:
    """Return points of two images: differences of their descriptions, which are on scales of their own."""
    r = np.random.default_rng(seed)
    X, Y = [], []
    for _ in range(2 * n):
        a, b = (int(r.integers(*size)) for _ in range(2))
        links = np.zeros((a, b), dtype=int)
        k = int(min(a, b) * 0.8)
        rows, columns = r.permutation(a)[:k], r.permutation(b)[:k]
        links[rows, columns] = 1
        points = r.normal(size=(b, 4))
        other = r.normal(size=(a, 4))
        other[rows] = points[columns] + noise * r.normal(size=(k, 4))
        X.append((other[:, None] - points[None]) ** 2 * np.array([1.0, 10.0, 1000.0, 0.1]))
        Y.append(links)
    return Task(X[:n], Y[:n], X[n:], Y[n:])


@row("matchings: points of two images", Matcher, ASSIGNED, link_f1, draws=3, small={"n": 20})
def points(seed: int, n: int = 60) -> Task:
    """Five to nine points, four descriptions."""
    return _linked(seed, n, 0.7, (5, 10))


@row("matchings: many points", Matcher, ASSIGNED, link_f1)
def many_points(seed: int) -> Task:
    """Twenty to thirty points."""
    return _linked(seed, 30, 0.4, (20, 31))


# -- assignments with capacities -----------------------------------------------------------------------


def best_within(worth: Any, need: int, capacity: Any) -> Any:
    """Return the links of most worth, so many in each row and at most the capacity of each column (HiGHS)."""
    n, m = worth.shape
    rows, columns = kron(eye_array(n), np.ones((1, m))), kron(np.ones((1, n)), eye_array(m))
    found = linprog(-worth.ravel(), columns, capacity, rows, np.full(n, need), bounds=(0, 1), method="highs-ds")
    return np.rint(found.x).reshape(n, m).astype(int)


def links_and_program(task: Task) -> list[Any]:
    """Judge each link by logistic regression, and take the best assignment of log-odds by a linear program."""
    model = make_pipeline(StandardScaler(), LogisticRegression(max_iter=500))
    rows = [one["x"].reshape(-1, one["x"].shape[-1]) for one in task.X]
    model.fit(np.concatenate(rows), np.concatenate([np.ravel(y) for y in task.Y]))
    need = int(task.Y[0][0].sum())
    out = []
    for one in task.X_test:
        odds = model.decision_function(one["x"].reshape(-1, one["x"].shape[-1])).reshape(one["x"].shape[:2])
        out.append(best_within(odds, need, one["col_limit"]))
    return out


def reviewed(seed: int, chance: float, n: int) -> Task:
    """Return 20 papers, 12 reviewers with capacities; two reviewers of each paper are the best, apart from chance."""
    r = np.random.default_rng(seed)
    X, Y = [], []
    for _ in range(3 * n):
        topics, interests = r.normal(size=(20, 3)), r.normal(size=(12, 3))
        x = np.concatenate([topics[:, None] * interests, r.normal(size=(20, 12, 2))], axis=2)
        capacity = r.integers(3, 7, 12) + 1
        worth = x @ [1.5, 1.0, 0.5, -0.7, 0.0] + chance * r.gumbel(size=(20, 12))
        X.append({"x": x, "col_limit": capacity})
        Y.append(best_within(worth, 2, capacity))
    return Task(X[:n], Y[:n], X[n:], Y[n:])


PROGRAM = ("logistic regression, linear program", links_and_program)


@row("assignments: reviewers, little chance", Assigner, PROGRAM, link_f1, draws=5, small={"n": 3})
def clear_reviews(seed: int, n: int = 5) -> Task:
    """Worth decides more than chance."""
    return reviewed(seed, 0.3, n)


@row("assignments: reviewers, much chance", Assigner, PROGRAM, link_f1, draws=5)
def chance_reviews(seed: int) -> Task:
    """Chance decides as much as worth."""
    return reviewed(seed, 1.5, 5)


# -- orders --------------------------------------------------------------------------------------------


def by_places(task: Task) -> list[Any]:
    """Predict the relative place of each item by ridge regression, and sort."""
    model = make_pipeline(StandardScaler(), Ridge())
    model.fit(np.concatenate(task.X), np.concatenate([np.asarray(y) / (len(y) - 1) for y in task.Y]))
    return [model.predict(x).argsort().argsort() for x in task.X_test]


def pairs_in_order(truth: Sequence[Any], predicted: Sequence[Any]) -> float:
    """Return the share of pairs of items in the right order."""
    right = total = 0
    for t, p in zip(truth, predicted, strict=True):
        above = np.triu(np.ones((len(t), len(t)), dtype=bool), 1)
        right += int(((np.subtract.outer(t, t) > 0) == (np.subtract.outer(p, p) > 0))[above].sum())
        total += int(above.sum())
    return right / total


PLACES = ("ridge regression of places", by_places)


@row("orders: patients by progression", Ranker, PLACES, pairs_in_order, draws=3, small={})
def patients(seed: int) -> Task:
    """Lists of eight patients in the order of a disease's progression a year later."""
    from sklearn.datasets import load_diabetes

    X, y = load_diabetes(return_X_y=True, scaled=False)
    order = np.random.default_rng(seed).permutation(len(y))[:440].reshape(-1, 8)
    lists, places = [X[one] for one in order], [(-y[one]).argsort().argsort() for one in order]
    return Task(lists[:35], places[:35], lists[35:], places[35:])


def _worth(seed: int, n: int, noise: float, width: int) -> Task:
    r = np.random.default_rng(seed)
    w, X, Y = r.normal(size=width), [], []
    for _ in range(2 * n):
        x = r.normal(size=(int(r.integers(5, 12)), width))
        X.append(x * np.logspace(0, 3, width) + 5.0)
        Y.append((-(x @ w + noise * r.gumbel(size=len(x)))).argsort().argsort())
    return Task(X[:n], Y[:n], X[n:], Y[n:])


row("orders: items of noisy worth", Ranker, PLACES, pairs_in_order, draws=3, small={"n": 30})(
    lambda seed, n=80: _worth(seed, n, 1.0, 6)
)
row("orders: many columns", Ranker, PLACES, pairs_in_order, draws=3)(lambda seed: _worth(seed, 40, 0.5, 40))
