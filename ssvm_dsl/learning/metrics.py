"""Measures of predictions by the conventions of their fields, larger is better but for ``alignment_error_rate``.

All take the truth and the predictions of all examples, in the forms of ``Y`` and of ``predict``, and count over all
examples together.  Each is a scorer by name, too: ``StructuredSVM(model, scoring="span-f1")`` for
``fit(..., validation=...)``, ``grid_scores(..., scoring="span-f1")``, and ``named_scorer("span-f1")`` for scikit-learn.
:func:`scorer_of` is what scores an estimator on held-out examples, by its parameter ``scoring``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial, wraps
from inspect import signature
from typing import Any, NamedTuple, ParamSpec, TypeVar

import numpy as np
from numpy.typing import NDArray

from ssvm_dsl.calls import checked_call
from ssvm_dsl.compiler.labels.structures import structure_of
from ssvm_dsl.compiler.labels.unknown_labels import may_be_class, warn_of_unseen
from ssvm_dsl.errors import DataError, OptionError, SsvmError
from ssvm_dsl.lang.arrays import describe
from ssvm_dsl.lang.declaration import Declaration
from ssvm_dsl.lang.outputs.variables import ClassName
from ssvm_dsl.lang.symbols import plain

P = ParamSpec("P")
R = TypeVar("R")


def explained(measure: Callable[P, R]) -> Callable[P, R]:
    """Decorate a measure: labels that it cannot compare raise a :class:`DataError`."""
    form = signature(measure)

    @wraps(measure)
    def call(*args: P.args, **named: P.kwargs) -> R:
        form.bind(*args, **named)
        try:
            return measure(*args, **named)
        except DataError:
            raise
        except (TypeError, ValueError, LookupError, AttributeError) as err:
            expected = "labels of all examples, as in Y, and the output of predict"
            raise DataError("truth, predicted", expected=expected, found=f"{type(err).__name__}: {err}") from err

    return call


class Phrase(NamedTuple):
    """A phrase from ``first`` to ``last`` (both inside)."""

    kind: str
    first: int
    last: int


def phrases(tags: Iterable[str]) -> list[Phrase]:
    """Return the phrases of a tagged sentence, in order; tags are BIO or BIOES.

    As in ``conlleval`` a phrase begins at every B and S, and at an I or E after O, E, S or another type.
    """
    listed: list[Phrase] = []
    before = ""
    for t, tag in enumerate(tags):
        place, _, kind = str(tag).partition("-")
        if place == "O":
            before = ""
            continue
        if place in ("I", "E") and kind == before:
            listed[-1] = listed[-1]._replace(last=t)
        else:
            listed.append(Phrase(kind, t, t))
        before = "" if place in ("E", "S") else kind
    return listed


@checked_call
@explained
def span_f1(truth: Sequence[Any], predicted: Sequence[Any], outside: str = "O") -> float:
    """Return F1 over all spans, 0 .. 1, as ``conlleval`` computes it (1 when there are no spans in either).

    A span counts as found when its class and both its ends are right:

        precision = right / found,    recall = right / true,    F1 = 2 right / (found + true)

    Parameters
    ----------
    truth, predicted : list of lists
        Tags, such as ``["B-PER", "I-PER", "O"]``, or segments ``(start, end, class)``.
    outside : str
        The class of segments that are not counted.

    Raises
    ------
    DataError
        Different numbers of sentences, or of tags of one.
    """
    right = size = 0
    for one, other in _pairs(truth, predicted):
        if not _are_segments(one) and not _are_segments(other) and _alike(one, other)[0].ndim != 1:
            raise DataError("truth", expected="a list of tags for each sentence", found=describe(one))
        spans, found = _spans(one, outside), _spans(other, outside)
        right += len(spans & found)
        size += len(spans) + len(found)
    return 2.0 * right / size if size else 1.0


def _spans(labels: Any, outside: str) -> set[Any]:
    """Return the spans of a labelling."""
    return {tuple(one) for one in labels if one[2] != outside} if _are_segments(labels) else set(phrases(labels))


def _are_segments(labels: Any) -> bool:
    return len(labels) > 0 and all(isinstance(one, tuple | list) for one in labels)


@checked_call
@explained
def exact_match(truth: Sequence[Any], predicted: Sequence[Any]) -> float:
    """Return the share of examples all of whose labels are right."""
    return float(np.mean([all(bool(same.all()) for same in _same(*pair)) for pair in _pairs(truth, predicted)]))


@checked_call
@explained
def label_accuracy(truth: Sequence[Any], predicted: Sequence[Any]) -> float:
    """Return the share of right labels over the variables of all examples, 1 minus the Hamming loss."""
    same = [flat for pair in _pairs(truth, predicted) for flat in _same(*pair)]
    return float(np.mean(np.concatenate(same))) if sum(map(len, same)) else 1.0


@checked_call
@explained
def mean_iou(truth: Sequence[Any], predicted: Sequence[Any], ignore: Any = None) -> float:
    """Return the mean over classes of intersection over union: right / (right + wrong + missed) positions.

    Classes that occur in neither are left out.

    Parameters
    ----------
    truth, predicted : list of arrays
    ignore : class, optional
        Positions of this true class are not counted.
    """
    pairs = [_alike(*pair) for pair in _pairs(truth, predicted)]
    y, found = (np.concatenate([array.ravel() for array in side]) for side in zip(*pairs, strict=True))
    if ignore is not None:
        y, found = y[y != ignore], found[y != ignore]
    each = [_iou(y == name, found == name) for name in np.union1d(y, found)]
    return float(np.mean(each)) if each else 1.0


def _iou(one: NDArray[Any], other: NDArray[Any]) -> float:
    return float(np.sum(one & other) / np.sum(one | other))


@checked_call
@explained
def attachment_score(truth: Sequence[Any], predicted: Sequence[Any], labelled: bool = False) -> float:
    """Return the share of words with the right head: UAS; ``labelled``, with all else right, too: LAS.

    Parameters
    ----------
    truth, predicted : list of arrays or dicts
        Heads; or dicts with ``head`` and, for LAS, more labels of each word.
    labelled : bool
    """
    right: list[Any] = []
    for one, other in _pairs(truth, predicted):
        if not labelled and isinstance(one, Mapping):
            one, other = one["head"], other["head"]
        right.append(np.logical_and.reduce(list(_same(one, other))))
    flat = np.concatenate(right)
    return float(flat.mean()) if len(flat) else 1.0


@checked_call
@explained
def alignment_error_rate(
    truth: Sequence[Any], predicted: Sequence[Any], possible: Sequence[Any] | None = None
) -> float:
    """Return ``1 - (|A & S| + |A & P|) / (|A| + |S|)``, 0 is best (Och and Ney, Computational Linguistics 2003).

    Parameters
    ----------
    truth : list of arrays
        1 at sure links (S), 0 where there is none; -1 at links that are possible only, unless these are given.
    predicted : list of arrays
        1 at links that were found (A).
    possible : list of arrays, optional
        1 at possible links (P, with the sure ones).
    """
    right = total = 0
    allowed = truth if possible is None else possible
    for (one, other), (_, links) in zip(_pairs(truth, predicted), _pairs(truth, allowed, "possible"), strict=True):
        (y, answer), links = _alike(one, other), _alike(one, links, "possible")[1]
        found, sure = answer == 1, y == 1
        right += int((found & sure).sum() + (found & (sure | (links != 0 if possible is None else links == 1))).sum())
        total += int(found.sum() + sure.sum())
    return 1.0 - right / total if total else 0.0


def _negative_aer(truth: Sequence[Any], predicted: Sequence[Any]) -> float:
    return -alignment_error_rate(truth, predicted)


#: Scorers by name: functions of the truth and the predictions, larger is better.
SCORERS: dict[str, Callable[[Sequence[Any], Sequence[Any]], float]] = {
    "span-f1": span_f1,
    "exact-match": exact_match,
    "label-accuracy": label_accuracy,
    "mean-iou": mean_iou,
    "uas": attachment_score,
    "las": partial(attachment_score, labelled=True),
    "neg-aer": _negative_aer,
}


class PredictionScorer:
    """A scorer ``(estimator, X, Y) -> float`` of an estimator's predictions, by the name of a measure."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __call__(self, estimator: Any, X: Any, Y: Any) -> float:
        """Return the score; labels of classes that training never saw count as wrong, with a warning."""
        score = SCORERS[self.name](Y, estimator.predict(X))
        model = getattr(getattr(estimator, "svm_", estimator), "model", None)
        if isinstance(declaration := getattr(model, "declaration", None), Declaration):
            warn_of_unseen(unseen_labels(declaration, Y))
        return score

    def __repr__(self) -> str:
        return f"named_scorer({self.name!r})"


@checked_call
def named_scorer(name: str) -> PredictionScorer:
    """Return a scorer for the tools of scikit-learn: ``cross_val_score(svm, X, Y, scoring=named_scorer("span-f1"))``.

    Raises
    ------
    OptionError
        There is none of that name.
    """
    if not isinstance(name, str) or name not in SCORERS:
        raise OptionError(f"there is no scorer {name!r}; there are {', '.join(SCORERS)}")
    return PredictionScorer(name)


def _pairs(truth: Sequence[Any], predicted: Sequence[Any], what: str = "predicted") -> Iterator[tuple[Any, Any]]:
    """Yield the labels of each example, true and predicted."""
    if len(truth) != len(predicted):
        raise DataError(what, expected=f"{len(truth)} examples, as in truth", found=str(len(predicted)))
    if not len(truth):
        raise DataError("truth", expected="at least one example", found="an empty list")
    yield from zip(truth, predicted, strict=True)


def _same(one: Any, other: Any) -> Iterator[NDArray[Any]]:
    """Yield which labels of an example are right, for each of its label variables.

    Raises
    ------
    DataError
        They have other shapes.
    """
    if isinstance(one, Mapping):
        for name in one:
            yield from _same(one[name], other[name])
        return
    if isinstance(one, list) and any(isinstance(part, tuple) for part in one):  # segments
        yield np.array([sorted(map(tuple, one)) == sorted(map(tuple, other))])
        return
    y, predicted = _alike(one, other)
    yield np.ravel(y == predicted)


def _alike(one: Any, other: Any, what: str = "predicted") -> tuple[NDArray[Any], NDArray[Any]]:
    """Return the true and the predicted labels of an example as arrays of one shape.

    Raises
    ------
    DataError
        They have other shapes.
    """
    y, found = np.asarray(one), np.asarray(other)
    if y.shape != found.shape:
        both = (str(len(y)), str(len(found))) if y.ndim == found.ndim == 1 else (f"{y.shape}", f"{found.shape}")
        raise DataError(what, expected=f"{both[0]} labels, as in truth", found=both[1])
    return y, found


def unseen_labels(declaration: Declaration, Y: Sequence[Any]) -> Counter[ClassName]:
    """Return how often labels have a class that the model does not know, by class."""
    found = Counter[ClassName]()
    for label in declaration.outputs:
        if not structure_of(label).has_classes:
            continue
        known = set(range(label.n_states) if label.classes is None else label.classes)
        for one in Y:
            for value in _values(one[label.name] if isinstance(one, Mapping) else one):
                if value is not None and value != label.unknown and value not in known and may_be_class(label, value):
                    found[value] += 1
    return found


def _values(one: Any) -> Iterator[Any]:
    """Yield the classes of a labelling; of a segment ``(start, end, class)`` its class."""
    if isinstance(one, tuple) and len(one) == 3 and all(isinstance(end, int | np.integer) for end in one[:2]):
        yield plain(one[2])
    elif isinstance(one, list | tuple | np.ndarray) and np.ndim(np.asarray(one, dtype=object)):
        for inner in one:
            yield from _values(inner)
    else:
        yield plain(one)


#: A scorer ``(estimator, X, Y) -> float``, the name of one, or ``None`` for the method ``score``.
Scoring = str | Callable[[Any, Any, Any], float] | None


@dataclass(frozen=True, eq=False)
class NamedScorer:
    """Calls a scorer, and explains failures.

    Parameters
    ----------
    scoring : str, callable or None
        The user's value.
    scorer : callable
        The scorer, ``(estimator, X, Y) -> float``.
    """

    scoring: Scoring
    scorer: Callable[[Any, Any, Any], float]

    def __call__(self, estimator: Any, X: Any, Y: Any) -> float:
        """Return the score."""
        name = self.scoring
        try:
            score = self.scorer(estimator, X, Y)
        except SsvmError:
            raise
        except (ValueError, TypeError) as err:
            if not isinstance(name, str):
                raise
            hint = "give a function (estimator, X, Y) -> float"
            raise OptionError(f"scoring={name!r} does not suit these labels ({err}); {hint}") from err
        if not (isinstance(score, int | float | np.number | np.bool_) and np.isfinite(score)):
            raise OptionError(f"scoring: a finite number, larger is better, got {score!r}")
        return float(score)


def scorer_of(svm: Any) -> NamedScorer:
    """Return what scores an estimator on held-out examples, by its parameter ``scoring``.

    Raises
    ------
    OptionError
        There is no scorer of that name; from the scorer: it cannot score such labels, or returns no number.
    """
    if isinstance(svm.scoring, str) and svm.scoring in SCORERS:
        return NamedScorer(svm.scoring, named_scorer(svm.scoring))
    from sklearn.metrics import check_scoring

    name, expected = svm.scoring, "a function (estimator, X, Y) -> float or the name of a scorer"
    try:
        return NamedScorer(name, check_scoring(svm, scoring=name))
    except ValueError:
        known = f"({', '.join(SCORERS)}, or one of scikit-learn's)"
        raise OptionError(f"scoring is None, {expected} {known}, got {name!r}") from None
