"""Errors of trainers whose steps are too long, raised before a backend is blamed for scores that are not finite."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import numpy as np

from ssvm_dsl.errors import SsvmError, TrainingError
from ssvm_dsl.ir import F64
from ssvm_dsl.plugin_api import Iterate

#: Beyond this size of weights any error is the trainer's fault: scores have hardly any digits left.
HUGE = 1e12


class Divergence(TrainingError):
    """Weights that have lost their digits, or are no longer numbers."""


@contextmanager
def steps_of(trainer: str, weights: Callable[[], F64], advice: str) -> Iterator[None]:
    """Run steps; errors at weights that are huge or not finite become errors of the trainer.

    Parameters
    ----------
    trainer : str
    weights : callable
        Returns the newest weights.
    advice : str
        The options to set.

    Raises
    ------
    Divergence
        The weights diverged.
    """
    try:
        yield
    except SsvmError as err:
        if _largest(weights()) <= HUGE:
            raise
        raise _divergence(trainer, weights(), advice) from err
    with np.errstate(over="ignore", invalid="ignore"):
        square = np.dot(weights(), weights())
    if not np.isfinite(square):
        raise _divergence(trainer, weights(), advice)


def checked(iterate: Iterate, trainer: str, advice: str) -> Iterate:
    """Return an iterate whose objective is finite or not known.

    Raises
    ------
    Divergence
        It overflows.
    """
    if np.isinf(iterate.primal):
        raise _divergence(trainer, iterate.w, advice)
    return iterate


def _largest(w: F64) -> float:
    """Return the size of the largest weight; infinite where one is not a number."""
    most = max(float(w.max(initial=0.0)), -float(w.min(initial=0.0)))
    return np.inf if np.isnan(most) else most


def _divergence(trainer: str, w: F64, advice: str) -> Divergence:
    size = _largest(w)
    grown = f"have grown to {size:.1g}" if np.isfinite(size) else "are no longer finite"
    return Divergence(f"trainer '{trainer}': its weights {grown}: steps are too long for these risks; {advice}")
