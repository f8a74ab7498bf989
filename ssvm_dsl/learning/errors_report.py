"""``ErrorReport``: what went wrong - confusions and what pulled, the worst and the least certain examples."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ssvm_dsl.array_types import F64
from ssvm_dsl.errors import SsvmError
from ssvm_dsl.lang.frames import is_gap
from ssvm_dsl.learning.page import one_of
from ssvm_dsl.learning.score_report import ScoreReport, flat, score_report

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
