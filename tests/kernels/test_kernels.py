"""The compiled scores of one example against the matrix form."""

from __future__ import annotations

import numpy as np
import pytest

import model_table
from ssvm_dsl.compiler import ground
from ssvm_dsl.ir.theta import Theta
from ssvm_dsl.kernels import ScoreSpace, StateScores
from ssvm_dsl.kernels.scoring import score_example


@pytest.mark.parametrize("model", model_table.TEMPLATES, ids=lambda m: m.__name__)
def test_score_example_equals_scores(model):
    X, Y, _, _ = model_table.make_data(model, 4, 11)
    g = ground(model, X, Y)
    rng = np.random.default_rng(0)
    w, program = rng.normal(size=g.parameters.dim), g.program
    whole, one = g.parameters.scores(w), Theta.zeros(program)
    one.pool[:] = np.nan
    bonus = rng.normal(size=program.n_states)
    work, scales = np.empty(64), rng.uniform(0.5, 2.0, size=len(g.parameters.maps))
    shrunk = w.copy()
    for fmap, scale in zip(g.parameters.maps, scales):
        if model is not model_table.Rich:  # tied maps share weights and must share the scale
            shrunk[fmap.block.offset : fmap.block.stop] = w[fmap.block.offset : fmap.block.stop] / scale
    scales = np.ones_like(scales) if model is model_table.Rich else scales
    given = StateScores(program.var_ptr, program.state_ptr, bonus)
    for i in range(program.n_examples):
        lo, hi = program.var_ptr[i], program.var_ptr[i + 1]
        space = ScoreSpace(one.node, one.pool, work)
        score_example(g.parameters.flat, given, i, shrunk, scales, space)
        states = slice(program.state_ptr[lo], program.state_ptr[hi])
        np.testing.assert_allclose(one.node[states], (bonus + whole.node)[states], rtol=1e-10, atol=1e-10)
        for group, got, expected in zip(program.groups, one.tables, whole.tables):
            rows = group.table[group.ptr[i] : group.ptr[i + 1]]
            np.testing.assert_allclose(got[rows], expected[rows], rtol=1e-10, atol=1e-10)
