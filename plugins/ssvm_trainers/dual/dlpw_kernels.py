"""One pass of DLPW steps in a compiled kernel: message passing, choices, and a move of the weights for each example.

The weights are ``s u`` with one number s, and the sum of the iterates, each times its share, is ``c u - v``, as in
:mod:`ssvm_trainers.online.subgradient_kernels`.  Projecting onto a ball needs ``|u|^2``, which every move of an entry
of u changes by a known number; so a step touches no weights but those of the example.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

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
    borrow,
    factor_config,
    factors_of,
    feature_row,
    njit,
    score_example,
    weight_of,
    weight_start,
)
from ssvm_trainers.online.subgradient_kernels import fold
from ssvm_trainers.shared.arrays import Fixed
from ssvm_trainers.shared.chunks import chunks, visit_cost
from ssvm_trainers.shared.spaces import fixed_arrays, map_scales

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
        program, maps = problem.parameters.program, problem.parameters.maps
        self.problem, self.offer, self.radius = problem, offer, radius
        self.messages, self.theta = np.zeros(int(offer.message_ptr[-1])), Theta.zeros(program)
        self.fixed, self.place = fixed_arrays(problem), choice_places(problem)
        n_choices = np.diff(program.var_ptr) + sum(group.shapes.counts for group in program.groups)
        self.choices, self.work = np.zeros(int(n_choices.max(initial=1)), np.int32), np.empty(offer.work_size)
        self.scores = np.zeros(max((m.n_basis for m in maps), default=1))

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
        problem, offer = self.problem, self.offer
        shrink, v = float(map_scales(problem)[:1].sum()), np.zeros(problem.dim if averaged else 0)
        state = np.array([1.0, 0.0, float(np.dot(w, w))])
        try:
            for chunk in chunks(problem, order, passes * visit_cost(problem)):
                begin = problem.seconds()
                dual_loss_steps(
                    offer.function, offer.ints, offer.longs, offer.reals, self.work, offer.message_ptr, self.messages,
                    passes, self.theta.node, self.theta.pool, problem.parameters.flat, self.fixed, self.place,
                    self.scores, self.choices, chunk, problem.objective.weight, t, shrink, self.radius, w, v, state,
                    averaged,
                )  # fmt: skip
                t += len(chunk)
                problem.n_oracle_calls += len(chunk)
                problem.oracle_seconds += problem.seconds() - begin
            return state[1] * w - v if averaged else v
        finally:  # the weights are whole again, whatever ended the pass
            w *= state[0]


def choice_places(problem: MessageProblem) -> I64:
    """Return what to add to a factor of a shape to get its place among the choices of an example; ``shape (M, n)``."""
    program, maps = problem.parameters.program, problem.parameters.maps
    counts = np.array([group.shapes.counts for group in program.groups], np.int64).reshape(-1, program.n_examples)
    before = np.diff(program.var_ptr) + np.cumsum(counts, axis=0) - counts
    out = np.zeros((len(maps), program.n_examples), np.int64)
    for m, one in enumerate(maps):
        if one.group >= 0:
            out[m] = before[one.group] - one.shapes.start[one.shapes.of]
    return out


@njit(cache=True, nogil=True)
def dual_loss_steps(
    function: Any, ints: I32, longs: I64, reals: F64, work: F64, message_ptr: I64, messages: F64, passes: int,
    node: F64, pool: F64, maps: FlatMaps, fixed: Fixed, place: I64, scores: F64, choices: I32, order: I64, weight: F64,
    t: int, shrink: float, radius: float, u: F64, v: F64, state: F64, averaged: bool,
) -> None:  # fmt: skip
    """Take one step for each example in order, at the weights ``w = s u``.

    Step t improves the messages of its example, takes what they choose (the state c of every variable, the joint state
    of every factor, which need not agree), and moves, with length ``eta = 1 / (lam t)``,

        w <- (1 - eta lam scale) w + eta weight_i (Phi(x_i, y_i) - Phi(x_i) c) ,

    a subgradient step on the bound that the messages give (Meshi et al. 2010).  Then w is projected onto a ball.

    Parameters
    ----------
    function : compiled function
        Of the signature :data:`ssvm_dsl.kernels.oracles.signatures.MESSAGE_SIGNATURE`.
    ints, longs, reals : ndarray of int32, of int64 and of float64
        What it reads besides scores.
    work : ndarray of float64
        Its work space.
    message_ptr : ndarray of int64, shape (n + 1,)
    messages : ndarray of float64
        Those of example i from ``message_ptr[i]`` on; changed in place for the examples visited.
    passes : int
        Of message passing, in each step.
    node : ndarray of float64, shape (S,)
    pool : ndarray of float64
        Work space for scores, as in :class:`~ssvm_dsl.ir.Theta`.
    maps, fixed : FlatMaps, Fixed
        The features, and what stays the same while training; read only.
    place : ndarray of int64, shape (M, n)
        What to add to a map's factor to get its place in ``choices`` (:func:`choice_places`).
    scores : ndarray of float64, shape (n_basis,)
        Work space of the scoring kernel.
    choices : ndarray of int32
        Work space: what the messages of one example choose.
    order : ndarray of int64, shape (n_listed,)
        The examples.
    weight : ndarray of float64, shape (n,)
        Weight of each example, not divided by n; read only.
    t : int
        Number of the first step, from 1 on.
    shrink : float
        The scale of all weights in the regulariser.
    radius : float
        Of the ball; inf for none.
    u : ndarray of float64, shape (dim,)
        The weights over s; changed in place.
    v : ndarray of float64, shape (dim,) or (0,)
        With ``averaged``, the sum of t times w is ``c u - v``; changed in place.
    state : ndarray of float64, shape (3,)
        (s, c, |u|^2); changed in place.
    averaged : bool
        Whether v and c are kept.
    """
    maps, fixed = borrow(maps), borrow(fixed)
    scales = np.ones(len(maps.desc))
    for k in range(len(order)):
        i, length = order[k], 1.0 / (fixed.lam * (t + k))
        lo, hi = fixed.var_ptr[i], fixed.var_ptr[i + 1]
        scales[:] = state[0]
        score_example(maps, i, lo, hi, fixed.state_ptr, fixed.bonus, u, scales, scores, node, pool)
        mine = messages[message_ptr[i] : message_ptr[i + 1]]
        function(ints, longs, reals, i, pool, node, passes, mine, choices, work)
        state[0] *= 1.0 - length * fixed.lam * shrink
        state[2] *= fold(state, u, v) ** 2
        state[2] += move_to_truth(maps, fixed, place, i, choices, length * weight[i] / state[0], u, state[1], v)
        norm = abs(state[0]) * np.sqrt(max(state[2], 0.0))
        if norm > radius:
            state[0] *= radius / norm
        if averaged:
            state[1] += (t + k) * state[0]


@njit(cache=True, nogil=True)
def move_to_truth(
    maps: FlatMaps, fixed: Fixed, place: I64, i: int, choices: I32, coef: float, u: F64, share: float, v: F64
) -> float:
    """Add ``coef (Phi(truth) - Phi choices)`` of example i to u and share times that to v; return how |u|^2 grew.

    Parameters
    ----------
    maps, fixed, place : FlatMaps, Fixed, ndarray
        As for :func:`dual_loss_steps`; read only.
    i : int
        The example.
    choices : ndarray of int32
        The state of each of its variables, then the joint state of each factor; read only.
    coef : float
    u : ndarray of float64, shape (dim,)
        Changed in place, at the features of the variables and factors whose choice is not the truth.
    share : float
        The c of the running sum; where it is 0, v is not touched.
    v : ndarray of float64, shape (dim,) or (0,)
        Changed in place.
    """
    desc, ints, longs, _, _ = maps
    lo, grown = fixed.var_ptr[i], 0.0
    for m in range(len(desc)):
        first, last = factors_of(desc, ints, longs, m, i)
        for f in range(first, last):
            true = np.int64(factor_config(desc, ints, longs, m, f, fixed.truth, lo))
            at = place[m, i] + f if desc[m, POOL] >= 0 else np.int64(ints[desc[m, SCOPE] + f])
            choice = np.int64(choices[at])
            if choice != true:
                grown += move_factor(maps, m, i, f, true, coef, u, share, v)
                grown += move_factor(maps, m, i, f, choice, -coef, u, share, v)
    return grown


@njit(cache=True, nogil=True)
def move_factor(
    maps: FlatMaps, m: int, i: int, f: int, config: int, coef: float, u: F64, share: float, v: F64
) -> float:
    """Add coef times the features of a factor in a joint state to u, share times that to v; return how |u|^2 grew.

    This is :func:`ssvm_dsl.kernels.scoring.factor_add` for two vectors and with the change of a norm.

    Parameters
    ----------
    maps : FlatMaps
        Read only.
    m, i, f : int
        The map, the example, and the factor's number among those of the map's shapes.
    config : int
        Joint state of its variables.
    coef, u, share, v
        As for :func:`move_to_truth`.
    """
    desc, ints, longs, features, values = maps
    start, row = weight_start(desc, ints, m, f), feature_row(desc, ints, longs, m, i, f, config)
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
                p = weight_of(desc, longs, m, at, ints[desc[m, CSR_INDICES] + k], config)
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
