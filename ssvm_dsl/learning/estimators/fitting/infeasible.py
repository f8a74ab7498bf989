"""Treatment of labels that the model rules out: refused, left out, or replaced by the nearest allowed labels."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from ssvm_dsl.array_types import I64
from ssvm_dsl.callers import warn_caller
from ssvm_dsl.compiler import Grounded
from ssvm_dsl.compiler.inputs import check_sequence
from ssvm_dsl.errors import DataError
from ssvm_dsl.inference.diagnosis.true_labels import infeasible_examples, nearest_truth
from ssvm_dsl.lang.declaration import Declaration
from ssvm_dsl.learning.estimators.parameters import NEAREST
from ssvm_dsl.learning.objective import check_sample_weight

#: So many examples are listed.
FEW = 5


@dataclass(frozen=True, eq=False)
class Trainable:
    """Data that can be learnt from.

    Parameters
    ----------
    X, Y, sample_weight
        As for ``fit``; Y may be encoded already.
    examples : ndarray of int64
        The examples whose labels were ruled out, by their numbers in the user's data.
    """

    X: Any
    Y: Any
    sample_weight: Any
    examples: I64


def trainable(
    ground: Callable[[], Grounded],
    declaration: Declaration,
    X: Any,
    Y: Any,
    sample_weight: Any,
    how: str,
    part: bool = False,
) -> Trainable:
    """Return the data without labels that are ruled out, and warn of them.

    Parameters
    ----------
    ground : callable
        Lays the model over all data, with all variables.
    declaration : Declaration
    X, Y, sample_weight
        As for ``fit``.
    part : bool
        Whether this is a part of the data, all of whose examples may be left out.
    how : {"drop", "nearest"}

    Notes
    -----
    Searches end with the current call (:mod:`ssvm_dsl.deadline`).
    """
    grounded = ground()
    n, examples = grounded.n_examples, infeasible_examples(grounded)
    if not len(examples):
        return Trainable(X, Y, sample_weight, examples)
    listed = ", ".join(map(str, examples[:FEW].tolist())) + (", ..." if len(examples) > FEW else "")
    some = f"Y: {len(examples)} of {n} examples have labels that the model rules out ({listed})"
    if how == NEAREST:
        nearest = nearest_truth(grounded, examples)
        changed = f"{nearest.n_changed} label{'s' * (nearest.n_changed != 1)} changed"
        if nearest.n_unproved:
            changed += f"; time was up before those of {nearest.n_unproved} examples were proved nearest"
        text = f"{some}: the nearest feasible ones are learnt ({changed})"
        warn_caller(text)
        return Trainable(X, nearest.labels, sample_weight, examples)
    if len(examples) == n and not part:
        raise DataError("Y", expected="labels that the model does not rule out", found=f"none among {n} examples")
    warn_caller(f"{some}: these examples are left out")
    kept = np.setdiff1d(np.arange(n), examples)
    weight = None if sample_weight is None else check_sample_weight(sample_weight, n, part)[kept]
    whole, labels = check_sequence(X, "X", declaration), check_sequence(Y, "Y")
    return Trainable([whole[i] for i in kept], [labels[i] for i in kept], weight, examples)
