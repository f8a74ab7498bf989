"""``eg``: exponentiated gradient on the dual (Bartlett et al. 2004; Collins, Globerson, Koo, Carreras, Bartlett 2008).

The dual has a distribution q_i over the labellings of each example: with ``v(q) = 1/n sum_i weight_i E_q psi_i`` it is

    margin rescaling     max_q  1/n sum_i weight_i E_q Delta  -  (value of the regulariser at v(q))
    log-loss             max_q  1/n sum_i weight_i H(q_i)     -  (the same)

(entropy and expected loss for softmax-margin), and w = v(q) / (lam scale) minimises the primal for this q.  The updates

    margin rescaling     q_i(y)  ~  q_i(y) exp(a (Delta(y) + w . Phi(x_i, y)))
    log-loss             q_i(y)  ~  q_i(y)^(1 - a) exp(w . Phi(x_i, y))^a

keep q_i in the form ``exp(t_i Delta(y) + u_i . Phi(x_i, y))``, with ``u_i <- u_i + a w, t_i <- t_i + a`` and
``u_i <- (1 - a) u_i + a w``: one vector of weights (and a number) for each example stands for a distribution over all
its labellings, and one call for marginals gives its expectations.  As in the paper each example has its own step a:
halved when the dual would fall, lengthened after each success.

With ``order="batch"`` the distributions of all examples move at once, at the same w (Bartlett et al. 2004; the batch
form of Collins et al. 2008): the steps of all are halved or lengthened together.  A pass is one update of w, and
examples that share features need shorter steps, so that the online form needs fewer passes.

The best q_i of the log-loss is inside the simplex, and convergence is linear; that of the margin is at its border,
where t_i grows without limit, and convergence is sublinear.  The dual value is a valid bound nevertheless.

Where a junction tree of each example is small, the logarithms of its cells are kept in place of u_i and t_i, and visits
are compiled (:mod:`ssvm_trainers.dual.eg_cliques`).  Under hard constraints, and for large cliques, the backend answers
for the marginals; memory is two vectors of all weights for each example then.  Either way this is for small problems.
The certificate is the dual.

No maintained library for Python offers it for structures.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from typing import Annotated, Any, cast

import numpy as np

from ssvm_dsl.errors import OptionError, TrainingError
from ssvm_dsl.ir import F64, Theta
from ssvm_dsl.kernels import ScoreSpace
from ssvm_dsl.plugin_api import Iterate, MixtureProblem, StopRule, TrainProblem, program_need
from ssvm_trainers.dual.eg_cliques import (
    MAX_TRIALS,
    ROUNDING,
    Mixtures,
    MixtureSpace,
    MixtureStepRule,
    first_steps,
    mixture_pass,
)
from ssvm_trainers.dual.junction_trees import from_conditionals, to_conditionals
from ssvm_trainers.dual.polytope import clique_polytope
from ssvm_trainers.shared.arrays import basis_space, fixed_arrays, work_space
from ssvm_trainers.shared.passes import chunks, visit_cost
from ssvm_trainers.shared.resumable import COUNTS, NUMBERS, OPEN, PART, Resumable, Run, StateRule, require

#: Numbers kept for the examples at most: 1.6 GB.
MAX_NUMBERS = 200_000_000

#: Cells of junction trees at most, some ten numbers each.
MAX_CELLS = MAX_NUMBERS // 10

#: What a success does to a step, and the longest: of the log-loss, and of the margin.
SMOOTH_STEPS, MARGIN_STEPS = (1.05, 1.0), (1.2, np.inf)

#: Relative error of an entropy.
ENTROPY_ERROR = 1e-13


class ExponentiatedGradient(Resumable):
    """Exponentiated gradient on the dual (Collins et al. 2008), one example at a time or all at once.

    For margin rescaling ``q_i(y) ~ q_i(y) exp(a (Delta(y) + w . Phi(x_i, y)))`` with step length a; see the module.

    Parameters
    ----------
    step_size : float
        The first a of each example, above 0 and at most 1; for the margin in units of the inverse curvature of the
        dual (from longer ones the way back is too long).
    order : {"stochastic", "batch"}
        Examples one after the other, in a new random order in each pass, or all at once.
    random_state : int or None
        Seed of the random order.
    """

    def __init__(self, step_size: float = 0.5, order: str = "stochastic", random_state: int | None = None) -> None:
        if not 0.0 < step_size <= 1.0:
            raise OptionError(f"option 'step_size' is above 0 and at most 1, got {step_size!r}")
        self.step_size, self.order, self.random_state = step_size, order, random_state

    def begin(self, problem: TrainProblem, start: F64 | None) -> Run:
        """Return a run; see :class:`~ssvm_trainers.shared.resumable.Resumable`."""
        if small_cliques(problem):
            return CliqueRun(self, problem, start)
        return (_LogRun if problem.smooth else _MarginRun)(self, problem, start)


class EGRun(Run):
    """The distributions of all examples, each as weights ``u`` and a number ``t``, and their sums."""

    u: Annotated[F64, NUMBERS]  #: shape (n, dim)
    t: Annotated[F64, COUNTS]  #: shape (n,)
    psi: Annotated[F64, NUMBERS]  #: expectation of each example, times its weight / n
    offset: Annotated[F64, NUMBERS]  #: its part of b
    step: Annotated[F64, COUNTS]  #: of each example
    v: Annotated[F64, NUMBERS]  #: sum of psi
    b: Annotated[float, NUMBERS]  #: sum of the offsets
    value: Annotated[float, OPEN]  #: dual value
    random: Annotated[np.random.Generator, PART]
    n_passes: Annotated[int, COUNTS]
    calls: Annotated[int, COUNTS]  #: of the oracle within visits

    LONGER, LONGEST = SMOOTH_STEPS

    def __init__(self, options: ExponentiatedGradient, problem: TrainProblem, start: F64 | None) -> None:
        n, dim = problem.n, problem.dim
        if 2 * n * dim > MAX_NUMBERS:
            text = f"trainer 'eg' keeps two vectors of {dim} weights for each of {n} examples, which is too much memory"
            raise TrainingError(f"{text}; use trainer='{'lbfgs' if problem.smooth else 'bcfw'}'")
        self.options, self.problem = options, problem
        self.u = np.tile(np.zeros(dim) if start is None else start, (n, 1))
        self.t = np.full(n, float(start is not None))
        self.psi, self.offset, self.step = np.zeros((n, dim)), np.zeros(n), np.zeros(n)
        self.v, self.b, self.value = np.zeros(dim), 0.0, -np.inf
        self.random = np.random.default_rng(options.random_state)
        self.n_passes, self.calls = 0, 0

    @abstractmethod
    def ask(self, i: int, u: F64, t: float) -> tuple[F64, float]:
        """Return the term of an example's distribution in (v, b) of the aggregated plane."""

    @abstractmethod
    def moved(self, i: int, w: F64, step: float) -> tuple[F64, float]:
        """Return (u, t) after a step."""

    @abstractmethod
    def first_step(self, i: int) -> float:
        """Return the first step of an example."""

    def iterate(self, stop: StopRule) -> Iterate:
        """Visit all examples, and evaluate the result."""
        if self.n_passes == 0:
            for i in range(self.problem.n):
                self.psi[i], self.offset[i] = self._asked(i, self.u[i], float(self.t[i]))
                self.step[i] = self.first_step(i)
        elif self.options.order == "batch":
            self._visit_all()
        else:
            for i in self.random.permutation(self.problem.n).tolist():
                if self.problem.objective.weight[i] > 0.0:
                    self.step[i] = self.visit(i, float(self.step[i]))
        self.v, self.b = self.psi.sum(axis=0), float(self.offset.sum())  # summed again: rounding errors do not add up
        self.value = self.problem.objective.dual(self.v, self.b)
        w = self.problem.objective.weights(self.v)
        primal, upper = self.problem.value(w)
        self.n_passes += 1
        spent = self.n_passes + self.calls / self.problem.n
        return Iterate(w, spent, primal, upper, self.value, plane=self.plane())

    def plane(self) -> tuple[F64, float]:
        """Return the aggregated plane whose value is the dual."""
        return self.v.copy(), self.b

    def visit(self, i: int, step: float) -> float:
        """Move the distribution of one example; return its next step."""
        objective = self.problem.objective
        w = objective.weights(self.v)
        for _ in range(MAX_TRIALS):
            u, t = self.moved(i, w, step)
            psi, offset = self._asked(i, u, t)
            v, b = self.v + (psi - self.psi[i]), self.b + (offset - self.offset[i])
            value = objective.dual(v, b)
            gain, rounding = value - self.value, ROUNDING * abs(self.value)
            if gain >= 0.0:
                self.u[i], self.t[i], self.psi[i], self.offset[i] = u, t, psi, offset
                self.v, self.b, self.value = v, b, value
            if gain > rounding:
                return min(step * self.LONGER, self.LONGEST)
            if gain >= -rounding:
                return step
            step *= 0.5
        return step

    def _visit_all(self) -> None:
        """Move the distributions of all examples at the same weights; their next steps change alike."""
        objective, n = self.problem.objective, self.problem.n
        w = objective.weights(self.v)
        for _ in range(MAX_TRIALS):
            moved = [self.moved(i, w, float(self.step[i])) for i in range(n)]
            found = [self._asked(i, u, t) for i, (u, t) in enumerate(moved)]
            psi, offset = np.array([one for one, _ in found]), np.array([part for _, part in found])
            v, b = psi.sum(axis=0), float(offset.sum())
            value = objective.dual(v, b)
            gain, rounding = value - self.value, ROUNDING * abs(self.value)
            if gain >= 0.0:
                self.u, self.t = np.array([u for u, _ in moved]), np.array([t for _, t in moved])
                self.psi, self.offset, self.v, self.b, self.value = psi, offset, v, b, value
            if gain > rounding:
                self.step = np.minimum(self.step * self.LONGER, self.LONGEST)
            if gain >= -rounding:
                return
            self.step *= 0.5

    def _asked(self, i: int, u: F64, t: float) -> tuple[F64, float]:
        self.calls += 1
        return self.ask(i, u, t)


class _LogRun(EGRun):
    """A run for a risk whose dual has the entropy of the distributions; t is not used."""

    def ask(self, i: int, u: F64, t: float) -> tuple[F64, float]:
        """Return the tangent of the risk at u."""
        risk = self.problem.gradient(u, np.array([i], dtype=np.int64))
        return -risk.vector / self.problem.n, risk.offset / self.problem.n

    def moved(self, i: int, w: F64, step: float) -> tuple[F64, float]:
        """Return (u, t) after a step towards w."""
        return self.u[i] + step * (w - self.u[i]), 0.0

    def first_step(self, i: int) -> float:
        """Return the first step of an example."""
        return self.options.step_size


class _MarginRun(EGRun):
    """A run for margin rescaling."""

    LONGER, LONGEST = MARGIN_STEPS

    def ask(self, i: int, u: F64, t: float) -> tuple[F64, float]:
        """Return the mixture of the planes of all labellings."""
        share = float(self.problem.objective.weight[i]) / self.problem.n
        psi, loss = cast("MixtureProblem", self.problem).mixed_plane(u, t, i)
        return share * psi, share * loss

    def moved(self, i: int, w: F64, step: float) -> tuple[F64, float]:
        """Return (u, t) after a step along w."""
        return self.u[i] + step * w, float(self.t[i]) + step

    def first_step(self, i: int) -> float:
        """Return the first step: the inverse curvature of the dual towards this example's plane, in units of loss."""
        share = float(self.problem.objective.weight[i]) / self.problem.n
        bend = float(np.dot(self.psi[i], self.problem.objective.weights(self.psi[i])))
        return self.options.step_size * (share / bend if bend > 0.0 else 1.0)


def small_cliques(problem: TrainProblem) -> bool:
    """Whether junction trees describe all labellings, and have few cells."""
    program = problem.parameters.program
    if program.constraints:
        return False
    return program.n_variables * 2.0 ** program_need(program).max_clique_table <= MAX_CELLS


class CliqueRun(Run):
    """A run on the cells of junction trees.

    Parameters
    ----------
    options : ExponentiatedGradient
    problem : TrainProblem
    start : ndarray of float64, shape (dim,), optional
    """

    #: log-probability of each cell given its row; -inf where it is ruled out
    logs: Annotated[F64, StateRule(most=1e-6, finite=False)]
    step: Annotated[F64, COUNTS]  #: of each example
    random: Annotated[np.random.Generator, PART]
    n_passes: Annotated[int, COUNTS]
    calls: Annotated[int, COUNTS]  #: steps that were tried

    def __init__(self, options: ExponentiatedGradient, problem: TrainProblem, start: F64 | None) -> None:
        self.options, self.problem, self.polytope = options, problem, clique_polytope(problem)
        trees, self.cost = self.polytope.trees, visit_cost(problem)
        self.trees, n_cells, n_rows = trees, trees.n_cells, trees.n_rows
        problem.pause()
        self.fixed = fixed_arrays(problem)._replace(maps=self.polytope.linear.flat)
        self.work, self.smooth = work_space(problem, 1), bool(problem.smooth)
        theta, loss = Theta.zeros(problem.parameters.program), self.polytope.score_loss()
        n_scores, numbers = len(theta.node) + len(theta.pool), np.zeros(_most_scores(problem), np.int32)
        self.space = MixtureSpace(
            ScoreSpace(theta.node, theta.pool, basis_space(problem)), np.ones(n_scores, dtype=bool), loss,
            np.zeros(n_cells), np.zeros(n_cells), np.zeros(n_cells), np.zeros(n_rows), np.zeros(n_rows),
            np.zeros(n_scores), numbers, numbers.copy(), numbers.copy(), np.zeros(len(numbers)),
        )  # fmt: skip
        problem.pause()
        scores = np.zeros(n_cells) if start is None else self.polytope.scores(start)
        scores = scores + loss if self.smooth or start is not None else scores
        self.logs = np.where(self.polytope.used, scores, -np.inf)
        to_conditionals(trees, self.logs, self.space.largest, self.space.total, 0, len(trees.parent))
        self.step, self.n_passes, self.calls = np.full(problem.n, options.step_size), 0, 0
        self.random = np.random.default_rng(options.random_state)

    def check(self, state: Mapping[str, Any], sizes: Mapping[str, int]) -> None:
        """Refuse numbers that are no distributions over the cells."""
        logs: F64 = state["logs"]
        require(np.isneginf(logs[~self.polytope.used]).all(), "'logs'", "-inf where a cell is ruled out")
        again = logs.copy()
        to_conditionals(self.trees, again, self.space.largest, self.space.total, 0, len(self.trees.parent))
        require(np.allclose(np.exp(again), np.exp(logs)), "'logs'", "probabilities that sum to 1")

    def iterate(self, stop: StopRule) -> Iterate:
        """Visit all examples, and evaluate the result."""
        point, objective = self._point(), self.problem.objective
        self.problem.pause()
        if self.n_passes == 0 and not self.smooth:
            truth = self.polytope.full(self.polytope.truth())
            self.problem.pause()
            first_steps(self.fixed, self.trees, self.space, self.work, point, truth, self.options.step_size)
        elif self.n_passes and self.options.order == "batch":
            point = self._moved_together(point)
        elif self.n_passes:
            rule = MixtureStepRule(self.smooth, *(SMOOTH_STEPS if self.smooth else MARGIN_STEPS), self._value(point)[0])
            for chunk in chunks(self.problem, self.random.permutation(self.problem.n), 4.0 * self.cost):
                self.calls += mixture_pass(self.fixed, self.trees, self.space, self.work, point, rule, chunk)
        self.problem.pause()
        value, plane = self._value(point)
        w = objective.weights(plane[0])
        primal, upper = self.problem.value(w)
        self.n_passes += 1
        spent = self.n_passes + self.calls / self.problem.n
        return Iterate(w, spent, primal, upper, value, plane=plane)

    def _moved_together(self, point: Mixtures) -> Mixtures:
        """Move the distributions of all examples at the same weights; return them, where the dual does not fall."""
        polytope, before, value = self.polytope, self.logs, self._value(point)[0]
        longer, longest = SMOOTH_STEPS if self.smooth else MARGIN_STEPS
        scores, owner = (polytope.scores(point.w) + self.space.loss)[polytope.kept], polytope.owner
        for _ in range(MAX_TRIALS):
            self.problem.pause()
            step, logs = self.step[owner], np.full_like(before, -np.inf)
            logs[polytope.kept] = (1.0 - step if self.smooth else 1.0) * before[polytope.kept] + step * scores
            to_conditionals(self.trees, logs, self.space.largest, self.space.total, 0, len(self.trees.parent))
            self.logs = logs
            self.calls += self.problem.n
            found = self._point()
            gain, rounding = self._value(found)[0] - value, ROUNDING * abs(value)
            if gain > rounding:
                self.step = np.minimum(self.step * longer, longest)
            if gain >= 0.0:
                return found
            self.logs = before
            if gain >= -rounding:
                break
            self.step = 0.5 * self.step
        return point

    def _point(self) -> Mixtures:
        """Return distributions and weights; all but logarithms and steps is computed afresh."""
        mu, objective = np.zeros(self.trees.n_cells), self.problem.objective
        from_conditionals(self.trees, np.exp(self.logs), mu, 0, len(self.trees.parent))
        self.problem.pause()
        v, _ = self.polytope.plane(mu[self.polytope.kept], objective.weight)
        w = objective.weights(v)
        free = v / (objective.lam * objective.scale) if self.fixed.bounded.any() else w
        return Mixtures(self.logs, mu, w, free, self.step)

    def _value(self, point: Mixtures) -> tuple[float, tuple[F64, float]]:
        """Return the dual value of distributions, and their plane."""
        kept = self.polytope.kept
        v, b = self.polytope.plane(point.mu[kept], self.problem.objective.weight)
        if self.smooth:
            entropy = -self.fixed.share[self.polytope.owner] * point.mu[kept] * point.logs[kept]
            b += float(entropy.sum()) - ENTROPY_ERROR * float(np.abs(entropy).sum())
        return self.problem.objective.dual(v, b), (v, b)


def _most_scores(problem: TrainProblem) -> int:
    """Return the most scores that the factors of an example have."""
    counts = np.zeros(problem.n, np.int64)
    for fmap in problem.parameters.maps:
        counts += fmap.shapes.counts * fmap.n_configs
    return int(counts.max(initial=1))
