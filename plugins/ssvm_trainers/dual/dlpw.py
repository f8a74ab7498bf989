"""``dlpw``: dual losses, primal weights (Meshi, Sontag, Jaakkola and Globerson 2010, algorithm 1).

For any messages d the dual bound g(d; theta) of a relaxation is at least its optimum, and g is convex in messages and
weights together.  So the relaxed objective is

    min_{w, d_1 .. d_n}  lam/2 |w|^2 + 1/n sum_i weight_i g(d_i; theta_i(w))                          (their equation 9)

and neither is optimised for fixed values of the other: a step takes some examples, lets the backend do R passes on
their messages, which are kept from step to step, and moves the weights against a subgradient of g at the choices that
attain it,

    w <- Project( (1 - 1/t) w - 1/(lam t) weight_i dg )

onto a ball that holds the optimum: ``|w|^2 <= R(0) / lam`` with the mean risk R(0) of w = 0, the largest losses (their
sqrt(C) for losses of at most 1).  Read literally, algorithm 1 has no step for the regulariser; the subgradient is taken
to include it, as in Pegasos.

Steps on single examples are taken in a kernel, a whole pass at a time, where the backend offers compiled messages.

The reported objective is that of equation 9 with converged messages at w, an upper bound of equation 7
and of the margin risk.  The lower bound of the optimum is that of the planes of the labellings the backend decodes.

With soft maxima at a temperature T (equation 13; ``backend_options={"temperature": T}`` of ``msd``) all of this is of
the soft objective, which is smooth: a step is a gradient, whose choices are distributions, the objective is that of
equation 9 with soft maxima, and its lower bound is that of planes of marginals that agree, with their entropies
(:class:`~ssvm_dsl.learning.risks.hinges.dual_loss.DualLossProblem`).  Message passing has no fixed points but the
minimum, so that steps converge to the joint optimum of weights and messages for any R (appendix A).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple, cast

import numpy as np

from ssvm_dsl.ir import F64, I32, I64, Messages, Theta, pointers
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
from ssvm_dsl.plugin_api import Iterate, MessageProblem, StopRule, TrainProblem
from ssvm_trainers.shared.arrays import Fixed, basis_space, fixed_arrays, map_scales
from ssvm_trainers.shared.lower_bound import PlaneHull
from ssvm_trainers.shared.passes import chunks, visit_cost
from ssvm_trainers.shared.resumable import COUNTS, NUMBERS, PART, Resumable, Run, StateRule, require
from ssvm_trainers.shared.scaled_weights import ScaledWeights, normalise

if TYPE_CHECKING:
    from ssvm_dsl.plugin_api import CompiledMessages, MessageProblem


@dataclass(eq=False)
class DLPW(Resumable):
    """Alternates message passing and subgradient steps (Meshi et al. 2010, algorithm 1).

    Parameters
    ----------
    passes : int
        Passes of message passing for each step: R.
    batch_size : int
        Examples in a step; batches are drawn once, their order in each pass.
    averaging : {"none", "weighted"}
        Return the newest weights, or their average weighted by t.
    evaluate_every : int
        Passes between two evaluations of the objective, each a pass of full inference.
    random_state : int or None
        Seed of batches and orders.
    """

    passes: int = 10
    batch_size: int = 1
    averaging: str = "none"
    evaluate_every: int = 5
    random_state: int | None = None

    def begin(self, problem: TrainProblem, start: F64 | None) -> Run:
        """Return a new run, before its first iterate."""
        return DLPWRun(self, problem, start)


class DLPWRun(Run):
    """Weights after ``t`` steps, and the messages of each batch."""

    w: Annotated[F64, NUMBERS]  #: the newest weights
    average: Annotated[F64, NUMBERS]  #: of the iterates
    t: Annotated[int, COUNTS]  #: steps so far
    n_passes: Annotated[int, COUNTS]  #: passes so far
    spent: Annotated[float, COUNTS]  #: passes, those of evaluations too
    shuffled: Annotated[I64, StateRule(least=0, below="n", shape=("n",), dtype="int64")]  #: batch after batch
    random: Annotated[np.random.Generator, PART]
    hull: Annotated[PlaneHull, PART]

    def __init__(self, options: DLPW, problem: TrainProblem, start: F64 | None) -> None:
        self.options, self.problem = options, cast(MessageProblem, problem)
        self.random, self.hull = np.random.default_rng(options.random_state), PlaneHull(problem.objective)
        self.radius = safe_radius(self.problem)
        self.w = np.zeros(problem.dim) if start is None else start.copy()
        self.average, self.t, self.n_passes, self.spent = np.zeros(problem.dim), 0, 0, 0.0
        self.shuffled = self.random.permutation(problem.n)
        self.messages: dict[int, Messages] = {}
        self.compiled = self._compiled_pass()

    def _compiled_pass(self) -> CompiledPass | None:
        """Return the compiled passes, where the backend and the options allow them."""
        from ssvm_trainers.online.subgradient_kernels import applies

        offer = self.problem.compiled_messages() if self.options.batch_size == 1 and applies(self.problem) else None
        if offer is None:
            return None

        return CompiledPass(self.problem, offer, self.radius)

    def batches(self) -> list[I64]:
        """Return the examples of each batch."""
        size = self.options.batch_size
        return [np.sort(self.shuffled[lo : lo + size]) for lo in range(0, self.problem.n, size)]

    def iterate(self, stop: StopRule) -> Iterate:
        """Take a step for each batch, and evaluate the objective when it is time."""
        averaged = self.options.averaging == "weighted"
        if self.compiled is not None:
            self._whole_pass(self.compiled, averaged)
        else:
            batches = self.batches()
            for b in self.random.permutation(len(batches)).tolist():
                self._step(b, batches[b], len(batches))
                if averaged:
                    self.average += 2.0 / (self.t + 1.0) * (self.w - self.average)
        self.n_passes, self.spent = self.n_passes + 1, self.spent + 1.0
        shown = self.average if averaged else self.w
        if self.n_passes % self.options.evaluate_every == 0 or self.spent + 1.0 >= stop.max_passes:
            self.spent += 1.0
            return evaluated(self.problem, self.hull, shown, self.spent)
        return Iterate(shown, self.spent)

    def _whole_pass(self, compiled: CompiledPass, averaged: bool) -> None:
        """Take a step for each example in a random order."""
        order = self.shuffled[self.random.permutation(self.problem.n)]
        summed = compiled.run(self.w, order, self.t + 1, self.options.passes, averaged)
        before, self.t = 0.5 * self.t * (self.t + 1.0), self.t + len(order)
        if averaged:
            self.average = (before * self.average + summed) / (0.5 * self.t * (self.t + 1.0))

    def _step(self, b: int, ids: I64, n_batches: int) -> None:
        """Pass messages for the examples of batch b, and move the weights; each batch counts by its size."""
        problem, objective, w = self.problem, self.problem.objective, self.w
        self.t += 1
        planes, self.messages[b] = problem.dual_losses(w, ids, self.messages.get(b), self.options.passes)
        step = 1.0 / (objective.lam * self.t)
        w *= 1.0 - step * objective.lam * objective.scale
        problem.accumulate(planes, step * objective.weight[ids] * n_batches / problem.n, w)
        np.maximum(w, objective.lower, out=w)
        w *= min(1.0, self.radius / max(float(np.linalg.norm(w)), 1e-300))

    def packed(self) -> SavedMessages | PassMessages:
        """Return the messages of all examples as the arrays of a checkpoint."""
        if self.compiled is not None:
            return PassMessages(self.compiled.messages)
        kept = [self.messages[b] for b in sorted(self.messages)]
        sizes = np.concatenate([np.zeros(0, np.int64), *(np.diff(one.ptr) for one in kept)])
        return SavedMessages(sizes, np.concatenate([np.zeros(0), *(one.values for one in kept)]))

    def check(self, state: Mapping[str, Any], sizes: Mapping[str, int]) -> None:
        """Refuse an invalid order, and messages of other sizes."""
        seen = np.bincount(state["shuffled"], minlength=sizes["n"])
        require((seen == 1).all(), "'shuffled'", "every example once")
        if self.compiled is None:
            total = float(state["message_sizes"].sum())
            require(total == sizes["messages"], "'message_sizes'", "sizes of all messages")

    def unpack(self, record: SavedMessages | PassMessages) -> None:
        """Load the messages of all examples from the arrays of a checkpoint."""
        if isinstance(record, PassMessages):
            assert self.compiled is not None
            self.compiled.messages[:] = record.messages
            return
        first, ends = 0, pointers(record.message_sizes)
        for b, ids in enumerate(self.batches()):
            ptr = ends[first : first + len(ids) + 1]
            self.messages[b] = Messages(ids, ptr - ptr[0], record.messages[ptr[0] : ptr[-1]].copy())
            first += len(ids)


class PassMessages(NamedTuple):
    """The messages of a compiled pass."""

    messages: Annotated[F64, NUMBERS]


class SavedMessages(NamedTuple):
    """The messages of all batches, and how many each example has."""

    message_sizes: Annotated[I64, StateRule(0, 2**40, shape=("n",), dtype="int64")]
    messages: Annotated[F64, StateRule(shape=("messages",))]


def safe_radius(problem: MessageProblem) -> float:
    """Return the radius of a ball that holds the optimum; infinite where some weights are not regularised.

    By strong duality the optimum has ``lam |w|^2_scale = b - P`` with b at most the mean of the largest losses.
    """
    objective = problem.objective
    least = float(objective.scale.min(initial=1.0))
    if least <= 0.0:
        return np.inf
    worst = problem.loss.largest(problem.parameters.program) + problem.smoothing
    return float(np.sqrt(np.dot(objective.weight, worst) / problem.n / (objective.lam * least)))


def evaluated(problem: TrainProblem, hull: PlaneHull, w: F64, spent: float) -> Iterate:
    """Return the iterate of some weights with the dual-loss objective and the lower bound of the optimum."""
    objective = problem.objective
    _, upper, planes = problem.evaluate(w)
    coef = objective.weight[planes.examples] / problem.n
    v = problem.accumulate(planes, coef, np.zeros(problem.dim))
    mean = float(np.dot(objective.weight[planes.examples], planes.loss)) / problem.n
    return Iterate(w, spent, upper, upper, hull.add(v, mean), plane=hull.plane)


# --------------------------------------------------------------------------------------------------------------------
# One pass of DLPW steps in a compiled kernel: message passing, choices, and a move of the weights for each example.
#
# The weights are ``s u`` with one number s, and the sum of the iterates, each times its share, is ``c u - v``, as in
# :mod:`ssvm_trainers.shared.scaled_weights`.  Projecting onto a ball needs ``|u|^2``, which every move of an entry of u
# changes by a known number; so a step touches no weights but those of the example.


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
    square[0] *= normalise(weights) ** 2


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
