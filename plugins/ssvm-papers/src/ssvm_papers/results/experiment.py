"""Experiments and their results: published numbers next to ours, and the arrays of a figure."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from numpy.typing import NDArray

from ssvm_papers.results.statements import Judgement, Row, Statement

#: Called with the current step in words, and the share of the work that is done.
Progress = Callable[[str, float], None]


class Steps:
    """Progress in equal steps: call it with the next step in words.

    Parameters
    ----------
    progress : callable
    n : int
        How many steps there are.
    """

    def __init__(self, progress: Progress, n: int) -> None:
        self._progress, self._n, self._done = progress, n, 0

    def __call__(self, doing: str) -> None:
        """Report the next step."""
        self._progress(doing, min(self._done / self._n, 1.0))
        self._done += 1


@dataclass(frozen=True)
class Table:
    """Further numbers: a table under the rows."""

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]


@dataclass(frozen=True, eq=False)
class Findings:
    """The results of an experiment.

    Parameters
    ----------
    rows : sequence of Row
    notes : sequence of str
        What else a reader must know of this run; a sentence or a paragraph each.
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

    def changed(self, verdict: Callable[[Row], Judgement]) -> Findings:
        """Return the same findings with other verdicts."""
        return replace(self, rows=[replace(row, verdict=verdict(row)) for row in self.rows])

    @classmethod
    def from_json(cls, stored: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> Findings:
        """Return findings from plain data and arrays; raises KeyError, TypeError or ValueError for others."""
        rows = [
            Row(**{**row, "verdict": Judgement(row["verdict"]), "numbers": tuple(row["numbers"])})
            for row in stored["rows"]
        ]
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
        ``run(quick, progress) -> Findings``; ``quick`` takes smaller data, fewer folds and fewer passes.  What runs
        by default.
    statements : tuple of Statement
        What is answered, with the rules that decide on verdicts; a run may leave out some.
    draw : callable, optional
        ``draw(arrays, figure)`` draws the arrays of the findings on an empty matplotlib figure.
    size : (float, float)
        Width and height of the figure in inches.
    data : tuple of str
        Files that it reads in the folder ``SSVM_DATA``; none for embedded data and generators.
    substitutes : tuple of str
        What stands for data or programs that cannot be had.
    notes : tuple of str
        Why something misses, written after a run; a paragraph each.
    run_full : callable, optional
        ``run_full(progress) -> Findings``, where ``run`` takes less than the paper did or than a verdict needs.
    smaller : str
        How ``run`` is smaller than ``run_full``.
    """

    name: str
    family: str
    paper: str
    where: str
    summary: str
    run: Callable[[bool, Progress], Findings]
    statements: tuple[Statement, ...]
    draw: Callable[[Mapping[str, NDArray[Any]], Any], None] | None = None
    size: tuple[float, float] = (10.0, 4.0)
    data: tuple[str, ...] = ()
    substitutes: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    run_full: Callable[[Progress], Findings] | None = None
    smaller: str = ""

    def under_its_rules(self, findings: Findings) -> Findings:
        """Return stored findings, without verdicts on statements that are declared in another way now."""
        declared = {(one.key, one.published, one.tolerance, one.why) for one in self.statements}

        def verdict(row: Row) -> Judgement:
            known = (row.key, row.published, row.tolerance, row.why) in declared
            return row.verdict if known or not row.tolerance else Judgement.EARLIER

        return findings.changed(verdict)

    def unanswered(self, findings: Findings) -> list[Statement]:
        """Return the statements that some findings do not answer."""
        answered = {row.key for row in findings.rows}
        return [one for one in self.statements if one.key not in answered]
