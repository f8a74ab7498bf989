"""Random models of segments: scores by hand, answers and fits by all divisions of short sequences."""

from __future__ import annotations

import itertools
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from fuzz_structures import check

from ssvm_dsl import (
    Duration,
    Feature,
    Hamming,
    ModelBuilder,
    SpanLength,
    SpanMean,
    SpanSum,
    StructuredSVM,
    chain,
    pairs,
    spans,
    starts,
)
from ssvm_dsl.errors import NoBackendError, OptionError, TrainingError

UNIT, SHORT, LIMIT = "answers", 4, 120.0

NAMES = "ABC"


def ends(x: Any, start: Any, end: Any) -> Any:
    """Return the numbers at the first and the last position of spans."""
    return np.c_[x[start], x[end - 1]]


def trial(rng: np.random.Generator, scratch: Path) -> int:
    """Draw a model, and compare answers of random weights, then fits, with all divisions of short sequences."""
    model, most, names, by_hand, allowed = draw_model(rng)
    X = [{"x": rng.normal(size=(n, 1))} for n in rng.integers(1, 6, size=3).tolist()]
    every = [[y for y in divisions(len(x["x"]), most, names) if allowed(y)] for x in X]
    if not all(every):
        return 0
    Y = [mine[rng.integers(len(mine))] for mine in every]
    svm = StructuredSVM(model, C=0.01, trainer="one-slack", max_passes=1, n_threads=1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        shapes = {name: np.shape(one) for name, one in svm.fit(X, Y).weights_.items()}
    weights = {name: rng.normal(size=shape) for name, shape in shapes.items()}
    svm = StructuredSVM.from_weights(model, weights)
    named = {getattr(name, "name", name): one for name, one in weights.items()}
    for x, mine, ranked in zip(X, every, svm.predict_kbest(X, 3), strict=True):
        expected = np.array([by_hand(x["x"], y, named) for y in mine])
        found = svm.best_score([x] * len(mine), mine)
        assert np.allclose(found, expected, rtol=0.0, atol=1e-9), (str(model), found, expected)
        top = np.sort(expected)[::-1][:3]
        assert np.allclose([score for _, score in ranked], top, rtol=0.0, atol=1e-9), (str(model), ranked, top)
        assert len({str(y) for y, _ in ranked}) == len(ranked)
    return len(X) + fits(model, X, Y, every, rng)


def fits(model: Any, X: list[Any], Y: list[Any], every: list[Any], rng: np.random.Generator) -> int:
    """Compare the objective of a fit with sums and maxima over all divisions."""
    some = (("bcfw", "margin"), ("one-slack", "margin"), ("lbfgs", "log"), ("n-slack", "slack"))
    trainer, risk = some[rng.integers(len(some))]
    svm = StructuredSVM(model, trainer=trainer, risk=risk, C=float(10.0 ** rng.uniform(-1, 1)), max_passes=20)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            svm.fit(X, Y)
    except (NoBackendError, OptionError, TrainingError):
        return 0
    check(svm, X, Y, every, np.ones(len(X)))
    return 1


def draw_model(rng: np.random.Generator) -> tuple[Any, int, str, Any, Any]:
    """Return (a model, the longest segment, its classes, what scores a division by hand, which divisions it has)."""
    m, most, n = ModelBuilder("Segments"), int(rng.integers(1, 5)), int(rng.integers(1, 4))
    T = m.dim("T")
    x = m.input("x", T, 1)
    y = m.label("y", T, list(NAMES[:n]), segments=most)
    terms: list[Any] = []

    def add(name: str, target: Any, score: Any, **options: Any) -> None:
        if rng.random() < 0.5 or (name == "emit" and not terms):
            m.factor(name, target, **options)
            terms.append(lambda x, y, w: score(x, y, np.asarray(w[name])))

    def over(part: Any) -> Any:
        return lambda x, y, w: sum(float(part(x, s, e, NAMES.index(c), w)) for s, e, c in y)

    def steps(part: Any) -> Any:
        return lambda x, y, w: sum(
            float(part(x, b[0], NAMES.index(a[2]), NAMES.index(b[2]), w)) for a, b in itertools.pairwise(y)
        )

    add("emit", y, over(lambda x, s, e, c, w: x[s:e].sum() * w[c].item()), features=x)
    add("first", starts(y), over(lambda x, s, e, c, w: x[s, 0] * w[c].item()), features=x)
    add("each", spans(y), over(lambda x, s, e, c, w: w[c].item()))
    total, mean = SpanSum(x, spans(y)), SpanMean(x, spans(y))
    add("total", spans(y), over(lambda x, s, e, c, w: x[s:e].sum() * w[c].item()), features=total)
    add("mean", spans(y), over(lambda x, s, e, c, w: x[s:e].mean() * w[c].item()), features=mean)
    add("long", spans(y), over(lambda x, s, e, c, w: w.reshape(n, -1)[c, e - s - 1]), features=SpanLength(spans(y)))
    stored = bool(rng.random() < 0.5)
    add("both", spans(y), over(lambda x, s, e, c, w: w.reshape(n, -1)[c] @ [x[s, 0], x[e - 1, 0]]),
        features=Feature(ends, spans(y), width=2, stored=stored))  # fmt: skip
    add("trans", chain(y), steps(lambda x, at, a, b, w: w[a, b]))
    add("turn", chain(y), steps(lambda x, at, a, b, w: x[at, 0] * w.reshape(n, n, -1)[a, b, 0]), features=x)
    if rng.random() < 0.2:
        m.factor("near", pairs(y, T))
        terms.append(lambda x, y, w: _neighbours(y, np.asarray(w["near"])))
    if rng.random() < 0.3:
        table = rng.normal(size=n)
        m.given("bonus", spans(y), scores=table)
        terms.append(over(lambda x, s, e, c, w: table[c]))
    ruled: list[tuple[str, str]] = []
    if rng.random() < 0.3 and n > 1:
        ruled = [(NAMES[0], NAMES[1])]
        m.forbid("no", chain(y), ruled)
    low, high, cut = [1] * n, [most] * n, False
    if rng.random() < 0.4:
        low = [int(one) for one in rng.integers(1, most + 1, n)]
        high = [int(rng.integers(one, most + 1)) for one in low]
        cut = bool(rng.random() < 0.4)
        m.add("lasting", Duration(spans(y), least=dict(zip(NAMES, low)), most=dict(zip(NAMES, high)), cut=cut))
    m.loss(Hamming(y))

    def allowed(y: Any) -> bool:
        if any((a[2], b[2]) in ruled for a, b in itertools.pairwise(y)):
            return False
        bounds = [(e - s, low[NAMES.index(c)], high[NAMES.index(c)], s == 0 or e == y[-1][1]) for s, e, c in y]
        return all(size <= top and (size >= bottom or (cut and end)) for size, bottom, top, end in bounds)

    return m.build(), most, NAMES[:n], lambda x, y, w: sum(term(x, y, w) for term in terms), allowed


def _neighbours(y: Any, w: Any) -> float:
    classes = [NAMES.index(c) for s, e, c in y for _ in range(s, e)]
    return float(sum(w[a, b] for a, b in itertools.pairwise(classes)))


def divisions(size: int, most: int, names: str, start: int = 0) -> Any:
    """Yield all divisions of positions into segments with classes."""
    if start == size:
        yield []
    for end in range(start + 1, min(size, start + most) + 1):
        for name in names:
            for rest in divisions(size, most, names, end):
                yield [(start, end, name), *rest]
