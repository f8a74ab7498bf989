"""Base classes of statements about a target: rules, and sources of scores (factors, given scores)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from ssvm_dsl.lang.arrays import MOST, number_text
from ssvm_dsl.lang.features.sources import Concat, row_target, walk_sources
from ssvm_dsl.lang.inputs import Source
from ssvm_dsl.lang.outputs.labels import Label, Target
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

    def references(self) -> Iterator[tuple[str, Symbol]]:
        """Yield the labels and the edge list of the target."""
        yield from (("the label", label.declared) for label in self.target.labels)
        if self.target.edges is not None:
            yield "the edge list", self.target.edges


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
        paired = [dim for dim in source.dims if dim.origin is not dim]
        if paired and not any(dim.origin is not dim for dim in axes):
            which = "which only a pointer label has"
            yield f"features: {source!r} has numbers for pairs of positions, {which} (or spans(y) of trees)"
            return
        foreign = [dim for dim in source.dims if not any(dim is axis for axis in axes)]
        if foreign:
            yield (
                f"features: they have the axis {show(foreign[0])}, {target!r} has {show(axes)}; "
                f"use Feature(fn, {target!r}, width=...) for a row for each factor"
            )
