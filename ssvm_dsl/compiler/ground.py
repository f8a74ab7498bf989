"""``ground``: a declaration and data become a :class:`Program`, its parameter map and its loss term."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import NamedTuple

import numpy as np

from ssvm_dsl.array_types import F64, I32, I64, Bools
from ssvm_dsl.calls import checked_call
from ssvm_dsl.compiler.agreements import roles, set_auxiliary
from ssvm_dsl.compiler.constants import ground_constants
from ssvm_dsl.compiler.constraints import free_variables, lower_constraints
from ssvm_dsl.compiler.feature_maps import GroundedFactors, ground_factors
from ssvm_dsl.compiler.features.encode import Encoder, Fitted
from ssvm_dsl.compiler.footprint import footprint
from ssvm_dsl.compiler.inputs.validate import Examples, read_examples
from ssvm_dsl.compiler.labels.declared import declaration_of, declared_words, joined_words
from ssvm_dsl.compiler.labels.unseen_classes import UnseenClasses
from ssvm_dsl.compiler.layout import Layout
from ssvm_dsl.compiler.losses.loss import LossFunction, build_loss, kind_of, node_weights
from ssvm_dsl.compiler.scopes import ground_scopes
from ssvm_dsl.compiler.structure import KeptProgram, Structure, StructureCache, structure_key
from ssvm_dsl.errors import DataError
from ssvm_dsl.ir.loss import ADDITIVE, LossTerm
from ssvm_dsl.ir.program import Program
from ssvm_dsl.ir.ragged import pointers
from ssvm_dsl.lang.declaration import Declaration
from ssvm_dsl.lang.model import Model
from ssvm_dsl.memory import SMALL, fitting_share, require_memory, shortage
from ssvm_dsl.scores.parameter_map import ParameterMap


@dataclass(frozen=True, eq=False)
class Grounded:
    """A declaration grounded on data.

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
        Number of examples, from the first, with all features; those of the others are 0; all by default.
    kept : KeptProgram, optional
        Cached data for batches of these shapes, if there are any.
    unseen : UnseenClasses, optional
        Labels of classes that the model does not know, where these were asked for and there are any.
    spreads : mapping
        What else joins means and scales that features learnt here with those of other examples
        (:class:`~ssvm_dsl.compiler.features.encode.Encoder`).
    """

    declaration: Declaration
    layout: Layout
    parameters: ParameterMap
    fitted: Fitted
    truth: I32 | None = None
    ignored: Bools | None = None
    loss: LossTerm | None = None
    n_computed: int | None = None
    kept: KeptProgram | None = None
    unseen: UnseenClasses | None = None
    spreads: Mapping[str, tuple[int, F64]] = field(default_factory=dict)

    @property
    def n_uncomputed(self) -> int:
        """How many examples have features of 0, because time was up."""
        return 0 if self.n_computed is None else len(self.layout.var_ptr) - 1 - self.n_computed

    @property
    def program(self) -> Program:
        """The structure of all examples: variables, states, factors, constraints."""
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
    structures: StructureCache | None = None,
    unseen: bool = False,
) -> Grounded:
    """Return a model grounded on data.

    Parameters
    ----------
    model : Model class or Declaration
    X : list of examples
        Each a dict of arrays by input name, or the bare array when the model has one input.  Inputs that only the
        loss reads are not needed without Y.
    Y : list of labels, optional
        Each a dict by label name, or the bare labels when the model has one label.
    fitted : Fitted, optional
        State of fitted features from training; without it they are fitted on ``X`` now.
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
        Leave out features when the current call has no time left (:mod:`ssvm_dsl.compiler.features.computed`): those
        of the last examples are 0 then.
    structures : StructureCache, optional
        Those met before with this model and what its features learnt.
    unseen : bool
        Whether labels may have classes that the model does not know: whatever is answered there is wrong.  For answers
        that are judged (``whole``).

    Raises
    ------
    DataError
        Bad data, named with input and example; no labels where which weights there are depends on them.
    TooLargeError
        It would not fit into the memory that is free.
    """
    declared = declaration_of(model, "ground")
    if structures is not None and fitted is not None and Y is None and given is None:
        met = structures.again(declared.lowered, X, fitted)
        again = None if met is None else _again(declared.lowered, *met, fitted, first, in_time)
        if again is not None:
            return again
    options = _Options(custom_losses, first, whole, given, in_time, unseen)
    grounded = _grounded(declared.lowered, X, Y, fitted, options, structures)
    if grounded is None:
        grounded = _grounded(declared, X, Y, fitted, options, structures)
        assert grounded is not None
    return grounded


class _Options(NamedTuple):
    """The other arguments of :func:`ground`, under the same names."""

    custom_losses: Callable[[str], LossFunction] | None
    first: int
    whole: bool
    given: object
    in_time: bool
    unseen: bool


def _again(
    declaration: Declaration, examples: Examples, known: Structure, fitted: Fitted, first: int, in_time: bool
) -> Grounded | None:
    """Return unlabelled examples of shapes that were met before, grounded; ``None`` where features have other rows."""
    encoder = Encoder(declaration, examples, fitted, first, in_time)
    try:
        found = known.parameters(examples, encoder, None, None)
    except DataError as err:
        raise err.shifted(first) from err.__cause__
    if found is None:
        return None
    return Grounded(declaration, known.layout, found[0], fitted, n_computed=encoder.computed.n, kept=found[1])


def _grounded(
    declaration: Declaration, X: object, Y: object, fitted: Fitted | None, options: _Options,
    structures: StructureCache | None,
) -> Grounded | None:  # fmt: skip
    """Return a declaration grounded on data; ``None`` where labels that are not known need spans as variables."""
    custom_losses, first, whole, given, in_time, unseen = options
    fresh = fitted is None
    if fitted is None and structures is not None and structures.learns_nothing(declaration):
        fitted = {}
    met = None if structures is None or fitted is None else structures.of(declaration, fitted)
    try:
        key = known = None
        of_features = fitted.items() if isinstance(fitted, Mapping) else ()
        columns = {name: one["columns"] for name, one in of_features if isinstance(one, Mapping) and "columns" in one}
        if met is not None:
            examples, key = met.read(declaration, X, Y is not None, columns)
            known = met.find(key)
        else:
            examples = read_examples(declaration, X, Y is not None, columns)
            key = None if structures is None else structure_key(declaration, examples, Y is not None)
        if fresh and fitted is not None and examples.columns:  # nothing else is learnt
            fitted = {}
            met = None if structures is None else structures.of(declaration, fitted)
        layout = Layout.of(declaration, examples) if known is None else known.layout
        needed = _require_memory(declaration, examples, layout, Y is not None, met, known)
        truth = ignored = strange = None
        if Y is not None:
            truth, ignored, _, strange = layout.encode(Y, unseen=unseen)
            if layout.agreements:
                ignored = _auxiliary(layout, examples, truth, ignored, strange)
        if ignored is not None and declaration.compact and not (whole and _additive(declaration)):
            return None  # what scores or prices segments looks at all of their positions, known or not
        if ignored is not None and ignored.all() and not whole:
            raise DataError("Y", expected="at least one label that is known", found="none")
        encoder = Encoder(declaration, examples, fitted, first, in_time)
        if fresh:
            encoder.fitted.update({name: {"columns": names} for name, names in examples.columns.items()})
        hidden = ignored
        if declaration.latents:
            hidden = layout.latent if ignored is None else ignored | layout.latent
        if strange is not None:
            hidden = strange.variables if hidden is None else hidden | strange.variables
        labels = truth if truth is None or hidden is None else np.where(hidden, np.int32(-1), truth)
        trained, clamp = None if whole else ignored, _clamp(layout, given)
        filled = None
        if known is not None and trained is None:
            filled = known.parameters(examples, encoder, None if whole else labels, clamp)
        if filled is None:
            factors, parameters = _parameters(declaration, layout, examples, encoder, trained, labels, whole, clamp)
            kept = None
            if structures is not None and trained is None:
                made = Structure(declaration, layout, factors, parameters, needed)
                kept = structures.of(declaration, encoder.fitted).keep(key, made, parameters)
        else:
            parameters, kept = filled
        loss = None
        if truth is not None and declaration.loss is not None:
            weights = node_weights(declaration.loss, examples)
            none_of_them = None if strange is None else strange.variables
            loss = build_loss(declaration.loss, layout, examples, truth, ignored, custom_losses, weights, none_of_them)
    except DataError as err:
        raise err.shifted(first) from err.__cause__
    n_computed = encoder.computed.n
    learnt = encoder.fitted, truth, ignored, loss, n_computed, kept, strange, encoder.spreads
    return Grounded(declaration, layout, parameters, *learnt)


def _auxiliary(
    layout: Layout, examples: Examples, truth: I32, ignored: Bools | None, strange: UnseenClasses | None
) -> Bools | None:
    """Write the states of auxiliary variables; return what is not known, also those of factors of unseen classes."""
    if strange is None:
        return set_auxiliary(layout, examples, truth, ignored)
    unknown = strange.variables if ignored is None else ignored | strange.variables
    hidden = set_auxiliary(layout, examples, truth, unknown)
    return None if hidden is None else hidden & ~strange.variables


def _additive(declaration: Declaration) -> bool:
    """Whether there is a loss of single variables, or none."""
    return declaration.loss is None or kind_of(declaration.loss) == ADDITIVE


def _clamp(layout: Layout, given: object) -> I64 | None:
    """Return the states that given labels rule out."""
    if given is None:
        return None
    states, unknown, barred, _ = layout.encode(given, "given", partial=True)
    fixed = ~(layout.latent | layout.auxiliary)
    if unknown is not None:
        fixed &= ~unknown
    other = np.repeat(fixed, layout.card)
    other[pointers(layout.card)[:-1][fixed] + states[fixed]] = False
    out = np.flatnonzero(other)
    return out if barred is None else np.concatenate([out, barred])


def _require_memory(
    declaration: Declaration, examples: Examples, layout: Layout, judged: bool, structures: StructureCache | None,
    known: Structure | None,
) -> float:  # fmt: skip
    """Refuse data that will not fit into memory; return the bytes that grounding takes, or a small upper bound.

    Attributes are in memory already, and not counted again.
    """
    if known is not None and known.as_small:
        return known.needed
    if structures is not None and (most := structures.needed_at_most(declaration, examples, judged)) < SMALL:
        return most
    made = footprint(declaration, examples, layout, judged, with_attributes=False)
    if not shortage(made.needed):
        return made.needed
    n = examples.n
    what = f"model {declaration.name} on {n} example{'s' if n > 1 else ''}"
    instead = f"pass fewer examples (about {int(n * fitting_share(made.needed))} would fit)"
    if made.weights > 0.5 * made.needed:
        instead = "most of it are weights: declare fewer states, or a form such as POTTS that has few weights"
    elif made.scores > 0.5 * made.needed:
        instead += ", fewer states, or factors without features, whose tables all examples share"
    require_memory(made.needed, what, instead)
    return made.needed


def _parameters(
    declaration: Declaration,
    layout: Layout,
    examples: Examples,
    encoder: Encoder,
    ignored: Bools | None,
    truth: I32 | None,
    whole: bool,
    clamp: I64 | None,
) -> tuple[GroundedFactors, ParameterMap]:
    """Return the factor templates, and the parameter map of them, rules, given scores and hard constraints.

    ``truth`` is negative where it is not known; with ``whole`` it may be one that rules forbid.
    """
    factors = ground_factors(declaration, layout, examples, encoder, ignored, truth)
    grounded = ground_constants(
        declaration, layout, examples, encoder, ignored, partial(ground_scopes, layout=layout, examples=examples),
        list(factors.groups), dict(factors.shared), None if whole else truth, clamp,
    )  # fmt: skip
    constants = grounded.constants(len(factors.groups))
    constraints = lower_constraints(declaration, layout, examples)
    resting = ignored if ignored is None or not constraints else ignored & ~free_variables(constraints, layout)
    program = Program(
        layout.var_ptr, layout.card, tuple(grounded.groups), constraints, blocks=factors.blocks,
        allowed=_allowed(layout, resting, grounded.allowed), role=roles(layout),
    )  # fmt: skip
    parameters = ParameterMap.build(program, factors.maps, factors.blocks, constants)
    words = declared_words(declaration), joined_words(declaration)
    return factors, replace(parameters, declared=words[0], joined=words[1])


def _allowed(layout: Layout, ignored: Bools | None, left: Bools | None) -> Bools | None:
    """Return the mask of states that are left: ignored variables rest in state 0 (those of constraints are free)."""
    if ignored is None:
        return left
    allowed = np.repeat(~ignored, layout.card)
    if left is not None:
        allowed &= left
    allowed[pointers(layout.card)[:-1][ignored]] = True
    return allowed
