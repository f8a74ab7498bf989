"""Small rich tables, without frames, that fit 80 columns."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape

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


#: Colours of tables in notebooks, by the theme of the reader.
STYLE = (
    "<style>.ssvm{border-collapse:collapse;font:13px/1.4 system-ui,sans-serif;color:#1b1f24}"
    ".ssvm caption{text-align:left;font-weight:600;padding:4px 0;white-space:pre-line}"
    ".ssvm th,.ssvm td{text-align:left;vertical-align:top;padding:2px 10px 2px 0;border-bottom:1px solid #d8dee4}"
    ".ssvm th{color:#57606a;font-weight:500}"
    "@media(prefers-color-scheme:dark){.ssvm{color:#e6edf3}.ssvm th{color:#9da7b1}"
    ".ssvm th,.ssvm td{border-color:#3d444d}}</style>"
)


def html_table(title: str, rows: Iterable[tuple[str, str]]) -> str:
    """Return names and texts as an HTML table, for notebooks."""
    body = "".join(f"<tr><th>{escape(name)}</th><td>{escape(text)}</td></tr>" for name, text in rows)
    return f'{STYLE}<table class="ssvm"><caption>{escape(title)}</caption>{body}</table>'


def html_grid(title: str, columns: Sequence[str], rows: Iterable[Sequence[str]], note: str = "") -> str:
    """Return a table with a header, and a note below it, as HTML for notebooks."""
    head = "".join(f"<th>{escape(name)}</th>" for name in columns)
    body = "".join("<tr>" + "".join(f"<td>{escape(text)}</td>" for text in row) + "</tr>" for row in rows)
    below = f'<tr><td colspan="{len(columns)}">{escape(note)}</td></tr>' if note else ""
    return f'{STYLE}<table class="ssvm"><caption>{escape(title)}</caption><tr>{head}</tr>{body}{below}</table>'


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
