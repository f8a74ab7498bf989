"""Base classes of statements about a target: rules, and sources of scores (factors, given scores)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

from ssvm_dsl.array_types import F64
from ssvm_dsl.lang.arrays import MOST, number_text
from ssvm_dsl.lang.dims import indices_of
from ssvm_dsl.lang.features.sources import Concat, is_indexed, positions_of, row_target, walk_sources
from ssvm_dsl.lang.inputs import Source
from ssvm_dsl.lang.outputs.labels import MAX_ARITY, Label, Target
from ssvm_dsl.lang.patterns.pattern import Pattern
from ssvm_dsl.lang.symbols import ModelView, Symbol, show


@dataclass(frozen=True, init=False, repr=False)
class AboutTarget(Symbol):
    """A symbol with a target."""

    target: Target

    @property
    def about(self) -> tuple[Label, ...]:
        """The labels of the target."""
        return self.target.labels

    @property
    def targets(self) -> tuple[Target, ...]:
        """The target."""
        return (self.target,)

    def written(self) -> tuple[Any, dict[str, Any]]:
        """Return (the target as users write it, its condition as an option)."""
        return self.target.written, self.target.written_options

    def references(self) -> Iterator[tuple[str, Symbol]]:
        """Yield the labels and the edge list of the target."""
        yield from (("the label", label.declared) for label in self.target.all_labels)
        yield from self.target.symbols()


@dataclass(frozen=True, init=False, repr=False)
class ScoredTarget(AboutTarget):
    """A target with rows of features, or of scores."""

    features: Source | None

    @property
    def made_of(self) -> tuple[Symbol, ...]:
        """The symbol and its features."""
        return (self, *walk_sources(self.features))

    def references(self) -> Iterator[tuple[str, Symbol]]:
        """Yield the symbols that the target and the features refer to."""
        yield from super().references()
        for source in walk_sources(self.features):
            yield from source.references_of_factor()

    def misfits(self, model: ModelView) -> Iterator[str]:
        """Yield why the features do not fit the target, or their functions the inputs."""
        yield from self._row_mistakes()
        for source in walk_sources(self.features):
            yield from source.name_mistakes(model.input_names)

    def _row_mistakes(self) -> Iterator[str]:
        """Yield why rows do not fit the target.

        Asked when the model is complete: before symbols have names, different ones may compare equal.
        """
        source, target = self.features, self.target
        if source is None:
            return
        if is_indexed(source) or (isinstance(target, Pattern) and target.word is None and source.dims):
            yield from _index_mistakes(source, target)
            return
        if isinstance(source, Concat) and len({(part.dims, row_target(part)) for part in source.parts}) > 1:
            yield "features: all parts of a list have the same axes"
            return
        rows_of = row_target(source)
        if rows_of is not None:
            if rows_of != target:
                yield f"features: its rows belong to {rows_of!r}, not to {target!r}"
            return
        for part in walk_sources(source):
            if part.width is not None and part.width > MOST:
                yield f"features: {part!r} has {number_text(part.width)} features, {MOST} are the most"
                return
        axes = target.feature_axes
        paired = [dim.origin for dim in source.dims if dim.origin is not dim]
        if paired and not any(dim.origin is not dim for dim in axes):
            text = f"{target!r} has none; in a pattern write them at positions, {show(source)}[i, j]"
            yield f"features: {source!r} has numbers for pairs of positions, {text}"
            return
        twice = [dim.origin for dim in axes if dim.origin is not dim]
        if twice and any(dim is twice[0] for dim in source.dims) and twice[0].paired not in source.dims:
            text = f"{target!r} has the axis {show(twice[0])} twice: write features at positions, {show(source)}[i]"
            if target.label.structure is None and target.label.declared is target.label:
                yield f"features: {text}"
                return
        foreign = [dim for dim in source.dims if not any(dim is axis for axis in axes)]
        if foreign:
            yield (
                f"features: they have the axis {show(foreign[0])}, {target!r} has {show(axes)}; "
                f"use Feature(fn, {target!r}, width=...) for a row for each factor"
            )


def _index_mistakes(source: Source, target: Target) -> Iterator[str]:
    """Yield why features at positions do not fit a pattern: each part has all of their indices."""
    if not isinstance(target, Pattern):
        yield f"features: {show(source)} is at positions; the target then is variables at positions, such as y[t]"
        return
    for part in target.parts:
        for index in indices_of(*positions_of(source)):
            if not any(index is own for own in part.free):
                yield f"features: {show(source)} has the index {index!r}, which is not one of {part!r}"
                return
    for bare in [one for one in (source.parts if isinstance(source, Concat) else (source,)) if one.dims]:
        axes = ", ".join("..." for _ in bare.dims)
        text = f"in a pattern it is read at positions: {show(bare)}[{axes}]"
        yield f"features: {show(bare)} has the axes {show(bare.dims)}; {text}"


# -- tables of scores of the factors of a target: whether there can be one, and where its joint states are in it ---


def table_mistakes(target: Target) -> Iterator[str]:
    """Yield why there is no table of scores over the variables of a factor."""
    if target.arity > MAX_ARITY:
        text = f"{target!r}: a set has at most {MAX_ARITY} positions, got one of {target.arity}"
        yield f"{text} (any number with form=POTTS, nonneg=True)"
    elif prod(target.cards) > MOST:
        yield f"{target!r}: a factor has more than {MOST} joint states; no table can hold them"


def table_states(target: Target) -> range:
    """Return which joint states of ``target.table_cards`` those of ``target.cards`` are; others score nothing."""
    n = prod(target.cards)
    if target.kind == "spans":
        return range(1, n + 1)
    return range(1, 2 * n, 2) if target.where_segments_begin else range(n)


def of_tables(target: Target) -> bool:
    """Return whether factors of a target have tables, and not scores of states."""
    return len(target.table_cards) > 1 or target.kind == "span"


def in_tables(target: Target, values: F64) -> F64:
    """Return rows of numbers of joint states as rows of tables, 0 where they score nothing.

    Parameters
    ----------
    target : Target
    values : ndarray of float64, shape (n, prod(target.cards))

    Returns
    -------
    ndarray of float64, shape (n, prod(target.table_cards))
    """
    out = np.zeros((len(values), prod(target.table_cards)))
    out[:, table_states(target)] = values
    return out
