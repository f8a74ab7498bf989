"""``Cost`` of joint states: the factors that it prices, grounded on data."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from ssvm_dsl.array_types import F64, I32, Bools
from ssvm_dsl.compiler.inputs.validate import Examples
from ssvm_dsl.compiler.layout import Layout
from ssvm_dsl.compiler.scopes import Scopes, ground_scopes
from ssvm_dsl.ir.loss import LossFactors
from ssvm_dsl.ir.program import Group
from ssvm_dsl.ir.ragged import owners, pointers
from ssvm_dsl.lang.losses.cost import Cost
from ssvm_dsl.lang.losses.label_losses import Loss


def loss_factors(
    term: Cost,
    weight: float,
    layout: Layout,
    examples: Examples,
    truth: I32,
    ignored: Bools | None,
    weights: Mapping[str, F64],
) -> LossFactors:
    """Return the factors of one term with their prices; those with a variable that is ignored are left out.

    Parameters
    ----------
    term : Cost
        Of a target that joins several variables.
    weight : float
        Multiplier of its prices.
    layout, examples
        The model, grounded on the batch.
    truth : ndarray of int32, shape (V,)
    ignored : ndarray of bool, shape (V,), optional
    weights : mapping of str to ndarray
        Weights of factors by the input they come from: :func:`~ssvm_dsl.compiler.losses.loss.node_weights`.
    """
    scopes = ground_scopes(term.target, layout, examples)
    if ignored is not None:
        scopes = scopes.without(ignored, layout.var_ptr)
    group, shapes = _group(term, scopes), scopes.shapes
    scale = np.full(shapes.n_factors, weight)
    if term.node_weights is not None:
        given = term.node_weights
        rows = shapes.spread(scopes.position(given.dims), pointers(examples.size(given.dims))[:-1])
        scale = scale * weights[given.name][rows]
    if term.normalize:
        owner = owners(shapes.ptr)
        total = np.bincount(owner, weights=scale / weight if weight else scale, minlength=layout.n)
        scale = scale / np.where(total > 0.0, total, 1.0)[owner]
    true = (truth[shapes.variables()] @ group.strides).astype(np.int32)
    return LossFactors(group, term.prices(), true, scale)


def priced_groups(loss: Loss, layout: Layout, examples: Examples) -> tuple[LossFactors, ...]:
    """Return the factors that a loss adds to graphs of training, as if every true joint state were the first.

    Backends are asked about it where there are no labels yet.
    """
    found = []
    for weight, term in loss.terms:
        if isinstance(term, Cost) and term.of_factors:
            group = _group(term, ground_scopes(term.target, layout, examples))
            nothing = np.zeros(group.n_factors, dtype=np.int32)
            found.append(LossFactors(group, weight * term.prices(), nothing, np.ones(group.n_factors)))
    return tuple(found)


def _group(term: Cost, scopes: Scopes) -> Group:
    """Return factors that have a table each."""
    shapes, target = scopes.shapes, term.target
    return Group(f"loss of {target!r}", target.cards, shapes, shapes.own_number, shapes.ptr[:-1], shapes.n_factors)
