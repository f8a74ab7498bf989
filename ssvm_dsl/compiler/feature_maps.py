"""Feature maps: the factored map from weights to scores of each factor template, grounded on a batch.

What a map consists of beside its feature rows follows from the shapes of the examples
(:mod:`ssvm_dsl.compiler.prepared`).
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import prod
from typing import Any

import numpy as np

from ssvm_dsl.array_types import F64, I32, I64, Bools
from ssvm_dsl.compiler.agreements import require_nonnegative
from ssvm_dsl.compiler.features.encode import Encoder, Rows
from ssvm_dsl.compiler.features.gathered import gathered_rows, plain_rows
from ssvm_dsl.compiler.features.observed import as_learnt, observe_pairs, of_learnt
from ssvm_dsl.compiler.inputs import Examples
from ssvm_dsl.compiler.layout import Layout
from ssvm_dsl.compiler.scopes import FactorPart, Scopes, ground_scopes
from ssvm_dsl.errors import DataError, OptionError
from ssvm_dsl.ir.features import NODE, Block, FeatureMap, ObservedPairs, SlicedRows, SparseRows, table_rows
from ssvm_dsl.ir.program import ONE_SPAN, SPANS, Group
from ssvm_dsl.ir.ragged import pointers
from ssvm_dsl.lang.declaration import Declaration
from ssvm_dsl.lang.factors import Factor, Given
from ssvm_dsl.lang.features.sources import JointFeature, is_indexed, row_target
from ssvm_dsl.lang.inputs import At, Attributes, Input
from ssvm_dsl.lang.outputs.about_target import of_tables
from ssvm_dsl.lang.outputs.agreements import FactorTerm
from ssvm_dsl.lang.outputs.labels import Target

#: What the weights of a map are multiplied with.
Features = F64 | SparseRows | SlicedRows | None


@dataclass(frozen=True, eq=False)
class PlacedFactors:
    """The factors that one feature map is about: some of those of a template, over examples of some shapes.

    Parameters
    ----------
    factor : Factor
        The template.
    term : FactorTerm
        The part of the template.
    scopes : Scopes
        All factors of the part of the template.
    part : FactorPart
        These of them.
    bare : bool
        Whether they have no features.
    plain : Input or Attributes, optional
        The dense input whose numbers, or the attributes which, are the features as they are, if they are.
    """

    factor: Factor
    term: FactorTerm
    scopes: Scopes
    part: FactorPart
    bare: bool
    plain: Input | Attributes | None

    def rows(self, encoder: Encoder) -> Rows | None:
        """Return the feature rows of the part of the template: those of other factors of it, too."""
        key = id(self.term)
        if key not in encoder.of_terms:
            encoder.of_terms[key] = feature_rows(self.factor, encoder, self.scopes)
        return encoder.of_terms[key]


    def without(self, ignored: Bools, layout: Layout) -> PlacedFactors:
        """Return those factors none of whose variables is ignored."""
        return replace(self, part=replace(self.part, scopes=self.part.scopes.without(ignored, layout.var_ptr)))


def place_factors(declaration: Declaration, layout: Layout, examples: Examples) -> list[PlacedFactors]:
    """Return the factors of all templates of a model, in order of declaration; features are not looked at."""
    out = []
    for factor in declaration.factors:
        for term in factor.parts:
            every = ground_scopes(term.target, layout, examples)
            plain = _plain_source(factor, every)
            for part in every.parts(term.target):
                bare = factor.features is None and not part.varies
                out.append(PlacedFactors(factor, term, every, part, bare, None if part.varies else plain))
    return out


def _plain_source(factor: Factor, scopes: Scopes) -> Input | Attributes | None:
    """Return the source whose rows are the features of factors as they are, each factor with one of them."""
    if factor.agreements or factor.observed:
        return None
    source = factor.features
    if isinstance(source, At) and source.column is None:
        source = source.source if scopes.rows(source.places, source.source.dims)[1] is None else None
    plain = isinstance(source, Attributes) or (isinstance(source, Input) and not source.sparse)
    return source if plain else None  # type: ignore[return-value]


@dataclass(eq=False)
class GroundedFactors:
    """The factor templates of a model on a batch.

    Parameters
    ----------
    maps : list of FeatureMap
        One for each of the :class:`PlacedFactors`.
    groups : list of Group
        Of those that join two or more variables.
    blocks : tuple of Block
        The weights, concatenated.
    shared : dict of Target to int
        Groups whose factors all share one table, by what they join.
    """

    maps: list[FeatureMap] = field(default_factory=list)
    groups: list[Group] = field(default_factory=list)
    blocks: tuple[Block, ...] = ()
    shared: dict[Target, int] = field(default_factory=dict)


def features_of(
    placed: Sequence[PlacedFactors], encoder: Encoder, truth: I32 | None
) -> tuple[list[Features], dict[int, ObservedPairs], Hashable]:
    """Return (features of the map of each of some factors, pairs that have weights by place, widths).

    Equal widths have the same weights, and the same rows of tables.  Observed pairs are learnt from ``truth``, true
    states, negative if unknown, ``shape (V,)``.
    """
    features: list[Features] = []
    pairs: dict[int, ObservedPairs] = {}
    widths: list[Hashable] = []
    for m, one in enumerate(placed):
        if one.plain is not None:
            values: Features = encoder.plain(one.plain)
        elif one.bare:
            values = None
        else:
            rows = one.rows(encoder)
            values = part_features(one.factor, one.part, rows)
            if one.factor.observed:
                pairs[m] = observed_pairs(one.factor, one.part.scopes, rows, encoder, truth)
                widths.append(pairs[m].n_pairs)
        features.append(values)
        widths.append(None if values is None else values.shape)
    return features, pairs, tuple(widths)


def ground_factors(
    placed: Sequence[PlacedFactors], encoder: Encoder, features: Sequence[Features], pairs: Mapping[int, ObservedPairs]
) -> GroundedFactors:
    """Return the factor templates of a model, grounded on a batch, with the features of :func:`features_of`."""
    out, blocks = GroundedFactors(), dict[str, Block]()
    for m, one in enumerate(placed):
        factor, rows = one.factor, one.rows(encoder)
        _add_block(blocks, factor, rows, pairs.get(m))
        block = blocks[(factor.tie or factor).name]
        fmap = _feature_map(one, rows, features[m], pairs.get(m), block, len(out.groups))
        if fmap.group != NODE:
            out.groups.append(_group(fmap, one.term.target))
            whole = one.scopes.turned is None and one.scopes.variant is None
            if whole and fmap.features is None and fmap.units is None:
                out.shared[one.term.target] = fmap.group
        out.maps.append(fmap)
    out.blocks = tuple(blocks.values())
    return out


def observed_pairs(
    factor: Factor, scopes: Scopes, rows: Rows | None, encoder: Encoder, truth: I32 | None
) -> ObservedPairs:
    """Return the pairs that have weights, seen in this batch while fitting."""
    assert rows is not None
    values = rows.values
    assert isinstance(values, SparseRows)

    def learn() -> dict[str, Any]:
        if truth is None:
            what = f"labels: factor '{factor.name}' has weights for pairs observed with them only"
            raise DataError("Y", expected=what, found="none", hint="pass Y, or the fitted= of an earlier call")
        index, shapes = row_index(factor, scopes, rows), scopes.shapes
        row = None if index is None else shapes.spread(*index)
        return as_learnt(observe_pairs(values, row, truth[shapes.variables()], factor.target.cards))

    pairs = of_learnt(encoder.kept(factor.name, learn))
    if pairs.n_features != values.n_columns:
        raise OptionError(f"the observed pairs of factor '{factor.name}' are those of other learnt features; fit again")
    return pairs


def _add_block(blocks: dict[str, Block], factor: Factor, rows: Rows | None, pairs: ObservedPairs | None) -> None:
    """Append the factor's block of weights, unless it is there or shares another's."""
    if factor.tie is not None or factor.name in blocks:
        return
    start = max((block.stop for block in blocks.values()), default=0)
    width = None if rows is None else int(rows.values.shape[1])
    blocks[factor.name] = factor_block(factor, width, start, None if pairs is None else pairs.n_pairs)


def factor_block(factor: Factor, width: int | None, start: int, n_pairs: int | None = None) -> Block:
    """Return the block of weights a factor owns, for the width of its features (``None`` without features).

    Where it has weights for observed pairs only, these are in a row.
    """
    if n_pairs is not None:
        return Block(factor.name, start, (n_pairs,), 0.0 if factor.nonneg else -np.inf)
    shape = tuple(size for size in factor.weight_shape(width) if size is not None)
    axis = len(factor.unit_shape) if factor.features is not None and factor.features.sparse else None
    return Block(factor.name, start, shape, 0.0 if factor.nonneg else -np.inf, axis)


def feature_rows(factor: Factor | Given, encoder: Encoder, scopes: Scopes) -> Rows | None:
    """Return the factor's feature rows; ``scopes`` are those of its factors before any were left out."""
    source = factor.features
    if source is None:
        return None
    if is_indexed(source):
        return plain_rows(source, encoder, scopes) or gathered_rows(source, encoder, scopes)
    if isinstance(source, JointFeature):
        cards, counts = factor.target.cards, scopes.shapes.counts
        rows = Rows((), encoder.joint(source, counts, cards), pointers(counts * prod(cards)))
    else:
        rows = encoder.rows(source)
    if isinstance(factor, Factor) and factor.agreements:
        require_nonnegative(factor, rows)
    return rows


def _feature_map(
    placed: PlacedFactors, rows: Rows | None, features: Features, pairs: ObservedPairs | None, block: Block, group: int
) -> FeatureMap:
    """Return the map of some factors; ``group`` is theirs where they join variables."""
    factor, term, part = placed.factor, placed.term, placed.part
    scopes, joint = part.scopes, factor.joint or part.varies
    index, shapes = row_index(factor, scopes, rows), scopes.shapes
    row_ptr = shapes.ptr if rows is None else rows.ptr
    cards = term.target.table_cards if part.true is None else part.cards
    if joint and (rows is None or features is not rows.values):
        index, row_ptr = None, shapes.ptr * prod(cards)
    return FeatureMap(
        name=term.name,
        group=group if (of_tables(term.target) if part.true is None else len(cards) > 1) else NODE,
        cards=cards,
        shapes=shapes,
        block=block,
        n_units=factor.n_units,
        n_basis=1 if joint else factor.form.n_weights(factor.target.cards),
        features=features,
        row_ptr=row_ptr,
        rows=None if index is None else index[0],
        row_base=None if index is None else index[1],
        units=_unit_index(factor, scopes),
        basis=None if joint else part.form(term.basis),
        joint=joint,
        observed=pairs,
        source=_source_words(factor),
    )


def part_features(factor: Factor, part: FactorPart, rows: Rows | None) -> Features:
    """Return what the weights of some factors are multiplied with: rows, or a table of rows for each factor.

    Parameters
    ----------
    factor : Factor
    part : FactorPart
    rows : Rows, optional
        The features of all factors of the template.
    """
    if not factor.joint and not part.varies:
        return None if rows is None else rows.values
    index, shapes = row_index(factor, part.scopes, rows), part.scopes.shapes
    values = np.ones((shapes.n_factors, 1)) if rows is None else rows.values
    assert isinstance(values, np.ndarray)
    if factor.joint:
        if index is None and part.states is None:
            return values
        values = values.reshape(-1, prod(factor.target.cards), values.shape[1])
    values = values if index is None else values[shapes.spread(*index)]  # factors were left out
    if part.varies:
        values = part.truth()[:, :, None] * values[:, None]
    values = values if part.states is None else values[:, part.states]
    return np.ascontiguousarray(values).reshape(-1, values.shape[2])


def _source_words(factor: Factor) -> str:
    """Return a description of the features of a factor: its input, or the factor."""
    if isinstance(factor.features, Input | Attributes):
        return f"input '{factor.features.name}'"
    return f"the features of factor '{factor.name}'"


def row_index(factor: Factor | Given, scopes: Scopes, rows: Rows | None) -> tuple[I32, I64] | None:
    """Return the feature row of each factor of the shapes and what to add for each example.

    ``None`` where factor f of the batch uses row f.
    """
    if rows is None:
        return None
    per_factor, shapes = prod(factor.target.cards) if factor.joint else 1, scopes.shapes
    base = rows.ptr[:-1] // per_factor
    source = factor.features
    if isinstance(source, At) and rows.dims:  # rows as they are
        local = scopes.rows(source.places, rows.dims)[0]
    else:
        own = factor.joint or (source is not None and (is_indexed(source) or row_target(source) is not None))
        local = scopes.number if own else scopes.position(rows.dims)
    if shapes.n_factors == rows.values.shape[0] // per_factor and (local == shapes.own_number).all():
        filled = shapes.counts > 0
        if (base[filled] == shapes.ptr[:-1][filled]).all():
            return None
    return local.astype(np.int32), base


def _unit_index(factor: Factor, scopes: Scopes) -> I32 | None:
    """Return the unit of each factor of the shapes, ``None`` when there is one."""
    if not factor.per:
        return None
    units = scopes.number if isinstance(factor.per, str) else scopes.units(factor.per)
    return units.astype(np.int32)


def _group(fmap: FeatureMap, target: Target) -> Group:
    rows, base, n_tables = table_rows(fmap)
    return Group(fmap.name, fmap.cards, fmap.shapes, rows, base, n_tables, kind_of_group(target))


def kind_of_group(target: Target) -> str:
    """Return the kind of the group of the factors of a target."""
    return SPANS if target.of_lengths else ONE_SPAN if target.of_single_spans else "table"
