"""``estimate`` tells the sizes of the arrays ``ground`` then makes."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest

import catalogue
from ssvm_dsl import Dim, Factor, Hamming, Input, Label, Model, chain, estimate, ground
from ssvm_dsl.ir.features import NODE, SparseRows
from ssvm_dsl.ir.theta import Theta


@pytest.mark.parametrize("model", catalogue.ALL, ids=lambda m: m.__name__)
def test_sizes_are_those_of_the_arrays(model):
    X, Y, _, _ = catalogue.make_data(model, 7, seed=0)
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
        new = factor.features not in sources and not isinstance(fmap.features, SparseRows | None)
        sources.add(factor.features)
        assert estimated.feature_bytes == (fmap.features.nbytes if new else 0)
    assert told.total_bytes == theta.node.nbytes + theta.pool.nbytes + sum(f.feature_bytes for f in told.factors)


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
        "  emit   y: 4 factors, 1000 weights, no tables, features 64 B",
        "  step   chain(y): 2 factors, 500000 weights, 4 tables (8.0 MB), features 0 B",
        "  agree  chain(y): 2 factors, 250000 weights, 1 tables (2.0 MB), features 0 B",
        "  total: 10.0 MB",
    ]
