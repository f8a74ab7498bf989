"""Progress of a fit and of a question to a backend: one line that says how far it is.

That of a fit has the objective, the gap on its way to the tolerance, and the oracle's share.  On a terminal the line is
live; in a file or a pipe there is one line now and then.
"""

from __future__ import annotations

import math
from types import TracebackType

from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from ssvm_dsl.plugin_api.training import TrainingEvent
from ssvm_dsl.report.curves import estimated
from ssvm_dsl.units import seconds_text

FIRST = "first pass (the first run compiles)"

#: Seconds between plain lines: at first, and in a long run.
OFTEN, SELDOM = 1.0, 60.0


class FitProgress:
    """The progress of a fit, on standard error; use it as a context manager and as a callback.

    The bar measures ``log(gap)`` between the first gap seen and the tolerance, or passes where no gap is known.
    Numbers after ``~`` are estimates without a certificate: the trainer's, or what a heuristic's labellings are worth.

    Parameters
    ----------
    tol : float
        Relative gap at which training stops.
    max_passes : float
    console : rich.console.Console, optional
    expected : str
        The expected cost of the fit, in words.
    """

    def __init__(self, tol: float, max_passes: float, console: Console | None = None, expected: str = "") -> None:
        self.tol, self.max_passes = max(tol, 1e-12), max_passes
        self._first: float | None = None
        self._score = math.nan
        self._console = console or Console(stderr=True)
        self._live = self._console.is_terminal or self._console.is_jupyter
        self._line, self._next = "", 0.0  # the newest line that is not written, and when one is due
        self._bar = Progress(
            TextColumn("[bold]fit[/bold]"),
            BarColumn(bar_width=24),
            TextColumn("{task.fields[text]}"),
            TimeElapsedColumn(),
            console=self._console,
        )
        self._first_text = expected or FIRST
        self._task = self._bar.add_task("fit", total=1.0, text=self._first_text)

    def __enter__(self) -> FitProgress:
        if self._live:
            self._bar.start()
        else:
            self._write(self._first_text)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._live:
            self._bar.stop()
        elif self._line:
            self._write(self._line)

    def _write(self, text: str) -> None:
        """Write a plain line, at once."""
        self._console.print(f"fit {text}", markup=False, highlight=False, soft_wrap=True)
        self._line = ""

    def update(self, event: TrainingEvent) -> None:
        """Show an iteration."""
        primal, _, now = estimated(event)
        known, gap = math.isfinite(event.best_primal), event.relative_gap
        guess = primal if math.isfinite(primal) else event.estimate
        parts = [f"{event.n_passes:.3g} passes"]
        if known or math.isfinite(guess):
            parts.append(f"primal {'' if known else '~'}{event.best_primal if known else guess:.5g}")
        if math.isfinite(gap):
            parts.append(f"gap {gap:.1e}" + (f", now ~{now:.0e}" if math.isfinite(now) else ""))
        elif math.isfinite(now):
            gap = now
            parts.append(f"gap ~{now:.1e}")
        if event.seconds > 0.0:
            parts.append(f"oracle {event.oracle_seconds / event.seconds:.0%}")
        self._score = event.extra.get("validation_score", self._score)
        if math.isfinite(self._score):
            parts.append(f"validation {self._score:.4g}")
        self._line = ", ".join(parts)
        self._bar.update(self._task, completed=self._share(gap, event.n_passes), text=self._line)
        if not self._live and event.seconds >= self._next:
            self._next = event.seconds + min(max(event.seconds / 2.0, OFTEN), SELDOM)
            self._write(f"{self._line}, {seconds_text(event.seconds)}")

    def _share(self, gap: float, n_passes: float) -> float:
        """Return how far along training is, between 0 and 1."""
        if not gap > 0:
            return min(n_passes / self.max_passes, 1.0)
        if self._first is None:
            self._first = max(gap, 2 * self.tol)
        done = math.log(self._first / max(gap, self.tol)) / math.log(self._first / self.tol)
        return min(max(done, 0.0), 1.0)


# -- one question to a backend -------------------------------------------------------------------------------------


class SolveProgress:
    """A line on standard error that a backend updates (``Limits.progress``); use it as a context manager.

    Parameters
    ----------
    backend : str
        Name shown in front.
    console : rich.console.Console
    """

    def __init__(self, backend: str, console: Console) -> None:
        self._line = Progress(
            SpinnerColumn(),
            TextColumn(f"[bold]{backend}[/bold]"),
            TextColumn("{task.fields[text]}"),
            TimeElapsedColumn(),
            console=console,
            transient=True,
        )
        self._task = self._line.add_task("solve", total=None, text="no answer yet")

    def __enter__(self) -> SolveProgress:
        self._line.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._line.stop()

    def __call__(self, score: float, bound: float) -> None:
        """Show the best score and the bound so far."""
        parts = [f"score {score:.8g}" if math.isfinite(score) else "no labelling yet"]
        if math.isfinite(bound):
            parts.append(f"bound {bound:.8g}")
            if math.isfinite(score):
                parts.append(f"gap {bound - score:.2g}")
        self._line.update(self._task, text="  ".join(parts))
