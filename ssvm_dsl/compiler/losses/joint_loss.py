"""What losses are judged against; and ``Cost`` of joint states: the factors that it prices, grounded on data."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ssvm_dsl.array_types import F64, I32, Bools
from ssvm_dsl.compiler.features.encode import Encoder
from ssvm_dsl.compiler.features.gathered import call_of_factors, class_arrays
from ssvm_dsl.compiler.inputs import Examples
from ssvm_dsl.compiler.layout import Layout
from ssvm_dsl.compiler.scopes import Scopes, ground_scopes
from ssvm_dsl.errors import DataError
from ssvm_dsl.ir.loss import LossFactors
from ssvm_dsl.ir.program import ONE_SPAN, Group
from ssvm_dsl.ir.ragged import owners, pointers, runs
from ssvm_dsl.lang.inputs import Input
from ssvm_dsl.lang.losses.cost import Cost
from ssvm_dsl.lang.losses.label_losses import Loss, WeighedLoss
from ssvm_dsl.lang.outputs.labels import Target


class TrueLabels(NamedTuple):
    """The labels that a loss compares answers with.

    Parameters
    ----------
    layout, examples
        The model, grounded on the batch.
    states : ndarray of int32, shape (V,)
        True states.
    ignored : ndarray of bool, shape (V,), optional
        Variables without a known truth; they cost nothing.
    unseen : ndarray of bool, shape (V,), optional
        Variables whose true class is none of the model's: every state of theirs costs the most that it can.
    """

    layout: Layout
    examples: Examples
    states: I32
    ignored: Bools | None
    unseen: Bools | None


def loss_factors(
    term: Cost, weight: float, true_labels: TrueLabels, weights: Mapping[str, F64]
) -> list[LossFactors]:
    """Return the factors of one term with their prices; those with a variable that is ignored are left out.

    Those whose variables stand in the other order, as converse classes, stand apart.

    Parameters
    ----------
    term : Cost
        Of a target that joins several variables.
    weight : float
        Multiplier of its prices.
    true_labels : TrueLabels
    weights : mapping of str to ndarray
        Weights of factors by the input they come from: :func:`~ssvm_dsl.compiler.losses.loss.node_weights`.
    """
    layout, examples, truth, ignored, unseen = true_labels
    if term.target.of_single_spans:
        return [_true_spans(term, weight, layout, truth, unseen)]
    scopes, total = ground_scopes(term.target, layout, examples), np.ones(layout.n)
    if ignored is not None:
        scopes = scopes.without(ignored, layout.var_ptr)
    if term.normalize:
        sizes = factor_weights(term, scopes, examples, weights)
        found = np.bincount(owners(scopes.shapes.ptr), weights=sizes, minlength=layout.n)
        total = np.where(found > 0.0, found, 1.0)
    out = []
    for one in scopes.parts(term.target):
        part, turned = one.scopes, one.states
        group, shapes = _group(term, part), part.shapes
        scale = weight * factor_weights(term, part, examples, weights) / total[owners(shapes.ptr)]
        true = (truth[shapes.variables()] @ group.strides).astype(np.int32)
        true = true if turned is None else turned[true].astype(np.int32)
        never: Bools | None = None if unseen is None else np.any(unseen[shapes.variables()], axis=1)
        if term.functions:
            states = np.stack(np.unravel_index(true, term.target.cards), axis=1)
            prices = prices_by_function(term, part, layout, examples, states, never)
            true = np.arange(len(prices), dtype=np.int32)
        else:
            prices = term.prices()
            if never is not None:
                prices = np.vstack([prices, prices.max(axis=0)])
                true[never] = len(prices) - 1
        out.append(LossFactors(group, prices if turned is None else prices[:, turned], true, scale))
    return out


def factor_weights(term: WeighedLoss, scopes: Scopes, examples: Examples, weights: Mapping[str, F64]) -> F64:
    """Return the weight of each factor of a batch; 0 where it is read at a position that does not exist."""
    given, shapes = term.node_weights, scopes.shapes
    if given is None:
        return np.ones(shapes.n_factors)
    if isinstance(given, Input):
        placed = shapes.spread(scopes.position(given.dims), pointers(examples.size(given.dims))[:-1])
        return np.asarray(weights[given.name][placed, 0])
    local, known = scopes.rows(given.places, given.source.dims)
    rows = shapes.spread(local, pointers(examples.size(given.source.dims))[:-1])
    column = weights[given.source.name][:, given.column or 0]
    if known is None:
        return np.asarray(column[rows])
    out, there = np.zeros(shapes.n_factors), shapes.spread(known)
    out[there] = column[rows[there]]
    return out


def prices_by_function(
    term: Cost, scopes: Scopes, layout: Layout, examples: Examples, states: NDArray[Any], never: Bools | None
) -> F64:
    """Return the price of each joint state of each factor, as a function of the user says; ``shape (n, n_configs)``.

    Parameters
    ----------
    term, scopes, layout, examples
        The factors.
    states : ndarray of int, shape (n, r)
        The true states.
    never : ndarray of bool, shape (n,), optional
        Factors with a variable whose true class is none of the model's: they cost the most that they can.

    Raises
    ------
    DataError
        The function fails, or returns prices that are negative, not finite, or not 0 at the truth.
    """
    target, ref = term.target, term.functions[0]
    encoder, cards = Encoder(layout.declaration, examples, {}), target.cards

    def prices(of: NDArray[Any]) -> F64:
        true = [
            np.array(label.classes or range(label.n_states))[column].reshape(-1, *[1] * len(cards))
            for label, column in zip(target.members, of.T, strict=True)
        ]
        found = call_of_factors(ref, [*true, *class_arrays(target)], term.places, target, scopes, encoder, "Cost")
        flat = found.reshape(len(found), prod(cards))
        at_truth = flat[np.arange(len(flat)), np.ravel_multi_index(tuple(of.T), cards)]
        wrong = np.flatnonzero(~np.isfinite(flat).all(axis=1) | (flat < 0).any(axis=1) | (at_truth != 0))
        if len(wrong):
            row = int(wrong[0])
            example = int(np.searchsorted(scopes.shapes.ptr, row, side="right")) - 1
            expected = "finite prices, not negative and 0 at the truth"
            shown = np.array2string(flat[row], precision=4, threshold=8)
            raise DataError(f"Cost {ref.path}", example=example, expected=expected, found=shown)
        return flat

    if never is None or not never.any():
        return prices(states)
    every = np.stack(np.unravel_index(np.arange(prod(cards)), cards), axis=1)
    asked = np.stack([prices(np.where(never[:, None], one, states)) for one in every])
    return np.asarray(asked.max(axis=0))


def priced_groups(loss: Loss, layout: Layout, examples: Examples) -> tuple[LossFactors, ...]:
    """Return the factors that a loss adds to graphs of training, as if every true joint state were the first.

    Backends are asked about it where there are no labels yet.
    """
    groups = []
    for weight, term in loss.terms:
        if isinstance(term, Cost) and term.of_factors:
            if term.target.of_single_spans:
                groups.append(_true_spans(term, weight, layout, np.zeros(len(layout.card), dtype=np.int32)))
                continue
            group = _group(term, ground_scopes(term.target, layout, examples))
            nothing = np.zeros(group.n_factors, dtype=np.int32)
            prices = np.ones((1, prod(term.target.cards))) if term.functions else term.prices()
            groups.append(LossFactors(group, weight * prices, nothing, np.ones(group.n_factors)))
    return tuple(groups)


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
