"""``lp-dual-qp``: one quadratic program over weights and the duals of all decoding programs.

Where decoding is a linear program, ``max { theta . mu : A mu = b, mu >= 0 }``, it may be replaced by its dual,
``min { b . y : A' y >= theta }``.  Then nothing is left to maximise, and training is the program

    min_{w, y_1 .. y_n}  lam/2 sum_j scale_j w_j^2 + 1/n sum_i weight_i (b_i . y_i + const_i - w . Phi(x_i, y_i))

    subject to           A_i' y_i >= loss_i + Phi_i w    for every example,      w >= lower

of polynomial size (Taskar, Chatalbashev, Koller and Guestrin 2005; Taskar, Lacoste-Julien and Jordan 2006, section 2;
for squared slacks the bracket becomes a slack variable whose square counts).  The y are the messages of
:mod:`ssvm_trainers.dual.dlpw`, here at their optimum together with w.  An interior-point method solves it, Clarabel
(Goulart and Chen 2024), in a few dozen iterations, but each factors a matrix with a row for every
weight and every row of the polytopes: a method for small problems, and a reference for others.

The multipliers of the inequalities, divided by weight_i, are the marginals mu_i.  Rounded to the polytope they make
planes, whose bound is certified whatever the solver's accuracy.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from threading import Event
from typing import Any

import clarabel
import numpy as np
from scipy import sparse

from ssvm_dsl.errors import OutOfTime, TrainingError
from ssvm_dsl.ir import F64, Stop
from ssvm_dsl.plugin_api import Iterate, StopRule, TrainProblem, call_in_thread
from ssvm_trainers.dual.points_of_problem import polytope_of
from ssvm_trainers.dual.polytope import Polytope, score_columns

#: Tolerance of the solver as a share of the fit's tolerance, within these limits.
SHARE, LOOSEST, TIGHTEST = 0.01, 1e-8, 1e-11

#: Seconds that an iteration of the solver may take once it was asked to end; its answer is lost where it takes more.
GRACE = 10.0

#: Examples with less than this share of the largest slack have none.
NOTHING = 1e-9


class LPDualQP:
    """The joint quadratic program over weights and messages (Taskar et al. 2005); its equations are in the module.

    Parameters
    ----------
    max_entries : int
        Most non-zero coefficients in the inequalities; larger programs are refused.
    random_state : int or None
        Not used: the method is deterministic.
    """

    def __init__(self, max_entries: int = 300_000, random_state: int | None = None) -> None:
        self.max_entries, self.random_state = max_entries, random_state

    def steps(self, problem: TrainProblem, stop: StopRule, start: F64 | None = None) -> Iterator[Iterate]:
        """Yield the optimum; see :class:`~ssvm_dsl.plugin_api.Trainer`.  The solver ignores ``start``."""
        polytope = polytope_of(problem, "lp-dual-qp")
        self._check_size(len(polytope.kept), polytope.n_features())
        problem.pause()
        program = _write(problem, polytope)
        optimum, interrupted = _solve(program, stop)
        w = np.maximum(np.array(optimum.x[: problem.dim]), problem.objective.lower)
        v, b = _plane(program, np.array(optimum.z))
        primal, upper = problem.value(w)
        extra = {"solver_iterations": float(optimum.iterations), "solver_seconds": float(optimum.solve_time)}
        yield Iterate(w, 1.0, primal, upper, problem.objective.dual(v, b), extra=extra, plane=(v, b))
        if interrupted:
            raise KeyboardInterrupt

    def _check_size(self, columns: int, entries: int) -> None:
        if columns + entries > self.max_entries:
            text = f"trainer 'lp-dual-qp': {columns} inequalities with {entries} features have more coefficients than "
            text += f"max_entries={self.max_entries}"
            raise TrainingError(f"{text}; use fewer examples, or trainer='bcfw', which reaches the same optimum")


@dataclass(frozen=True, eq=False)
class _Quadratic:
    """``min 1/2 x' P x + q . x`` subject to ``A x <= b``; x is w, then the duals y, then slacks if they are squared.

    The first rows of A belong to the columns of the polytope, the next ones to the slacks.
    """

    polytope: Polytope
    P: Any
    q: F64
    A: Any
    b: F64


def _write(problem: TrainProblem, polytope: Polytope) -> _Quadratic:
    """Return the program, its objective multiplied by n."""
    objective, rows = problem.objective, polytope.equations
    dim, n_rows, features = problem.dim, len(rows.right), score_columns(polytope)
    bounded = np.flatnonzero(objective.lower > -np.inf)
    above = sparse.csr_array((-np.ones(len(bounded)), (np.arange(len(bounded)), bounded)), (len(bounded), dim))
    regularizer = objective.lam * problem.n * objective.scale
    if objective.power == 1.0:
        quadratic = np.concatenate([regularizer, np.zeros(n_rows)])
        linear = [-polytope.truth_features(objective.weight), rows.right * objective.weight[rows.owner]]
        blocks = [[features, -rows.matrix.T], [above, None]]
        right = [-polytope.loss, -objective.lower[bounded]]
    else:
        counted = np.flatnonzero(objective.weight > 0.0)
        place = np.searchsorted(counted, rows.owner)
        duals = sparse.csr_array((rows.right, (place, np.arange(n_rows))), (len(counted), n_rows))
        truth, shape = polytope.truth(), (len(counted), len(polytope.loss))
        chosen = sparse.csr_array((truth, (np.searchsorted(counted, polytope.owner), np.arange(len(truth)))), shape)
        quadratic = np.concatenate([regularizer, np.zeros(n_rows), 2.0 * objective.weight[counted]])
        linear = [np.zeros(dim + n_rows + len(counted))]
        slacks = [-(chosen @ features), duals, -sparse.eye_array(len(counted))]
        blocks = [[features, -rows.matrix.T, None], slacks, [above, None, None]]
        right = [-polytope.loss, -polytope.const[counted], -objective.lower[bounded]]
    A = sparse.csc_array(sparse.block_array(blocks))
    return _Quadratic(
        polytope, sparse.csc_array(sparse.diags_array(quadratic)), np.concatenate(linear), A, np.concatenate(right)
    )


def _solve(program: _Quadratic, stop: StopRule) -> tuple[Any, bool]:
    """Return Clarabel's solution of the quadratic program, and whether Ctrl-C ended its search.

    The fit's limit and Ctrl-C end the search after the current iteration, with the point that it is at.
    """
    settings = clarabel.DefaultSettings()
    settings.verbose = False
    accuracy = float(np.clip(SHARE * stop.tol, TIGHTEST, LOOSEST))
    settings.tol_gap_abs = settings.tol_gap_rel = settings.tol_feas = accuracy
    settings.time_limit = float(stop.max_seconds)
    cones = [clarabel.NonnegativeConeT(len(program.b))]
    solver, ending = clarabel.DefaultSolver(program.P, program.q, program.A, program.b, cones, settings), Event()
    if hasattr(solver, "set_termination_callback"):  # since version 0.11
        solver.set_termination_callback(lambda info: ending.is_set())
    ended = call_in_thread(solver.solve, ending.set, grace=GRACE)
    if ended.value is None:
        raise KeyboardInterrupt if ended.stop is Stop.INTERRUPTED else OutOfTime(ended.lost)
    optimum = ended.value
    if not np.isfinite(optimum.x).all() or str(optimum.status) in ("PrimalInfeasible", "DualInfeasible", "Unsolved"):
        raise TrainingError(f"trainer 'lp-dual-qp': the solver ended with '{optimum.status}'; use trainer='bcfw'")
    return optimum, ended.stop is Stop.INTERRUPTED


def _plane(program: _Quadratic, multipliers: F64) -> tuple[F64, float]:
    """Return the plane of the multipliers: a lower bound of the risks, however accurate they are."""
    polytope, objective = program.polytope, program.polytope.problem.objective
    size = len(polytope.loss)
    total, less = objective.weight.copy(), 0.0
    if objective.power != 1.0:  # for any slack s >= 0: risk^2 >= 2 s risk - s^2
        counted = np.flatnonzero(objective.weight > 0.0)
        total[counted] = np.maximum(multipliers[size : size + len(counted)], 0.0)
        total[total < NOTHING * total.max(initial=0.0)] = 0.0
        less = float(np.sum(np.square(total[counted]) / (4.0 * objective.weight[counted]))) / polytope.problem.n
    shares = total[polytope.owner]
    positive = shares > 0.0
    x = np.where(positive, np.maximum(multipliers[:size], 0.0) / np.where(positive, shares, 1.0), polytope.truth())
    v, b = polytope.plane(x, total)
    return v, b - less
