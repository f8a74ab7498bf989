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

Steps on single examples are taken in a kernel, a whole pass at a time, where the backend offers compiled messages
(:mod:`ssvm_trainers.dual.dlpw_kernels`).

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

from ssvm_dsl.ir import F64, I64, Messages, pointers
from ssvm_dsl.plugin_api import Iterate, MessageProblem, StopRule, TrainProblem
from ssvm_trainers.shared.lower_bound import PlaneHull
from ssvm_trainers.shared.resumable import Resumable, Run
from ssvm_trainers.shared.state_rules import COUNTS, NUMBERS, PART, StateRule, require

if TYPE_CHECKING:
    from ssvm_trainers.dual.dlpw_kernels import CompiledPass


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
        from ssvm_trainers.dual.dlpw_kernels import CompiledPass

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
