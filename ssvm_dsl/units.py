"""Numbers in the units people read."""

from __future__ import annotations


def bytes_text(n: float) -> str:
    """Return e.g. ``"1.3 MB"`` (powers of 1000)."""
    size = float(n)
    for unit in ("B", "kB", "MB", "GB"):
        if size < 1000:
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1000
    return f"{size:.1f} TB"


def seconds_text(seconds: float) -> str:
    """Return e.g. ``"12 us"``, ``"83 ms"``, ``"4.2 s"``, ``"3 min 20 s"``, ``"150 h"``."""
    if 0 < seconds < 1e-3:
        return f"{1e6 * seconds:.2g} us"
    if seconds < 1:
        return f"{1000 * seconds:.0f} ms"
    if seconds < 100:
        return f"{seconds:.1f} s"
    if seconds < 7200:
        return f"{int(seconds // 60)} min {int(seconds % 60)} s"
    return f"{seconds / 3600:.0f} h"
