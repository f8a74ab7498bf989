"""``adam``: minibatch steps with a scale for each weight (Kingma and Ba 2015), for very many examples.

With g a subgradient of the regularised risk of the next few examples of a random order,

    m <- b1 m + (1 - b1) g ,   s <- b2 s + (1 - b2) g^2 ,   w <- max(w - a_p m' / (sqrt(s') + eps), lower) ,

where m', s' are corrected for their start at 0 and ``a_p = step_size / sqrt(p)`` in pass p.  The steps do not aim at a
duality gap and their size is up to the user.  The certificate is that of the planes met: those of each pass, and those
of evaluated weights, are mixed to the best lower bound.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from ssvm_dsl.plugin_api import Iterate, StopRule, TrainProblem
from ssvm_trainers._evaluator import Evaluator

F64 = NDArray[np.float64]

#: The b1, b2 and eps of the paper.
FIRST, SECOND, EPSILON = 0.9, 0.999, 1e-8


class Adam:
    """Minibatch steps with moment estimates.

    Parameters
    ----------
    batch_size : int
        Examples in a step.
    step_size : float
        Length of steps in the first pass; it falls with the square root of the number of passes.
    evaluate_every : int
        Passes between two evaluations of the objective (each is a pass of its own).
    random_state : int or None
        Seed of the random order.
    """

    def __init__(
        self,
        batch_size: int = 32,
        step_size: float = 0.01,
        evaluate_every: int = 5,
        random_state: int | None = None,
    ) -> None:
        self.batch_size, self.step_size = batch_size, step_size
        self.evaluate_every, self.random_state = evaluate_every, random_state

    def steps(self, problem: TrainProblem, stop: StopRule, start: F64 | None = None) -> Iterator[Iterate]:
        """Yield an iterate after each pass; see :class:`~ssvm_dsl.plugin_api.Trainer`."""
        evaluate, objective = Evaluator(problem), problem.objective
        w = np.maximum(np.zeros(problem.dim) if start is None else start, objective.lower)
        mean, square, t, passes = np.zeros(problem.dim), np.zeros(problem.dim), 0, 0
        random = np.random.default_rng(self.random_state)
        while True:
            order, v, b = random.permutation(problem.n), np.zeros(problem.dim), 0.0
            passes += 1
            for lo in range(0, problem.n, self.batch_size):
                found = problem.gradient(w, np.sort(order[lo : lo + self.batch_size]))
                v -= found.vector / problem.n
                b += found.offset / problem.n
                grad = objective.lam * objective.scale * w + found.vector / len(found.value)
                t += 1
                mean += (1.0 - FIRST) * (grad - mean)
                square += (1.0 - SECOND) * (grad**2 - square)
                step = mean / (1.0 - FIRST**t) / (np.sqrt(square / (1.0 - SECOND**t)) + EPSILON)
                w = np.maximum(w - self.step_size / np.sqrt(passes) * step, objective.lower)
            evaluate.add(v, b)
            spent = float(passes + evaluate.n_calls)
            if passes % self.evaluate_every == 0 or spent + 2.0 > stop.max_passes:
                yield evaluate.iterate(evaluate(w), spent + 1.0)
            else:
                yield Iterate(w, spent, dual=evaluate.dual)
