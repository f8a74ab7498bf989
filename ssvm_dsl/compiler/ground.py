"""``ground``: a declaration and data become a :class:`Program`, its parameter map and its loss term."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from math import prod
from typing import Any

import numpy as np

from ssvm_dsl.array_types import I32, I64, Bools
from ssvm_dsl.calls import checked_call
from ssvm_dsl.compiler.agreements import require_nonnegative, roles, set_auxiliary
from ssvm_dsl.compiler.constants import ground_constants
from ssvm_dsl.compiler.constraints import free_variables, lower_constraints
from ssvm_dsl.compiler.declared import declaration_of, declared_words, joined_words
from ssvm_dsl.compiler.features.encode import Encoder, Fitted, Rows
from ssvm_dsl.compiler.features.observed import as_learnt, observe_pairs, of_learnt
from ssvm_dsl.compiler.footprint import footprint
from ssvm_dsl.compiler.layout import Layout
from ssvm_dsl.compiler.loss import LossFunction, build_loss, node_weights
from ssvm_dsl.compiler.scopes import Scopes, ground_scopes
from ssvm_dsl.compiler.validate import Examples, read_examples
from ssvm_dsl.errors import DataError, OptionError
from ssvm_dsl.ir.features import NODE, Block, FeatureMap, ObservedPairs, SparseRows, table_rows
from ssvm_dsl.ir.loss import LossTerm
from ssvm_dsl.ir.parameters import ParameterMap
from ssvm_dsl.ir.program import Group, Program
from ssvm_dsl.ir.ragged import pointers
from ssvm_dsl.lang.declaration import Declaration
from ssvm_dsl.lang.factors import Factor
from ssvm_dsl.lang.features import JointFeature, row_target
from ssvm_dsl.lang.given import Given
from ssvm_dsl.lang.inputs import Attributes, Input
from ssvm_dsl.lang.model import Model
from ssvm_dsl.lang.outputs.agreements import FactorTerm
from ssvm_dsl.lang.outputs.labels import Target
from ssvm_dsl.memory import fitting_share, require_memory, shortage


@dataclass(frozen=True, eq=False)
class Grounded:
    """A declaration laid over data.

    Parameters
    ----------
    declaration : Declaration
    layout : Layout
        Numbering of the variables; turns labellings into users' labels.
    parameters : ParameterMap
        The program and the map from weights to its scores.
    fitted : Fitted
        What fitted features learnt.
    truth : ndarray of int32, shape (V,), optional
        True states, when Y was given.
    ignored : ndarray of bool, shape (V,), optional
        Variables without a known truth.
    loss : LossTerm, optional
        When Y was given and the model has a loss.
    n_computed : int, optional
        The first so many examples have all their features, those of the others are 0; all by default.
    """

    declaration: Declaration
    layout: Layout
    parameters: ParameterMap
    fitted: Fitted
    truth: I32 | None = None
    ignored: Bools | None = None
    loss: LossTerm | None = None
    n_computed: int | None = None

    @property
    def n_uncomputed(self) -> int:
        """How many examples have features of 0, because time was up."""
        return 0 if self.n_computed is None else self.n_examples - self.n_computed

    @property
    def program(self) -> Program:
        """The structure."""
        return self.parameters.program

    @property
    def n_examples(self) -> int:
        """Number of examples."""
        return self.program.n_examples


@checked_call
def ground(
    model: type[Model] | Declaration,
    X: object,
    Y: object = None,
    *,
    fitted: Fitted | None = None,
    custom_losses: Callable[[str], LossFunction] | None = None,
    first: int = 0,
    whole: bool = False,
    given: object = None,
    in_time: bool = False,
) -> Grounded:
    """Return a model laid over data.

    Parameters
    ----------
    model : Model class or Declaration
    X : list of examples
        Each a dict of arrays by input name, or the bare array when the model has one input.  Inputs that only the
        loss reads are not needed without Y.
    Y : list of labels, optional
        Each a dict by label name, or the bare labels when the model has one label.
    fitted : Fitted, optional
        What fitted features learnt in training; without it they learn from ``X`` now.
    custom_losses : callable, optional
        Finds the function of a custom loss by name.
    first : int
        Number of the first example, for messages about a part of a longer list.
    whole : bool
        Keep variables without a known truth in the program: predictions to be judged must not depend on which
        labels are known.  Training leaves them out.
    given : list of labels, optional
        Labels that every labelling must have, like ``Y`` with entries that are not known.
    in_time : bool
        Leave out features when the call at hand has no time left (:mod:`ssvm_dsl.compiler.features.computed`): those
        of the last examples are 0 then.

    Raises
    ------
    DataError
        Bad data, named with input and example; no labels where which weights there are depends on them.
    TooLargeError
        It would not fit into the memory that is free.
    """
    declaration = declaration_of(model, "ground")
    try:
        examples = read_examples(declaration, X, judged=Y is not None)
        layout = Layout.of(declaration, examples)
        _require_memory(declaration, examples, layout, judged=Y is not None)
        truth, ignored = (None, None) if Y is None else layout.encode(Y)
        if truth is not None and layout.agreements:
            ignored = set_auxiliary(layout, examples, truth, ignored)
        if ignored is not None and ignored.all() and not whole:
            raise DataError("Y", expected="at least one label that is known", found="none")
        encoder = Encoder(declaration, examples, fitted, first, in_time)
        hidden = ignored
        if declaration.latents:
            hidden = layout.latent if ignored is None else ignored | layout.latent
        known = truth if truth is None or hidden is None else np.where(hidden, np.int32(-1), truth)
        trained = None if whole else ignored
        parameters = _parameters(declaration, layout, examples, encoder, trained, known, whole, _clamp(layout, given))
    except DataError as err:
        raise err.shifted(first) from err.__cause__
    loss = None
    if truth is not None and declaration.loss is not None:
        weights = node_weights(declaration.loss, examples, first)
        loss = build_loss(declaration.loss, layout, examples, truth, ignored, custom_losses, weights)
    return Grounded(declaration, layout, parameters, encoder.fitted, truth, ignored, loss, encoder.computed.n)


def _clamp(layout: Layout, given: object) -> I32 | None:
    """Return the states that variables must have, -1 where they are free."""
    if given is None:
        return None
    states, unknown = layout.encode(given, "given", partial=True)
    free = layout.latent | layout.auxiliary
    free = free if unknown is None else free | unknown
    return np.where(free, np.int32(-1), states)


def _require_memory(declaration: Declaration, examples: Examples, layout: Layout, judged: bool) -> None:
    """Refuse what will not fit, before it is allocated (attributes are in memory already, and not counted again)."""
    made = footprint(declaration, examples, layout, judged, with_attributes=False)
    if not shortage(made.needed):
        return
    n = examples.n
    what = f"model {declaration.name} on {n} example{'s' if n > 1 else ''}"
    instead = f"pass fewer examples (about {int(n * fitting_share(made.needed))} would fit)"
    if made.weights > 0.5 * made.needed:
        instead = "most of it are weights: declare fewer states, or a form such as POTTS that has few weights"
    elif made.scores > 0.5 * made.needed:
        instead += ", fewer states, or factors without features, whose tables all examples share"
    require_memory(made.needed, what, instead)


def _parameters(
    declaration: Declaration,
    layout: Layout,
    examples: Examples,
    encoder: Encoder,
    ignored: Bools | None,
    truth: I32 | None,
    whole: bool,
    clamp: I32 | None,
) -> ParameterMap:
    """Return the parameter map: one feature map for each factor template, blocks laid end to end.

    ``truth`` is negative where it is not known; with ``whole`` it may be one that rules forbid.
    """
    blocks: dict[str, Block] = {}
    maps: list[FeatureMap] = []
    groups: list[Group] = []
    shared: dict[Target, int] = {}
    for factor in declaration.factors:
        for part in factor.parts:
            scopes = ground_scopes(part.target, layout, examples)
            counts = scopes.shapes.counts
            if ignored is not None:
                scopes = scopes.without(ignored, layout.var_ptr)
            rows = _feature_rows(factor, encoder, scopes, counts)
            require_nonnegative(factor, rows)
            pairs = _observed_pairs(factor, scopes, rows, encoder, truth)
            _add_block(blocks, factor, rows, pairs)
            fmap = _feature_map(factor, part, scopes, rows, blocks[(factor.tie or factor).name], len(groups))
            fmap = fmap if pairs is None else replace(fmap, observed=pairs)
            if fmap.group != NODE:
                groups.append(_group(fmap))
            if _is_shared(fmap):
                shared[part.target] = fmap.group
            maps.append(fmap)
    owned = tuple(blocks[factor.name] for factor in declaration.factors if factor.tie is None)
    learnt = None if whole else truth
    n_weighted = len(groups)
    laid = ground_constants(
        declaration, layout, examples, encoder, ignored, _row_index, groups, shared, learnt, clamp
    )  # fmt: skip
    constants = laid.constants(n_weighted)
    constraints = lower_constraints(declaration, layout, examples)
    resting = ignored if ignored is None or not constraints else ignored & ~free_variables(constraints, layout)
    allowed = _allowed(layout, resting, laid.allowed)
    program = Program(
        layout.var_ptr, layout.card, tuple(groups), constraints, blocks=owned, allowed=allowed, role=roles(layout)
    )
    made = ParameterMap.build(program, maps, owned, constants)
    return replace(made, declared=declared_words(declaration), joined=joined_words(declaration))


def _is_shared(fmap: FeatureMap) -> bool:
    """Whether all factors of a map share one table."""
    return fmap.group != NODE and fmap.features is None and fmap.units is None


def _allowed(layout: Layout, ignored: Bools | None, left: Bools | None) -> Bools | None:
    """Return the mask of states that are left: ignored variables rest in state 0 (those of constraints are free)."""
    if ignored is None:
        return left
    allowed = np.repeat(~ignored, layout.card)
    if left is not None:
        allowed &= left
    allowed[pointers(layout.card)[:-1][ignored]] = True
    return allowed


def _observed_pairs(
    factor: Factor, scopes: Scopes, rows: Rows | None, encoder: Encoder, truth: I32 | None
) -> ObservedPairs | None:
    """Return the pairs that have weights, seen in this batch while fitting; ``None`` for all."""
    if not factor.observed:
        return None
    assert rows is not None
    values = rows.values
    assert isinstance(values, SparseRows)

    def learn() -> dict[str, Any]:
        if truth is None:
            what = f"labels: factor '{factor.name}' has weights for pairs observed with them only"
            raise DataError("Y", expected=what, found="none", hint="pass Y, or what was learnt before")
        index, shapes = _row_index(factor, scopes, rows), scopes.shapes
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


def _feature_rows(factor: Factor, encoder: Encoder, scopes: Scopes, counts: I64) -> Rows | None:
    """Return the factor's feature rows; ``counts`` are factors per example before any were left out."""
    source = factor.features
    if source is None:
        return None
    if isinstance(source, JointFeature):
        cards = factor.target.cards
        return Rows((), encoder.joint(source, counts, cards), pointers(counts * prod(cards)))
    return encoder.rows(source)


def _feature_map(
    factor: Factor, part: FactorTerm, scopes: Scopes, rows: Rows | None, block: Block, group: int
) -> FeatureMap:
    index, shapes = _row_index(factor, scopes, rows), scopes.shapes
    features, row_ptr = (None, shapes.ptr) if rows is None else (rows.values, rows.ptr)
    cards = part.target.table_cards
    if factor.joint:
        assert isinstance(features, np.ndarray)
        if index is not None:  # factors were left out: keep the tables of the others
            features = features.reshape(-1, prod(cards), features.shape[1])[shapes.spread(*index)]
            features, row_ptr = np.ascontiguousarray(features).reshape(-1, features.shape[2]), shapes.ptr * prod(cards)
            index = None
    return FeatureMap(
        name=part.name,
        group=NODE if len(cards) == 1 else group,
        cards=cards,
        shapes=shapes,
        block=block,
        n_units=factor.n_units,
        n_basis=1 if factor.joint else factor.form.n_weights(factor.target.cards),
        features=features,
        row_ptr=row_ptr,
        rows=None if index is None else index[0],
        row_base=None if index is None else index[1],
        units=_unit_index(factor, scopes),
        basis=part.basis,
        joint=factor.joint,
        source=_source_words(factor),
    )


def _source_words(factor: Factor) -> str:
    """Return what the features of a factor are, in words: its input, or its own."""
    if isinstance(factor.features, Input | Attributes):
        return f"input '{factor.features.name}'"
    return f"the features of factor '{factor.name}'"


def _row_index(factor: Factor | Given, scopes: Scopes, rows: Rows | None) -> tuple[I32, I64] | None:
    """Return the feature row of each factor of the shapes and what to add for each example.

    ``None`` where factor f of the batch uses row f.
    """
    if rows is None:
        return None
    per_factor, shapes = prod(factor.target.cards) if factor.joint else 1, scopes.shapes
    base = rows.ptr[:-1] // per_factor
    own = factor.joint or (factor.features is not None and row_target(factor.features) is not None)
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
    units = scopes.number if isinstance(factor.per, str) else scopes.position(factor.per)
    return units.astype(np.int32)


def _group(fmap: FeatureMap) -> Group:
    rows, base, n_tables = table_rows(fmap)
    return Group(fmap.name, fmap.cards, fmap.shapes, rows, base, n_tables)
