"""``bundle``: the bundle method for regularised risk minimisation (BMRM), for any convex risk.

Teo, Vishwanathan, Smola and Le (2010): each pass over the data gives one aggregated plane that touches the mean
risk at the point asked for; the next point is where the model of all planes so far is least, and the least value
of the model is a certified lower bound of the optimum.  Only values and subgradients are used, so every risk, to
any power, smooth or not, is covered.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from ssvm_dsl.plugin_api import Iterate, StopRule, TrainProblem
from ssvm_trainers._aggregated_qp import INNER, AggregatedModel, Way
from ssvm_trainers._resumable import Resumable, Run
from ssvm_trainers._state_rules import COUNTS, NUMBERS, OPEN, PART, Rule

F64 = NDArray[np.float64]


class Bundle(Resumable):
    """The bundle method.

    Parameters
    ----------
    stabilise : bool
        Ask for points between the best one and the minimiser of the model; plain BMRM otherwise.
    keep : int
        Passes a plane may stay without dual weight before it is dropped.
    random_state : int or None
        Not used: the method is deterministic.
    """

    def __init__(self, stabilise: bool = True, keep: int = 50, random_state: int | None = None) -> None:
        self.stabilise, self.keep = stabilise, keep

    def begin(self, problem: TrainProblem, start: F64 | None) -> Run:
        """Return a run that has not made an iterate yet."""
        return _Run(self, problem, start)


class _Run(Run):
    """The model of one run, and w: the point asked for next."""

    STATE: ClassVar[Mapping[str, Rule]] = {"model": PART, "way": PART, "w": NUMBERS, "passes": COUNTS, "lowest": OPEN}

    def __init__(self, options: Bundle, problem: TrainProblem, start: F64 | None) -> None:
        self.problem, self.way = problem, Way(options.stabilise)
        self.model = AggregatedModel(problem.objective, options.keep)
        self.w = self.model.w if start is None else start
        self.passes, self.lowest = 0.0, np.inf

    def iterate(self, stop: StopRule) -> Iterate:
        """Take the plane at w into the model, and choose the next w."""
        w, model, objective, n = self.w, self.model, self.problem.objective, self.problem.n
        found = self.problem.gradient(w)
        self.passes += 1.0
        primal, upper = objective.primal(w, found.value), objective.primal(w, found.bound)
        model.add(-found.vector / n, found.offset / n)
        self.lowest = min(self.lowest, primal)
        model.solve(INNER * (self.lowest - model.dual))
        self.w = self.way.next(w, primal, model.w)
        extra = {"planes": float(len(model))}
        return Iterate(w, self.passes, primal, upper, model.dual, extra=extra, plane=model.plane)
