"""The declaration of a model, and a description of structures whose program looks different: segments, pointers."""

from __future__ import annotations

from ssvm_dsl.compiler.labels.structures import structure_of
from ssvm_dsl.errors import OptionError
from ssvm_dsl.lang.constraints.logic import Constraint
from ssvm_dsl.lang.declaration import Declaration


def declaration_of(model: object, name: str) -> Declaration:
    """Return the declaration of a model class, or of what is one.

    Raises
    ------
    OptionError
        It is something else; ``name`` is the function that was called with it.
    """
    declaration = model if isinstance(model, Declaration) else getattr(model, "declaration", None)
    if not isinstance(declaration, Declaration):
        raise OptionError(f"{name}: the model must be a Model class, got {model!r}")
    return declaration


def declared_words(declaration: Declaration) -> str:
    """Return the structures that plans and reports speak of; empty for labels that are variables of the program."""
    parts = []
    for label in declaration.outputs:
        if (structure := structure_of(label)) is not None:
            parts.append(f"{structure.words(label)} (label '{label.name}')")
    if not parts:
        return ""
    own = [f"{one.name} = {one!r}" for one in declaration.symbols if isinstance(one, Constraint)]
    return " and ".join([*parts, *own])


def joined_words(declaration: Declaration) -> str:
    """Return the targets of factors that join variables, each once, in the order of the declaration."""
    targets = [factor.target for factor in declaration.factors if factor.target.arity > 1]
    return ", ".join(dict.fromkeys(map(repr, targets)))
