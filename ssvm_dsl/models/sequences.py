"""``ChainTagger``: a class for each position of a sequence; ``SegmentTagger``: sequences divided into segments."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import groupby
from pathlib import Path
from typing import Any, Self

import numpy as np

from ssvm_dsl.array_types import F64
from ssvm_dsl.datasets.features import word_features
from ssvm_dsl.errors import DataError, InfeasibleError, OptionError
from ssvm_dsl.inference.planning.plans import AUTO
from ssvm_dsl.lang.arrays import describe
from ssvm_dsl.lang.constraints.durations import Duration
from ssvm_dsl.lang.constraints.forbidden import BIO, BIOES, Forbid, TagScheme
from ssvm_dsl.lang.dims import Dim
from ssvm_dsl.lang.factors import Factor
from ssvm_dsl.lang.features.sources import SpanLength
from ssvm_dsl.lang.frames import is_frame, is_gap, is_row, is_series
from ssvm_dsl.lang.losses.label_losses import Hamming
from ssvm_dsl.lang.model import Model
from ssvm_dsl.lang.outputs.labels import Label
from ssvm_dsl.lang.outputs.targets import chain, spans, starts
from ssvm_dsl.lang.patterns.pattern import Pattern
from ssvm_dsl.learning.answers import PredictionRequest
from ssvm_dsl.learning.online import OnlineLabels
from ssvm_dsl.learning.shards.parts import PartitionedDataset
from ssvm_dsl.models.base import ReadyModel
from ssvm_dsl.models.classes import classes_of, in_form, input_of, n_rows
from ssvm_dsl.models.frame_columns import LongFrame, as_long


class SequenceModel(ReadyModel):
    """What models of sequences share: how sequences are written.

    Parameters
    ----------
    features : {"words"}, optional
        Sequences are lists of words, of which features are made (:func:`~ssvm_dsl.datasets.word_features`); by default
        where all of them are.
    groups : str, optional
        X is one data frame, and this column tells its sequences apart.
    time : str, optional
        The column by which the rows of a sequence are sorted, of such a frame.
    """

    features: str | None = None
    groups: str | None = None
    time: str | None = None

    #: Whether features are made of words, and which column of one frame held the labels; ``fit`` finds out.
    _of_words = False
    _label_column = None

    def _follow(self, other: Self) -> None:
        super()._follow(other)
        self._of_words, self._label_column = other._of_words, other._label_column

    # -- words ------------------------------------------------------------------------------------------

    def _read_examples(self, X: Any) -> Any:
        if self.features not in (None, "words"):
            raise OptionError(f"features must be None or 'words', got {self.features!r}")
        for i, one in enumerate(X):
            if isinstance(one, Mapping) and any(np.ndim(value) or is_series(value) for value in one.values()):
                hint = "a dict of columns is a data frame: pandas.DataFrame(x)"
                raise DataError("X", example=i, expected="a sequence", found="a dict of columns", hint=hint)
            if isinstance(one, Mapping) or is_row(one):
                hint = f"X is a list of sequences; for one of them pass a list: [{'X' if len(X) > 1 else 'x'}]"
                raise DataError("X", example=i, expected="a sequence", found="a single position", hint=hint)
            if isinstance(one, str):
                hint = "X is a list of sentences, each a list of words; one sentence is [words], a text is text.split()"
                raise DataError("X", example=i, expected="a list of words", found=describe(one), hint=hint)
        words = [_are_words(one) for one in X]
        if self._learns_frames:
            empty = [not n_rows(one) for one in X]
            any_words = any(one and not none for one, none in zip(words, empty, strict=True))
            self._of_words = self.features == "words" or (any_words and all(words))
        if self._of_words:
            odd = next((i for i, one in enumerate(X) if not words[i] and not _is_made(one)), None)
            if odd is not None:
                raise DataError("X", example=odd, expected="a list of words", found=describe(X[odd]))
            return [word_features(list(one)) if words[i] else one for i, one in enumerate(X)]
        odd = next((i for i, one in enumerate(X) if words[i] and n_rows(one)), None)
        if odd is not None:
            expected = "features of each position, as of other sequences"
            raise DataError("X", example=odd, expected=expected, found="a list of words")
        return self._of_frames(X)

    def _plain_frames(self) -> dict[str, dict[str, Any]]:
        words: dict[str, dict[str, Any]] = {WORDS: {}} if self._of_words else {}
        labels = {} if self._label_column is None else {LABELS: {"column": self._label_column}}
        return super()._plain_frames() | words | labels

    def _take_frames(self, found: dict[str, dict[str, Any]]) -> None:
        self._of_words, self._label_column = WORDS in found, found.get(LABELS, {}).get("column")
        if not isinstance(self._label_column, str | None):
            raise TypeError("the column of labels is a name")
        super()._take_frames({name: one for name, one in found.items() if name not in (WORDS, LABELS)})

    # -- one frame with all sequences ---------------------------------------------------------------------

    def _long(self, X: Any) -> LongFrame | None:
        return as_long(X, self.groups, self.time)

    def _read(self, X: Any, Y: Any) -> tuple[Any, Any]:
        if (long := self._long(X)) is None:
            return super()._read(X, Y)
        self._label_column = Y if isinstance(Y, str) else None
        if isinstance(Y, str):
            Y, X = _column(X, Y), long.sequences(without=Y)
            return super()._read(X, [Y[rows].tolist() for rows in long.rows])
        return super()._read(long.sequences(), long.labels(Y))

    def _parted(self, X: Any, Y: Any) -> tuple[Any, Any]:
        """Return lists of sequences and of their labels, where X is one frame with all of them."""
        if (long := self._long(X)) is None:
            return X, Y
        name = self._label_column
        if isinstance(Y, str):
            Y = _column(X, Y)
            return long.sequences(without=name), [Y[rows].tolist() for rows in long.rows]
        return long.sequences(without=name), long.labels(Y)

    def _as_asked(self, X: Any, request: PredictionRequest) -> tuple[Any, PredictionRequest]:
        if self._long(X) is None:
            return X, request
        given, truth = (None if one is None else self._parted(X, one)[1] for one in (request.given, request.truth))
        return self._parted(X, None)[0], replace(request, given=given, truth=truth)

    def best_score(self, X: Any, Y: Any = None, *, time_limit: float | None = None) -> F64:
        """Return the score of each sequence, as ``StructuredSVM.best_score`` does."""
        X, Y = self._parted(X, Y)
        return super().best_score(X, Y, time_limit=time_limit)

    def _losses(self, X: Any, Y: Any, *more: Any, **named: Any) -> tuple[float, float]:
        return super()._losses(*self._parted(X, Y), *more, **named)

    def _example_losses(self, X: Any, Y: Any) -> F64:
        return super()._example_losses(*self._parted(X, Y))

    def errors(self, X: Any, Y: Any, *, most: int = 10) -> Any:
        """Return what goes wrong on some sequences, as ``StructuredSVM.errors`` does."""
        return super().errors(*self._parted(X, Y), most=most)

    def to_html(self, path: str | Path, X: Any = None, Y: Any = None) -> None:
        """Write a page about the model, as ``StructuredSVM.to_html`` does."""
        if X is not None and Y is not None:
            X, Y = self._parted(X, Y)
        super().to_html(path, X, Y)

    def predict(self, X: Any, **options: Any) -> Any:
        """Return the labels of each sequence; of one frame with all of them a series, a class for each row.

        ``options`` are those of ``StructuredSVM.predict``.
        """
        predicted = super().predict(X, **options)
        if isinstance(X, PartitionedDataset) or (long := self._long(X)) is None:
            return predicted
        return in_form(
            predicted, lambda labels: long.joined([one if one is None else self._of_positions(one) for one in labels])
        )

    def online(self, lag: int = 10, *, proba: bool = False) -> OnlineLabels:
        """Return an object that takes a stream row by row, as ``StructuredSVM.online`` does; not of words.

        Raises
        ------
        OptionError
            Features are made of words, from each word and its neighbours, which are not there yet.
        """
        if self._of_words:
            text = "online: features of words look at the neighbours of each word, which are not there yet"
            raise OptionError(f"{text}; train on features of each position, lists of names, and pass these")
        return super().online(lag, proba=proba)

    def _of_positions(self, labels: Any) -> Any:
        """Return a class for each position."""
        return labels

    def _probabilities(self, X: Any, probabilities: list[Any]) -> Any:
        if (long := self._long(X)) is None:
            return super()._probabilities(X, probabilities)
        return long.joined(probabilities, self.classes_)


#: What files call features of words, and the column of labels, among the columns of data frames.
WORDS, LABELS = "words", "labels"


def _column(frame: Any, name: str) -> Any:
    """Return the labels in a column of a frame."""
    if name not in list(frame.columns):
        listed = ", ".join(map(str, frame.columns))
        raise DataError("Y", expected=f"labels, or the name of a column of X ({listed})", found=repr(name))
    return np.asarray(frame[name].to_numpy())


def _are_words(one: Any) -> bool:
    """Whether a sequence is a list of words."""
    if isinstance(one, np.ndarray) and one.ndim != 1:
        return False
    listed = isinstance(one, list | tuple | np.ndarray) or (hasattr(one, "to_numpy") and not is_frame(one))
    return listed and all(isinstance(word, str) for word in one)


def _is_made(one: Any) -> bool:
    """Whether a sequence holds features of words already."""
    return isinstance(one, list) and all(isinstance(token, list) for token in one)


class ChainTagger(SequenceModel):
    """Tags sequences: features of each position, and a weight for every two tags in succession.

    X is a list of sequences; a sequence is an array ``(T, width)``, a sparse matrix with a row for each position, or a
    list of named features of each position, as for CRFsuite (:class:`~ssvm_dsl.Attributes`); a data frame with a row
    for each position; or a list of words, whose features are made here (:func:`~ssvm_dsl.datasets.word_features`).  Y
    is a list of lists of tags: strings or whole numbers; ``None`` and nan are tags that are not known.

    With ``groups="subject"`` X is one data frame with all sequences, Y the label of each row or the name of its column.

    Parameters
    ----------
    order : int
        How many tags before a tag it depends on; 0 for none.
    bias : bool
        Whether each tag has a separate weight.
    bio : bool or "auto"
        Whether tags are BIO tags, of which only legal successions are predicted (``I-PER`` after ``B-PER`` only).
        ``"auto"`` finds out: tags with such names that follow each other by the rules, of BIO or of BIOES, in all
        training data keep to them in predictions.  ``print(tagger.model_)`` and the report say so.
    shortest, longest : int or dict of class to int, optional
        How many positions in succession have the same tag at least, and at most (:class:`~ssvm_dsl.Duration`).
    cut : bool
        Whether the first and the last such stretch may be shorter: a sequence may begin or end within one.
    features : {"words"}, optional
        Sequences are lists of words; by default where all of them are.
    groups, time : str, optional
        Columns of one data frame with all sequences: which one a row belongs to, and what its rows are sorted by.
    **options
        Of :class:`~ssvm_dsl.StructuredSVM`.  By default it is a conditional random field (``risk="auto"``).

    Examples
    --------
    >>> tagger = ChainTagger(C=0.1).fit(X, Y)
    >>> tagger.predict(X_test)
    """

    order: int = 1
    bias: bool = True
    bio: bool | str = "auto"
    shortest: int | Mapping[Any, int] | None = None
    longest: int | Mapping[Any, int] | None = None
    cut: bool = False
    _weighs_classes = True

    def _declaration(self, X: Sequence[Any], Y: Sequence[Any]) -> type[Model]:
        classes = classes_of(Y)
        scheme = self._scheme(classes, Y)
        bioes = scheme is not None and scheme.name == "BIOES"

        class TagChain(Model):
            T = Dim()
            x = input_of(X, T)
            y = Label(T, classes)
            emit = Factor(y, features=self._scaled(x, X))
            bias = Factor(y) if self.bias else None
            trans = Factor(chain(y, order=self.order)) if self.order else None
            lasting = Duration(y, self.shortest, self.longest, self.cut) if self.shortest or self.longest else None
            inside = Forbid(chain(y), scheme) if scheme else None
            begin = Forbid(y.at(0), scheme) if scheme else None
            end = Forbid(y.at(-1), scheme) if bioes else None
            loss = Hamming(y, weights=self._prices(classes, Y))

        return TagChain

    def decision_function(self, X: Any, *, time_limit: float | None = None) -> Any:
        """Return how far each tag is from being predicted, ``shape (T, n_classes)`` of each sequence.

        The score of the best tagging with this tag at this position, less that of the best of all: 0 for tags that are
        predicted, ``-inf`` where a rule of tags leaves none.  It asks a question for each tag of each position.

        Parameters
        ----------
        X : list of sequences, or one frame with all of them
        time_limit : float, optional
            Seconds for the questions about a sequence.
        """
        examples, classes = list(self._examples(self._parted(X, None)[0])), self.classes_.tolist()
        out = []
        for x, best in zip(examples, self._best(examples, None, time_limit), strict=True):
            n = n_rows(x)
            given = [[name if t == place else None for t in range(n)] for place in range(n) for name in classes]
            scores = self._best_with([x] * len(given), given, time_limit) if n else np.zeros(0)
            out.append(np.minimum(scores.reshape(n, len(classes)) - best, 0.0))
        return self._probabilities(X, out)

    def _best_with(self, X: list[Any], given: list[Any], time_limit: float | None) -> F64:
        """Return the score of the best tagging that agrees with each list of known tags, ``-inf`` without any."""
        request = PredictionRequest(time_limit=time_limit, given=given, on_missing="none")
        try:
            parts = self._answers(X, lambda _, solution: solution.score, request).parts
        except InfeasibleError:  # a rule about one position rules a tag out before any search
            if len(X) == 1:
                return np.array([-np.inf])
            return np.concatenate([self._best_with([x], [one], time_limit) for x, one in zip(X, given, strict=True)])
        scores = np.concatenate(parts)
        return np.where(np.isnan(scores), -np.inf, scores)

    def _scheme(self, classes: Sequence[Any], Y: Sequence[Any]) -> TagScheme | None:
        """Return the rules that tags obey, if there are any."""
        if not (isinstance(self.bio, bool) or self.bio == AUTO):
            raise OptionError(f"bio is True, False or 'auto', got {self.bio!r}")
        if self.bio is True:
            return BIO(classes)
        if not self.bio or not self._all_labels:  # of a stream the first batch is known only
            return None
        for make in (BIO, BIOES):
            scheme = make(classes)
            if obeys(Y, classes, scheme):
                self._chosen["tags"] = f"{scheme.name}, found in the labels, whose rules predictions obey"
                return scheme
        return None


def obeys(Y: Sequence[Any], classes: Sequence[Any], scheme: TagScheme) -> bool:
    """Return whether tags have the names of a scheme, some of them inside, and all sequences keep to its rules."""
    y = Label(Dim(), classes)
    follows, first, last = chain(y), Pattern(y[0]), Pattern(y[-1])
    inside = any(str(name)[:2] in ("I-", "E-", "L-") for name in classes)
    if not inside or any(True for _ in scheme.mistakes(follows)):
        return False
    wrong = scheme.forbidden(follows).reshape(len(classes), len(classes))
    wrong_ends = scheme.forbidden(first), scheme.forbidden(last)
    number: dict[Any, int] = {name: k for k, name in enumerate(classes)}
    for one in Y:
        states = np.array([number.get(name, -1) for name in (() if one is None else one)], dtype=np.int64)
        known = states >= 0
        both = known[:-1] & known[1:]
        if wrong[states[:-1][both], states[1:][both]].any():
            return False
        for place, ruled_out in zip((0, -1), wrong_ends, strict=True):
            if len(states) and known[place] and ruled_out[states[place]]:
                return False
    return True


class SegmentTagger(SequenceModel):
    """Divides sequences into segments with classes, scored as wholes: their features, lengths, and successions.

    X is as for :class:`ChainTagger`.  Y is a list of lists of segments ``(start, end, class)`` that cover the sequence,
    ``end`` not included, or of a class for each position, where neighbours of one class are one segment.

    Parameters
    ----------
    longest : int or dict of class to int, optional
        Most positions of a segment (of a class), by default those of the longest one in the labels.
    shortest : int or dict of class to int, optional
        Least positions of a segment (of a class), 1 by default (:class:`~ssvm_dsl.Duration`).
    cut : bool
        Whether the first and the last segment of a sequence may be shorter: it may begin or end within one.
    begins : bool
        Whether features of the position where a segment begins have separate weights, besides those of all its
        positions: without them nothing says where one of two neighbours of a class ends.
    features, groups, time : str, optional
        As for :class:`ChainTagger`.
    **options
        Of :class:`~ssvm_dsl.StructuredSVM`.

    Examples
    --------
    >>> SegmentTagger(C=1).fit(X, [[(0, 1, "other"), (1, 3, "person")], ...]).predict(X_test)
    >>> SegmentTagger(shortest=3, longest={"sit": 50}).fit(X, Y)
    """

    longest: int | Mapping[Any, int] | None = None
    shortest: int | Mapping[Any, int] | None = None
    cut: bool = False
    begins: bool = True

    def _read_labels(self, Y: Any) -> Any:
        """Return arrays with a segment in each row as lists of segments."""
        for i, one in enumerate(Y):
            if one is not None and not hasattr(one, "__len__"):
                expected = "a list of segments (start, end, class), or of classes"
                raise DataError("Y", example=i, expected=expected, found=describe(one))
        return [_segments(one) for one in Y]

    def _of_positions(self, labels: Any) -> Any:
        return [name for start, end, name in labels for _ in range(end - start)]

    def _declaration(self, X: Sequence[Any], Y: Sequence[Any]) -> type[Model]:
        segments = [one for y in Y if y is not None for one in _lengths(y)]
        asked = dict(self.longest) if isinstance(self.longest, Mapping) else {}
        known = [length for length, name in segments if name not in asked]
        least = self.shortest.values() if isinstance(self.shortest, Mapping) else [self.shortest]
        known += [one for one in (*asked.values(), *least) if isinstance(one, int)]
        most = max(known, default=1) if self.longest is None or isinstance(self.longest, Mapping) else self.longest
        bounded = self.shortest is not None or asked

        class SegmentChain(Model):
            T = Dim()
            x = input_of(X, T)
            y = Label(T, classes_of([[name for _, name in segments]]), segments=most)
            lasting = Duration(spans(y), least=self.shortest, most=asked or None, cut=self.cut) if bounded else None
            word = Factor(y, features=self._scaled(x, X))
            begin = Factor(starts(y), features=self._scaled(x, X)) if self.begins else None
            length = Factor(spans(y), features=SpanLength(spans(y)))
            trans = Factor(chain(y))
            loss = Hamming(y)

        return SegmentChain


def _segments(labels: Any) -> Any:
    """Return segments as tuples, or classes of positions in a list; with gaps among classes, as segments."""
    listed = labels.tolist() if isinstance(labels, np.ndarray) else labels
    if isinstance(labels, np.ndarray) and labels.ndim == 2:
        return list(map(tuple, listed))
    if not isinstance(listed, list) or not any(map(is_gap, listed)):
        return listed
    runs, start = [], 0
    for name, some in groupby(None if is_gap(one) else one for one in listed):
        end = start + len(list(some))
        runs.append((start, end, name))
        start = end
    return runs


def _lengths(y: Any) -> Iterator[tuple[int, Any]]:
    """Yield (length, class) of each segment of a labelling."""
    if all(isinstance(one, Sequence) and not isinstance(one, str) and len(one) == 3 for one in y):
        yield from ((max(int(end) - int(start), 1), name) for start, end, name in y)
    else:
        yield from ((len(list(some)), name) for name, some in groupby(list(y)))
