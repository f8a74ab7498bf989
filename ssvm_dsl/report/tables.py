"""Small rich tables, without frames, that fit 80 columns."""

from __future__ import annotations

from collections.abc import Iterable

from rich.box import SIMPLE_HEAD
from rich.table import Table
from rich.text import Text


def two_columns(title: str, rows: Iterable[tuple[str, str]]) -> Table:
    """Return a table of names and texts."""
    table = Table(title=title, box=None, show_header=False, title_justify="left", title_style="bold", pad_edge=False)
    table.add_column(style="cyan", no_wrap=True)
    table.add_column(overflow="fold")
    for name, text in rows:
        table.add_row(Text(name), Text(text))
    return table


def plain_table(title: str, columns: Iterable[str], rows: Iterable[Iterable[str]]) -> Table:
    """Return a table with a header; an empty title takes no line."""
    table = Table(
        title=title or None, box=SIMPLE_HEAD, show_edge=False, pad_edge=False, title_justify="left",
        title_style="bold", header_style="cyan",
    )  # fmt: skip
    for column in columns:
        table.add_column(column, overflow="fold")
    for row in rows:
        table.add_row(*map(Text, row))
    return table
