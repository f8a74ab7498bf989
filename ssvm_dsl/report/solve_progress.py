"""Live progress of one question to a backend: the best score and the bound on their way to each other."""

from __future__ import annotations

import math
from types import TracebackType

from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn


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
