"""How many labels have classes that a model does not know, for measures that compare labels as they are."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from ssvm_dsl.compiler.labels.structures import structure_of
from ssvm_dsl.compiler.labels.unknown_labels import may_be_class
from ssvm_dsl.lang.declaration import Declaration
from ssvm_dsl.lang.outputs.variables import ClassName
from ssvm_dsl.lang.symbols import plain


def unseen_labels(declaration: Declaration, Y: Sequence[Any]) -> Counter[ClassName]:
    """Return how often labels have a class that the model does not know, by class."""
    found = Counter[ClassName]()
    for label in declaration.outputs:
        if not structure_of(label).has_classes:
            continue
        known = set(range(label.n_states) if label.classes is None else label.classes)
        for one in Y:
            for value in _values(one[label.name] if isinstance(one, Mapping) else one):
                if value is not None and value != label.unknown and value not in known and may_be_class(label, value):
                    found[value] += 1
    return found


def _values(one: Any) -> Iterator[Any]:
    """Yield the classes of a labelling; of a segment ``(start, end, class)`` its class."""
    if isinstance(one, tuple) and len(one) == 3 and all(isinstance(end, int | np.integer) for end in one[:2]):
        yield plain(one[2])
    elif isinstance(one, list | tuple | np.ndarray) and np.ndim(np.asarray(one, dtype=object)):
        for inner in one:
            yield from _values(inner)
    else:
        yield plain(one)
