"""How a declaration reads: ``print(OCR)`` and the notebook's HTML, with weight shapes."""

from __future__ import annotations

from html import escape
from math import prod

from ssvm_dsl.lang.constraints.forbidden import Forbid
from ssvm_dsl.lang.declaration import Declaration
from ssvm_dsl.lang.dims import Dim
from ssvm_dsl.lang.factors import Factor
from ssvm_dsl.lang.given import Given
from ssvm_dsl.lang.outputs.labels import Label
from ssvm_dsl.lang.symbols import Symbol, show

#: As many states of a rule are shown.
FEW = 2


def as_text(declaration: Declaration) -> str:
    """Return the declaration as aligned plain text."""
    rows = [(symbol.name, _short(symbol), _note(symbol)) for symbol in declaration.symbols]
    first = max((len(row[0]) for row in rows), default=0)
    second = max((len(row[1]) for row in rows if row[2]), default=0)
    lines = [f"{declaration.name}(Model)"]
    lines += [f"  {name:{first}} = {text:{second}}  {note}".rstrip() for name, text, note in rows]
    return "\n".join([*lines, f"  {total_line(declaration)}"])


def as_html(declaration: Declaration) -> str:
    """Return the declaration as an HTML table."""
    rows = "".join(
        f"<tr><td><code>{escape(s.name)}</code></td><td><code>{escape(_short(s))}</code></td>"
        f"<td>{escape(_note(s))}</td></tr>"
        for s in declaration.symbols
    )
    head = f"<caption><b>{escape(declaration.name)}</b> &middot; {escape(total_line(declaration))}</caption>"
    return f"<table>{head}{rows}</table>"


def total_line(declaration: Declaration) -> str:
    """Return the number of weights in words."""
    total = declaration.n_weights()
    return "weights: known after fitting" if total is None else f"weights: {total} in all"


def weight_shape_text(factor: Factor) -> str:
    """Return e.g. ``w[26, 128]``; a learnt width shows as ``?``."""
    width = None if factor.features is None else factor.features.width
    shape = factor.weight_shape(width)
    return f"w[{', '.join('?' if size is None else str(size) for size in shape)}]" if shape else "w (one number)"


def _short(symbol: Symbol) -> str:
    """Return the right-hand side as it would be written, single letters as one string."""
    if isinstance(symbol, Label) and symbol.classes is not None:
        axes = "".join(f"{show(dim)}, " for dim in symbol.dims)
        if all(isinstance(name, str) and len(name) == 1 for name in symbol.classes):
            letters = "".join(map(str, symbol.classes))
            more = "".join(f", {key}={show(value)}" for key, value in symbol.arguments()[1].items())
            return f"Label({axes}{letters[:26] + ('...' if len(letters) > 26 else '')!r}{more})"
    if isinstance(symbol, Forbid):
        target, *states = symbol.arguments()[0]
        if states and isinstance(states[0], list) and len(states[0]) > FEW:
            first = ", ".join(show(one) for one in states[0][:FEW])
            return f"{symbol.constructor}({show(target)}, [{first}, ...])"
    return repr(symbol)


def _note(symbol: Symbol) -> str:
    if isinstance(symbol, Dim):
        return "ragged" if symbol.ragged else ""
    if isinstance(symbol, Label):
        marked = "" if symbol.unknown is None else f"; {show(symbol.unknown)} is not known"
        if symbol.over is not None:
            return f"pointers to {show(symbol.over)}{', or nowhere' if symbol.null else ''}{marked}"
        longest = "" if symbol.segments is None else f", in segments of up to {symbol.segments}"
        return f"{symbol.n_states} states{longest}{marked}"
    if isinstance(symbol, Factor):
        return weight_shape_text(symbol) + (f"  (of {symbol.tie.name})" if symbol.tie is not None else "")
    if isinstance(symbol, Given):
        return "no weights"
    if isinstance(symbol, Forbid):
        return f"rules out {len(symbol.forbidden)} of {prod(symbol.target.cards)} states"
    return ""
