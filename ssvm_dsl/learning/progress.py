"""``Progress``: what is known of a fit while it runs."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from ssvm_dsl.errors import PluginError
from ssvm_dsl.plugin_api.training import Iterate, TrainingEvent, TrainProblem

F64 = NDArray[np.float64]


@dataclass(eq=False)
class Progress:
    """What is known while training; values of the objective in lam convention.

    Of the plane behind ``dual`` only its ``offset`` b is kept, ``nan`` without a plane.
    ``at_start`` is the objective of the weights at the start, ``nan`` while it is not known; with ``from_start`` these
    are the ones kept, because all others are worse.  ``tightness`` is the share of the oracle's answers at the weights
    that are proved best.  ``interrupted_twice``: Ctrl-C came again while the weights were looked at for the last time.
    """

    w: F64
    primal: float = np.inf
    upper: float = np.nan
    dual: float = -np.inf
    n_passes: float = 0.0
    reason: str = "passes"
    seconds: float = 0.0
    history: list[TrainingEvent] = field(default_factory=list)
    offset: float = np.nan
    at_start: float = np.nan
    from_start: bool = False
    tightness: float = np.nan
    interrupted_twice: bool = False
    compile_seconds: float = 0.0

    def take(self, iterate: Iterate, keep_best: bool) -> None:
        """Take an iterate: the dual bound only rises, the weights follow the best objective (or the newest).

        Raises
        ------
        PluginError
            The trainer yields something else.
        """
        if not isinstance(iterate, Iterate):
            text = "the trainer broke its contract: expected an Iterate(w, n_passes, ...) of ssvm_dsl.plugin_api"
            raise PluginError(f"{text} from steps(), got {type(iterate).__name__}")
        self.n_passes = iterate.n_passes
        if iterate.dual > self.dual:
            self.dual, self.offset = iterate.dual, np.nan if iterate.plane is None else float(iterate.plane[1])
        known = not np.isnan(iterate.primal)
        if not keep_best or (known and iterate.primal < self.primal) or not np.isfinite(self.primal):
            np.copyto(self.w, iterate.w)
            self.primal = iterate.primal if known else np.inf
            self.upper = iterate.upper if known else np.nan

    def compare_start(self, start: F64 | None, problem: TrainProblem) -> None:
        """Keep the weights of the start where they are better; a pass, unless it is known that they are not.

        They are not where their objective was evaluated; where they are 0 and the objective is at most the offset of
        a plane (its value at 0); and where they are far away.  With the regulariser r and the optimum w*,

            P(start) >= P(w*) + r(start - w*) ,        P(w) <= P(w*) + gap ,        r(w - w*) <= gap ,

        and ``sqrt(r)`` is a norm, so that ``r(w - start) >= 4 gap`` is enough.
        """
        origin = np.zeros(len(self.w)) if start is None else start
        cold = start is None and self.primal <= self.offset
        if not np.isnan(self.at_start) or cold:
            return
        if np.isfinite(self.gap) and 4.0 * self.gap <= problem.objective.regularizer(self.w - origin):
            return
        self.at_start, upper = problem.value(origin)
        self.n_passes += 1.0
        if self.at_start < self.primal:
            self.w, self.primal, self.upper, self.from_start = origin.copy(), self.at_start, upper, True

    @property
    def gap(self) -> float:
        """Certified gap of the kept weights, ``nan`` without bounds."""
        return self.upper - self.dual

    @property
    def relative_gap(self) -> float:
        """Certified gap over the size of the objective."""
        return relative(self.gap, self.primal)


def relative(gap: float, primal: float) -> float:
    """Return ``gap / |primal|`` (0 when both are 0)."""
    if not np.isfinite(primal) or np.isnan(gap):
        return np.nan
    return gap / max(abs(primal), 1e-300) if gap > 0.0 else 0.0
