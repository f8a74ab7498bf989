"""The error for tables that violate the conditions of cuts: names the factor, the example and the entries."""

from __future__ import annotations

import numpy as np

from ssvm_backends.graphs.reduce import Reduced
from ssvm_dsl.errors import ScoreError
from ssvm_dsl.ir import I64, Program, label_ptr

#: Tables with more entries are not written out.
_LARGEST_SHOWN = 16


def lacking(
    backend: str, wanted: str, hint: str, program: Program, ids: I64, reduced: Reduced, factor: int
) -> ScoreError:
    """Return the error for one factor.

    Parameters
    ----------
    backend : str
        The backend.
    wanted : str
        The condition on the entries of a table, in words.
    hint : str
        Backends without this condition.
    program : Program
    ids : ndarray of int64
        The examples asked for.
    reduced : Reduced
        The reduced examples.
    factor : int
        The factor, as numbered in the reduced instance.
    """
    graph = reduced.instance.graph
    example = int(np.searchsorted(graph.factor_ptr, factor, side="right")) - 1
    slots = slice(int(graph.slot_ptr[factor]), int(graph.slot_ptr[factor + 1]))
    variables = graph.scope[slots].astype(np.int64)
    if reduced.kept is not None:
        starts = program.var_ptr[ids] - label_ptr(program, ids)[:-1]
        variables = reduced.kept[variables] + starts[example]
        example = int(ids[example])
    local = variables - program.var_ptr[example]
    start, size = int(graph.table_ptr[factor]), int(graph.table_size[factor])
    table = reduced.instance.pool[start : start + size].reshape(graph.card[graph.scope[slots]])
    entries = np.array2string(table, separator=", ").replace("\n", "") if size <= _LARGEST_SHOWN else f"{size} entries"
    return ScoreError(
        f"'{backend}' needs {wanted}; group '{_group_of(program, variables)}' of example {example} has a factor over "
        f"variables {local.tolist()} with scores {entries}\n  hint: {hint}"
    )


def _group_of(program: Program, variables: I64) -> str:
    """Return the name of the first group with a factor over (at least) these variables."""
    for group in program.groups:
        scope = group.shapes.variables()
        if len(scope) and np.isin(variables, scope).all():
            hit = np.ones(len(scope), dtype=bool)
            for v in variables:
                hit &= (scope == v).any(axis=1)
            if hit.any():
                return group.name
    return "?"
