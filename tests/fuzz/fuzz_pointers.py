"""Pointer labels with any structure and factors of several pointers: answers against all labellings."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import numpy as np

from ssvm_dsl import (
    AllDifferent,
    Arborescence,
    AtMost,
    Cost,
    Hamming,
    ModelBuilder,
    ProjectiveTree,
    StructuredSVM,
    grandparents,
    ground,
    pairs,
    siblings,
)
from ssvm_dsl.errors import InfeasibleError, NoBackendError

UNIT, SHORT, LIMIT = "answers", 5, 120.0


def trial(rng: np.random.Generator, scratch: Path) -> int:
    """Draw a model and weights, and compare what its backends find with all labellings."""
    model, null, feasible = draw_model(rng)
    n = int(rng.integers(1, 5 if rng.random() < 0.3 else 4))
    X = [{"x": rng.normal(size=(n, n, 2))}]
    every = [y for y in map(np.array, itertools.product(range(-1 if null else 0, n), repeat=n)) if feasible(y)]
    blocks = ground(model, X).parameters.blocks
    scale = 10.0 ** rng.uniform(-3, 3)
    weights = {block.name: scale * rng.normal(size=block.shape) for block in blocks}
    if rng.random() < 0.3:
        weights = {name: np.rint(one / scale) for name, one in weights.items()}
    svm = StructuredSVM.from_weights(model, weights)
    if not every:
        try:
            found = svm.predict(X)
        except (InfeasibleError, NoBackendError):
            return 1
        raise AssertionError(f"a labelling where there is none: {found}")
    scores = svm.best_score(X * len(every), every)
    close = 1e-7 * (1.0 + np.abs(scores).max())
    tried = 0
    for backend in ("auto", "decompose", "ilp"):
        svm.set_params(backend=backend)
        try:
            (found,) = svm.predict(X)
        except NoBackendError:
            continue
        at = f"{backend} of {model}"
        assert feasible(found), f"{found} is not allowed; {at}"
        best = float(svm.best_score(X, [found])[0])
        assert abs(best - scores.max()) <= close, (found, best, every[int(scores.argmax())], scores.max(), at)
        tried += 1
    loose = {"guarantee": "bound", "backend": "decompose", "backend_options": {"max_nodes": 1, "max_iterations": 3}}
    try:
        found, _, bound = svm.set_params(**loose).predict(X, return_bounds=True)
    except NoBackendError:
        return tried
    assert bound[0] >= scores.max() - close, (bound, scores.max(), str(model))
    assert svm.best_score(X, found)[0] <= scores.max() + close
    return tried + 1


def draw_model(rng: np.random.Generator) -> tuple[Any, bool, Any]:
    """Return (a model, whether a pointer may point nowhere, what its labellings keep)."""
    m = ModelBuilder("Pointers")
    T = m.dim("T")
    x, null = m.input("x", T, T, 2), bool(rng.random() < 0.7)
    y = m.label("y", T, over=T, null=null)
    m.factor("arc", y, features=x)
    if null and rng.random() < 0.5:
        m.factor("root", y.is_(None))
    if rng.random() < 0.4:
        m.factor("both", siblings(y))
    if rng.random() < 0.4:
        m.factor("above", grandparents(y))
    if rng.random() < 0.3:
        m.factor("next_", pairs(y, T))
    if rng.random() < 0.2:
        m.factor("moved", pairs(y, T, T), features=x)
    kinds: list[Any] = [None, AllDifferent]
    if null:
        kinds += [Arborescence, ProjectiveTree, Arborescence, ProjectiveTree]
    kind = kinds[rng.integers(len(kinds))]
    rules: list[Any] = []
    if kind is AllDifferent:
        m.constraint("rule", AllDifferent(y))
        rules.append(lambda h: len({*h[h >= 0].tolist()}) == int((h >= 0).sum()))
    elif kind is not None:
        single = bool(rng.random() < 0.5)
        m.constraint("rule", kind(y, single_root=single))
        rules.append(lambda h: is_tree(h, single) and (kind is Arborescence or is_projective(h)))
    if null and rng.random() < 0.15:
        m.constraint("few", AtMost(1, y.is_(None)))
        rules.append(lambda h: int((h < 0).sum()) <= 1)
    loss: Any = Hamming(y)
    m.loss(loss + 0.5 * Cost(siblings(y), "wrong") if rng.random() < 0.3 else loss)
    return m.build(), null, lambda h: all(rule(h) for rule in rules)


def is_tree(heads: Any, single: bool) -> bool:
    """Return whether pointers lead to the root, which points nowhere, from every word."""
    for d in range(len(heads)):
        seen, v = set(), d
        while v >= 0:
            if v in seen:
                return False
            seen.add(v)
            v = int(heads[v])
    return not single or int((heads < 0).sum()) == 1


def is_projective(heads: Any) -> bool:
    """Return whether no two arcs cross, those of the root (before the sentence) included."""
    arcs = [(min(h, d), max(h, d)) for d, h in enumerate(heads.tolist())]
    return not any(a < c < b < e for a, b in arcs for c, e in arcs)
