"""``estimate`` tells the sizes of the arrays ``ground`` then makes."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest

import model_table
from ssvm_dsl import (
    Dim,
    Edges,
    Factor,
    Hamming,
    Input,
    Label,
    Model,
    SpanLength,
    SpanMean,
    along,
    chain,
    complete,
    estimate,
    ground,
    spans,
)
from ssvm_dsl.errors import TooLargeError
from ssvm_dsl.ir.features import NODE, SparseRows
from ssvm_dsl.ir.theta import Theta


def nbytes(rows):
    """Bytes of feature rows; the last pointer of sparse ones is one too many."""
    if isinstance(rows, SparseRows):
        return rows.data.nbytes + rows.indices.nbytes + rows.ptr.nbytes - 8
    return rows.nbytes


@pytest.mark.parametrize("model", model_table.TEMPLATES, ids=lambda m: m.__name__)
def test_sizes_are_those_of_the_arrays(model):
    X, Y, _, _ = model_table.make_data(model, 7, seed=0)
    told, made = estimate(model, X), ground(model, X, Y)
    theta = Theta.zeros(made.program)
    assert told.n_examples == made.n_examples
    assert told.n_variables == made.program.n_variables
    assert told.n_states == made.program.n_states
    assert told.node_bytes == theta.node.nbytes
    assert sum(f.table_bytes for f in told.factors) == theta.pool.nbytes
    sources, blocks = set(), {block.name: block for block in made.program.blocks}
    for estimated, fmap, factor in zip(told.factors, made.parameters.maps, model.declaration.factors):
        assert estimated.name == fmap.name
        assert estimated.n_factors == fmap.n_factors
        owned = blocks[fmap.name].size if factor.tie is None else 0
        assert estimated.n_weights in (owned, None)
        learnt = factor.features is not None and factor.features.width is None
        assert (estimated.n_weights is None) == (learnt or factor.weights == "observed")
        group = None if fmap.group == NODE else made.program.groups[fmap.group]
        assert estimated.n_tables == (0 if group is None else group.n_tables)
        assert estimated.table_bytes == (0 if group is None else theta.tables[fmap.group].nbytes)
        new = factor.features not in sources and factor.features is not None
        sources.add(factor.features)
        if not new or fmap.features.shape[1] == factor.features.width:
            assert estimated.feature_bytes == (nbytes(fmap.features) if new else 0)
    assert told.score_bytes == theta.node.nbytes + theta.pool.nbytes
    assert told.total_bytes >= max(told.peak_bytes, told.ground_bytes + told.score_bytes)


class Long(Model):
    T = Dim()
    x = Input(T, 2)
    y = Label(T, 500)
    emit = Factor(y, features=x)
    step = Factor(chain(y), features=x)
    agree = Factor(chain(y))
    loss = Hamming(y)


def test_nothing_large_is_allocated():
    X = [np.zeros((1000, 2))] * 100
    tracemalloc.start()
    told = estimate(Long, X)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert told.total_bytes > 8 * 100 * 999 * 500 * 500
    assert peak < 2_000_000


def test_print():
    lines = str(estimate(Long, [np.zeros((3, 2)), np.zeros((1, 2))])).splitlines()
    assert lines == [
        "Long: 2 examples, 4 variables, 2000 unary scores (16.0 kB)",
        "  emit   y: 4 factors, 1000 weights, no tables, features 64 B, structure 56 B",
        "  step   chain(y): 2 factors, 500000 weights, 4 tables (8.0 MB), features 0 B, structure 96 B",
        "  agree  chain(y): 2 factors, 250000 weights, 1 tables (2.0 MB), features 0 B, structure 80 B",
        "  laid out: 16.5 kB (on the way 48.6 kB), scores 10.0 MB",
        "  total: 10.0 MB",
    ]


class Dense(Model):
    """All pairs of a set, with a table of its own for each edge."""

    K = Dim(60)
    x = Input(3)
    y = Label(K, 2)
    own = Factor(y, features=x, per=K)
    pair = Factor(complete(y), per="edge")
    loss = Hamming(y)


class Lists(Model):
    """Edges that come with the examples: a shape for each."""

    N, M = Dim(), Dim()
    x = Input(N, 2)
    e = Edges(M, over=N)
    y = Label(N, 2)
    own = Factor(y, features=x)
    pair = Factor(along(y, e))
    loss = Hamming(y)


class Segmented(Model):
    """Spans, and the literals of their constraint."""

    T = Dim()
    x = Input(T, 4)
    y = Label(T, 6, segments=8)
    own = Factor(y, features=x)
    whole = Factor(spans(y), features=[SpanLength(spans(y)), SpanMean(x, spans(y))])
    pair = Factor(chain(y))
    loss = Hamming(y)


def lists(n):
    rng = np.random.default_rng(0)
    edges = [np.array(rng.permutation(300)[:200].reshape(100, 2)) for _ in range(n)]
    return [{"x": np.zeros((300, 2)), "e": one} for one in edges], [np.zeros(300, int)] * n


@pytest.mark.parametrize(
    ("model", "X", "Y"),
    [
        (Dense, [np.zeros(3)] * 400, [np.zeros(60, int)] * 400),
        (Lists, *lists(200)),
        (Segmented, [np.zeros((30, 4))] * 300, [[(t, t + 5, 0) for t in range(0, 30, 5)]] * 300),
    ],
)
def test_structure_is_counted_and_so_is_what_is_held_on_the_way(model, X, Y):
    """Scopes and rows of tables of each distinct shape, and what they are computed from."""
    ground(model, X[:1], Y[:1])
    told = estimate(model, X)
    tracemalloc.start()
    made = ground(model, X, Y)
    kept, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert made.n_examples == len(X)
    assert told.ground_bytes == pytest.approx(kept, rel=0.1)
    assert told.peak_bytes == pytest.approx(peak, rel=0.1)


def test_examples_of_one_shape_share_their_structure():
    one, many = (estimate(Dense, [np.zeros(3)] * n) for n in (1, 1000))
    assert [f.n_factors for f in many.factors] == [60_000, 1_770_000]
    grown = [(b.structure_bytes - a.structure_bytes) / 999 for a, b in zip(one.factors, many.factors, strict=True)]
    assert max(grown) < 50


def test_what_does_not_fit_is_refused_before_it_is_allocated(monkeypatch):
    monkeypatch.setattr("ssvm_dsl.memory.free_memory", lambda: 70e6)
    X, Y = [np.zeros((1000, 2))] * 100, [np.zeros(1000, int)] * 100
    tracemalloc.start()
    with pytest.raises(TooLargeError) as caught:
        ground(Long, X, Y)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 10_000_000
    text = str(caught.value)
    assert "model Long on 100 examples takes about" in text
    assert "63.0 MB are free" in text
    assert "pass fewer examples" in text
    assert ground(Long, [np.zeros((3, 2))], [np.zeros(3, int)]).n_examples == 1


def test_where_weights_take_most_the_hint_says_so(monkeypatch):
    monkeypatch.setattr("ssvm_dsl.memory.free_memory", lambda: 8e9)

    class Vocabulary(Model):
        T = Dim()
        x = Input(T, 2)
        y = Label(T, 40_000)
        emit = Factor(y, features=x)
        step = Factor(chain(y))
        loss = Hamming(y)

    with pytest.raises(TooLargeError, match=r"takes about 25.* GB of memory, and 7\.2 GB are free"):
        ground(Vocabulary, [np.zeros((3, 2))])
