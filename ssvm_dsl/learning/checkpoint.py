"""Checkpoints: a fit that was killed goes on where its last checkpoint was, bit for bit.

A file holds what the driver knows (best weights, bounds, history) and what the trainer says its state is: named
arrays and plain numbers.  A fingerprint of data, objective, trainer, backend and options keeps a checkpoint from being
continued with anything else; tolerances and limits may change.  Nor is one continued by another version of the package,
whose trainers may take other steps.  A file is replaced as a whole, never written in place.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ssvm_dsl import __version__
from ssvm_dsl.errors import FileFormatError, TrainingError
from ssvm_dsl.io.arrays_file import read_arrays, write_arrays
from ssvm_dsl.ir.features import SparseRows
from ssvm_dsl.learning.progress import Progress
from ssvm_dsl.plugin_api.protocols import ResumableTrainer, TrainingEvent, TrainProblem

FORMAT = "ssvm-dsl checkpoint"
VERSION = 2

_NUMBERS = ("primal", "upper", "dual", "n_passes", "seconds")


class Checkpoint:
    """A file that a fit writes its state to, and starts from.

    Parameters
    ----------
    path : Path
    fingerprint : str
        What the fit is of: :func:`fingerprint`.
    every : float
        Least seconds between two writes.
    """

    def __init__(self, path: Path, fingerprint: str, every: float) -> None:
        self.path, self.fingerprint, self.every = path, fingerprint, every
        self._written = perf_counter()

    def read(self, problem: TrainProblem) -> tuple[Progress, dict[str, Any]] | None:
        """Return (progress, trainer's state) of the file, ``None`` when there is no file.

        Raises
        ------
        TrainingError
            It is of another fit, or of another version of the package.
        FileFormatError
            It is no checkpoint, or damaged.
        """
        if not self.path.exists():
            return None
        arrays = read_arrays(self.path)
        try:
            content = json.loads(arrays.pop("json").tobytes())
            known = (content["format"], content["version"]) == (FORMAT, VERSION)
            if known and content["package"] != __version__:
                text = f"{self.path}: a checkpoint of ssvm-dsl {content['package']}, this is {__version__}; "
                raise TrainingError(text + "go on with that version, delete it or name another file")
            if known and content["fingerprint"] != self.fingerprint:
                text = f"{self.path}: a checkpoint of another fit (data, objective, trainer, backend or options "
                raise TrainingError(text + "differ); delete it or name another file")
            progress = Progress(arrays.pop("progress/w"), **{name: content["progress"][name] for name in _NUMBERS})
            if "progress/v" in arrays:
                progress.plane = (arrays.pop("progress/v"), content["b"])
            progress.history = [TrainingEvent(**event) for event in content["history"]]
            problem.n_oracle_calls, problem.oracle_seconds = content["oracle"]
            state = dict(content["state"]) | {name.removeprefix("state/"): array for name, array in arrays.items()}
        except (KeyError, TypeError, ValueError) as err:
            raise FileFormatError(f"{self.path}: not a checkpoint, or damaged ({err})") from err
        if not known:
            raise FileFormatError(f"{self.path}: not a checkpoint that this version reads")
        return progress, state

    def keep(self, progress: Progress, trainer: ResumableTrainer, problem: TrainProblem, now: bool = False) -> None:
        """Write the state after an iteration, if the last write is long enough ago (or ``now``)."""
        if not now and perf_counter() - self._written < self.every:
            return
        state = trainer.state()
        content = {
            "format": FORMAT,
            "version": VERSION,
            "package": __version__,
            "fingerprint": self.fingerprint,
            "progress": {name: float(getattr(progress, name)) for name in _NUMBERS},
            "history": [asdict(event) for event in progress.history],
            "oracle": [problem.n_oracle_calls, problem.oracle_seconds],
            "state": {name: value for name, value in state.items() if not isinstance(value, np.ndarray)},
        }
        arrays: dict[str, NDArray[Any]] = {
            f"state/{name}": value for name, value in state.items() if isinstance(value, np.ndarray)
        }
        if progress.plane is not None:
            arrays["progress/v"], content["b"] = progress.plane
        text = np.frombuffer(json.dumps(content).encode(), dtype=np.uint8)
        write_arrays(self.path, arrays | {"json": text, "progress/w": progress.w}, compress=False)
        self._written = perf_counter()

    def remove(self) -> None:
        """Delete the file: the fit is finished."""
        self.path.unlink(missing_ok=True)


def fingerprint(problem: TrainProblem, told: Mapping[str, Any]) -> str:
    """Return a hash of data and objective of a training problem, and of what is told besides (plain data)."""
    objective, parameters, loss = problem.objective, problem.parameters, problem.loss
    digest = hashlib.sha256(parameters.program.content_hash.encode())
    plain = [told, loss.kind, loss.weight, objective.lam, objective.power]
    digest.update(json.dumps(plain, sort_keys=True, default=repr).encode())
    arrays: list[NDArray[Any]] = [
        loss.truth, loss.node, loss.const, objective.weight, objective.scale, objective.lower
    ]  # fmt: skip
    if loss.tables is not None:
        arrays += [loss.tables.counts, loss.tables.shape, loss.tables.start, loss.tables.offset]
    for fmap in parameters.maps:
        rows = fmap.features
        if isinstance(rows, SparseRows):
            arrays += [rows.data, rows.indices, rows.ptr]
        arrays += [part for part in (rows, fmap.row, fmap.unit, fmap.basis) if isinstance(part, np.ndarray)]
    for array in arrays:
        digest.update(f"{array.dtype.str}{array.shape}".encode())
        digest.update(np.ascontiguousarray(array).data)
    return digest.hexdigest()
