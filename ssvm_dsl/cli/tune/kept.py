"""Fits that are done, in a file: the same command goes on where it was interrupted, or takes a larger grid.

A fit is recognised by a hash of all that it depends on: the version of the package, the estimator and its model, the
parameters, and the contents and positions of its examples.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from hashlib import blake2b
from pathlib import Path
from typing import Any

import numpy as np

from ssvm_dsl.errors import FileFormatError, OptionError
from ssvm_dsl.io.arrays_file import read_arrays, write_arrays
from ssvm_dsl.learning.estimators.check_parameters import check_path, is_number
from ssvm_dsl.learning.tuning.fitting import FittingTask, Outcome, Trials
from ssvm_dsl.version import __version__

FORMAT, VERSION = "ssvm-dsl tuning", 1


class KeptFits:
    """A file of the outcomes of fits.

    Parameters
    ----------
    path : Path
    trials : Trials
        What is fitted.

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
        digest = blake2b(self._of, digest_size=16)
        _add(digest, dict(sorted(task.parameters.items())), "a parameter")
        for positions in task.fold:
            _add(digest, positions, "")
        return digest.hexdigest()

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


def _fingerprint(trials: Trials) -> bytes:
    """Return a hash of what all fits share."""
    from ssvm_dsl.errors import ModelError

    digest = blake2b(__version__.encode(), digest_size=16)
    for name, value in sorted(trials.estimator.get_params(deep=False).items()):
        if name == "n_threads":  # results do not depend on it
            continue
        if hasattr(value, "declaration"):
            try:
                text = value.to_json()
            except ModelError:  # functions that have no import path
                text = str(value)
        else:
            text = repr(value)  # plain data; of a function or an output space what it is called
        digest.update(f"{name}={text}\n".encode())
    scoring = getattr(trials.scorer, "scoring", trials.scorer)
    digest.update(f"{getattr(scoring, '__qualname__', scoring)}\n".encode())
    for values in trials.data:
        _add(digest, values, "an example")
    return digest.digest()


def _add(digest: Any, value: Any, what: str) -> None:
    """Add a value, and what it holds, to a hash."""
    if hasattr(value, "tocsr"):
        rows = value.tocsr()
        _add(digest, [rows.shape, rows.data, rows.indices, rows.indptr], what)
    elif isinstance(value, np.ma.MaskedArray):
        _add(digest, [np.ma.getmaskarray(value), value.filled(0)], what)
    elif isinstance(value, np.ndarray) and value.dtype.kind != "O":
        digest.update(f"{value.dtype.str}{value.shape}".encode())
        digest.update(np.ascontiguousarray(value).tobytes())
    elif isinstance(value, Mapping):
        digest.update(f"dict {len(value)}".encode())
        for key, one in value.items():
            digest.update(repr(key).encode())
            _add(digest, one, what)
    elif isinstance(value, list | tuple | np.ndarray | set | frozenset):
        listed = sorted(value, key=repr) if isinstance(value, set | frozenset) else list(value)
        digest.update(f"list {len(listed)}".encode())
        for one in listed:
            _add(digest, one, what)
    elif value is None or isinstance(value, str | bytes | bool | int | float | np.generic):
        digest.update(f"{type(value).__name__} {value!r}\n".encode())
    else:
        text = f"{what} holds a {type(value).__name__}, which cannot be recognised again"
        raise OptionError(f"--results: {text}; leave --results out")
