"""``score_report``: precision and recall of each class; ``errors``: what goes wrong, where, and by which features."""

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
from collections import defaultdict
from pathlib import Path

from ssvm_dsl.array_types import F64
from ssvm_dsl.errors import SsvmError


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


#: Examples of a confusion whose terms are looked at, and features of it that are shown.
LOOKED_AT, PULLING = 3, 5


class Confusion(NamedTuple):
    """A class that is taken for another.

    Parameters
    ----------
    truth, predicted : class
    times : int
    places : tuple of (example, position)
        Where; positions count the labels of an example.
    features : tuple of (name, float)
        What pulled in the first of these examples: how much more (summed) a feature gives the prediction than the
        truth, the most first.
    """

    truth: Any
    predicted: Any
    times: int
    places: tuple[tuple[int, int], ...]
    features: tuple[tuple[str, float], ...]


@dataclass(frozen=True, eq=False)
class ErrorReport:
    """What went wrong on some examples; it prints as text, and ``to_html`` writes it as a page.

    Parameters
    ----------
    confusions : tuple of Confusion
        The most frequent first.
    worst : tuple of (example, loss)
        Examples by loss, the largest first; those without loss are left out.
    uncertain : tuple of (example, certainty)
        Examples by certainty, the least first: the probability of the least certain label, or where sums are not known
        by how much the best labelling scores more than the second.
    certainty : str
        What was taken for it.
    scores : ScoreReport
        Precision and recall of each class.
    n : int
        Number of examples.
    """

    confusions: tuple[Confusion, ...]
    worst: tuple[tuple[int, float], ...]
    uncertain: tuple[tuple[int, float], ...]
    certainty: str
    scores: ScoreReport
    n: int
    svm: Any
    data: tuple[Any, Any]

    def __str__(self) -> str:
        lines = [f"{len(self.worst)} of {self.n} examples have mistakes", str(self.scores), ""]
        for one in self.confusions:
            places = ", ".join(f"{i}[{t}]" for i, t in one.places[:4]) + (" ..." if one.times > 4 else "")
            lines.append(f"{one.truth} taken for {one.predicted}: {one.times} times, in examples {places}")
            if one.features:
                pulled = ", ".join(f"{name} {value:+.3g}" for name, value in one.features)
                lines.append(f"  what pulled: {pulled}")
        for title, listed in (("worst", self.worst), (f"least certain ({self.certainty})", self.uncertain)):
            if listed:
                lines.append(f"{title}: " + ", ".join(f"example {i} ({value:.3g})" for i, value in listed[:10]))
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        from html import escape

        return f"<pre>{escape(str(self))}</pre>"

    def to_html(self, path: str | Path) -> None:
        """Write the page of the model with these examples: the confusions, and the worst examples explained."""
        self.svm.to_html(path, *self.data)


def error_report(svm: Any, X: Sequence[Any], Y: Sequence[Any], lost: F64, most: int) -> ErrorReport:
    """Return what went wrong, with ``most`` confusions and examples."""
    right, predicted = svm._shown_labels(X, Y)
    listed = [None if one is None else flat(one) for one in predicted]
    places: dict[tuple[Any, Any], list[tuple[int, int]]] = defaultdict(list)
    for i, (truth, mine) in enumerate(zip(right, listed, strict=True)):
        for t, (a, b) in enumerate(zip(() if truth is None else flat(truth), mine or (), strict=False)):
            if a != b and not is_gap(a):
                places[a, b].append((i, t))
    ranked = sorted(places.items(), key=lambda item: -len(item[1]))[:most]
    confusions = [Confusion(a, b, len(some), tuple(some), _pulling(svm, X, Y, some)) for (a, b), some in ranked]
    order = np.argsort(-lost, kind="stable").tolist()
    worst = [(i, float(lost[i])) for i in order if lost[i] > 0.0]
    uncertain, called = _uncertain(svm, X, listed)
    listed_first = tuple(uncertain[:most])
    scores, data = score_report(right, predicted), (X, Y)
    return ErrorReport(tuple(confusions), tuple(worst), listed_first, called, scores, len(right), svm, data)


def one_of(values: Any, i: int) -> Any:
    """Return an example of a list, an array or the rows of a data frame."""
    return values.iloc[i] if hasattr(values, "iloc") else values[i]


def _pulling(svm: Any, X: Any, Y: Any, places: Sequence[tuple[int, int]]) -> tuple[tuple[str, float], ...]:
    """Return the features that give predictions of some examples more than the truth, the most first."""
    sums: dict[str, float] = defaultdict(float)
    for i in list(dict.fromkeys(i for i, _ in places))[:LOOKED_AT]:
        try:
            why = svm.why_not(one_of(X, i), one_of(Y, i))
        except SsvmError:  # a truth that the model rules out has no terms
            continue
        for name, change in (why.by("feature") if why.asked else {}).items():
            sums[name] -= change
    pulled = sorted(((name, value) for name, value in sums.items() if value > 1e-9), key=lambda item: -item[1])
    return tuple(pulled[:PULLING])


def _uncertain(svm: Any, X: Any, predicted: Sequence[Any]) -> tuple[list[tuple[int, float]], str]:
    """Return the examples by certainty, the least first, and what that is."""
    try:
        probabilities = svm.predict_marginals(X)
        certainty = [float(np.min(np.max(np.asarray(one), axis=-1), initial=1.0)) for one in probabilities]
        called = "probability of the least certain label"
    except (SsvmError, ValueError, TypeError):
        try:
            best = svm.predict_kbest(X, 2)
        except SsvmError:
            return [], "no backend has probabilities or second labellings"
        certainty = [one[0][1] - one[1][1] if len(one) > 1 else np.inf for one in best]
        called = "lead of the best labelling over the second"
    order = np.argsort(certainty, kind="stable").tolist()
    return [(i, certainty[i]) for i in order], called
