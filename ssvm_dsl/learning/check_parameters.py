"""What the parameters of :class:`~ssvm_dsl.StructuredSVM` must be."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ssvm_dsl.errors import OptionError, TrainingError
from ssvm_dsl.ir.need import Guarantee
from ssvm_dsl.lang.model import Model

if TYPE_CHECKING:
    from ssvm_dsl.learning.estimator import StructuredSVM


def check_parameters(svm: StructuredSVM) -> None:
    """Refuse parameters that make no sense before anything is computed.

    Raises
    ------
    OptionError
        Names the parameter, what was expected and what came.
    TrainingError
        The model declares no loss.
    """
    if not (isinstance(svm.model, type) and issubclass(svm.model, Model)):
        raise OptionError(f"model is a Model class, got {svm.model!r}")
    strength, name = (svm.C, "C") if svm.lam is None else (svm.lam, "lam")
    if not (_is_number(strength) and 0 < strength < np.inf):
        raise OptionError(f"{name} is a positive number, got {strength!r}")
    for name in ("max_passes", "max_seconds"):
        value = getattr(svm, name)
        if not (_is_number(value) and value > 0) and not (name == "max_seconds" and value is None):
            raise OptionError(f"{name} is a positive number, got {value!r}")
    for name, least in (("n_threads", 1), ("random_state", 0), ("patience", 1)):
        value = getattr(svm, name)
        if value is not None and not (isinstance(value, int | np.integer) and value >= least):
            raise OptionError(f"{name} is None or an int of at least {least}, got {value!r}")
    if not (_is_number(svm.power) and 1 <= svm.power < np.inf):
        raise OptionError(f"power is a number of at least 1, got {svm.power!r}")
    if not (_is_number(svm.checkpoint_seconds) and svm.checkpoint_seconds >= 0):
        raise OptionError(f"checkpoint_seconds is a non-negative number, got {svm.checkpoint_seconds!r}")
    if svm.guarantee not in [one.value for one in Guarantee]:
        known = ", ".join(one.value for one in Guarantee)
        raise OptionError(f"guarantee is one of {known}, got {svm.guarantee!r}")
    if not (_is_number(svm.tol) and svm.tol >= 0):
        raise OptionError(f"tol is a non-negative number, got {svm.tol!r}")
    if svm.model.declaration.loss is None:
        raise TrainingError(f"model {svm.model.__name__} declares no loss; add e.g. loss = Hamming(y)")


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float | np.integer | np.floating)
