"""Run experiments, keep what they found in a folder, and take it up again instead of running them anew.

A finished experiment is a file ``NAME.npz`` (``NAME-quick.npz`` for a quick run) of arrays and JSON, never pickle.
"""

from __future__ import annotations

import os
import platform
import time
import warnings
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

from ssvm_dsl.errors import FileFormatError
from ssvm_dsl.io.arrays_file import read_arrays, write_arrays
from ssvm_dsl.processors import available
from ssvm_dsl.reproduce.experiment import Experiment, Findings, Progress
from ssvm_dsl.version import __version__

#: Form of the files; those of another one are run again.
FORM = 1

#: Packages whose versions are told with results.
PACKAGES = ("numpy", "scipy", "numba", "scikit-learn", "ortools", "clarabel")


@dataclass(frozen=True)
class Circumstances:
    """When, where and with what an experiment was run.

    Parameters
    ----------
    date : str
        Day, in UTC.
    machine : str
        Its class, without its name: processor architecture, how many processors, operating system.
    versions : dict
        By package, Python among them.
    seconds, processor_seconds : float
        What the whole experiment took, compiling kernels included where they were not kept from earlier.
    """

    date: str
    machine: str
    versions: dict[str, str]
    seconds: float
    processor_seconds: float


@dataclass(frozen=True, eq=False)
class Result:
    """Findings of an experiment with their circumstances."""

    name: str
    quick: bool
    findings: Findings
    circumstances: Circumstances


def missing_data(experiment: Experiment) -> list[str]:
    """Return the files of an experiment that are not in the folder ``SSVM_DATA``; all of them without a folder."""
    folder = os.environ.get("SSVM_DATA")
    return [name for name in experiment.data if not folder or not (Path(folder) / name).is_file()]


def run_experiment(experiment: Experiment, quick: bool, progress: Progress) -> Result:
    """Run an experiment; warnings about fits that end at a limit are left out, experiments fix passes on purpose."""
    begin, begin_processor = time.perf_counter(), time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        findings = experiment.run(quick, progress)
    spent = time.perf_counter() - begin, time.process_time() - begin_processor
    return Result(experiment.name, quick, findings, _circumstances(*spent))


def _circumstances(seconds: float, processor_seconds: float) -> Circumstances:
    """Return what is told of this run."""
    used = {"ssvm-dsl": __version__, "python": platform.python_version()} | {name: version(name) for name in PACKAGES}
    machine = f"{platform.machine()}, {available()} processors, {platform.system()}"
    return Circumstances(datetime.now(UTC).date().isoformat(), machine, used, seconds, processor_seconds)


def result_path(folder: Path, name: str, quick: bool) -> Path:
    """Return where the result of an experiment is kept."""
    return folder / f"{name}{'-quick' if quick else ''}.npz"


def save_result(folder: Path, result: Result) -> Path:
    """Write a result; return where."""
    folder.mkdir(parents=True, exist_ok=True)
    path = result_path(folder, result.name, result.quick)
    content = {
        "form": FORM, "name": result.name, "quick": result.quick, "findings": result.findings.as_json(),
        "circumstances": asdict(result.circumstances),
    }  # fmt: skip
    write_arrays(path, content, result.findings.arrays)
    return path


def saved_result(folder: Path, name: str, quick: bool) -> Result | None:
    """Return a result that was kept; ``None`` where there is none, or one of another version of the package.

    Raises
    ------
    FileFormatError
        The file is damaged, or something else.
    """
    path = result_path(folder, name, quick)
    if not path.is_file():
        return None
    content, arrays = read_arrays(path, "a result of ssvm reproduce")
    if content.get("form") != FORM:
        return None
    try:
        found = _result(content, arrays)
    except (KeyError, TypeError, ValueError) as err:
        raise FileFormatError(f"{path}: not a result of ssvm reproduce ({err}); delete it") from err
    return found if found.circumstances.versions.get("ssvm-dsl") == __version__ else None


def _result(content: Mapping[str, Any], arrays: Mapping[str, Any]) -> Result:
    """Return a result from what a file holds."""
    findings = Findings.from_json(content["findings"], arrays)
    return Result(content["name"], content["quick"], findings, Circumstances(**content["circumstances"]))
