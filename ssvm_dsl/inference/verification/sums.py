"""Sums of weighted marginals: those of a variable add up to the weights, those of factors to those of variables."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ssvm_dsl.array_types import F64, I64
from ssvm_dsl.ir.program import Program
from ssvm_dsl.ir.ragged import members

#: Accuracy of what ``expect`` adds, relative to the coefficients.
EXPECT_ATOL = 1e-6


def wrong_sums(program: Program, ids: I64, coef: F64, node: F64, tables: Sequence[F64]) -> str:
    """Return the mistakes in sums of weighted marginals, as text; empty if there are none.

    Those of a variable sum to the coefficient of its example.  Those of all factors that share a row of a table add up,
    state by state, to those of the variables they have there.
    """
    card, first = program.card, program.state_ptr[:-1]
    sums = np.add.reduceat(node, first) if len(card) else np.zeros(0)
    expected = np.zeros(len(card))
    expected[members(program.var_ptr, ids)] = np.repeat(coef, program.var_ptr[ids + 1] - program.var_ptr[ids])
    if not (np.abs(sums - expected) <= EXPECT_ATOL * np.maximum(1.0, np.abs(expected))).all():
        return "sum to one"
    for group, table in zip(program.groups, tables, strict=True):
        factors = members(group.ptr, ids)
        joint = table.reshape(-1, *group.cards)
        size = np.bincount(group.table[factors], np.repeat(np.abs(coef), np.diff(group.ptr)[ids]), group.n_tables)
        for r, n_states in enumerate(group.cards):
            of_tables = joint.sum(axis=tuple(axis + 1 for axis in range(group.arity) if axis != r))
            of_variables = np.zeros_like(of_tables)
            given = node[first[group.scope[factors, r]][:, None] + np.arange(n_states)]
            np.add.at(of_variables, group.table[factors], given)
            if not (np.abs(of_tables - of_variables) <= EXPECT_ATOL * np.maximum(1.0, size)[:, None]).all():
                return f"agree: those of the factors of '{group.name}' do not add up to those of their variables"
    return ""
