"""A bound that holds without any search: no labelling scores more than the best entries of all scores together."""

from __future__ import annotations

import numpy as np

from ssvm_dsl.array_types import F64, I64
from ssvm_dsl.ir.program import Program
from ssvm_dsl.ir.question import Question
from ssvm_dsl.ir.ragged import positions, reduced


def trivial_bound(program: Program, question: Question) -> F64:
    """Return the constant, plus the best scores of all variables and the best entries of all tables.

        const + sum_v max_s node[v, s] + sum_f max_j table[f, j]

    Masks and clamps count.  Time is linear in the size of the scores.

    Parameters
    ----------
    program : Program
    question : Question

    Returns
    -------
    ndarray of float64, shape (n,)
        ``-inf`` where a variable or a factor has no state left.
    """
    ids = question.ids(program)
    total = question.theta.const[ids].copy()
    node, states = question.masked_node(program), positions(program.state_ptr[program.var_ptr], ids)
    best = reduced(np.maximum, node[states], program.own_state_ptr(ids)[:-1])
    total += _sums(best, np.diff(program.var_ptr)[ids])
    for group, tables in zip(program.groups, question.theta.tables, strict=True):
        if group.n_factors:
            rows = group.table_rows(ids)
            used = np.unique(rows) if len(rows) < len(tables) else slice(None)
            most = np.full(len(tables), -np.inf)
            most[used] = tables[used].max(axis=1)
            if group.of_spans:
                most = np.maximum(most, 0.0)  # where no segment begins
            total += _sums(most[rows], group.shapes.counts[ids])
    return total


def _sums(values: F64, counts: I64) -> F64:
    """Return the sum of each run of values."""
    owner = np.repeat(np.arange(len(counts)), counts)
    return np.asarray(np.bincount(owner, values, len(counts)), dtype=np.float64)
