"""Measures of predictions by kind of labels, and how they are shown; phrases as ``conlleval`` shows them."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ssvm_dsl.errors import DataError
from ssvm_dsl.lang.grammars.brackets import bracket_scores
from ssvm_dsl.lang.grammars.parse_tree import ParseTree
from ssvm_dsl.learning.metrics import SCORERS, Phrase, phrases
from ssvm_dsl.report.confusion import are_segments, by_position

#: The class of segments that are not counted.
OUTSIDE = "O"

#: BIO and BIOES tags.
_TAG = re.compile(r"O|[BIES]-.+")


@dataclass(frozen=True)
class ClassCounts:
    """How often a class, or phrases of a kind, are true, were found, and both.

    Parameters
    ----------
    true, found, right : int
    """

    true: int
    found: int
    right: int

    @property
    def precision(self) -> float:
        """Share of right ones among those found, 0 .. 1; 0 where none was found."""
        return self.right / self.found if self.found else 0.0

    @property
    def recall(self) -> float:
        """Share of right ones among the true ones, 0 .. 1; 0 where there are none."""
        return self.right / self.true if self.true else 0.0

    @property
    def f1(self) -> float:
        """Harmonic mean of precision and recall; 0 where nothing is right."""
        return 2 * self.right / (self.true + self.found) if self.right else 0.0

    def plain(self) -> dict[str, Any]:
        """Return plain data."""
        facts = {"true": self.true, "found": self.found, "right": self.right}
        return {**facts, "precision": self.precision, "recall": self.recall, "f1": self.f1}


@dataclass(frozen=True, eq=False)
class Measures:
    """What predictions are worth.

    Parameters
    ----------
    n_examples, n_labels : int
    scores : dict
        Measures by name, 0 .. 1.
    classes : dict
        Counts of each class, or of each kind of phrases.
    are_phrases : bool
        Whether the labels are tags of phrases, or segments.
    """

    n_examples: int
    n_labels: int
    scores: dict[str, float]
    classes: dict[str, ClassCounts]
    are_phrases: bool

    @property
    def total(self) -> ClassCounts:
        """The counts of all classes together."""
        counts = self.classes.values()
        return ClassCounts(*(sum(getattr(one, name) for one in counts) for name in ("true", "found", "right")))

    def plain(self) -> dict[str, Any]:
        """Return plain data."""
        facts: dict[str, Any] = {"n_examples": self.n_examples, "n_labels": self.n_labels, **self.scores}
        if self.are_phrases:
            facts["phrases"] = self.total.plain()
        return {**facts, "classes": {name: one.plain() for name, one in self.classes.items()}}

    def lines(self) -> list[str]:
        """Return the text: of phrases as ``conlleval`` prints it, else a line for each measure and class."""
        if self.are_phrases:
            return self._conlleval()
        out = [f"{self.n_examples} examples, {self.n_labels} labels"]
        out += [f"{name}: {value:.2%}" for name, value in self.scores.items()]
        return out + [f"{_row(name, one, 17, 'F1')}  {one.found}" for name, one in self.classes.items()]

    def _conlleval(self) -> list[str]:
        all_, accuracy = self.total, 100 * self.scores["label-accuracy"]
        first = f"processed {self.n_labels} tokens with {all_.true} phrases; "
        first += f"found: {all_.found} phrases; correct: {all_.right}."
        rows = [f"{_row(name, one, 17)}  {one.found}" for name, one in self.classes.items()]
        return [first, _row(f"accuracy: {accuracy:6.2f}%", all_, 0).replace("%:", "%;", 1), *rows]


def _row(name: str, one: ClassCounts, width: int, f1: str = "FB1") -> str:
    values = f"precision: {100 * one.precision:6.2f}%; recall: {100 * one.recall:6.2f}%; {f1}: {100 * one.f1:6.2f}"
    return f"{name:>{width}}: {values}"


#: What labels may be, if not classes: heads of words, places in a list, sets of labels, trees.
HEADS, PLACES, SETS, TREES = "heads", "places", "sets", "trees"


def measure(truth: Sequence[Any], predicted: Sequence[Any], kind: str = "", names: Sequence[str] = ()) -> Measures:
    """Compare the labels of all examples.

    Parameters
    ----------
    truth, predicted : sequences of labels
    kind : str
        What they are; empty for classes, which may be tags or segments.
    names : sequence of str
        The labels of sets.

    Raises
    ------
    DataError
        They are of different numbers or forms.
    """
    if len(truth) != len(predicted):
        raise DataError("predictions", expected=f"{len(truth)} examples, as in the data", found=str(len(predicted)))
    if kind == TREES:
        return _tree_measures(truth, predicted)
    segments = [*map(are_segments, truth), *map(are_segments, predicted)]
    counts = _span_counts(truth, predicted) if all(segments) else None
    flat = [flat_labels(map(by_position, side) if any(segments) else side) for side in (truth, predicted)]
    for i, (one, other) in enumerate(zip(*flat, strict=True)):
        if len(one) != len(other):
            raise DataError("predictions", example=i, expected=f"{len(one)} labels", found=str(len(other)))
    n_labels = sum(map(len, flat[0]))
    scores = {"uas" if kind == HEADS else "label-accuracy": SCORERS["label-accuracy"](*flat)}
    if any(len(one) != 1 for one in flat[0]):
        scores["exact-match"] = SCORERS["exact-match"](*flat)
    if kind in (HEADS, PLACES):
        return Measures(len(truth), n_labels, scores, {}, False)
    if kind == SETS:
        return Measures(len(truth), n_labels, scores, _label_counts(truth, predicted, names), False)
    if counts is not None:
        scores["span-f1"] = SCORERS["span-f1"](truth, predicted)
        return Measures(len(truth), n_labels, scores, counts, True)
    tags = {tag for side in flat for one in side for tag in one}
    if any(tag[:2] == "B-" for tag in tags) and all(map(_TAG.fullmatch, tags)):
        scores["span-f1"] = SCORERS["span-f1"](*flat)
        return Measures(len(truth), n_labels, scores, _phrase_counts(*flat), True)
    if np.ndim(truth[0]) == 2:
        scores["mean-iou"] = SCORERS["mean-iou"](*flat)
    return Measures(len(truth), n_labels, scores, _class_counts(*flat), False)


def _tree_measures(truth: Sequence[Any], predicted: Sequence[Any]) -> Measures:
    """Return brackets found, and parts of speech."""
    trees, answers = [ParseTree.of(one) for one in truth], [ParseTree.of(one) for one in predicted]
    brackets = bracket_scores(trees, answers)
    tags = [[one.tags for one in side] for side in (trees, answers)]
    scores = {
        "bracket-f1": brackets.f1, "bracket-precision": brackets.precision, "bracket-recall": brackets.recall,
        "exact-match": brackets.exact / max(len(trees), 1), "tag-accuracy": SCORERS["label-accuracy"](*tags),
    }  # fmt: skip
    return Measures(len(trees), sum(map(len, tags[0])), scores, {}, False)


def flat_labels(labels: Iterable[Any]) -> list[list[str]]:
    """Return the labels of each example as a list of texts: files and models may differ in their types."""
    return [list(map(str, _values(one))) for one in labels]


def _values(one: Any) -> list[Any]:
    if isinstance(one, dict):
        return [value for name in sorted(one) for value in _values(one[name])]
    return list(np.ravel(np.asarray(one)).tolist())


def _span_counts(truth: Sequence[Any], predicted: Sequence[Any]) -> dict[str, ClassCounts]:
    """Return the counts of segments by class, sorted; both ends and the class of a right one are right."""
    sides = [[{tuple(map(str, part)) for part in one} for one in side] for side in (truth, predicted)]
    both = [one & other for one, other in zip(*sides, strict=True)]
    true, found, right = (Counter(part[2] for one in some for part in one) for some in (*sides, both))
    return {name: ClassCounts(true[name], found[name], right[name]) for name in sorted(true | found) if name != OUTSIDE}


def _label_counts(truth: Sequence[Any], predicted: Sequence[Any], names: Sequence[str]) -> dict[str, ClassCounts]:
    """Return for each label of sets how many examples have it."""
    sides = [np.array([np.ravel(one) for one in side]).astype(int) for side in (truth, predicted)]
    true, answered, right = (one.sum(axis=0).tolist() for one in (*sides, sides[0] * sides[1]))
    rows = zip(names or map(str, range(len(true))), true, answered, right, strict=True)
    return {name: ClassCounts(*counts) for name, *counts in rows}


def _phrase_counts(truth: list[list[str]], predicted: list[list[str]]) -> dict[str, ClassCounts]:
    """Return the counts of phrases by kind, sorted; both ends and the kind of a right one are right."""
    true, answered, right = Counter[str](), Counter[str](), Counter[str]()
    for one, other in zip(truth, predicted, strict=True):
        a, b = phrases(one), phrases(other)
        true.update(_kinds(a))
        answered.update(_kinds(b))
        right.update(_kinds(set(a) & set(b)))
    return {kind: ClassCounts(true[kind], answered[kind], right[kind]) for kind in sorted(true | answered)}


def _kinds(some: Sequence[Phrase] | set[Phrase]) -> list[str]:
    return [one.kind for one in some]


def _class_counts(truth: list[list[str]], predicted: list[list[str]]) -> dict[str, ClassCounts]:
    """Return the counts of each class, sorted."""
    pairs = [pair for sides in zip(truth, predicted, strict=True) for pair in zip(*sides, strict=True)]
    true, answered = Counter(one for one, _ in pairs), Counter(other for _, other in pairs)
    right = Counter(one for one, other in pairs if one == other)
    names = sorted(true | answered, key=_order)
    return {name: ClassCounts(true[name], answered[name], right[name]) for name in names}


def _order(name: str) -> tuple[float, str]:
    """Return the sort key of classes: numbers by value."""
    return (float(name) if name.lstrip("-").isdecimal() else float("inf"), name)
