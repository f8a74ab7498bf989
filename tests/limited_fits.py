"""Fits that a limit ends, on models of every structure: for the fuzzer of fits and for their benchmark."""

from __future__ import annotations

import time
import warnings
from dataclasses import dataclass

import numpy as np

from ssvm_dsl import StructuredSVM
from ssvm_dsl.errors import SsvmError
from ssvm_dsl.ir.need import Guarantee
from ssvm_dsl.plugin_api import BackendSpec
from ssvm_dsl.registry import registry

#: What refusals of a fit say: nothing is asked that a trainer, a risk or a backend cannot do at all.
REFUSALS = (
    "no backend can answer",
    "works on marginals",
    "works on distributions",
    "needs a loss",
    "more numbers than max_entries",
    "more coefficients than max_entries",
    "has no relaxation",
    "does not expose dual messages",
    "needs joint states",
    "latent variables",
    "more memory",
    "exact elimination meets",
    "would take",
    "does not minimise",
    "not submodular",
)


@dataclass(frozen=True)
class Outcome:
    """What came of a fit.

    Parameters
    ----------
    late : float
        Seconds beyond the limit, loading not counted; negative for a fit that ended before.
    primal, dual : float
    n_late : int
        Examples that were not looked at in time.
    reason : str
    bounding : bool
        Whether the oracle is exact or gives bounds.
    error : str
        What was raised; empty for a fit that returned.
    share : float
        Share of a processor that the fit had: what is late by the clock is that much later by its own work.
    """

    late: float
    primal: float = np.nan
    dual: float = np.nan
    n_late: int = 0
    reason: str = ""
    bounding: bool = True
    error: str = ""
    share: float = 1.0

    @property
    def refused(self) -> bool:
        """Whether the fit was refused for what it is, limit or none."""
        return any(text in self.error for text in REFUSALS)

    @property
    def unknown(self) -> bool:
        """Whether there is no certificate although the oracle bounds."""
        wanted = [self.primal, self.dual] if self.reason == "seconds" else [self.primal]
        return not self.error and self.bounding and not np.isfinite(wanted).all()

    @property
    def crossed(self) -> bool:
        """Whether the bounds contradict each other."""
        return self.dual > self.primal

    def __str__(self) -> str:
        if self.error:
            return f"{self.late:+.2f} s, {self.error}"
        open_ones = f", {self.n_late} not in time" if self.n_late else ""
        return f"{self.late:+.2f} s, {self.dual:.6g} to {self.primal:.6g} ({self.reason}{open_ones})"


def limited_fit(model, X, Y, seconds, **parameters):
    """Return what comes of a fit with ``max_seconds``."""
    options = {"random_state": 0, "tol": 1e-6, "max_passes": 1e9} | parameters
    svm = StructuredSVM(model, max_seconds=seconds, **options)
    begin, busy = time.perf_counter(), time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            report = svm.fit(X, Y).report_
        except SsvmError as err:
            return Outcome(time.perf_counter() - begin - seconds, error=f"{type(err).__name__}: {str(err)[:200]}")
    took = time.perf_counter() - begin
    share, late = min(1.0, (time.process_time() - busy) / took), took - report.loading_seconds - seconds
    used = {part.backend for part in (report.plan, *report.plan.components)}  # none where time was up before the plan
    specs = [spec for spec in registry().specs(BackendSpec) if spec.name in used]
    bounding = all(spec.caps.guarantee is not Guarantee.HEURISTIC for spec in specs)
    return Outcome(late, report.primal, report.dual, report.n_late, report.reason, bounding, share=share)
