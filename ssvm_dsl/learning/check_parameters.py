"""What the parameters of estimators must be."""

from __future__ import annotations

from os import PathLike
from pathlib import Path
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
    _check_path(svm.checkpoint)
    if svm.guarantee not in [one.value for one in Guarantee]:
        known = ", ".join(one.value for one in Guarantee)
        raise OptionError(f"guarantee is one of {known}, got {svm.guarantee!r}")
    if not (_is_number(svm.tol) and svm.tol >= 0):
        raise OptionError(f"tol is a non-negative number, got {svm.tol!r}")


def _check_path(path: Any) -> None:
    """Refuse a checkpoint that could not be written once a fit is under way."""
    if path is None:
        return
    if not isinstance(path, str | PathLike):
        raise OptionError(f"checkpoint is None or the path of a file, got {path!r}")
    if Path(path).is_dir():
        raise OptionError(f"checkpoint is the path of a file, got the folder {str(path)!r}")
    if not Path(path).parent.is_dir():
        raise OptionError(f"checkpoint: there is no folder {str(Path(path).parent)!r} for {Path(path).name!r}")


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
    expected = f"{n} numbers, one for each example"
    if values is None:
        raise DataError("values", expected=expected, found="None")
    try:
        found = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError):
        listed = isinstance(values, list | tuple | np.ndarray)
        strange = next((i for i, value in enumerate(values) if not _is_number(value)), None) if listed else None
        if strange is None:
            raise DataError("values", expected=expected, found=repr(values)) from None
        hint = "" if isinstance(values[strange], str) else "labellings come after the values: fit(X, values, Y)"
        came = repr(values[strange])
        raise DataError("values", example=strange, expected="a finite number", found=came, hint=hint) from None
    if found.shape != (n,):
        raise DataError("values", expected=expected, found=f"shape {found.shape}")
    wrong = np.flatnonzero(~np.isfinite(found))
    if len(wrong):
        i = int(wrong[0])
        raise DataError("values", example=i, expected="a finite number", found=repr(found[i].item()))
    return found


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float | np.integer | np.floating)
