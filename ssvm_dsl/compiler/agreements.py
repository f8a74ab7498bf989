"""States of auxiliary variables at labels that are known, and what their weights and features must be."""

from __future__ import annotations

from typing import Any

import numpy as np

from ssvm_dsl.array_types import I8, I32, Bools
from ssvm_dsl.compiler.features.encode import Rows
from ssvm_dsl.compiler.inputs import Examples
from ssvm_dsl.compiler.layout import Layout
from ssvm_dsl.compiler.rules import CircuitGrounder, world_of
from ssvm_dsl.compiler.scopes import ground_scopes
from ssvm_dsl.errors import DataError
from ssvm_dsl.ir.features import SparseRows
from ssvm_dsl.ir.program import AUXILIARY
from ssvm_dsl.ir.ragged import owner_of
from ssvm_dsl.lang.factors import Factor
from ssvm_dsl.lang.features.sources import walk_sources
from ssvm_dsl.lang.inputs import Input
from ssvm_dsl.lang.outputs.agreements import Agreement


def roles(layout: Layout) -> I8 | None:
    """Return the role of each variable as of :class:`~ssvm_dsl.ir.Program`, ``None`` without auxiliary ones."""
    if not layout.agreements:
        return None
    summed = [one for one in layout.agreements if not isinstance(one, Agreement)]  # functions of the others
    out = np.where(layout.auxiliary, AUXILIARY, layout.latent)
    for one in summed:
        out[layout.variables(one)] = one.is_latent
    return out.astype(np.int8)


def set_auxiliary(layout: Layout, examples: Examples, states: I32, unknown: Bools | None) -> Bools | None:
    """Write the states of auxiliary variables; return which variables are not known, these among them.

    Parameters
    ----------
    layout : Layout
    examples : Examples
    states : ndarray of int32, shape (V,)
        True states, but for auxiliary variables; changed in place.
    unknown : ndarray of bool, shape (V,), optional
        Which labels are not known.
    """
    hidden = np.zeros(len(states), dtype=bool) if unknown is None else unknown.copy()
    for one in layout.agreements:
        if one.is_latent or not isinstance(one, Agreement):
            continue
        sets, own = ground_scopes(one.of, layout, examples).shapes.variables(), layout.variables(one)
        states[own] = one.states_of(states[sets])
        hidden[own] = hidden[sets].any(axis=1)
    for circuit in layout.declaration.circuits:
        if not circuit.auxiliary or circuit.auxiliary[0].is_latent:
            continue
        world = world_of(circuit.inputs, examples, np.arange(examples.n))
        for gate in CircuitGrounder(circuit, layout.domains, world, layout.start).run().gates:
            states[gate.variable] = gate.states(states)
            row, variable = gate.variables()
            hidden[gate.variable[row[hidden[variable]]]] = True
    return hidden if hidden.any() else None


def require_nonnegative(factor: Factor, rows: Rows | None) -> None:
    """Refuse negative features of factors with auxiliary variables: these are right for scores of at least 0 only.

    Raises
    ------
    DataError
        Names feature and example.
    """
    if rows is None or not factor.agreements:
        return
    values = rows.values
    numbers = values.data if isinstance(values, SparseRows) else values.ravel()
    if numbers.min(initial=0.0) >= 0.0:
        return
    at = int(np.argmax(numbers < 0.0))
    width = values.shape[1]
    row = int(np.searchsorted(values.ptr, at, side="right")) - 1 if isinstance(values, SparseRows) else at // width
    sources: list[Any] = [one for one in walk_sources(factor.features) if isinstance(one, Input)]
    what = f"input '{sources[0].name}'" if len(sources) == 1 else f"features of factor '{factor.name}'"
    hint = f"'{factor.name}' is associative: form=POTTS, nonneg=True, over {factor.target.arity} variables"
    expected, found = "no number below 0", f"{numbers[at]:g}"
    raise DataError(what, example=owner_of(rows.ptr, row), expected=expected, found=found, hint=hint)
