"""Checks of what users give to estimators: paths, flags, labels, values."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from inspect import signature
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ssvm_dsl.errors import DataError, OptionError, TrainingError
from ssvm_dsl.files.regular_file import as_path
from ssvm_dsl.lang.arrays import NotNumbers, as_floats, describe, is_number, real_array
from ssvm_dsl.lang.model import Model
from ssvm_dsl.learning.objective import DefaultC, is_hard


def check_strength(C: Any, lam: Any, l1: Any = 0.0) -> None:
    """Refuse an invalid strength of regularisation, and both C and lam; lam may be 0 if l1 is given.

    Raises
    ------
    OptionError
        Names the expected value.
    """
    if lam is not None and not isinstance(C, DefaultC):
        raise OptionError(f"C = {C!r} and lam = {lam!r} say the same thing (lam = 1 / (C n)); leave one out")
    if not (is_number(l1) and 0 <= l1 < np.inf):
        raise OptionError(f"l1 must be a non-negative number, got {l1!r}")
    strength, name = (C, "C") if lam is None else (lam, "lam")
    pure = bool(l1) and lam is not None and is_number(lam) and lam == 0
    hard = is_hard(C, lam)
    if hard and l1:
        raise OptionError("hard margins (C = inf) take no L1 penalty; leave out l1, or choose a finite C")
    if not (is_number(strength) and 0 < strength < np.inf) and not pure and not hard:
        raise OptionError(f"{name} must be a positive number, got {strength!r}")


def check_path(path: Any, name: str) -> Path:
    """Return the path of a file that is to be written.

    Raises
    ------
    OptionError
        It is not a path, or a folder, or its folder does not exist; ``name`` is the name of the parameter.
    """
    checked = as_path(path, name)
    if checked.is_dir():
        raise OptionError(f"{name} is the path of a file, got the folder {str(checked)!r}")
    if not checked.parent.is_dir():
        raise OptionError(f"{name}: there is no folder {str(checked.parent)!r} for {checked.name!r}")
    return checked


def check_flag(value: Any, name: str) -> None:
    """Refuse what is neither True nor False.

    Raises
    ------
    OptionError
        Names the parameter.
    """
    if not isinstance(value, bool | np.bool_):  # an array is neither
        raise OptionError(f"{name} must be True or False, got {value!r}")


def check_choice(value: Any, known: Iterable[str], name: str) -> None:
    """Refuse a value that is not one of the words that a parameter may be.

    Raises
    ------
    OptionError
        Lists them.
    """
    words = list(known)
    if not isinstance(value, str) or value not in words:  # an array would be compared entry by entry
        raise OptionError(f"{name} must be one of {', '.join(map(repr, words))}, got {value!r}")


def is_default(svm: Any, name: str) -> bool:
    """Return whether a parameter has its default value."""
    return bool(getattr(svm, name) == signature(type(svm)).parameters[name].default)


def check_validation(svm: Any, held_out: Any) -> None:
    """Refuse held-out examples that are none, and parameters that do not go with them, or only with them.

    Raises
    ------
    OptionError
        Names the expected value.
    """
    if held_out is None:
        if not is_default(svm, "patience"):
            raise OptionError(f"patience={svm.patience} is for fit(..., validation=(...)), which is not given")
        if svm.scoring is not None:
            raise OptionError(f"scoring={svm.scoring!r} is for fit(..., validation=(...)), which is not given")
        return
    if not isinstance(held_out, tuple | list) or len(held_out) != 2:
        raise OptionError(f"validation must be a pair, what score takes, e.g. (X, Y); got {describe(held_out)}")
    if svm.checkpoint is not None:
        raise OptionError("a fit with validation examples keeps no checkpoints; leave one of them out")


def check_labels(Y: Sequence[Any] | None, expected: str, hint: str) -> Sequence[Any]:
    """Return the labels; refuse to do without.

    Raises
    ------
    DataError
        They do not exist; the message says what to do.
    """
    if Y is None:
        raise DataError("Y", expected=expected, found="None", hint=hint)
    return Y


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
    if len(pair) != 2 or not all(is_number(one) and 0 <= one < np.inf for one in pair):
        text = f"epsilon must be a non-negative number, or two of them (below, above), got {epsilon!r}"
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
        numbers = as_floats(real_array(values))
    except NotNumbers:
        listed = isinstance(values, list | tuple | np.ndarray)
        strange = next((i for i, value in enumerate(values) if not is_number(value)), None) if listed else None
        if strange is None:
            raise DataError("values", expected=expected, found=repr(values)) from None
        hint = "" if isinstance(values[strange], str) else "labellings come after the values: fit(X, values, Y)"
        came = repr(values[strange])
        raise DataError("values", example=strange, expected="a finite number", found=came, hint=hint) from None
    if numbers.shape != (n,):
        raise DataError("values", expected=expected, found=f"shape {numbers.shape}")
    wrong = np.flatnonzero(~np.isfinite(numbers))
    if len(wrong):
        i = int(wrong[0])
        raise DataError("values", example=i, expected="a finite number", found=repr(numbers[i].item()))
    return numbers
