"""The declared loss as a :class:`~ssvm_dsl.ir.loss.LossTerm`: potentials on the variables, or a named kind."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ssvm_dsl.compiler.layout import Layout
from ssvm_dsl.errors import PluginError
from ssvm_dsl.ir.loss import ADDITIVE, ZERO_ONE, LossTerm
from ssvm_dsl.ir.ragged import owners
from ssvm_dsl.lang.losses import Cost, CustomLoss, Hamming, LabelLoss, Loss, NoLoss, ZeroOne

F64 = NDArray[np.float64]
I32 = NDArray[np.int32]

#: A custom loss: (truth of the label's variables, number of states, example of each variable, **options)
#: -> (n_variables, n_states) potentials that are zero at the truth.
LossFunction = Callable[..., F64]


def build_loss(
    loss: Loss,
    layout: Layout,
    truth: I32,
    ignored: NDArray[np.bool_] | None,
    custom: Callable[[str], LossFunction] | None = None,
) -> LossTerm:
    """Return the loss term of a batch with known truth.

    Parameters
    ----------
    loss : Loss
        The declared loss.
    truth : ndarray of int32, shape (V,)
    ignored : ndarray of bool, shape (V,), optional
        Variables without a known truth; they cost nothing.
    custom : callable, optional
        Finds the function of a registered custom loss by name.
    """
    node = np.zeros(int(layout.card.sum(dtype=np.int64)))
    const = np.zeros(layout.n)
    for weight, term in loss.terms:
        if isinstance(term, ZeroOne):
            return LossTerm(truth, node, const, ZERO_ONE, weight)
        if isinstance(term, NoLoss):
            continue
        assert isinstance(term, LabelLoss)
        _add(node, weight, term, layout, truth, ignored, custom)
    return LossTerm(truth, node, const, ADDITIVE)


def _add(
    node: F64,
    weight: float,
    term: LabelLoss,
    layout: Layout,
    truth: I32,
    ignored: NDArray[np.bool_] | None,
    custom: Callable[[str], LossFunction] | None,
) -> None:
    """Add the potentials of one term to ``node``."""
    variables = layout.variables(term.label)
    states = truth[variables]
    example = owners(layout.var_ptr)[variables]
    prices = _prices(term, states, example, custom)
    if isinstance(term, Hamming | Cost) and term.normalize:
        live = np.ones(len(states)) if ignored is None else (~ignored[variables]).astype(float)
        count = np.bincount(example, weights=live, minlength=layout.n)
        prices = prices / np.maximum(count, 1.0)[example][:, None]
    if ignored is not None:
        prices = prices * ~ignored[variables][:, None]
    if len(layout.declaration.labels) == 1:
        node += (weight * prices).ravel()
        return
    start = np.concatenate([[0], np.cumsum(layout.card, dtype=np.int64)])[:-1][variables]
    node[start[:, None] + np.arange(term.label.n_states)] += weight * prices


def _prices(
    term: LabelLoss, states: I32, example: NDArray[np.int64], custom: Callable[[str], LossFunction] | None
) -> F64:
    """Return the price of each state of each variable; ``shape (n, n_states)``."""
    n_states = term.label.n_states
    if isinstance(term, Cost):
        return np.array(term.matrix)[states]
    if isinstance(term, CustomLoss):
        return _custom_prices(term, states, example, custom)
    assert isinstance(term, Hamming)
    price: Any = 1.0 if term.weights is None else np.array(term.weights)[states]
    out = np.ones((len(states), n_states)) * np.reshape(price, (-1, 1))
    out[np.arange(len(states)), states] = 0.0
    return out


def _custom_prices(
    term: CustomLoss, states: I32, example: NDArray[np.int64], custom: Callable[[str], LossFunction] | None
) -> F64:
    if custom is None:
        raise PluginError(f"the loss '{term.kind}' comes from a plug-in; none was given to ground()")
    prices = np.asarray(custom(term.kind)(states, term.label.n_states, example, **dict(term.options)), dtype=float)
    shape = (len(states), term.label.n_states)
    if prices.shape != shape or not np.isfinite(prices).all():
        raise PluginError(f"loss '{term.kind}': expected finite potentials of shape {shape}, got {prices.shape}")
    if np.abs(prices[np.arange(len(states)), states]).max(initial=0.0) > 0 or prices.min(initial=0.0) < 0:
        raise PluginError(f"loss '{term.kind}': potentials are non-negative and zero at the truth")
    return prices
