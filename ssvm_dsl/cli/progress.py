"""How far a long command is: a bar on a terminal, else a line now and then."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from time import monotonic

from ssvm_dsl.cli.screen import aside

#: Seconds between lines where the screen is not a terminal.
SELDOM = 30.0


@contextmanager
def progress_bar(name: str) -> Iterator[Callable[[str, float], None]]:
    """Report the current step in words, and the completed share of all steps."""
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    side, last = aside(), -SELDOM
    text = TextColumn("{task.fields[text]}", markup=False)
    bar = Progress(TextColumn("[bold]{task.description}"), BarColumn(bar_width=24), text, TimeElapsedColumn(),
                   console=side, transient=True)  # fmt: skip
    task = bar.add_task(name, total=1.0, text="")

    def live(doing: str, done: float) -> None:
        bar.update(task, completed=done, text=doing)

    def plain(doing: str, done: float) -> None:
        nonlocal last
        if monotonic() >= last + SELDOM:
            last = monotonic()
            side.print(f"{name}: {done:.0%}, {doing}", markup=False, soft_wrap=True)

    if not side.is_terminal:
        yield plain
        return
    with bar:
        yield live
