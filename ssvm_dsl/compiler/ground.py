"""``ground``: a declaration and data become a :class:`Program`, its parameter map and its loss term."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ssvm_dsl.array_types import F64, I32, I64, Bools
from ssvm_dsl.calls import checked_call
from ssvm_dsl.compiler.agreements import set_auxiliary
from ssvm_dsl.compiler.estimate import footprint
from ssvm_dsl.compiler.features.encode import Encoder, LearntFeatures
from ssvm_dsl.compiler.inputs import Examples
from ssvm_dsl.compiler.labels.unknown_labels import UnseenClasses
from ssvm_dsl.compiler.layout import Layout
from ssvm_dsl.compiler.losses.loss import LossFunction, build_loss, kind_of
from ssvm_dsl.compiler.prepared import PreparedProgram, PreparedShape, ShapeCache
from ssvm_dsl.errors import DataError
from ssvm_dsl.ir.loss import ADDITIVE, LossTerm
from ssvm_dsl.ir.program import Program
from ssvm_dsl.ir.ragged import pointers
from ssvm_dsl.lang.declaration import Declaration, declaration_of
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
    fitted : LearntFeatures
        What fitted features learnt.
    truth : ndarray of int32, shape (V,), optional
        True states, when Y was given.
    ignored : ndarray of bool, shape (V,), optional
        Variables without a known truth.
    loss : LossTerm, optional
        When Y was given and the model has a loss.
    n_uncomputed : int
        How many examples, the last ones, have features of 0, because time was up.
    kept : PreparedProgram, optional
        What the model keeps of its program; copies and pickles have none.
    unseen : UnseenClasses, optional
        Labels of classes that the model does not know, where these were asked for and there are any.
    spreads : mapping
        What else joins means and scales that features learnt here with those of other examples
        (:class:`~ssvm_dsl.compiler.features.encode.Encoder`).
    """

    declaration: Declaration
    layout: Layout
    parameters: ParameterMap
    fitted: LearntFeatures
    truth: I32 | None = None
    ignored: Bools | None = None
    loss: LossTerm | None = None
    n_uncomputed: int = 0
    kept: PreparedProgram | None = None
    unseen: UnseenClasses | None = None
    spreads: Mapping[str, tuple[int, F64]] = field(default_factory=dict)

    def __getstate__(self) -> dict[str, Any]:
        """Return what copies and pickles have: nothing that the model keeps."""
        return {**self.__dict__, "kept": None}

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
    fitted: LearntFeatures | None = None,
    custom_losses: Callable[[str], LossFunction] | None = None,
    first: int = 0,
    whole: bool = False,
    given: object = None,
    in_time: bool = False,
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
    fitted : LearntFeatures, optional
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
        Leave out features when the current call has no time left (:mod:`ssvm_dsl.compiler.features.encode`): those
        of the last examples are 0 then.
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
    options = custom_losses, first, whole, given, in_time, unseen
    try:  # without spans as variables, unless labels that are not known need these
        grounded = _grounded(declared.lowered, X, Y, fitted, *options) or _grounded(declared, X, Y, fitted, *options)
    except DataError as err:
        raise err.shifted(first) from err.__cause__
    assert grounded is not None
    return grounded


def _grounded(
    declaration: Declaration, X: object, Y: object, fitted: LearntFeatures | None,
    custom_losses: Callable[[str], LossFunction] | None, first: int, whole: bool, given: object, in_time: bool,
    unseen: bool,
) -> Grounded | None:  # fmt: skip
    """Return a declaration grounded on data; ``None`` where labels that are not known need spans as variables."""
    judged = Y is not None
    examples, prepared = declaration.cached(ShapeCache).read(X, judged, fitted)
    layout = prepared.layout
    if judged not in prepared.small:
        _require_memory(prepared, examples, judged)
    truth = ignored = strange = None
    if judged:
        truth, ignored, _, strange = layout.encode(Y, unseen=unseen)
        if layout.agreements:
            ignored = _auxiliary(layout, examples, truth, ignored, strange)
    if ignored is not None and declaration.compact:
        additive = declaration.loss is None or kind_of(declaration.loss) == ADDITIVE
        if not (whole and additive):
            return None  # what scores or prices segments looks at all of their positions, known or not
    if ignored is not None and ignored.all() and not whole:
        raise DataError("Y", expected="at least one label that is known", found="none")
    encoder = Encoder(declaration, examples, fitted, first, in_time)
    hidden = ignored
    if truth is not None and declaration.latents:
        hidden = layout.latent if ignored is None else ignored | layout.latent
    if strange is not None:
        hidden = strange.variables if hidden is None else hidden | strange.variables
    labels = truth if truth is None or hidden is None else np.where(hidden, np.int32(-1), truth)
    clamp = None if given is None else _clamp(layout, given)
    parameters, kept = prepared.parameters(
        encoder, labels, None if whole else labels, clamp, None if whole else ignored
    )
    loss = None
    if truth is not None and declaration.loss is not None:
        none_of_them = None if strange is None else strange.variables
        loss = build_loss(declaration.loss, layout, examples, truth, ignored, custom_losses, none_of_them)
    return Grounded(
        declaration, layout, parameters, encoder.fitted, truth, ignored, loss,
        n_uncomputed=examples.n - encoder.n_computed, kept=kept, unseen=strange, spreads=encoder.spreads,
    )  # fmt: skip


def _auxiliary(
    layout: Layout, examples: Examples, truth: I32, ignored: Bools | None, strange: UnseenClasses | None
) -> Bools | None:
    """Write the states of auxiliary variables; return what is not known, also those of factors of unseen classes."""
    if strange is None:
        return set_auxiliary(layout, examples, truth, ignored)
    unknown = strange.variables if ignored is None else ignored | strange.variables
    hidden = set_auxiliary(layout, examples, truth, unknown)
    return None if hidden is None else hidden & ~strange.variables


def _clamp(layout: Layout, given: object) -> I64:
    """Return the states that given labels rule out."""
    states, unknown, barred, _ = layout.encode(given, "given", partial=True)
    fixed = ~(layout.latent | layout.auxiliary)
    if unknown is not None:
        fixed &= ~unknown
    other = np.repeat(fixed, layout.card)
    other[pointers(layout.card)[:-1][fixed] + states[fixed]] = False
    out = np.flatnonzero(other)
    return out if barred is None else np.concatenate([out, barred])


def _require_memory(prepared: PreparedShape, examples: Examples, judged: bool) -> None:
    """Refuse data that will not fit into memory; note where little is needed.

    Attributes are in memory already, and not counted again.
    """
    shapes, declaration = prepared.shapes, prepared.declaration
    needed = shapes.needed_at_most(examples, judged)
    if needed >= SMALL:
        made = footprint(declaration, examples, prepared.layout, judged, with_attributes=False)
        needed = made.needed
    if needed < SMALL and not shapes.reads_sparse:
        prepared.small.add(judged)
    if needed < SMALL or not shortage(needed):
        return
    n = examples.n
    what = f"model {declaration.name} on {n} example{'s' if n > 1 else ''}"
    instead = f"pass fewer examples (about {int(n * fitting_share(made.needed))} would fit)"
    if made.weights > 0.5 * made.needed:
        instead = "most of it are weights: declare fewer states, or a form such as POTTS that has few weights"
    elif made.scores > 0.5 * made.needed:
        instead += ", fewer states, or factors without features, whose tables all examples share"
    require_memory(made.needed, what, instead)
