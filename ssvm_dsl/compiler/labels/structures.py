"""The kinds of labels whose values are structures of their own; a new one is a module beside this, and a line here."""

from __future__ import annotations

from ssvm_dsl.compiler.labels.label_structure import LabelStructure
from ssvm_dsl.compiler.labels.pointers import PointerLabels
from ssvm_dsl.compiler.labels.segments import SegmentLabels
from ssvm_dsl.compiler.labels.trees import TreeLabels
from ssvm_dsl.lang.outputs.labels import Label

#: By ``Label.structure``.
STRUCTURES: dict[str, LabelStructure] = {
    "pointers": PointerLabels(), "segments": SegmentLabels(), "trees": TreeLabels(),
}  # fmt: skip


def structure_of(label: Label) -> LabelStructure | None:
    """Return what a label brings; ``None`` for labels whose values are classes of positions."""
    return None if label.structure is None else STRUCTURES[label.structure]
