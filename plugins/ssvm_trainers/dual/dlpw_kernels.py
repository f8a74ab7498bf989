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
    N_CONFIGS,
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
        self.problem, self.offer, self.radius = problem, offer, radius
        self.messages, self.fixed = np.zeros(int(offer.message_ptr[-1])), fixed_arrays(problem)
        place, most = choice_places(problem, offer.soft)
        choices: I32 | F64 = np.zeros(most) if offer.soft else np.zeros(most, np.int32)
        self.inputs = MessageInputs(
            offer.ints, offer.longs, offer.reals, np.empty(offer.work_size), offer.message_ptr,
            self.messages, choices, place, np.ones(len(problem.parameters.maps)),
            ScoreSpace(theta.node, theta.pool, basis_space(problem)),
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
                steps = soft_loss_steps if self.offer.soft else dual_loss_steps
                steps(rule, self.offer.function, self.inputs, self.fixed, chunk, t, weights, square)
                t += len(chunk)
                problem.n_oracle_calls += len(chunk)
                problem.oracle_seconds += problem.seconds() - begin
        finally:  # the weights are whole again, whatever ended the pass
            weights.close()
        return weights.v


def choice_places(problem: MessageProblem, soft: bool) -> tuple[I64, int]:
    """Return the offsets from factors of a shape to their places among the choices of an example, and the most choices.

    Of soft maxima a factor has as many places as joint states.  The offsets have ``shape (M, n)``.
    """
    program, maps = problem.parameters.program, problem.parameters.maps
    each = np.array([group.n_configs if soft else 1 for group in program.groups], np.int64)
    counts = np.array([group.shapes.counts for group in program.groups], np.int64).reshape(-1, program.n_examples)
    counts = counts * each[:, None]
    first = program.state_ptr[program.var_ptr] if soft else program.var_ptr
    before = np.diff(first) + np.cumsum(counts, axis=0) - counts
    out = np.zeros((len(maps), program.n_examples), np.int64)
    for m, one in enumerate(maps):
        if one.group >= 0:
            out[m] = before[one.group] - each[one.group] * one.shapes.start[one.shapes.of]
    return out, int((np.diff(first) + counts.sum(axis=0)).max(initial=1))


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
    choices : ndarray of int32 or of float64
        Work space: the choices of one example by its messages: the state of each of its variables, then the joint state
        of each factor.  Of soft maxima the probabilities of states and joint states.
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
    choices: I32 | F64
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
    for k in range(len(order)):
        i, length = order[k], 1.0 / (fixed.lam * (t + k))
        pass_messages(rule, function, inputs, fixed, i, weights)
        shrink(rule, length * fixed.lam, weights, square)
        square[0] += move_to_truth(fixed, inputs, i, length * rule.weight[i] / weights.scale[0], weights)
        project(rule, float(t + k), weights, square)


@njit(cache=True, nogil=True, borrowed=True)
def soft_loss_steps(
    rule: StepRule,
    function: Any,
    inputs: MessageInputs,
    fixed: Fixed,
    order: I64,
    t: int,
    weights: ScaledWeights,
    square: F64,
) -> None:
    """Take the steps of :func:`dual_loss_steps` with soft maxima: the gradient of the bound are probabilities.

    Parameters
    ----------
    rule, inputs, fixed, order, t, weights, square
        As for :func:`dual_loss_steps`.
    function : compiled function
        Of the signature :data:`ssvm_dsl.kernels.SOFT_MESSAGE_SIGNATURE`.
    """
    rule, inputs, fixed, weights = borrow(rule), borrow(inputs), borrow(fixed), borrow(weights)
    for k in range(len(order)):
        i, length = order[k], 1.0 / (fixed.lam * (t + k))
        pass_messages(rule, function, inputs, fixed, i, weights)
        shrink(rule, length * fixed.lam, weights, square)
        square[0] += move_from_marginals(fixed, inputs, i, length * rule.weight[i] / weights.scale[0], weights)
        project(rule, float(t + k), weights, square)


@njit(cache=True, nogil=True, borrowed=True)
def pass_messages(
    rule: StepRule, function: Any, inputs: MessageInputs, fixed: Fixed, i: int, weights: ScaledWeights
) -> None:
    """Improve the messages of example i at the weights, and write its choices; see :func:`dual_loss_steps`."""
    at, scores = inputs.message_ptr, inputs.scores
    inputs.scales[:] = weights.scale[0]
    states = StateScores(fixed.var_ptr, fixed.state_ptr, fixed.bonus)
    score_example(fixed.maps, states, i, weights.u, inputs.scales, scores)
    function(
        inputs.ints,
        inputs.longs,
        inputs.reals,
        i,
        scores.pool,
        scores.node,
        rule.passes,
        inputs.messages[at[i] : at[i + 1]],
        inputs.choices,
        inputs.work,
    )


@njit(cache=True, nogil=True)
def shrink(rule: StepRule, share: float, weights: ScaledWeights, square: F64) -> None:
    """Take the regulariser's part of a step: multiply the weights by ``1 - share scale``."""
    weights.scale[0] *= 1.0 - share * rule.shrink
    square[0] *= fold(weights) ** 2


@njit(cache=True, nogil=True)
def project(rule: StepRule, t: float, weights: ScaledWeights, square: F64) -> None:
    """Project the weights onto the ball, and add t times them to the sum."""
    scale = weights.scale
    norm = abs(scale[0]) * np.sqrt(max(square[0], 0.0))
    if norm > rule.radius:
        scale[0] *= rule.radius / norm
    if len(weights.v):
        weights.share[0] += t * scale[0]


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
def move_from_marginals(fixed: Fixed, inputs: MessageInputs, i: int, coef: float, weights: ScaledWeights) -> float:
    """Add ``coef (Phi(truth) - Phi mu)`` of example i and its probabilities mu as :func:`move_to_truth` does."""
    maps = fixed.maps
    desc, ints, lo, grown = maps.desc, maps.ints, fixed.var_ptr[i], 0.0
    for m in range(len(desc)):
        first, last = factors_of(maps, m, i)
        n = desc[m, N_CONFIGS]
        for f in range(first, last):
            true = np.int64(factor_config(maps, m, f, fixed.truth, lo))
            if desc[m, POOL] >= 0:
                at = inputs.place[m, i] + f * n
            else:
                at = fixed.state_ptr[lo + ints[desc[m, SCOPE] + f]] - fixed.state_ptr[lo]
            for c in range(n):
                amount = (1.0 if c == true else 0.0) - inputs.choices[at + c]
                if amount != 0.0:
                    grown += move_factor(maps, m, i, f, np.int64(c), coef * amount, weights)
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
