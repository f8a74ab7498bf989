"""``Times``: where the seconds of a fit went."""

from __future__ import annotations

from dataclasses import dataclass, replace

from ssvm_dsl.deadline import Deadline
from ssvm_dsl.learning.driver.certificate import FitReport
from ssvm_dsl.learning.driver.progress import Progress


@dataclass(eq=False)
class Times:
    """Where the seconds of a call went that were spent in training runs.

    Parameters
    ----------
    runs, oracle, evaluation, earlier : float
        All of them; those in oracle calls while training; those of the last looks at weights; those of interrupted runs
        that were gone on from, which were spent before the call.
    """

    runs: float = 0.0
    oracle: float = 0.0
    evaluation: float = 0.0
    earlier: float = 0.0

    def add(self, seconds: float, progress: Progress) -> None:
        """Add a training run that took so many seconds."""
        self.runs += seconds
        self.oracle += progress.oracle_seconds
        self.evaluation += progress.evaluation_seconds
        self.earlier += progress.earlier_seconds

    def with_times(self, report: FitReport, deadline: Deadline) -> FitReport:
        """Return the report of a call that began with a deadline and ends now, with its times."""
        spent = deadline.spent
        return replace(
            report, seconds=self.earlier + spent, loading_seconds=deadline.loaded,
            preparing_seconds=max(spent - self.runs, 0.0), oracle_seconds=self.oracle,
            evaluation_seconds=self.evaluation, earlier_seconds=self.earlier,
        )  # fmt: skip
