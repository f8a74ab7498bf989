"""``Cost`` of joint states: the factors that it prices, grounded on data."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from ssvm_dsl.array_types import F64, I32, Bools
from ssvm_dsl.compiler.inputs.validate import Examples
from ssvm_dsl.compiler.layout import Layout
from ssvm_dsl.compiler.scopes import Scopes, ground_scopes
from ssvm_dsl.ir.loss import LossFactors
from ssvm_dsl.ir.program import ONE_SPAN, Group
from ssvm_dsl.ir.ragged import owners, pointers, runs
from ssvm_dsl.lang.losses.cost import Cost
from ssvm_dsl.lang.losses.label_losses import Loss
from ssvm_dsl.lang.outputs.labels import Target


def loss_factors(
    term: Cost,
    weight: float,
    layout: Layout,
    examples: Examples,
    truth: I32,
    ignored: Bools | None,
    weights: Mapping[str, F64],
    unseen: Bools | None = None,
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
    unseen : ndarray of bool, shape (V,), optional
        Variables whose true class is none of the model's: every joint state with one costs the most that it can.
    """
    if term.target.of_single_spans:
        return _true_spans(term, weight, layout, truth, unseen)
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
    prices = term.prices()
    if unseen is not None:
        prices = np.vstack([prices, prices.max(axis=0)])
        true[unseen[shapes.variables()].any(axis=1)] = len(prices) - 1
    return LossFactors(group, prices, true, scale)


def priced_groups(loss: Loss, layout: Layout, examples: Examples) -> tuple[LossFactors, ...]:
    """Return the factors that a loss adds to graphs of training, as if every true joint state were the first.

    Backends are asked about it where there are no labels yet.
    """
    found = []
    for weight, term in loss.terms:
        if isinstance(term, Cost) and term.of_factors:
            if term.target.of_single_spans:
                found.append(_true_spans(term, weight, layout, np.zeros(len(layout.card), dtype=np.int32)))
                continue
            group = _group(term, ground_scopes(term.target, layout, examples))
            nothing = np.zeros(group.n_factors, dtype=np.int32)
            found.append(LossFactors(group, weight * term.prices(), nothing, np.ones(group.n_factors)))
    return tuple(found)


def _true_spans(term: Cost, weight: float, layout: Layout, truth: I32, unseen: Bools | None = None) -> LossFactors:
    """Return a factor for each segment of the truth; none is right where its class is none of the model's."""
    group, classes = true_spans(term.target, layout, truth)
    scale = np.full(len(classes), weight)
    if unseen is not None:
        scale[unseen[group.scope[:, 0]]] = 0.0
    return LossFactors(group, term.prices(), classes, scale)


def true_spans(target: Target, layout: Layout, truth: I32) -> tuple[Group, I32]:
    """Return a factor for each segment of the truth, whose spans are no variables, and the classes of these."""
    label, sizes = target.label, layout.count(target.label)
    classes, begins = (runs(layout.start(one), sizes) for one in (label, label.begins))
    first = np.flatnonzero(truth[begins] == 1)
    owner = np.repeat(np.arange(layout.n), sizes)[first]
    last = np.append(first[1:], len(begins))
    last = np.minimum(last, np.cumsum(sizes)[owner]) - 1  # of the segment
    after = np.where(last + 1 < np.cumsum(sizes)[owner], last + 1, first)
    columns = classes[first], begins[first], begins[last], begins[np.minimum(after, len(begins) - 1)]
    scope, n = np.stack(columns, axis=1).astype(np.int32), len(first)
    ptr, own = pointers(np.bincount(owner, minlength=layout.n)), np.arange(n, dtype=np.int32)
    group = Group.of(f"loss of {target!r}", target.cards, scope, ptr, own, n, layout.var_ptr, ONE_SPAN)
    return group, truth[classes[first]]


def _group(term: Cost, scopes: Scopes) -> Group:
    """Return factors that have a table each."""
    shapes, target = scopes.shapes, term.target
    return Group(f"loss of {target!r}", target.cards, shapes, shapes.own_number, shapes.ptr[:-1], shapes.n_factors)
