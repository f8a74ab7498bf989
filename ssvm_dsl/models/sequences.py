"""``ChainTagger``: a class for each position of a sequence; ``SegmentTagger``: sequences divided into segments."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any

import numpy as np

from ssvm_dsl.errors import DataError
from ssvm_dsl.lang.arrays import describe
from ssvm_dsl.lang.constraints.durations import Duration
from ssvm_dsl.lang.constraints.forbidden import BIO, Forbid
from ssvm_dsl.lang.dims import Dim
from ssvm_dsl.lang.factors import Factor
from ssvm_dsl.lang.features.span_features import SpanLength
from ssvm_dsl.lang.losses.label_losses import Hamming
from ssvm_dsl.lang.model import Model
from ssvm_dsl.lang.outputs.labels import Label
from ssvm_dsl.lang.outputs.targets import chain, spans
from ssvm_dsl.models.base import ReadyModel
from ssvm_dsl.models.classes import classes_of, input_of


class SequenceModel(ReadyModel):
    """What models of sequences share: how sequences are written."""

    def _read_examples(self, X: Any) -> Any:
        return self._of_frames(X)


class ChainTagger(SequenceModel):
    """Tags sequences: features of each position, and a weight for every two tags in succession.

    X is a list of sequences; a sequence is an array ``(T, width)``, a sparse matrix with a row for each position, or a
    list of named features of each position, as for CRFsuite (:class:`~ssvm_dsl.Attributes`).  Y is a list of lists of
    tags: strings or whole numbers.

    Parameters
    ----------
    order : int
        How many tags before a tag it depends on; 0 for none.
    bias : bool
        Whether each tag has a separate weight.
    bio : bool
        Whether tags are BIO tags, of which only legal successions are predicted (``I-PER`` after ``B-PER`` only).
    **options
        Of :class:`~ssvm_dsl.StructuredSVM`; ``risk="log"`` makes it a conditional random field.

    Examples
    --------
    >>> tagger = ChainTagger(C=0.1).fit(X, Y)
    >>> tagger.predict(X_test)
    """

    order: int = 1
    bias: bool = True
    bio: bool = False

    def _declaration(self, X: Sequence[Any], Y: Sequence[Any]) -> type[Model]:
        class TagChain(Model):
            T = Dim()
            x = input_of(X, T)
            y = Label(T, classes_of(Y))
            emit = Factor(y, features=self._scaled(x, X))
            bias = Factor(y) if self.bias else None
            trans = Factor(chain(y, order=self.order)) if self.order else None
            inside = Forbid(chain(y), BIO(y)) if self.bio else None
            begin = Forbid(y.at(0), BIO(y)) if self.bio else None
            loss = Hamming(y)

        return TagChain


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

    def _read_labels(self, Y: Any) -> Any:
        """Return arrays with a segment in each row as lists of segments."""
        for i, one in enumerate(Y):
            if one is not None and not hasattr(one, "__len__"):
                expected = "a list of segments (start, end, class), or of classes"
                raise DataError("Y", example=i, expected=expected, found=describe(one))
        return [list(map(tuple, one.tolist())) if np.ndim(one) == 2 and hasattr(one, "tolist") else one for one in Y]

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
            length = Factor(spans(y), features=SpanLength(spans(y)))
            trans = Factor(chain(y))
            loss = Hamming(y)

        return SegmentChain


def _lengths(y: Any) -> Iterator[tuple[int, Any]]:
    """Yield (length, class) of each segment of a labelling."""
    if all(isinstance(one, Sequence) and not isinstance(one, str) and len(one) == 3 for one in y):
        yield from ((max(int(end) - int(start), 1), name) for start, end, name in y)
    else:
        yield from ((len(list(some)), name) for name, some in groupby(list(y)))
