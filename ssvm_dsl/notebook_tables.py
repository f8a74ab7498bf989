"""Tables of names and texts: as lines of a terminal, and in notebooks, in one style, for light and dark themes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from textwrap import wrap

#: Characters of a line of a terminal.
WIDTH = 80

#: Colours of tables in notebooks, by the theme of the reader.
STYLE = (
    "<style>.ssvm{border-collapse:collapse;font:13px/1.4 system-ui,sans-serif;color:#1b1f24}"
    ".ssvm caption{text-align:left;font-weight:600;padding:4px 0;white-space:pre-line}"
    ".ssvm th,.ssvm td{text-align:left;vertical-align:top;padding:2px 10px 2px 0;border-bottom:1px solid #d8dee4}"
    ".ssvm th{color:#57606a;font-weight:500}"
    "@media(prefers-color-scheme:dark){.ssvm{color:#e6edf3}.ssvm th{color:#9da7b1}"
    ".ssvm th,.ssvm td{border-color:#3d444d}}</style>"
)


def text_rows(rows: Sequence[tuple[str, str]]) -> str:
    """Return names and texts side by side; lines have at most 80 characters where words allow."""
    column = max(len(name) for name, _ in rows) + 2
    lines = []
    for name, text in rows:
        first, *rest = wrap(text, WIDTH - column, break_long_words=False, break_on_hyphens=False) or [""]
        lines += [f"{name:{column}}{first}".rstrip(), *(" " * column + line for line in rest)]
    return "\n".join(lines)


def aligned(rows: Sequence[Sequence[str]]) -> str:
    """Return a table of texts as lines, columns two blanks apart."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "\n".join("  ".join(map(str.ljust, row, widths)).rstrip() for row in rows)


def html_table(title: str, rows: Iterable[tuple[str, str]]) -> str:
    """Return names and texts as an HTML table, for notebooks; every text is escaped."""
    body = "".join(f"<tr><th>{escape(name)}</th><td>{escape(text)}</td></tr>" for name, text in rows)
    return f'{STYLE}<table class="ssvm"><caption>{escape(title)}</caption>{body}</table>'


def html_grid(title: str, columns: Sequence[str], rows: Iterable[Sequence[str]], note: str = "") -> str:
    """Return a table with a header, and a note below it, as HTML for notebooks."""
    head = "".join(f"<th>{escape(name)}</th>" for name in columns)
    body = "".join("<tr>" + "".join(f"<td>{escape(text)}</td>" for text in row) + "</tr>" for row in rows)
    below = f'<tr><td colspan="{len(columns)}">{escape(note)}</td></tr>' if note else ""
    return f'{STYLE}<table class="ssvm"><caption>{escape(title)}</caption><tr>{head}</tr>{body}{below}</table>'
