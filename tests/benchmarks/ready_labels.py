"""Rows of ``ready`` for several labels at once: sets of labels, images, graphs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from ready import Task, row
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import f1_score
from sklearn.multiclass import OneVsRestClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MaxAbsScaler, StandardScaler

from ssvm_dsl.datasets import load_horses, load_reuters, load_scene, load_yeast, pixel_features
from ssvm_dsl.models import GraphLabeller, GridSegmenter, MultiLabel

# -- sets of labels ------------------------------------------------------------------------------------


def one_by_one(task: Task) -> Any:
    """Logistic regression of each label."""
    scaler = MaxAbsScaler() if hasattr(task.X, "tocsr") else StandardScaler()
    model = make_pipeline(scaler, OneVsRestClassifier(LogisticRegression(max_iter=1000)))
    return model.fit(task.X, task.Y).predict(task.X_test)


EACH_LABEL = ("logistic regression of each label", one_by_one)


def macro_f1(truth: Any, predicted: Any) -> float:
    """Return F1, averaged over labels."""
    return float(f1_score(np.asarray(truth), np.asarray(predicted), average="macro", zero_division=0))


def exact_sets(truth: Any, predicted: Any) -> float:
    """Return the share of sets without a mistake."""
    return float((np.asarray(truth) == np.asarray(predicted)).all(axis=1).mean())


def yeast(seed: int) -> Task:
    """14 functions of 1500 and 917 genes."""
    return Task(*map(np.array, load_yeast()))


def scene(seed: int) -> Task:
    """Six labels of 1211 and 1196 pictures."""
    return Task(*map(np.array, load_scene()))


def reuters(seed: int) -> Task:
    """53 topics of texts, 1123 to learn from; of the first half of the file, whose second half has other words."""
    from scipy.sparse import vstack

    found = load_reuters(53)
    order = np.random.default_rng(seed).permutation(len(found.Y_train))
    train, test = order[:1123], order[1123:2123]
    X, Y = vstack(found.X_train, "csr"), np.array(found.Y_train)
    return Task(X[train], Y[train], X[test], Y[test])


def followed(seed: int, n: int = 400) -> Task:
    """Eight labels, each of which follows from the one before and from features."""
    r = np.random.default_rng(seed)
    X, Y = r.normal(size=(2 * n, 8)), np.zeros((2 * n, 8), dtype=int)
    for k in range(8):
        Y[:, k] = X[:, k] + 1.5 * (2 * Y[:, k - 1] - 1) * (k > 0) + r.normal(size=2 * n) > 0
    return Task(X[:n], Y[:n], X[n:], Y[n:])


for measure in (macro_f1, exact_sets):
    for name, task in (("yeast", yeast), ("scene", scene), ("Reuters, 53 topics", reuters)):
        row(f"labels: {name}", MultiLabel, EACH_LABEL, measure)(task)
    row("labels: one after the other", MultiLabel, EACH_LABEL, measure, draws=3)(followed)


# -- images --------------------------------------------------------------------------------------------


def pixel_by_pixel(task: Task) -> list[Any]:
    """Logistic regression of each pixel, with the same features."""

    def rows(images: Sequence[Any]) -> Any:
        return np.concatenate([pixel_features(one / 255.0)["x"].reshape(-1, 55) for one in images])

    model = make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000))
    model.fit(rows(task.X), np.concatenate([np.ravel(one) for one in task.Y]))
    return [model.predict(rows([one])).reshape(one.shape[:2]) for one in task.X_test]


EACH_PIXEL = ("logistic regression of each pixel", pixel_by_pixel)


def overlap(truth: Sequence[Any], predicted: Sequence[Any]) -> float:
    """Return the mean over images of the intersection of two masks by their union."""
    return float(np.mean([(a & b).sum() / max((a | b).sum(), 1) for a, b in zip(truth, predicted, strict=True)]))


def right_pixels(truth: Sequence[Any], predicted: Sequence[Any]) -> float:
    """Return the share of right pixels."""
    return float(np.mean([(np.asarray(a) == b).mean() for a, b in zip(truth, predicted, strict=True)]))


def horses(seed: int, size: int = 40) -> Task:
    """20 crops of horses to learn from, 40 to judge by."""
    images, masks = load_horses()
    some = np.random.default_rng(seed).permutation(len(images))[:60].tolist()
    X, Y = [images[k][:size, :size] for k in some], [masks[k][:size, :size].astype(int) for k in some]
    return Task(X[:20], Y[:20], X[20:], Y[20:])


def tinted(seed: int, n: int = 15, states: int = 3) -> Task:
    """Smooth regions of some tints, with noise."""
    from scipy.ndimage import gaussian_filter

    r = np.random.default_rng(seed)
    Y = [gaussian_filter(r.normal(size=(states, 24, 24)), (0, 3, 3)).argmax(axis=0) for _ in range(2 * n)]
    tint = np.linspace(90, 170, states)[:, None] + np.array([10.0, 0.0, -10.0])
    X = [(tint[y] + r.normal(0, 50, (*y.shape, 3))).clip(0, 255).astype(np.uint8) for y in Y]
    return Task(X[:n], Y[:n], X[n:], Y[n:])


row("images: horses 40 x 40", GridSegmenter, EACH_PIXEL, overlap, draws=3)(horses)
row("images: horses, whole", GridSegmenter, EACH_PIXEL, overlap)(lambda seed: horses(seed, 64))
row("images: two tints", GridSegmenter, EACH_PIXEL, right_pixels, draws=2, small={"n": 5})(
    lambda seed, n=15: tinted(seed, n, 2)
)
row("images: three tints", GridSegmenter, EACH_PIXEL, right_pixels)(tinted)


# -- graphs --------------------------------------------------------------------------------------------


def node_by_node(task: Task) -> list[Any]:
    """Logistic regression of the nodes whose class is known."""
    x = np.concatenate([one["x"] for one in task.X])
    y = [label for one in task.Y for label in one]
    known = [k for k, label in enumerate(y) if label is not None]
    model = make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000))
    model.fit(x[known], [y[k] for k in known])
    return [np.array([model.predict(one["x"])]).ravel() for one in task.X_test]


EACH_NODE = ("logistic regression of each node", node_by_node)


def right_nodes(truth: Sequence[Any], predicted: Sequence[Any]) -> float:
    """Return the share of right nodes; those that were given are not counted."""
    found = [
        (p == label) for y, one in zip(truth, predicted, strict=True) for label, p in zip(y, one, strict=True)
        if label is not None
    ]  # fmt: skip
    return float(np.mean(found))


def partly(x: Any, edges: Any, y: Any, known: Any) -> Task:
    """Return one graph with some labels, judged by the others."""
    there = np.isin(np.arange(len(y)), known)
    given = [int(c) if k else None for c, k in zip(y, there, strict=True)]
    graph = {"x": x, "edges": edges, "y": given}
    return Task([graph], [given], [graph], [[None if k else int(c) for c, k in zip(y, there, strict=True)]])


def communities(seed: int, n: int = 500, share: float = 0.05) -> Task:
    """Four communities, features that tell half of them, one label in twenty."""
    import networkx as nx

    r = np.random.default_rng(seed)
    graph = nx.planted_partition_graph(4, n, 4.0 / n, 0.3 / n, seed=seed)
    y = np.arange(4 * n) // n
    known = r.permutation(4 * n)[: int(4 * n * share)]
    return partly(np.eye(4)[y] + r.normal(size=(4 * n, 4)), np.array(graph.edges), y, known)


def near_digits(seed: int) -> Task:
    """Images of digits beside their seven nearest, 100 of 1797 labelled."""
    from sklearn.datasets import load_digits
    from sklearn.neighbors import kneighbors_graph

    X, y = load_digits(return_X_y=True)
    near = kneighbors_graph(X, 7)
    edges = np.argwhere(np.triu((near + near.T).toarray()))
    return partly(X / 16, edges, y, np.random.default_rng(seed).permutation(len(y))[:100])


def opposites(seed: int, n: int = 600) -> Task:
    """Two kinds of nodes whose neighbours mostly differ, one label in ten."""
    r = np.random.default_rng(seed)
    y = np.arange(n) % 2
    ends = r.integers(n, size=(6 * n, 2))
    keep = (ends[:, 0] < ends[:, 1]) & ((y[ends[:, 0]] != y[ends[:, 1]]) | (r.random(len(ends)) < 0.15))
    return partly(np.eye(2)[y] + 1.2 * r.normal(size=(n, 2)), ends[keep], y, r.permutation(n)[: n // 10])


row("graphs: communities, 5 % labelled", GraphLabeller, EACH_NODE, right_nodes, draws=3)(communities)
row("graphs: nearest digits, 100 labelled", GraphLabeller, EACH_NODE, right_nodes)(near_digits)
row("graphs: opposites, 10 % labelled", GraphLabeller, EACH_NODE, right_nodes, draws=3, small={"n": 200})(opposites)
