"""What training data do not tell: examples without a known label, and classes that no known label has."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ssvm_dsl.array_types import I64, Bools
from ssvm_dsl.callers import warn_caller
from ssvm_dsl.compiler import Grounded
from ssvm_dsl.compiler.labels.structures import structure_of
from ssvm_dsl.ir.ragged import pointers
from ssvm_dsl.lang.outputs.labels import Label

#: So many examples or classes are listed.
FEW = 5


def warn_of_unknown(grounded: Grounded) -> None:
    """Warn of what nothing can be learnt about: such data are often read in another way than they were meant.

    Parameters
    ----------
    grounded : Grounded
        With labels.
    """
    for text in (_unlabelled(grounded), *(_unseen(grounded, label) for label in grounded.declaration.outputs)):
        if text:
            warn_caller(text)


def _unlabelled(grounded: Grounded) -> str:
    """Return which examples have variables, but no known label; empty where there are none."""
    if grounded.ignored is None:
        return ""
    layout = grounded.layout
    own = ~(layout.latent | layout.auxiliary)
    there, known = (_per_example(layout.var_ptr, which) for which in (own, own & ~grounded.ignored))
    empty = np.flatnonzero((there > 0) & (known == 0))
    if not len(empty):
        return ""
    return f"Y: {len(empty)} of {layout.n} examples have no known label ({_listed(empty.tolist())}): they teach nothing"


def _per_example(var_ptr: I64, which: Bools) -> I64:
    """Return the number of variables of each example among those of a mask."""
    return np.diff(pointers(which.astype(np.int64))[var_ptr])


def _unseen(grounded: Grounded, label: Label) -> str:
    """Return which classes of a label no known label has, where that is suspicious: empty elsewhere.

    Classes are declared, and small data often lack some of them.  It is suspicious where some labels are not known, or
    all that are known are of one class.
    """
    structure = structure_of(label)
    if structure is not None and not structure.has_classes:
        return ""
    assert grounded.truth is not None
    variables = grounded.layout.variables(label)
    states: NDArray[np.int32] = grounded.truth[variables]
    hidden = np.zeros(0, dtype=bool) if grounded.ignored is None else grounded.ignored[variables]
    states = states[~hidden] if len(hidden) else states
    unseen = np.flatnonzero(np.bincount(states, minlength=label.n_states) == 0)
    if len(states) < 2 or not len(unseen) or (len(unseen) < label.n_states - 1 and not hidden.any()):
        return ""
    names = [label.classes[state] if label.classes else int(state) for state in unseen.tolist()]
    one = len(names) == 1
    which = f"class {names[0]!r}" if one else f"{len(names)} of the {label.n_states} classes ({_listed(names)})"
    learnt = f"that {'it is' if one else 'they are'} wrong"
    return f"label '{label.name}': no known label in Y has {which}; the model can learn only {learnt}"


def _listed(items: list[int] | list[str | int]) -> str:
    """Return the first few of a list, as text."""
    return ", ".join(map(repr, items[:FEW])) + (", ..." if len(items) > FEW else "")
