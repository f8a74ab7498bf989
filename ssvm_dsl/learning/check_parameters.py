"""What the parameters of estimators must be."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ssvm_dsl.errors import DataError, OptionError, TrainingError
from ssvm_dsl.ir.need import Guarantee
from ssvm_dsl.lang.model import Model

if TYPE_CHECKING:
    from ssvm_dsl.learning.learner import Learner


def check_parameters(svm: Learner) -> None:
    """Refuse parameters that make no sense before anything is computed.

    Raises
    ------
    OptionError
        Names the parameter, what was expected and what came.
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


def check_loss(model: type[Model]) -> None:
    """Refuse a model without a loss.

    Raises
    ------
    TrainingError
        It declares none.
    """
    if model.declaration.loss is None:
        raise TrainingError(f"model {model.__name__} declares no loss; add e.g. loss = Hamming(y)")


def check_epsilon(epsilon: Any) -> tuple[float, float]:
    """Return (below, above) of a width, or of a pair of them.

    Raises
    ------
    OptionError
        It is neither.
    """
    pair = tuple(epsilon) if isinstance(epsilon, tuple | list) else (epsilon, epsilon)
    if len(pair) != 2 or not all(_is_number(one) and 0 <= one < np.inf for one in pair):
        text = f"epsilon is a non-negative number, or two of them (below, above), got {epsilon!r}"
        raise OptionError(text)
    return float(pair[0]), float(pair[1])


def check_values(values: Any, n: int) -> NDArray[np.float64]:
    """Return the values of n examples.

    Raises
    ------
    DataError
        They are not n finite numbers.
    """
    try:
        found = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError) as err:
        raise DataError("values", expected=f"{n} numbers, one for each example", found=str(err)) from None
    if found.shape != (n,):
        raise DataError("values", expected=f"{n} numbers, one for each example", found=f"shape {found.shape}")
    wrong = np.flatnonzero(~np.isfinite(found))
    if len(wrong):
        i = int(wrong[0])
        raise DataError("values", example=i, expected="a finite number", found=repr(found[i].item()))
    return found


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float | np.integer | np.floating)
