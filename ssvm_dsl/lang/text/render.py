"""How a declaration reads: ``print(OCR)`` and the notebook's HTML, with weight shapes."""

from __future__ import annotations

from ssvm_dsl.lang.declaration import Declaration
from ssvm_dsl.notebook_tables import html_grid


def as_text(declaration: Declaration) -> str:
    """Return the declaration as aligned plain text."""
    rows = [(symbol.name, symbol.short, symbol.note) for symbol in declaration.symbols]
    first = max((len(row[0]) for row in rows), default=0)
    second = max((len(row[1]) for row in rows if row[2]), default=0)
    lines = [f"{declaration.name}(Model)"]
    lines += [f"  {name:{first}} = {text:{second}}  {note}".rstrip() for name, text, note in rows]
    return "\n".join([*lines, f"  {total_line(declaration)}"])


def as_html(declaration: Declaration) -> str:
    """Return the declaration as an HTML table."""
    rows = [[symbol.name, symbol.short, symbol.note] for symbol in declaration.symbols]
    return html_grid(f"{declaration.name} · {total_line(declaration)}", ["name", "declared as", "note"], rows)


def total_line(declaration: Declaration) -> str:
    """Return the number of weights as text."""
    total = declaration.n_weights()
    return "weights: known after fitting" if total is None else f"weights: {total} in all"
