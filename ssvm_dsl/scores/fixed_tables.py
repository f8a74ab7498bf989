"""From prices of joint states and given scores to the flat record that compiled kernels read (``FixedTables``)."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ssvm_dsl.array_types import F64, I64
from ssvm_dsl.ir.loss import LossTerm
from ssvm_dsl.ir.program import Group
from ssvm_dsl.ir.ragged import owners, pointers
from ssvm_dsl.scores.parameter_map import ParameterMap

if TYPE_CHECKING:
    from ssvm_dsl.kernels.flat import FixedTables


class _Part(NamedTuple):
    """The factors of a group: in the pool or in the loss alone, rows of values, and which each factor has."""

    group: Group
    pooled: bool
    place: I64
    size: int
    values: F64
    row: NDArray[np.integer]
    scale: F64


def fixed_tables(parameters: ParameterMap, loss: LossTerm, predicted: bool = False) -> FixedTables:
    """Return what joint states score besides ``Phi w``, for kernels that call a compiled oracle.

    Parameters
    ----------
    parameters : ParameterMap
        Its program ends with the groups of the loss.
    loss : LossTerm
        Additive, or of the kind ``"joint"``.
    predicted : bool
        Whether the oracle answers without the loss, whose prices then stand in the second part of an example's factors;
        its tables are zeros.

    Returns
    -------
    FixedTables
        Without ``predicted`` all factors together score what is added to the loss of a labelling, and ``truth`` what is
        taken from it: the given scores of the truth.
    """
    from ssvm_dsl.kernels.flat import FixedTables

    program, constants = parameters.program, parameters.constants
    starts = pointers(np.array([g.n_tables * g.n_configs for g in program.groups], dtype=np.int64))
    parts: list[_Part] = []
    for g, table in ({} if constants is None else constants.tables).items():
        assert constants is not None
        weighted, shared, group = g in constants.weighted, len(table) == 1, program.groups[g]
        if (shared and not ((table != 0.0) & (table > -np.inf)).any()) or (weighted and predicted):
            continue  # ruled out or nothing; or in the tables of a map, where the oracle sees it
        rows = group.table_rows().astype(np.int64)
        place, size = starts[g] + rows * group.n_configs, 0 if shared else group.n_configs
        parts.append(_Part(group, not weighted, place, size, table, rows, np.ones(len(rows))))
    for g, one in enumerate(loss.factors, len(program.groups) - len(loss.groups)):
        rows, n_configs = one.group.table_rows().astype(np.int64), one.group.n_configs
        place, true = starts[g] + rows * n_configs, one.true[rows]
        pooled = np.zeros(len(rows)) if predicted else one.scale[rows]
        parts.append(_Part(one.group, True, place, n_configs, one.prices, true, pooled))
        if predicted:
            parts.append(_Part(one.group, False, place, 0, one.prices, true, one.scale[rows]))
    keys, entries = [np.zeros(0, np.int64)], [np.zeros((0, 5), np.int64)]
    slots, scales, values, scores = [np.zeros((0, 2), np.int64)], [np.zeros(0)], [np.zeros(0)], [np.zeros(0)]
    n_slots = n_values = 0
    for part in parts:
        owner, variables = owners(part.group.shapes.ptr), part.group.shapes.variables()
        arity = variables.shape[1]
        offset = n_values + part.row.astype(np.int64) * part.group.n_configs
        first = n_slots + np.arange(len(owner)) * arity
        columns = (
            part.place,
            offset,
            np.full(len(owner), part.size),
            first,
            np.full(len(owner), -arity if part.group.of_spans else arity),
        )
        strides = np.broadcast_to(1 if part.group.of_spans else part.group.strides, variables.shape)
        keys.append(2 * owner + (not part.pooled))
        entries.append(np.column_stack(columns))
        slots.append(np.stack([variables - program.var_ptr[owner][:, None], strides], axis=2).reshape(-1, 2))
        scales.append(part.scale)
        values.append(np.ravel(part.values))
        config = part.group.joint_states(variables, loss.truth)
        found = np.ravel(part.values)[offset - n_values + np.maximum(config, 0)]
        scores.append(part.scale * np.where(config >= 0, found, 0.0))
        n_slots, n_values = n_slots + variables.size, n_values + part.values.size
    key = np.concatenate(keys)
    order = np.argsort(key, kind="stable")
    return FixedTables(
        pointers(np.bincount(key, minlength=2 * program.n_examples)),
        np.ascontiguousarray(np.concatenate(entries)[order]),
        np.concatenate(scales)[order],
        np.ascontiguousarray(np.concatenate(slots)).astype(np.int64),
        np.concatenate(values),
        np.bincount(key // 2, np.concatenate(scores), program.n_examples).astype(np.float64),
    )
