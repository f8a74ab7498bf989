"""Finished fits in a file: the same command resumes after an interrupt, or extends the grid.

A fit is recognised by a hash of all that it depends on: the version of the package, the estimator and its model, the
parameters, and the contents and positions of its examples.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from ssvm_dsl.errors import FileFormatError, ModelError, OptionError
from ssvm_dsl.io.arrays_file import read_arrays, write_arrays
from ssvm_dsl.lang.arrays import is_number
from ssvm_dsl.learning.estimators.check_parameters import check_path
from ssvm_dsl.learning.tuning.fitting import FittingTask, Outcome, Trials
from ssvm_dsl.version import __version__

FORMAT, VERSION = "ssvm-dsl tuning", 2


class KeptFits:
    """A file of the outcomes of fits.

    Parameters
    ----------
    path : Path
    trials : Trials
        The estimator to fit.

    Raises
    ------
    FileFormatError
        There is a file that holds something else.
    OptionError
        No file can be written there, or the examples hold something that has no hash.
    """

    def __init__(self, path: Path, trials: Trials) -> None:
        self.path = check_path(path, "--results")
        self._of = _fingerprint(trials)
        self._kept = _read(path) if path.exists() else {}
        self._write()  # complains now where nothing may be written

    def find(self, task: FittingTask) -> Outcome | None:
        """Return the outcome of a fit that is done."""
        return self._kept.get(self._key(task))

    def keep(self, task: FittingTask, outcome: Outcome) -> None:
        """Add the outcome of a fit, and write the file."""
        self._kept[self._key(task)] = outcome
        self._write()

    def _key(self, task: FittingTask) -> str:
        return _hash((self._of, sorted(task.parameters.items()), task.fold), "the parameters")

    def _write(self) -> None:
        fits = {}
        for key, one in self._kept.items():
            gap = one.relative_gap if np.isfinite(one.relative_gap) else None
            fits[key] = asdict(one) | {"relative_gap": gap}
        write_arrays(self.path, {"format": FORMAT, "version": VERSION, "fits": fits}, {})


def _read(path: Path) -> dict[str, Outcome]:
    content, _ = read_arrays(path, "a file of ssvm tune")
    fits = content.get("fits")
    if (content.get("format"), content.get("version")) != (FORMAT, VERSION) or not isinstance(fits, dict):
        raise FileFormatError(f"{path}: not a file of ssvm tune that this version reads; name another one")
    try:
        return {key: _outcome(**fit) for key, fit in fits.items()}
    except (TypeError, ValueError) as err:
        raise FileFormatError(f"{path}: not a file of ssvm tune, or damaged ({err})") from err


def _outcome(score: Any, seconds: Any, converged: Any, relative_gap: Any) -> Outcome:
    numbers = [score, seconds, 0.0 if relative_gap is None else relative_gap]
    if not all(is_number(one) and np.isfinite(one) for one in numbers) or not isinstance(converged, bool):
        raise ValueError("expected numbers")
    gap = np.nan if relative_gap is None else float(relative_gap)
    return Outcome(float(score), float(seconds), converged, gap)


def _fingerprint(trials: Trials) -> str:
    """Return a hash of what all fits share."""
    settings = {name: _text(value) for name, value in trials.estimator.get_params(deep=False).items()}
    settings.pop("n_threads", None)  # results do not depend on it
    scoring = getattr(trials.scorer, "scoring", trials.scorer)
    data = [values.tocsr() if hasattr(values, "tocsr") else values for values in trials.data]
    return _hash((__version__, settings, getattr(scoring, "__qualname__", str(scoring)), data), "the examples")


def _text(value: Any) -> str:
    """Return a parameter of an estimator as text: a model as JSON, a function or an output space by its name."""
    if hasattr(value, "declaration"):
        with suppress(ModelError):  # functions that have no import path
            return str(value.to_json())
        return str(value)
    return repr(value)


def _hash(value: Any, what: str) -> str:
    """Return the hash of plain data, lists and arrays.

    Raises
    ------
    OptionError
        Something in it cannot be pickled.
    """
    from joblib import hash as content_hash

    try:
        return str(content_hash(value))
    except Exception as err:
        text = f"{what} hold something that cannot be recognised again ({err})"
        raise OptionError(f"--results: {text}; leave --results out") from err
