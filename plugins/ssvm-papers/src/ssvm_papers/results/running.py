"""Run experiments, keep their results in a folder, and load these instead of running them again.

A finished experiment is a file ``NAME.npz`` of arrays and JSON, never pickle; ``NAME-quick.npz`` and ``NAME-full.npz``
are those of runs of another size.
Beside a page of results stands a JSON file of all that the page shows (:func:`write_record`): what other pages quote,
and what stays on the page when some of the experiments are run again.
"""

from __future__ import annotations

import json
import os
import platform
import subprocess
import time
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from enum import StrEnum
from importlib.metadata import version
from pathlib import Path
from typing import Any

from ssvm_dsl import __version__
from ssvm_dsl.errors import FileFormatError
from ssvm_dsl.io import read_arrays, write_arrays, write_lines
from ssvm_dsl.plugin_api import Value
from ssvm_papers.results.experiment import Experiment, Findings, Progress
from ssvm_papers.results.statements import Judgement, Row

#: Form of the files; those of another one are run again.
FORM = 3

#: Packages whose versions are told with results.
PACKAGES = ("numpy", "scipy", "numba", "scikit-learn", "ortools", "clarabel")


@dataclass(frozen=True, eq=False)
class Circumstances(Value):
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
        Seconds of the whole experiment, including compilation of kernels that were not cached.
    commit : str
        Of the code, where it is run from a Git checkout; ``-dirty`` follows where files were changed since.
    """

    date: str
    machine: str
    versions: dict[str, str]
    seconds: float
    processor_seconds: float
    commit: str = ""


class Size(StrEnum):
    """How much a run takes, from the smallest to the largest."""

    #: Smaller data, fewer folds and passes; judges nothing.
    QUICK = "quick"
    #: What runs by default; smaller than the paper's where the experiment says so.
    USUAL = "usual"
    #: All that the paper took, or that a verdict needs.
    FULL = "full"


@dataclass(frozen=True, eq=False)
class Result:
    """Findings of an experiment with their circumstances."""

    name: str
    size: Size
    findings: Findings
    circumstances: Circumstances


def missing_data(experiment: Experiment) -> list[str]:
    """Return the files of an experiment that are not in the folder ``SSVM_DATA``; all of them without a folder."""
    folder = os.environ.get("SSVM_DATA")
    return [name for name in experiment.data if not folder or not (Path(folder) / name).is_file()]


def size_of(experiment: Experiment, quick: bool, full: bool) -> Size:
    """Return the size of a run that was asked for; an experiment without a larger one has its usual one."""
    if quick:
        return Size.QUICK
    return Size.FULL if full and experiment.run_full is not None else Size.USUAL


def run_experiment(experiment: Experiment, size: Size, progress: Progress) -> Result:
    """Run an experiment; warnings about fits that end at a limit are left out, experiments fix passes on purpose.

    A quick run judges nothing.
    """
    begin, begin_processor = time.perf_counter(), time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if size is Size.FULL and experiment.run_full is not None:
            findings = experiment.run_full(progress)
        else:
            findings = experiment.run(size is Size.QUICK, progress)
    spent = time.perf_counter() - begin, time.process_time() - begin_processor
    findings = findings.changed(_too_short) if size is Size.QUICK else findings
    return Result(experiment.name, size, findings, _circumstances(*spent))


def _too_short(row: Row) -> Judgement:
    return Judgement.TOO_SHORT if row.verdict in (Judgement.AGREES, Judgement.MISSES) else row.verdict


def _circumstances(seconds: float, processor_seconds: float) -> Circumstances:
    """Return the circumstances of this run."""
    used = {"ssvm-dsl": __version__, "python": platform.python_version()} | {name: version(name) for name in PACKAGES}
    machine = f"{platform.machine()}, {_processors()} processors, {platform.system()}"
    return Circumstances(datetime.now(UTC).date().isoformat(), machine, used, seconds, processor_seconds, _commit())


def _processors() -> int:
    """Return the number of processors that this process may run on; of all where the system does not tell."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _commit() -> str:
    """Return the commit of the checkout that this file is in; empty where it is in none.

    An installed package may lie within the checkout of something else, which does not track its files.
    """
    here = Path(__file__)
    tracked, described = (
        ("ls-files", "--error-unmatch", here.name),
        ("describe", "--always", "--dirty", "--exclude", "*"),
    )
    output = ""
    for arguments in (tracked, described):
        try:
            asked = ("git", "-C", str(here.parent), *arguments)
            output = subprocess.run(asked, capture_output=True, text=True, timeout=10, check=True).stdout.strip()
        except (OSError, subprocess.SubprocessError):
            return ""
    return output


def result_path(folder: Path, name: str, size: Size) -> Path:
    """Return where the result of an experiment is kept."""
    return folder / f"{sized(name, size)}.npz"


def sized(name: str, size: Size) -> str:
    """Return what files of a run are called."""
    return name if size is Size.USUAL else f"{name}-{size}"


def save_result(folder: Path, result: Result) -> Path:
    """Write a result; return where."""
    folder.mkdir(parents=True, exist_ok=True)
    path = result_path(folder, result.name, result.size)
    write_arrays(path, {"form": FORM, **as_json(result)}, result.findings.arrays)
    return path


def as_json(result: Result) -> dict[str, Any]:
    """Return everything but the arrays as plain data."""
    return {
        "name": result.name,
        "size": result.size,
        **result.findings.as_json(),
        "circumstances": asdict(result.circumstances),
    }


def saved_result(folder: Path, name: str, size: Size) -> Result | None:
    """Return a result that was kept; ``None`` where there is none, or one of another version of the package.

    Raises
    ------
    FileFormatError
        The file is damaged, or something else.
    """
    path = result_path(folder, name, size)
    if not path.is_file():
        return None
    content, arrays = read_arrays(path, "a result of ssvm reproduce")
    if content.get("form") != FORM:
        return None
    try:
        result = _result(content, arrays)
    except (KeyError, TypeError, ValueError) as err:
        raise FileFormatError(f"{path}: not a result of ssvm reproduce ({err}); delete it") from err
    return result if result.circumstances.versions.get("ssvm-dsl") == __version__ else None


def _result(content: Mapping[str, Any], arrays: Mapping[str, Any]) -> Result:
    """Return a result from the content of a file."""
    circumstances = Circumstances(**content["circumstances"])
    return Result(content["name"], Size(content["size"]), Findings.from_json(content, arrays), circumstances)


def record_path(page: Path) -> Path:
    """Return where the results that a page shows are kept."""
    return page.with_suffix(".json")


def write_record(path: Path, results: Sequence[Result]) -> None:
    """Write results without their arrays as JSON, sorted and indented so that versions can be compared."""
    content = {"form": FORM, "results": [as_json(one) for one in results]}
    write_lines(path, json.dumps(content, indent=1, ensure_ascii=False).splitlines())


def read_record(path: Path, experiments: Sequence[Experiment]) -> dict[str, Result]:
    """Return the results in a file of :func:`write_record` by experiment; none where there is no file.

    Verdicts by rules that are not those of the experiments any more are taken back.

    Raises
    ------
    FileFormatError
        The file is damaged, or something else.
    """
    if not path.is_file():
        return {}
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        results = {one["name"]: _result(one, {}) for one in content["results"]}
    except (KeyError, TypeError, ValueError) as err:
        raise FileFormatError(f"{path}: not results of ssvm reproduce ({err}); delete it") from err
    known = [one for one in experiments if one.name in results]
    return {one.name: under_its_rules(one, results[one.name]) for one in known}


def under_its_rules(experiment: Experiment, result: Result) -> Result:
    """Return a stored result without the verdicts by rules that are not those of the experiment any more."""
    return replace(result, findings=experiment.under_its_rules(result.findings))
