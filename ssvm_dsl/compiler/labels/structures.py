"""The kinds of labels; a new one is a module beside this, and a line here."""

from __future__ import annotations

from ssvm_dsl.compiler.labels.class_labels import ClassLabels
from ssvm_dsl.compiler.labels.label_structure import LabelStructure
from ssvm_dsl.compiler.labels.pointers import PointerLabels
from ssvm_dsl.compiler.labels.segments import SegmentLabels
from ssvm_dsl.compiler.labels.trees import TreeLabels
from ssvm_dsl.lang.constraints.logic import Constraint
from ssvm_dsl.lang.declaration import Declaration
from ssvm_dsl.lang.outputs.labels import Label

#: By ``Label.structure``: ``None`` for labels whose values are classes of positions.
STRUCTURES: dict[str | None, LabelStructure] = {
    None: ClassLabels(), "pointers": PointerLabels(), "segments": SegmentLabels(), "trees": TreeLabels(),
}  # fmt: skip


def structure_of(label: Label) -> LabelStructure:
    """Return what a label brings."""
    return STRUCTURES[label.structure]


def declared_words(declaration: Declaration) -> str:
    """Return the structures that plans and reports speak of; empty for labels that are variables of the program."""
    parts = []
    for label in declaration.outputs:
        if words := structure_of(label).words(label):
            parts.append(f"{words} (label '{label.name}')")
    if not parts:
        return ""
    own = [f"{one.name} = {one!r}" for one in declaration.symbols if isinstance(one, Constraint)]
    return " and ".join([*parts, *own])


def joined_words(declaration: Declaration) -> str:
    """Return the targets of factors that join variables, each once, in the order of the declaration."""
    targets = [factor.target for factor in declaration.factors if factor.target.arity > 1]
    return ", ".join(dict.fromkeys(map(repr, targets)))
