"""Tables in notebooks: one style, for light and dark themes; every text is escaped."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape

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
