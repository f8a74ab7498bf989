"""``dlpw``: dual losses, primal weights (Meshi, Sontag, Jaakkola and Globerson 2010, algorithm 1).

For any messages d the dual bound g(d; theta) of a relaxation is at least its optimum, and g is convex in messages and
weights together.  So the relaxed objective is

    min_{w, d_1 .. d_n}  lam/2 |w|^2 + 1/n sum_i weight_i g(d_i; theta_i(w))                          (their equation 9)

and neither is solved for the other: a step takes some examples, lets the backend do R passes of message passing on
theirs, which are kept from step to step, and moves the weights against a subgradient of g at the choices that attain
it,

    w <- Project( (1 - 1/t) w - 1/(lam t) weight_i dg )

onto a ball that holds the optimum: ``|w|^2 <= R(0) / lam`` with the mean risk R(0) of w = 0, the largest losses (their
sqrt(C) for losses of at most 1).  Read literally, algorithm 1 has no step for the regulariser; the subgradient is taken
to include it, as in Pegasos.

The objective that is reported is that of equation 9 with messages run to their end at w, an upper bound of equation 7
and of the margin risk.  The lower bound of the optimum is that of the planes of the labellings the backend decodes.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from ssvm_dsl.plugin_api import Iterate, MessageProblem, StopRule, TrainProblem
from ssvm_trainers._lower_bound import PlaneHull

F64 = NDArray[np.float64]
I64 = NDArray[np.int64]


class DLPW:
    """Alternates message passing and subgradient steps.

    Parameters
    ----------
    passes : int
        Passes of message passing for each step: R.
    batch_size : int
        Examples in a step; batches are drawn once, their order anew in each pass.
    averaging : {"none", "weighted"}
        Return the newest weights, or their average weighted by t.
    evaluate_every : int
        Passes between two evaluations of the objective, each a pass of full inference.
    random_state : int or None
        Seed of batches and orders.
    """

    def __init__(
        self,
        passes: int = 10,
        batch_size: int = 1,
        averaging: str = "none",
        evaluate_every: int = 5,
        random_state: int | None = None,
    ) -> None:
        self.passes, self.batch_size, self.averaging = passes, batch_size, averaging
        self.evaluate_every, self.random_state = evaluate_every, random_state

    def steps(self, problem: TrainProblem, stop: StopRule, start: F64 | None = None) -> Iterator[Iterate]:
        """Yield an iterate after each pass; see :class:`~ssvm_dsl.plugin_api.Trainer`."""
        random, hull = np.random.default_rng(self.random_state), PlaneHull(problem.objective)
        shuffled = random.permutation(problem.n)
        batches = [np.sort(shuffled[lo : lo + self.batch_size]) for lo in range(0, problem.n, self.batch_size)]
        messages: list[Any] = [None] * len(batches)
        objective, radius = problem.objective, safe_radius(problem)
        w = np.zeros(problem.dim) if start is None else start.copy()
        average, t, spent, turn = np.zeros(problem.dim), 0, 0.0, 0
        while True:
            for b in random.permutation(len(batches)):
                t, turn_size = t + 1, len(batches[b])
                planes, messages[b] = cast(MessageProblem, problem).dual_losses(w, batches[b], messages[b], self.passes)
                step = 1.0 / (objective.lam * t)
                w *= 1.0 - step * objective.lam * objective.scale
                coef = step * objective.weight[batches[b]] / turn_size
                problem.accumulate(planes, coef, w)
                np.maximum(w, objective.lower, out=w)
                w *= min(1.0, radius / max(float(np.linalg.norm(w)), 1e-300))
                if self.averaging == "weighted":
                    average += 2.0 / (t + 1.0) * (w - average)
            turn, spent = turn + 1, spent + 1.0
            shown = average if self.averaging == "weighted" else w
            if turn % self.evaluate_every == 0 or spent + 1.0 >= stop.max_passes:
                spent += 1.0
                yield evaluated(problem, hull, shown, spent)
            else:
                yield Iterate(shown, spent)


def safe_radius(problem: TrainProblem) -> float:
    """Return the radius of a ball that holds the optimum; infinite where some weights are not regularised.

    By strong duality the optimum has ``lam |w|^2_scale = b - P`` with b at most the mean of the largest losses.
    """
    objective = problem.objective
    least = float(objective.scale.min(initial=1.0))
    if least <= 0.0:
        return np.inf
    worst = problem.loss.largest(problem.parameters.program)
    return float(np.sqrt(np.dot(objective.weight, worst) / problem.n / (objective.lam * least)))


def evaluated(problem: TrainProblem, hull: PlaneHull, w: F64, spent: float) -> Iterate:
    """Return the iterate of some weights with the dual-loss objective and the lower bound of the optimum."""
    objective = problem.objective
    _, upper, planes = problem.evaluate(w)
    coef = objective.slopes(planes.value) * objective.weight[planes.examples] / problem.n
    v = problem.accumulate(planes, coef, np.zeros(problem.dim))
    mean = float(np.dot(objective.weight[planes.examples], objective.powered(planes.value))) / problem.n
    return Iterate(w, spent, upper, upper, hull.add(v, mean + float(np.dot(v, w))), plane=None)
