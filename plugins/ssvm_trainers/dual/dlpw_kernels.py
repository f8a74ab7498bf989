"""One pass of DLPW steps in a compiled kernel: message passing, choices, and a move of the weights for each example.

The weights are ``s u`` with one number s, and the sum of the iterates, each times its share, is ``c u - v``, as in
:mod:`ssvm_trainers.shared.scaled_weights`.  Projecting onto a ball needs ``|u|^2``, which every move of an entry
of u changes by a known number; so a step touches no weights but those of the example.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ssvm_dsl.ir import F64, I32, I64, Theta
from ssvm_dsl.kernels import (
    BASIS_INDEX,
    BASIS_PTR,
    BASIS_STRIDE,
    BASIS_VALUE,
    CSR_INDICES,
    CSR_PTR,
    DENSE,
    FEATURE_STRIDE,
    FEATURES,
    KIND,
    NO_FEATURES,
    POOL,
    SCOPE,
    SPARSE,
    WIDTH,
    FlatMaps,
    ScoreSpace,
    StateScores,
    borrow,
    factor_config,
    factors_of,
    feature_row,
    njit,
    score_example,
    weight_of,
    weight_start,
)
from ssvm_trainers.shared.arrays import Fixed
from ssvm_trainers.shared.chunks import chunks, visit_cost
from ssvm_trainers.shared.scaled_weights import ScaledWeights, fold
from ssvm_trainers.shared.spaces import basis_space, fixed_arrays, map_scales

if TYPE_CHECKING:
    from ssvm_dsl.plugin_api import CompiledMessages, MessageProblem


class CompiledPass:
    """Passes over the examples of one problem.

    Parameters
    ----------
    problem : MessageProblem
    offer : CompiledMessages
    radius : float
        Of the ball the weights are projected onto.

    Attributes
    ----------
    messages : ndarray of float64
        Those of all examples, one after the other.
    """

    def __init__(self, problem: MessageProblem, offer: CompiledMessages, radius: float) -> None:
        program = problem.parameters.program
        theta = Theta.zeros(program)
        n_choices = np.diff(program.var_ptr) + sum(group.shapes.counts for group in program.groups)
        self.problem, self.offer, self.radius = problem, offer, radius
        self.messages, self.fixed = np.zeros(int(offer.message_ptr[-1])), fixed_arrays(problem)
        self.inputs = MessageInputs(
            offer.ints, offer.longs, offer.reals, np.empty(offer.work_size), offer.message_ptr,
            self.messages, np.zeros(int(n_choices.max(initial=1)), np.int32), choice_places(problem),
            np.ones(len(problem.parameters.maps)), ScoreSpace(theta.node, theta.pool, basis_space(problem)),
        )  # fmt: skip

    def run(self, w: F64, order: I64, t: int, passes: int, averaged: bool) -> F64:
        """Take a step for each example in order, the first one number t, and move w; return the sum of t times w.

        Parameters
        ----------
        w : ndarray of float64, shape (dim,)
        order : ndarray of int64
        t : int
        passes : int
            Of message passing, in each step.
        averaged : bool
            Whether the sum is wanted.
        """
        problem = self.problem
        weights, square = ScaledWeights.of(w, averaged), np.array([float(np.dot(w, w))])
        shrink = float(map_scales(problem)[:1].sum())
        try:
            for chunk in chunks(problem, order, passes * visit_cost(problem)):
                begin = problem.seconds()
                rule = StepRule(passes, problem.objective.weight, shrink, self.radius)
                dual_loss_steps(rule, self.offer.function, self.inputs, self.fixed, chunk, t, weights, square)
                t += len(chunk)
                problem.n_oracle_calls += len(chunk)
                problem.oracle_seconds += problem.seconds() - begin
        finally:  # the weights are whole again, whatever ended the pass
            weights.close()
        return weights.v


def choice_places(problem: MessageProblem) -> I64:
    """Return the offsets from factors of a shape to their places among the choices of an example; ``shape (M, n)``."""
    program, maps = problem.parameters.program, problem.parameters.maps
    counts = np.array([group.shapes.counts for group in program.groups], np.int64).reshape(-1, program.n_examples)
    before = np.diff(program.var_ptr) + np.cumsum(counts, axis=0) - counts
    out = np.zeros((len(maps), program.n_examples), np.int64)
    for m, one in enumerate(maps):
        if one.group >= 0:
            out[m] = before[one.group] - one.shapes.start[one.shapes.of]
    return out


class MessageInputs(NamedTuple):
    """The input of compiled message passing, and its work space.

    Parameters
    ----------
    ints, longs, reals : ndarray of int32, of int64 and of float64
        Its input other than scores.
    work : ndarray of float64
        Its work space.
    message_ptr : ndarray of int64, shape (n + 1,)
    messages : ndarray of float64
        Those of example i from ``message_ptr[i]`` on; changed in place for the examples visited.
    choices : ndarray of int32
        Work space: the choices of one example by its messages: the state of each of its variables, then the joint state
        of each factor.
    place : ndarray of int64, shape (M, n)
        Offset from a map's factor to its place in ``choices`` (:func:`choice_places`).
    scales : ndarray of float64, shape (M,)
        Work space.
    scores : ScoreSpace
        The scores of one example after the other.
    """

    ints: I32
    longs: I64
    reals: F64
    work: F64
    message_ptr: I64
    messages: F64
    choices: I32
    place: I64
    scales: F64
    scores: ScoreSpace


class StepRule(NamedTuple):
    """The rule by which an example moves the weights; read only.

    Parameters
    ----------
    passes : int
        Of message passing, in each step.
    weight : ndarray of float64, shape (n,)
        Weight of each example, not divided by n.
    shrink : float
        The scale of all weights in the regulariser.
    radius : float
        Of the ball; inf for none.
    """

    passes: int
    weight: F64
    shrink: float
    radius: float


@njit(cache=True, nogil=True, borrowed=True)
def dual_loss_steps(
    rule: StepRule,
    function: Any,
    inputs: MessageInputs,
    fixed: Fixed,
    order: I64,
    t: int,
    weights: ScaledWeights,
    square: F64,
) -> None:
    """Take one step for each example in order, at the weights ``w = s u``.

    Step t improves the messages of its example, takes their choices (the state c of every variable, the joint state
    of every factor, which need not agree), and moves, with length ``eta = 1 / (lam t)``,

        w <- (1 - eta lam scale) w + eta weight_i (Phi(x_i, y_i) - Phi(x_i) c) ,

    a subgradient step on the bound that the messages give (Meshi et al. 2010).  Then w is projected onto a ball.

    Parameters
    ----------
    rule : StepRule
    function : compiled function
        Of the signature :data:`ssvm_dsl.kernels.MESSAGE_SIGNATURE`.
    inputs : MessageInputs
        The messages of the listed examples are changed.
    fixed : Fixed
        Read only.
    order : ndarray of int64, shape (n_listed,)
        The examples.
    t : int
        Number of the first step, from 1 on.
    weights : ScaledWeights
        Changed in place; the sum has the share t of the iterate after step t.
    square : ndarray of float64, shape (1,)
        ``|u|^2``; changed in place.
    """
    rule, inputs, fixed, weights = borrow(rule), borrow(inputs), borrow(fixed), borrow(weights)
    scales, at, scores, scale = inputs.scales, inputs.message_ptr, inputs.scores, weights.scale
    states = StateScores(fixed.var_ptr, fixed.state_ptr, fixed.bonus)
    for k in range(len(order)):
        i, length = order[k], 1.0 / (fixed.lam * (t + k))
        scales[:] = scale[0]
        score_example(fixed.maps, states, i, weights.u, scales, scores)
        mine = inputs.messages[at[i] : at[i + 1]]
        function(
            inputs.ints,
            inputs.longs,
            inputs.reals,
            i,
            scores.pool,
            scores.node,
            rule.passes,
            mine,
            inputs.choices,
            inputs.work,
        )
        scale[0] *= 1.0 - length * fixed.lam * rule.shrink
        square[0] *= fold(weights) ** 2
        square[0] += move_to_truth(fixed, inputs, i, length * rule.weight[i] / scale[0], weights)
        norm = abs(scale[0]) * np.sqrt(max(square[0], 0.0))
        if norm > rule.radius:
            scale[0] *= rule.radius / norm
        if len(weights.v):
            weights.share[0] += (t + k) * scale[0]


@njit(cache=True, nogil=True, borrowed=True)
def move_to_truth(fixed: Fixed, inputs: MessageInputs, i: int, coef: float, weights: ScaledWeights) -> float:
    """Add ``coef (Phi(truth) - Phi choices)`` of example i to u and c times that to v; return how |u|^2 grew.

    Weights are changed at the features of the variables and factors whose choice is not the truth.
    """
    maps = fixed.maps
    desc, ints, lo, grown = maps.desc, maps.ints, fixed.var_ptr[i], 0.0
    for m in range(len(desc)):
        first, last = factors_of(maps, m, i)
        for f in range(first, last):
            true = np.int64(factor_config(maps, m, f, fixed.truth, lo))
            at = inputs.place[m, i] + f if desc[m, POOL] >= 0 else np.int64(ints[desc[m, SCOPE] + f])
            choice = np.int64(inputs.choices[at])
            if choice != true:
                grown += move_factor(maps, m, i, f, true, coef, weights)
                grown += move_factor(maps, m, i, f, choice, -coef, weights)
    return grown


@njit(cache=True, nogil=True, borrowed=True)
def move_factor(maps: FlatMaps, m: int, i: int, f: int, config: int, coef: float, weights: ScaledWeights) -> float:
    """Add coef times the features of a factor in a joint state to u, c times that to v; return how |u|^2 grew.

    This is :func:`ssvm_dsl.kernels.scoring.factor_add` for two vectors and with the change of a norm.

    Parameters
    ----------
    maps, m, i, f, config, coef
        As for :func:`ssvm_dsl.kernels.scoring.factor_add`.
    weights : ScaledWeights
        Changed in place.
    """
    u, v, share = weights.u, weights.v, weights.share[0]
    desc, ints, longs, features, values = maps
    start, row = weight_start(maps, m, f), feature_row(maps, m, i, f, config)
    kind, grown = desc[m, KIND], 0.0
    first = desc[m, BASIS_PTR] + config
    for entry in range(ints[first], ints[first + 1]):
        at = start + ints[desc[m, BASIS_INDEX] + entry] * desc[m, BASIS_STRIDE]
        value = coef * values[desc[m, BASIS_VALUE] + entry]
        if kind == NO_FEATURES:
            grown += move(u, v, at, value, share)
        elif kind == DENSE:
            x = desc[m, FEATURES] + row * desc[m, WIDTH]
            for p in range(desc[m, WIDTH]):
                grown += move(u, v, at + p, value * features[x + p], share)
        elif kind == SPARSE:
            for k in range(longs[desc[m, CSR_PTR] + row], longs[desc[m, CSR_PTR] + row + 1]):
                p = at + ints[desc[m, CSR_INDICES] + k] * desc[m, FEATURE_STRIDE]
                grown += move(u, v, p, value * features[desc[m, FEATURES] + k], share)
        else:
            for k in range(longs[desc[m, CSR_PTR] + row], longs[desc[m, CSR_PTR] + row + 1]):
                p = weight_of(maps, m, at, ints[desc[m, CSR_INDICES] + k], config)
                if p >= 0:
                    grown += move(u, v, p, value * features[desc[m, FEATURES] + k], share)
    return grown


@njit(cache=True, nogil=True, inline="always")
def move(u: F64, v: F64, p: int, step: float, share: float) -> float:
    """Add a step to an entry of u, and share times that to v; return by how much the square of the entry grew."""
    if share != 0.0:
        v[p] += share * step
    u[p] += step
    return step * (2.0 * u[p] - step)
