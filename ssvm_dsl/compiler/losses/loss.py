"""The declared loss as a :class:`~ssvm_dsl.ir.loss.LossTerm`: potentials on the variables, or a named kind."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ssvm_dsl.array_types import F64, I32, Bools
from ssvm_dsl.compiler.inputs import Examples
from ssvm_dsl.compiler.labels.structures import structure_of
from ssvm_dsl.compiler.layout import Layout
from ssvm_dsl.compiler.losses.count_loss import count_tables
from ssvm_dsl.compiler.losses.joint_loss import TrueLabels, factor_weights, loss_factors, prices_by_function
from ssvm_dsl.compiler.scopes import Scopes, ground_scopes
from ssvm_dsl.errors import DataError, PluginError
from ssvm_dsl.ir.loss import ADDITIVE, COUNT, JOINT, ZERO_ONE, LossFactors, LossTerm
from ssvm_dsl.ir.ragged import owners, pointers
from ssvm_dsl.lang.arrays import as_floats
from ssvm_dsl.lang.inputs import At, Input
from ssvm_dsl.lang.losses.cost import DISTANCE, WRONG, Cost
from ssvm_dsl.lang.losses.label_losses import (
    CountLoss,
    CustomLoss,
    Hamming,
    LabelLoss,
    Loss,
    NoLoss,
    WeighedLoss,
    ZeroOne,
)
from ssvm_dsl.lang.outputs.labels import Label
from ssvm_dsl.memory import fresh_zeros

#: Prices are made of so many states at a time: besides the loss itself they take no memory.
PART_STATES = 2**19

#: A custom loss of many examples: (true states of the label's variables, -1 where they are not known, number of states,
#: first variable of each example, **options) -> (n_variables, n_states) prices that are zero at the truth.
LossFunction = Callable[..., F64]


def build_loss(
    loss: Loss,
    layout: Layout,
    examples: Examples,
    truth: I32,
    ignored: Bools | None,
    custom: Callable[[str], LossFunction] | None = None,
    unseen: Bools | None = None,
) -> LossTerm:
    """Return the loss term of a batch with known truth.

    Parameters
    ----------
    loss : Loss
        The declared loss.
    layout, examples
        The model, grounded on the batch.
    truth : ndarray of int32, shape (V,)
    ignored : ndarray of bool, shape (V,), optional
        Variables without a known truth; they cost nothing.
    custom : callable, optional
        Finds the function of a registered custom loss by name.
    unseen : ndarray of bool, shape (V,), optional
        Variables whose true class is none of the model's: every state of theirs costs the most that it can.
    """
    node, tables = fresh_zeros(int(layout.card.sum(dtype=np.int64))), None
    factors: list[LossFactors] = []
    true_labels, weights = TrueLabels(layout, examples, truth, ignored, unseen), node_weights(loss, examples)
    const = np.zeros(layout.n)
    for weight, term in loss.terms:
        if isinstance(term, ZeroOne):
            never = truth if unseen is None else np.where(unseen, np.int32(-1), truth)
            return LossTerm(never, node, const, ZERO_ONE, weight)
        if isinstance(term, NoLoss):
            continue
        if isinstance(term, CountLoss):
            tables = count_tables(term, weight, true_labels)
            continue
        with np.errstate(over="ignore", invalid="ignore"):
            if isinstance(term, Cost) and term.of_factors:
                factors += loss_factors(term, weight, true_labels, weights)
                if term.target.of_single_spans:
                    _count_segments(term, weight, true_labels, node, const)
                continue
            assert isinstance(term, LabelLoss)
            if isinstance(term, Cost) and term.table == DISTANCE:
                _price_distances(term, weight, true_labels, node, const)
            elif isinstance(term, Cost) and term.label.pointer and term.table != WRONG:
                _price_pointers(term, weight, true_labels, node)
            elif isinstance(term, WeighedLoss) and term.at_positions:
                places = ground_scopes(term.target, layout, examples)
                _price_states(term, weight, true_labels, term.label, node, weights, custom, places)
            else:
                for part in structure_of(term.label).judged(term.label, parts_alone=isinstance(term, Cost)):
                    _price_states(term, weight, true_labels, part, node, weights, custom)
    largest = node.max(initial=0.0)
    for one in factors:
        largest = np.maximum(largest, one.largest().max(initial=0.0))
    if not np.isfinite(largest):
        hint = "prices, node weights and the weight of the loss are multiplied"
        raise DataError("loss", expected="finite prices", found="prices beyond the largest float", hint=hint)
    return LossTerm(truth, node, const, kind_of(loss), tables=tables, factors=tuple(factors))


def _count_segments(term: Cost, weight: float, true_labels: TrueLabels, node: F64, const: F64) -> None:
    """Price each segment of truth and answer, counted from the truth; those in both are priced below zero, by factors.

    All together is nothing at the truth, and nothing of it is in prices of states.
    """
    layout, truth = true_labels.layout, true_labels.states
    variables = np.arange(len(layout.card))[layout.variables(term.label.begins)]
    true = truth[variables]
    node[pointers(layout.card)[variables] + 1 - true] += weight * (1 - 2 * true)
    const += 2 * weight * np.bincount(owners(layout.var_ptr)[variables], true, layout.n)


def _price_pointers(term: Cost, weight: float, true_labels: TrueLabels, node: F64) -> None:
    """Price what each pointer may point to by what it should; all of them have as much to point to."""
    layout, _, truth, ignored, _ = true_labels
    label, prices = term.label, term.prices()
    parts = [part for part in (label, label.none) if part is not None]
    n_pointers, everywhere = layout.pairs(label)[0], np.arange(len(layout.card))
    owner = np.repeat(np.arange(layout.n), n_pointers)
    if not owner.size:
        return
    variables = np.hstack([everywhere[layout.variables(part)].reshape(len(owner), -1) for part in parts])
    live = np.ones(len(owner)) if ignored is None else 1.0 - ignored[variables[:, 0]]
    total = np.bincount(owner, weights=live, minlength=layout.n) if term.normalize else np.ones(layout.n)
    scale = weight * live / np.where(total > 0.0, total, 1.0)[owner]
    node[pointers(layout.card)[variables] + 1] += prices[truth[variables].argmax(axis=1)] * scale[:, None]


def _price_distances(term: Cost, weight: float, true_labels: TrueLabels, node: F64, const: F64) -> None:
    """Price what each pointer may point to by how far that is from where it should; axes may have any length.

    Prices are counted from the largest one of each pointer, so that the sum of those is the largest loss.
    """
    layout, _, truth, ignored, _ = true_labels
    variables = np.arange(len(layout.card))[layout.variables(term.label)]
    n_pointers, n_places = layout.pairs(term.label)
    length = np.repeat(n_places, n_pointers)
    owner, pointer = np.repeat(np.arange(layout.n), n_pointers), np.repeat(np.arange(len(length)), length)
    place = np.arange(len(variables)) - np.repeat(pointers(length)[:-1], length)
    right = truth[variables] == 1
    true = np.zeros(len(length), dtype=np.int64)
    true[pointer[right]] = place[right]
    live: F64 = np.ones(len(length))
    if ignored is not None:
        live -= ignored[variables[pointers(length)[:-1]]]
    total = np.bincount(owner, weights=live, minlength=layout.n) if term.normalize else np.ones(layout.n)
    scale = weight * live / np.where(total > 0.0, total, 1.0)[owner]
    most = scale * np.maximum(true, length - 1 - true)
    node[pointers(layout.card)[variables] + 1] += scale[pointer] * np.abs(place - true[pointer]) - most[pointer]
    const += np.bincount(owner, weights=most, minlength=layout.n)


def node_weights(loss: Loss, examples: Examples) -> dict[str, F64]:
    """Return the weights of variables that a loss looks at, by the name of the input: a row for each of its positions.

    Parameters
    ----------
    loss : Loss
    examples : Examples

    Raises
    ------
    DataError
        A weight is negative or not finite.
    """
    out = {}
    for _, term in loss.terms:
        given = term.node_weights if isinstance(term, WeighedLoss) else None
        if given is None:
            continue
        source, column = (given.source, given.column or 0) if isinstance(given, At) else (given, 0)
        arrays = [as_floats(array).reshape(-1, source.width or 1) for array in examples.raw[source.name]]
        for i, array in enumerate(arrays):
            wrong = np.flatnonzero(~(np.isfinite(array[:, column]) & (array[:, column] >= 0)))
            if len(wrong):
                expected = "finite non-negative numbers: they weigh the loss"
                what, found = f"input '{source.name}'", repr(array[wrong[0], column].item())
                raise DataError(what, example=i, expected=expected, found=found)
        out[source.name] = np.concatenate(arrays)
    return out


def kind_of(loss: Loss) -> str:
    """Return the kind of the loss term that a declared loss becomes."""
    kind = ADDITIVE
    for _, term in loss.terms:
        if isinstance(term, ZeroOne):
            return ZERO_ONE
        if isinstance(term, CountLoss):
            kind = COUNT
        elif isinstance(term, Cost) and term.of_factors and kind != COUNT:
            kind = JOINT
    return kind


def _price_states(
    term: LabelLoss, weight: float, true_labels: TrueLabels, label: Label, node: F64, weights: Mapping[str, F64],
    custom: Callable[[str], LossFunction] | None, places: Scopes | None = None,
) -> None:  # fmt: skip
    """Add the prices of one term to those of states: of all variables of a label, or of those at some places."""
    layout, examples, truth, ignored, unseen = true_labels
    if places is None:
        variables = np.arange(len(layout.card))[layout.variables(label)]
    else:
        variables = places.shapes.variables()[:, 0].astype(np.int64)
    states, turned = truth[variables], None
    if places is not None and places.turned is not None:  # what stands there are the converse classes
        turned = places.turned[places.shapes.spread(np.arange(len(places.turned))), 0]
        states = np.where(turned, np.array(label.converse, dtype=np.int32)[states], states)
    never = None if unseen is None else unseen[variables]
    returned = None
    if isinstance(term, CustomLoss):
        known = states if ignored is None else np.where(ignored[variables], np.int32(-1), states)
        returned = _custom_prices(term, known, owners(layout.var_ptr)[variables], layout.n, custom, never)
    elif places is not None and isinstance(term, Cost) and term.functions:
        returned = prices_by_function(term, places, layout, examples, states[:, None], never)
    sizes = total = None
    if isinstance(term, WeighedLoss) and (term.node_weights is not None or term.normalize):
        if places is not None:
            sizes = factor_weights(term, places, examples, weights)
        elif isinstance(term.node_weights, Input):
            cells, given = layout.rows(label), weights[term.node_weights.name][:, 0]
            sizes = given if cells is None else given[cells]
        if term.normalize:
            live = np.ones(len(states)) if sizes is None else sizes
            example = owners(layout.var_ptr)[variables]
            total = _totals(term, live if ignored is None else live * ~ignored[variables], example, layout)[example]
    start = None if len(layout.declaration.labels) == 1 and places is None else pointers(layout.card)
    rows, written = node.reshape(-1, label.n_states) if start is None else node, np.arange(label.n_states)[None]
    some = max(1, PART_STATES // label.n_states)
    for lo in range(0, len(variables), some):
        part = slice(lo, lo + some)
        prices = _prices(term, label, states[part]) if returned is None else returned[part]
        if returned is None and never is not None and (rows_of := np.flatnonzero(never[part])).size:
            prices[rows_of] = _worst(term, prices[rows_of])
        if sizes is not None:
            prices *= sizes[part, None]
        if total is not None:
            prices /= total[part, None]
        if ignored is not None:
            prices *= ~ignored[variables[part], None]
        prices *= weight
        if start is None:
            rows[part] += prices
        elif places is None:
            node[start[variables[part], None] + written] += prices
        else:  # a variable may stand at several places
            at = written if turned is None else np.where(turned[part, None], np.array(label.converse), written)
            np.add.at(node, start[variables[part], None] + at, prices)


def _totals(term: WeighedLoss, live: F64, example: NDArray[np.int64], layout: Layout) -> F64:
    """Return the divisor of the prices of each example: the sum of the weights of its variables, if there are weights.

    Of a pointer there is one pair for each thing that points.
    """
    total = np.bincount(example, weights=live, minlength=layout.n)
    if term.label.pointer:
        total = layout.pairs(term.label)[0].astype(np.float64)
    return np.where(total > 0.0, total, 1.0)


def _prices(term: LabelLoss, label: Label, states: I32) -> F64:
    """Return the price of each state of some variables of a label, or a part of it; ``shape (n, n_states)``."""
    n_states = label.n_states
    if isinstance(term, Cost) and not term.label.pointer:
        return term.prices()[states]
    if term.label.pointer:  # of the right pairs only: where one of them is left out, the pointer is wrong
        return np.stack([states.astype(np.float64), np.zeros(len(states))], axis=1)
    assert isinstance(term, Hamming)
    price: Any = 1.0 if term.weights is None else np.array(term.weights)[states]
    out = np.ones((len(states), n_states)) * np.reshape(price, (-1, 1))
    out[np.arange(len(states)), states] = 0.0
    return out


def _worst(term: LabelLoss, prices: F64) -> F64 | float:
    """Return the price of each state where no state is right; ``prices`` are those of a true class, a row each."""
    if isinstance(term, Cost) and not term.label.pointer:
        return np.asarray(term.prices().max(axis=0))
    if isinstance(term, Hamming):
        return 1.0 if term.weights is None else float(np.max(term.weights))
    return np.asarray(prices.max(axis=1, keepdims=True))


def _custom_prices(
    term: CustomLoss,
    states: I32,
    example: NDArray[np.int64],
    n_examples: int,
    custom: Callable[[str], LossFunction] | None,
    unseen: Bools | None,
) -> F64:
    """Return what a loss of a plug-in charges; where no state is right, the most that it charges for another truth."""
    if custom is None:
        raise PluginError(f"the loss '{term.kind}' comes from a plug-in; none was given to ground()")
    function, n_states = custom(term.kind), term.label.n_states

    def prices(truth: I32, owner: NDArray[np.int64]) -> F64:
        given = truth.view(), pointers(np.bincount(owner, minlength=n_examples))
        for array in given:  # the truth is not the function's to change
            array.flags.writeable = False
        return _checked_prices(function(given[0], n_states, given[1], **dict(term.options)), truth, term, given[1])

    if unseen is None or not unseen.any():
        return prices(states, example)
    out = prices(np.where(unseen, np.int32(-1), states), example)
    out[unseen] = 0.0
    touched = np.isin(example, example[unseen])
    strange = unseen[touched]
    for state in range(n_states):
        asked = prices(np.where(strange, np.int32(state), states[touched]), example[touched])
        out[unseen] = np.maximum(out[unseen], asked[strange])
    return out


def _checked_prices(returned: Any, states: I32, term: CustomLoss, ptr: NDArray[np.int64]) -> F64:
    """Return a copy of the result of the function of a loss, if it is valid."""
    shape, what = (len(states), term.label.n_states), f"loss '{term.kind}' of label '{term.label.name}'"
    try:
        kind = np.asarray(returned).dtype.kind
        prices = np.array(returned, dtype=np.float64) if kind in "biuf" else None
    except (TypeError, ValueError):  # rows of different lengths
        prices = None
    if prices is None:
        raise PluginError(f"{what}: expected an array of real numbers of shape {shape}, got {type(returned).__name__}")
    if prices.shape != shape:
        raise PluginError(f"{what}: expected prices of shape {shape}, got {prices.shape}")
    prices[states < 0] = 0.0
    wrong = ~np.isfinite(prices) | (prices < 0.0)
    known = np.flatnonzero(states >= 0)
    wrong[known, states[known]] |= prices[known, states[known]] != 0.0
    if wrong.any():
        v, state = np.argwhere(wrong)[0].tolist()
        i = int(np.searchsorted(ptr, v, side="right")) - 1
        where = f"example {i}, variable {v - ptr[i]}, state {state}, true state {states[v]}"
        text = f"prices are finite, not negative and zero at the truth, got {prices[v, state]:g} ({where})"
        raise PluginError(f"{what}: {text}")
    return prices
