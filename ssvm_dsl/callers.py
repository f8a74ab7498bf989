"""Warnings point to the line of the user's program, however many of our calls lie between."""

from __future__ import annotations

import contextlib
import sys
import warnings
from pathlib import Path

_OURS = (str(Path(__file__).parent), contextlib.__file__)


def warn_caller(text: str, category: type[Warning] = UserWarning) -> None:
    """Warn at the nearest line outside this package (the outermost one where there is none, as in a thread)."""
    frame = sys._getframe(1)
    level = 2
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_OURS):
        frame = frame.f_back
        level += 1
    warnings.warn(text, category, stacklevel=level)
