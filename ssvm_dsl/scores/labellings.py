"""Scores of labellings, and sums of their indicators."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ssvm_dsl.array_types import F64, I32, I64
from ssvm_dsl.ir.program import Program
from ssvm_dsl.ir.ragged import positions
from ssvm_dsl.ir.solution import label_ptr, select
from ssvm_dsl.ir.theta import Theta


def score_labels(program: Program, theta: Theta, labels: I32, examples: I64 | None = None) -> F64:
    """Return the score of a labelling of each selected example, by the definition of :class:`Theta`.

    Parameters
    ----------
    labels : ndarray of int32
        Packed over the selected examples.
    examples : ndarray of int64, optional
        The selected examples; all by default.

    Returns
    -------
    ndarray of float64, shape (n,)
    """
    ids, ptr = select(program, examples), label_ptr(program, examples)
    scores = score_states(program, theta, labels, ids, ptr, checked=False)
    assert scores is not None
    return scores


def score_states(
    program: Program, theta: Theta, labels: I32, ids: I64, ptr: I64, checked: bool = True
) -> F64 | None:
    """Return the scores of labels that are packed at ``ptr``; ``None`` where one is no state, if that is checked."""
    from ssvm_dsl.kernels.scoring import add_node_scores, add_table_scores

    total = theta.const.copy() if ids is program.every_example else theta.const[ids]
    states = add_node_scores(theta.node, program.state_ptr, program.var_ptr, ids, ptr, labels, total)
    if checked and not states:
        return None
    for group, tables in zip(program.groups, theta.tables, strict=True):
        add_table_scores(group.flat, tables, ids, ptr, labels, total)
    return total


def node_scores(program: Program, node: F64, labels: I32, examples: I64 | None = None) -> F64:
    """Return ``sum_v node[v, y_v]`` of a packed labelling of each selected example; ``shape (n,)``."""
    from ssvm_dsl.kernels.scoring import add_node_scores

    ids = select(program, examples)
    total = np.zeros(len(ids))
    add_node_scores(node, program.state_ptr, program.var_ptr, ids, label_ptr(program, examples), labels, total)
    return total


def add_labels(program: Program, labels: I32, coef: F64, ids: I64, node: F64, tables: Sequence[F64]) -> None:
    """Add ``coef_i`` times the indicators of a labelling of each listed example to numbers laid out as a Theta.

    ``labels`` are packed over the listed examples; the others are those of :func:`add_marginals`.
    """
    from ssvm_dsl.kernels.marginals import add_table_labels

    counts = program.var_ptr[ids + 1] - program.var_ptr[ids]
    node[program.state_ptr[:-1][positions(program.var_ptr, ids)] + labels] += np.repeat(coef, counts)
    for group, table in zip(program.groups, tables, strict=True):
        add_table_labels(group.flat, program.var_ptr, ids, coef, labels, table)
