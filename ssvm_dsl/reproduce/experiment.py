"""What an experiment is, and what it finds: published numbers beside ours, and the arrays of its figure."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ssvm_dsl.array_types import F64

#: Told what is done now, and the share of the work that is done.
Progress = Callable[[str, float], None]


class Steps:
    """Progress in equal steps: call it with what the next one does.

    Parameters
    ----------
    progress : callable
    n : int
        How many steps there are.
    """

    def __init__(self, progress: Progress, n: int) -> None:
        self._progress, self._n, self._done = progress, n, 0

    def __call__(self, doing: str) -> None:
        """Tell what the next step does."""
        self._progress(doing, min(self._done / self._n, 1.0))
        self._done += 1


class Verdict(StrEnum):
    """Whether a published statement was found again."""

    AGREES = "agrees"
    MISSES = "misses"
    #: There is no published number, or nothing that could be compared: ours is told.
    OURS = "ours"


@dataclass(frozen=True)
class Row:
    """One statement of a paper beside what was measured.

    Parameters
    ----------
    what : str
        E.g. ``"letter error, 1 fold trains"``.
    published, ours : str
    tolerance : str
        What counts as agreement, e.g. ``"+- 0.01"`` or ``"the order"``; empty where nothing is compared.
    verdict : Verdict
    """

    what: str
    published: str
    ours: str
    tolerance: str
    verdict: Verdict


def compare(
    what: str, published: float, ours: Sequence[float] | F64 | float, within: float, form: str = "{:.3f}"
) -> Row:
    """Return a row that agrees when ours is within a distance of the published number.

    Parameters
    ----------
    what : str
    published : float
    ours : float, or several
        Of several repetitions the mean is compared; their standard deviation is told.
    within : float
    form : str
        How the numbers are written.
    """
    agrees = abs(float(np.mean(ours)) - published) <= within
    return Row(what, form.format(published), with_spread(ours, form), f"+- {within:g}", _verdict(agrees))


def claim(what: str, published: str, ours: str, holds: bool, tolerance: str) -> Row:
    """Return a row for a statement that is no number, such as an order."""
    return Row(what, published, ours, tolerance, _verdict(holds))


def measured(what: str, ours: str, published: str = "-") -> Row:
    """Return a row that compares nothing: there is no published number, or it is of another machine or other data."""
    return Row(what, published, ours, "", Verdict.OURS)


def _verdict(agrees: bool) -> Verdict:
    return Verdict.AGREES if agrees else Verdict.MISSES


@dataclass(frozen=True)
class Table:
    """Further numbers: a table under the rows."""

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]


@dataclass(frozen=True, eq=False)
class Findings:
    """What an experiment found.

    Parameters
    ----------
    rows : sequence of Row
    notes : sequence of str
        Why something misses, and what else a reader must know; a sentence or a paragraph each.
    tables : sequence of Table
    arrays : mapping of str to ndarray
        The numbers of the figure.
    """

    rows: Sequence[Row]
    notes: Sequence[str] = ()
    tables: Sequence[Table] = ()
    arrays: Mapping[str, NDArray[Any]] = field(default_factory=dict)

    def as_json(self) -> dict[str, Any]:
        """Return everything but the arrays as plain data."""
        return {
            "rows": [asdict(row) for row in self.rows],
            "notes": list(self.notes),
            "tables": [asdict(table) for table in self.tables],
        }

    @classmethod
    def from_json(cls, stored: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> Findings:
        """Return findings from plain data and arrays; raises KeyError, TypeError or ValueError for others."""
        rows = [Row(**{**row, "verdict": Verdict(row["verdict"])}) for row in stored["rows"]]
        tables = [Table(**table) for table in stored["tables"]]
        return cls(rows, list(stored["notes"]), tables, dict(arrays))


@dataclass(frozen=True)
class Experiment:
    """A reproducible experiment.

    Parameters
    ----------
    name : str
        As typed: ``ssvm reproduce NAME``.
    family : str
        Names all experiments that belong together: one table or figure of a paper.
    paper, where : str
        The paper, and its table or figure.
    summary : str
        One line.
    run : callable
        ``run(quick, progress) -> Findings``; ``quick`` takes smaller data, fewer folds and fewer passes.
    draw : callable, optional
        ``draw(arrays, figure)`` draws the arrays of the findings on an empty matplotlib figure.
    size : (float, float)
        Width and height of the figure in inches.
    data : tuple of str
        Files that it reads in the folder ``SSVM_DATA``; none for embedded data and generators.
    substitutes : tuple of str
        What stands for data or programs that cannot be had.
    """

    name: str
    family: str
    paper: str
    where: str
    summary: str
    run: Callable[[bool, Progress], Findings]
    draw: Callable[[Mapping[str, NDArray[Any]], Any], None] | None = None
    size: tuple[float, float] = (10.0, 4.0)
    data: tuple[str, ...] = ()
    substitutes: tuple[str, ...] = ()


def with_spread(values: Sequence[float] | F64 | float, form: str = "{:.3f}") -> str:
    """Return e.g. ``"0.204 (sd 0.006)"``: the mean and, of several numbers, their standard deviation."""
    several = np.size(values) > 1
    return form.format(np.mean(values)) + (f" (sd {form.format(np.std(values))})" if several else "")
