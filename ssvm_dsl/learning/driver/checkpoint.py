"""Checkpoints: a killed fit resumes from its last checkpoint, bit for bit.

A file holds what the driver knows (best weights, bounds, history) and what the trainer says its state is: named
arrays and plain numbers.  It also holds what the fit is of (version of the package, trainer, backend, options,
objective, model, hashes of the data), and is continued with the same only; tolerances and limits may change.  A file is
replaced as a whole, never written in place.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from pathlib import Path
from time import perf_counter
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from ssvm_dsl.callers import warn_caller
from ssvm_dsl.errors import FileFormatError, TrainingError
from ssvm_dsl.io.arrays_file import read_arrays, write_arrays
from ssvm_dsl.ir.features import SlicedRows, SparseRows
from ssvm_dsl.learning.driver.progress import Progress
from ssvm_dsl.plugin_api.training import ResumableTrainer, TrainingEvent, TrainProblem
from ssvm_dsl.version import __version__

FORMAT = "ssvm-dsl checkpoint"
VERSION = 8

#: Digits of a hash, and most characters of a value, that messages show.
SHOWN, LONGEST = 16, 60

_NUMBERS = (
    "primal", "estimate", "rounding", "dual", "offset", "rounding_margin", "n_passes", "own_passes", "seconds",
    "at_start",
)  # fmt: skip


@runtime_checkable
class KeepingProblem(Protocol):
    """A problem that keeps something between oracle calls, which later answers depend on."""

    def kept(self) -> dict[str, NDArray[Any]]:
        """Return it as named arrays."""
        ...

    def keep(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        """Go on from what :meth:`kept` returned.

        Raises
        ------
        ValueError
            It cannot have been so.
        """
        ...


class Checkpoint:
    """A file that a fit writes its state to, and starts from.

    Parameters
    ----------
    path : Path
    fingerprint : mapping
        The fingerprint of the fit (:func:`fingerprint`).
    every : float
        Least seconds between two writes.
    """

    def __init__(self, path: Path, fingerprint: Mapping[str, Any], every: float) -> None:
        self.path, self.every = path, every
        self.fingerprint = json.loads(json.dumps(fingerprint, default=repr))
        self._written = perf_counter()
        self._reported: set[str] = set()

    def read(self, problem: TrainProblem) -> tuple[Progress, dict[str, Any]] | None:
        """Return (progress, trainer's state) of the file, ``None`` when there is no file.

        Raises
        ------
        TrainingError
            It belongs to another fit, or to another version of the package; names the difference.
        FileFormatError
            It is no checkpoint, or damaged.
        """
        if not self.path.exists():
            return None
        try:
            content, arrays = read_arrays(self.path, "a checkpoint")
        except FileFormatError as err:
            err.add_note("to start over, delete the file or name another one")
            raise
        if (content.get("format"), content.get("version")) != (FORMAT, VERSION):
            raise FileFormatError(f"{self.path}: not a checkpoint that this version reads")
        try:
            if content["fingerprint"] != self.fingerprint:
                found = "\n".join(f"  {text}" for text in differences(content["fingerprint"], self.fingerprint))
                text = "to resume, restore that setting; to start over, delete the file or name another one"
                raise TrainingError(f"{self.path}: a checkpoint of another fit:\n{found}\n{text}")
            progress = Progress(arrays.pop("progress/w"), **{name: content["progress"][name] for name in _NUMBERS})
            progress.withdrawn = content["withdrawn"]
            progress.history = [TrainingEvent(**event) for event in content["history"]]
            n_calls, seconds = content["oracle"]
            if isinstance(problem, KeepingProblem):
                problem.keep(_below("kept/", arrays))
            state = dict(content["state"]) | _below("state/", arrays)
            _check_progress(progress, problem.dim)
            _require(type(n_calls) is int and n_calls >= 0 and _is_count(seconds), "counts of oracle calls")
        except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as err:
            if isinstance(err, FileFormatError):
                raise
            found = " ".join(f"{type(err).__name__}: {err}".split())[:300]
            raise FileFormatError(f"{self.path}: not a checkpoint, or damaged ({found})") from err
        problem.n_oracle_calls, problem.oracle_seconds = n_calls, float(seconds)
        return progress, state

    def keep(self, progress: Progress, trainer: ResumableTrainer, problem: TrainProblem, now: bool = False) -> None:
        """Write the state after an iteration, if the last write is long enough ago (or ``now``).

        A failure to write (a full disk, a read-only folder) gives one warning; training continues, and the
        next write is tried when it is due.
        """
        if not now and perf_counter() - self._written < self.every:
            return
        state = trainer.state()
        content = {
            "format": FORMAT,
            "version": VERSION,
            "fingerprint": self.fingerprint,
            "progress": {name: float(getattr(progress, name)) for name in _NUMBERS},
            "withdrawn": progress.withdrawn,
            "history": [asdict(event) for event in progress.history],
            "oracle": [problem.n_oracle_calls, problem.oracle_seconds],
            "state": {name: value for name, value in state.items() if not isinstance(value, np.ndarray)},
        }
        arrays: dict[str, NDArray[Any]] = {
            f"state/{name}": value for name, value in state.items() if isinstance(value, np.ndarray)
        }
        try:
            own = problem.kept() if isinstance(problem, KeepingProblem) else {}
            kept = {f"kept/{name}": value for name, value in own.items()}
            write_arrays(self.path, content, arrays | kept | {"progress/w": progress.w})
        except OSError as err:
            self._tell(f"could not be written ({err.strerror or err}); training continues without it")
        self._written = perf_counter()

    def remove(self) -> None:
        """Delete the file: the fit is finished."""
        try:
            self.path.unlink(missing_ok=True)
        except OSError as err:
            self._tell(f"could not be deleted ({err.strerror or err}) although the fit is finished")

    def _tell(self, what: str) -> None:
        """Warn, once for each trouble."""
        if what not in self._reported:
            self._reported.add(what)
            warn_caller(f"checkpoint {self.path} {what}")


def _below(prefix: str, arrays: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
    """Return the arrays whose names begin with a prefix, without it."""
    return {name.removeprefix(prefix): array for name, array in arrays.items() if name.startswith(prefix)}


def _is_number(value: object) -> bool:
    """Whether a value of a file is a float, or an int that is one exactly."""
    return type(value) is float or (type(value) is int and abs(value) <= 2**53)


def _check_progress(progress: Progress, dim: int) -> None:
    """Check the description of a fit in a file.

    Raises
    ------
    ValueError
        It cannot be so.
    """
    w, numbers = progress.w, [getattr(progress, name) for name in _NUMBERS]
    _require(w.shape == (dim,) and w.dtype == np.float64 and np.isfinite(w).all(), f"{dim} finite weights")
    _require(all(map(_is_number, numbers)), "numbers")
    counts = (progress.n_passes, progress.own_passes, progress.seconds, progress.rounding, progress.rounding_margin)
    _require(all(map(_is_count, counts)), "passes, seconds and roundings of at least 0")
    _require(progress.dual < np.inf, "a lower bound")
    above = progress.dual - progress.primal
    _require(not above > progress.rounding + progress.rounding_margin, "a lower bound that is not above the objective")
    _require(isinstance(progress.withdrawn, str), "words on why there is no certificate")
    for number, event in enumerate(progress.history):
        facts = asdict(event)
        _require(isinstance(facts.pop("extra"), dict), "events with numbers by name")
        plain = all(map(_is_number, (*facts.values(), *event.extra.values())))
        _require(plain and event.iteration == number + 1, "events in order")


def _is_count(value: Any) -> bool:
    """Whether a value is a number of at least 0."""
    return _is_number(value) and 0 <= value < np.inf


def _require(ok: bool | np.bool_, expected: str) -> None:
    if not ok:
        raise ValueError(f"expected {expected}")


def fingerprint(problem: TrainProblem, facts: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fingerprint of a fit, by name: the given settings, the model, the objective, and hashes of arrays."""
    objective, parameters, loss = problem.objective, problem.parameters, problem.loss
    features: list[NDArray[Any] | None] = []
    for fmap in parameters.maps:
        rows = fmap.features
        rows = np.array(rows.shape) if isinstance(rows, SlicedRows) else rows  # they are not made for this
        features += [rows.data, rows.indices, rows.ptr] if isinstance(rows, SparseRows) else [rows]
        shapes = fmap.shapes
        features += [shapes.of, shapes.start, shapes.scope, fmap.rows, fmap.row_base, fmap.units, fmap.basis]
        features += [] if fmap.observed is None else [fmap.observed.ptr, fmap.observed.state]
    if parameters.constants is not None:
        features += [parameters.constants.node, *parameters.constants.tables.values()]
    costs: list[NDArray[Any]] = [loss.node, loss.const]
    if loss.tables is not None:
        costs += [loss.tables.counts, loss.tables.shape, loss.tables.start, loss.tables.offset]
        costs += [one.counts for one in loss.tables.factors]
    for one in loss.factors:
        costs += [one.prices, one.true, one.scale]
    named: dict[str, Any] = {"ssvm-dsl": __version__}
    named |= {name: _hash([value]) if isinstance(value, np.ndarray) else value for name, value in facts.items()}
    named["power"] = objective.power
    named |= {"l1": objective.l1} if objective.l1 else {}
    named["weights of factors"] = {block.name: list(block.shape) for block in parameters.blocks}
    named["number of weights"], named["number of examples"] = parameters.dim, problem.n
    named["model and graphs of the examples"] = parameters.program.content_hash[:SHOWN]
    named["features"], named["labels"] = _hash(features), _hash([loss.truth])
    named["loss"] = f"{loss.called}, {loss.weight}, {_hash(costs)}"
    named["sample_weight"] = _hash([objective.weight])
    named["regularization and bounds of weights"] = _hash([objective.scale, objective.lower])
    return named


def _hash(arrays: Iterable[NDArray[Any] | None]) -> str:
    """Return a hash of the values of arrays."""
    digest = hashlib.sha256()
    for array in arrays:
        if array is not None:
            digest.update(f"{array.dtype.str}{array.shape}".encode())
            digest.update(np.ascontiguousarray(array).data)
    return f"hash {digest.hexdigest()[:SHOWN]}"


def differences(then: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    """Return the differences between two fits, with both values; options only if they are of the same plug-in."""
    texts = []
    for name in dict.fromkeys([*then, *now]):
        old, new = then.get(name), now.get(name)
        owner = name.removesuffix("_options")
        if old == new or (owner != name and then.get(owner) != now.get(owner)):
            continue
        if isinstance(old, dict) and isinstance(new, dict):
            texts += [f"{name}: {text}" for text in differences(old, new)]
        else:
            texts.append(f"{name}: {_shown(then, name)} then, {_shown(now, name)} now")
    return texts


def _shown(values: Mapping[str, Any], name: str) -> str:
    """Return a value as one writes it, shortened."""
    text = str(values[name]) if name in values else "nothing"
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 3]}..."
