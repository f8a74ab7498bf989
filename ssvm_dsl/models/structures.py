"""``DependencyParser``, ``Ranker``: trees and permutations, with their own solvers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ssvm_dsl.datasets.features import arc_features
from ssvm_dsl.errors import DataError
from ssvm_dsl.lang.arrays import describe, is_sparse
from ssvm_dsl.lang.constraints.pointers import AllDifferent, Arborescence, ProjectiveTree
from ssvm_dsl.lang.dims import Dim
from ssvm_dsl.lang.factors import Factor
from ssvm_dsl.lang.inputs import Attributes, Input
from ssvm_dsl.lang.losses.cost import Cost
from ssvm_dsl.lang.losses.label_losses import Hamming
from ssvm_dsl.lang.model import Model
from ssvm_dsl.lang.outputs.labels import Label
from ssvm_dsl.models.base import ReadyModel
from ssvm_dsl.models.classes import array_of, require_names


class DependencyParser(ReadyModel):
    """Finds the head of each word: a tree over the words of a sentence.

    X is a list of sentences, each a pair ``(words, parts of speech)`` whose features are made here
    (:func:`~ssvm_dsl.datasets.arc_features`), or a dict of your own features: ``x`` of each (word, head),
    ``(T, T, width)`` or sparse with a row for each pair, and ``r`` of each word below the root.  Features may have
    names (:class:`~ssvm_dsl.Attributes`): ``x[word][head]`` and ``r[word]`` are dicts.  Dense features are
    standardised, those of ``r`` with separate weights; with ``scale=False`` both have the same.  Y is a list of heads:
    positions, -1 for the root.

    Parameters
    ----------
    projective : bool
        No two arcs cross.
    single_root : bool
        Exactly one word is below the root.
    **options
        Of :class:`~ssvm_dsl.StructuredSVM`.

    Examples
    --------
    >>> DependencyParser(C=0.1).fit([(["the", "cat"], ["DT", "NN"]), ...], [[1, -1], ...])
    """

    projective: bool = False
    single_root: bool = True

    def _read_examples(self, X: Any) -> Any:
        sentences = [dict(zip("xr", arc_features(*one), strict=True)) if _is_sentence(one) else one for one in X]
        for i, one in enumerate(sentences):
            require_names(one, i, "xr", "a pair (words, parts of speech), or a dict with x and r")
        return sentences

    def _declaration(self, X: Sequence[Any], Y: Sequence[Any]) -> type[Model]:
        named, kind = isinstance(X[0]["r"], list), ProjectiveTree if self.projective else Arborescence
        width, sparse = 0 if named else int(X[0]["r"].shape[-1]), not isinstance(X[0]["r"], np.ndarray)
        # columns on different scales have means of their own in x and r, so that weights for both would not agree
        alone = named or (self.scale and not sparse)

        class HeadTree(Model):
            T = Dim()
            x = Attributes(T, T) if named else Input(T, T, width, sparse=sparse)
            r = Attributes(T) if named else Input(T, width, sparse=sparse)
            head = Label(T, over=T, null=True)
            arc = Factor(head, features=self._scaled(x, [one["x"] for one in X]) if alone else x)
            root = Factor(
                head.is_(None), features=self._scaled(r, [one["r"] for one in X]) if alone else r,
                tie=None if alone else arc,
            )  # fmt: skip
            tree = kind(head, single_root=self.single_root)
            loss = Hamming(head)

        return HeadTree


def _is_sentence(one: Any) -> bool:
    """Whether an example is (words, parts of speech)."""
    pair = isinstance(one, tuple | list) and len(one) == 2 and all(hasattr(part, "__iter__") for part in one)
    return pair and all(isinstance(word, str) for part in one for word in part)


_ITEMS = "an array of numbers with a row of features for each item"


class Ranker(ReadyModel):
    """Puts lists in order: each item points to its place.

    X is a list of arrays ``(n_items, n_features)``.  Y is a list of places: 0 for the first item of the list.  The
    value of an item is linear in its features; the predicted order maximises the sum of value times height of place.
    The loss is how many places items are off (Spearman's footrule).

    Examples
    --------
    >>> places = Ranker(C=10).fit(X, Y).predict(X_test)
    >>> order = places[0].argsort()
    """

    def _read_examples(self, X: Any) -> Any:
        return [_at_places(one.toarray() if is_sparse(one) else array_of(one, "X", i, _ITEMS), i)
                for i, one in enumerate(self._of_frames(X))]  # fmt: skip

    def _declaration(self, X: Sequence[Any], Y: Sequence[Any]) -> type[Model]:
        class RankedList(Model):
            T = Dim()
            x = Input(T, T, int(X[0].shape[-1]))
            place = Label(T, over=T)
            worth = Factor(place, features=self._scaled(x, X))
            order = AllDifferent(place)
            loss = Cost(place, "distance")

        return RankedList


def _at_places(items: NDArray[Any], i: int) -> NDArray[Any]:
    """Return features of each (item, place): those of the item times the height of the place, from 1 to -1.

    Items are compared within their list: the mean of the list is taken off, which changes no order.
    """
    if items.ndim == 3:  # made before
        return items
    if items.ndim != 2 or items.dtype.kind not in "biuf":
        raise DataError("X", example=i, expected=_ITEMS, found=f"{describe(items)}, {items.dtype}")
    items = items - items.mean(axis=0) if len(items) else items
    return items[:, None, :] * np.linspace(1.0, -1.0, len(items))[None, :, None]
