"""``score_report``: precision and recall of each class."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ssvm_dsl.calls import checked_call
from ssvm_dsl.errors import DataError
from ssvm_dsl.lang.frames import is_gap
from ssvm_dsl.learning.metrics import explained
from ssvm_dsl.report.confusion import by_position

if TYPE_CHECKING:
    from rich.table import Table


class ClassScore(NamedTuple):
    """The scores of one class.

    Parameters
    ----------
    name : class
    precision, recall, f1 : float
        ``nan`` where there is nothing to divide by.
    support : int
        How many true labels are of this class.
    predicted : int
        How many predicted ones are.
    """

    name: Any
    precision: float
    recall: float
    f1: float
    support: int
    predicted: int


@dataclass(frozen=True, eq=False)
class ScoreReport:
    """Scores of each class; it prints as a table.

    Parameters
    ----------
    classes : tuple of ClassScore
        The classes that occur, sorted.
    accuracy : float
        Share of right labels.
    """

    classes: tuple[ClassScore, ...]
    accuracy: float

    def __getitem__(self, name: Any) -> ClassScore:
        for one in self.classes:
            if one.name == name:
                return one
        raise KeyError(f"no class {name!r}; there are {', '.join(str(one.name) for one in self.classes)}")

    @property
    def macro_f1(self) -> float:
        """The mean of F1 over the classes that occur in the truth; 0 for one that is never right."""
        found = [one.f1 for one in self.classes if one.support]
        return float(np.mean(found)) if found else 1.0

    def _shown(self) -> tuple[list[str], list[list[str]]]:
        columns = ["class", "precision", "recall", "F1", "true", "predicted"]
        rows = [[str(one.name), *(_share(value) for value in one[1:4]), str(one.support), str(one.predicted)]
                for one in self.classes]  # fmt: skip
        return columns, rows

    def _last(self) -> str:
        n = sum(one.support for one in self.classes)
        return f"accuracy {self.accuracy:.3f} of {n} labels, mean F1 {self.macro_f1:.3f}"

    def __str__(self) -> str:
        names, rows = self._shown()
        widths = [max(map(len, column)) for column in zip(names, *rows, strict=True)]
        lines = [
            "  ".join([f"{row[0]:{widths[0]}}", *(f"{text:>{k}}" for text, k in zip(row[1:], widths[1:], strict=True))])
            for row in [names, *rows]
        ]
        return "\n".join([*lines, self._last()])

    def __rich__(self) -> Table:
        from ssvm_dsl.report.tables import plain_table

        return plain_table(self._last(), *self._shown())

    def _repr_html_(self) -> str:
        from ssvm_dsl.notebook_tables import html_grid

        return html_grid(self._last(), *self._shown())


def _share(value: float) -> str:
    return "-" if np.isnan(value) else f"{value:.3f}"


@checked_call
@explained
def score_report(truth: Sequence[Any], predicted: Sequence[Any], ignore: Any = None) -> ScoreReport:
    """Return precision, recall and F1 of each class, over the labels of all examples together.

    Parameters
    ----------
    truth, predicted : list of labels
        As in ``Y``, and as ``predict`` returns them: classes, lists or arrays of classes, or segments, which count by
        position.  Labels that are not known (``None``, nan) are not counted.
    ignore : class, optional
        Positions of this true class are not counted.

    Raises
    ------
    DataError
        They are of different lengths or shapes.

    Examples
    --------
    >>> print(score_report(Y_test, tagger.predict(X_test)))
    """
    y, found = flat_pairs(truth, predicted)
    known = [k for k, one in enumerate(y) if not is_gap(one) and (ignore is None or one != ignore)]
    y, found = [y[k] for k in known], [found[k] for k in known]
    names = sorted({*y, *found}, key=lambda one: (isinstance(one, str), one))
    right, true, mine = (dict.fromkeys(names, 0) for _ in range(3))
    for a, b in zip(y, found, strict=True):
        true[a] += 1
        mine[b] += 1
        right[a] += a == b
    scores = []
    for name in names:
        precision = right[name] / mine[name] if mine[name] else np.nan
        recall = right[name] / true[name] if true[name] else np.nan
        f1 = 2.0 * right[name] / (true[name] + mine[name])
        scores.append(ClassScore(name, precision, recall, f1, true[name], mine[name]))
    return ScoreReport(tuple(scores), sum(right.values()) / len(y) if y else 1.0)


def flat_pairs(truth: Sequence[Any], predicted: Sequence[Any]) -> tuple[list[Any], list[Any]]:
    """Return the true and the predicted labels of all examples, one after the other.

    Raises
    ------
    DataError
        They are of different lengths or shapes.
    """
    if len(truth) != len(predicted):
        raise DataError("predicted", expected=f"{len(truth)} examples, as in truth", found=str(len(predicted)))
    y: list[Any] = []
    found: list[Any] = []
    for i, (one, other) in enumerate(zip(_listed(truth), _listed(predicted), strict=True)):
        if one is None or other is None:
            continue
        a, b = flat(one), flat(other)
        alike = not (isinstance(one, np.ndarray) and isinstance(other, np.ndarray)) or one.shape == other.shape
        if len(a) != len(b) or not alike:
            both = (str(len(a)), str(len(b))) if alike else (str(one.shape), str(other.shape))
            raise DataError("predicted", example=i, expected=f"{both[0]} labels, as in truth", found=both[1])
        y += a
        found += b
    return y, found


def _listed(labels: Any) -> Any:
    return labels.to_numpy() if hasattr(labels, "to_numpy") else labels


def flat(labels: Any) -> list[Any]:
    """Return the labels of an example in a list: of segments the class of each position, of several labels all."""
    labels = _listed(labels)
    if isinstance(labels, dict):
        return [one for part in labels.values() for one in flat(part)]
    if isinstance(labels, str) or not hasattr(labels, "__len__"):
        return [labels.item() if isinstance(labels, np.generic) else labels]
    plain = by_position(labels)
    found: list[Any] = plain.ravel().tolist() if isinstance(plain, np.ndarray) else list(plain)
    nested = any(isinstance(one, list | tuple) for one in found)
    return np.array(found).ravel().tolist() if nested else found
