"""Numbers in the units people read."""

from __future__ import annotations

from math import isfinite


def bytes_text(n: float) -> str:
    """Return e.g. ``"1.3 MB"`` (powers of 1000)."""
    size = float(n)
    for unit in ("B", "kB", "MB", "GB"):
        if size < 1000:
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1000
    return f"{size:.1f} TB"


def seconds_text(seconds: float) -> str:
    """Return e.g. ``"< 1 us"``, ``"2.5 us"``, ``"250 us"``, ``"83 ms"``, ``"4.2 s"``, ``"3 min 20 s"``, ``"150 h"``."""
    if seconds < 0.95e-6:
        return "< 1 us"
    for unit, scale in (("us", 1e6), ("ms", 1e3)):
        if round(seconds * scale) < 1000:
            return f"{_two_digits(seconds * scale)} {unit}"
    if seconds < 100:
        return f"{seconds:.1f} s"
    if seconds < 7200:
        return f"{int(seconds // 60)} min {int(seconds % 60)} s"
    return f"{seconds / 3600:.0f} h"


def number_text(value: float, style: str = ".10g") -> str:
    """Return a number's text, a dash where there is none."""
    return f"{value:{style}}" if isfinite(value) else "-"


def ratio_text(ratio: float) -> str:
    """Return a number of times, e.g. ``"1.2 x"``, ``"53 x"``, ``"100 000 x"``."""
    return f"{_two_digits(ratio)} x" if ratio < 1000 else f"{float(f'{ratio:.0e}'):,.0f} x".replace(",", " ")


def _two_digits(value: float) -> str:
    """Return a number below 1000 without an exponent, to at least two digits; 1.0 is ``"1"``."""
    return f"{value:.0f}" if value >= 9.95 else f"{value:.1f}".removesuffix(".0")
