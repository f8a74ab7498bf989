"""Ctrl-C in a fit, and what it ends besides that fit.

A fit that is interrupted keeps the best model so far, which is what somebody who called it wants.  It is not what a
search wants that called it: a half-finished fit would be scored among finished ones, and the next fit would begin.
So the interrupt is passed on, with the model kept in the estimator, where scikit-learn's model selection or
:mod:`ssvm_dsl.learning.tuning` called the fit, and where the fit began right after one that was interrupted: in a loop,
the second interrupt ends the loop.
"""

from __future__ import annotations

import sys
from time import monotonic

import numpy as np

#: Modules whose fits are compared with each other.
SEARCHES = ("sklearn.model_selection.", "ssvm_dsl.learning.tuning.")

#: A fit that begins within so many seconds of the end of an interrupted one is in the same loop.
SOON = 1.0

_ended = [-np.inf]  # when a fit of this process ended by an interrupt


def follows_an_interrupt() -> bool:
    """Return whether a fit that begins now follows an interrupted one at once."""
    return monotonic() - _ended[0] < SOON


def ends_the_caller(followed: bool) -> bool:
    """Return whether the interrupt that just ended a fit is to end what called it.

    ``followed`` is what :func:`follows_an_interrupt` said when the fit began.
    """
    _ended[0] = monotonic()
    return followed or _in_a_search()


def _in_a_search() -> bool:
    """Whether a search for parameters is among the callers."""
    frame = sys._getframe(1)
    while frame is not None:
        if f"{frame.f_globals.get('__name__', '')}.".startswith(SEARCHES):
            return True
        frame = frame.f_back  # type: ignore[assignment]
    return False
