"""``bundle``: the bundle method for regularised risk minimisation (BMRM), for any convex risk.

Teo, Vishwanathan, Smola and Le (2010): each pass over the data gives one aggregated plane that touches the mean
risk at the point asked for; the next point is where the model of all planes so far is least, and the least value
of the model is a certified lower bound of the optimum.  Only values and subgradients are used, so every risk, to
any power, smooth or not, is covered.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from ssvm_dsl.plugin_api import Iterate, StopRule, TrainProblem
from ssvm_trainers._aggregated_qp import INNER, AggregatedModel, Way

F64 = NDArray[np.float64]


class Bundle:
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

    def steps(self, problem: TrainProblem, stop: StopRule, start: F64 | None = None) -> Iterator[Iterate]:
        """Yield an iterate after each pass; see :class:`~ssvm_dsl.plugin_api.Trainer`."""
        objective, model = problem.objective, AggregatedModel(problem.objective, self.keep)
        way = Way(self.stabilise)
        w, passes, lowest = model.w if start is None else start, 0.0, np.inf
        while True:
            found = problem.gradient(w)
            passes += 1.0
            primal, upper = objective.primal(w, found.value), objective.primal(w, found.bound)
            model.add(-found.vector / problem.n, found.offset / problem.n)
            lowest = min(lowest, primal)
            model.solve(INNER * (lowest - model.dual))
            yield Iterate(w, passes, primal, upper, model.dual, extra={"planes": float(len(model))})
            w = way.next(w, primal, model.w)
