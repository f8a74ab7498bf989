"""What parameters and inputs of a ``CountingPredictor`` must be."""

from __future__ import annotations

from typing import Any

import numpy as np

from ssvm_dsl.array_types import F64
from ssvm_dsl.errors import DataError, OptionError
from ssvm_dsl.lang.arrays import NotNumbers, as_floats, is_number, real_array
from ssvm_dsl.learning.counting.outputs.output_spaces import OutputSpace, chosen_decoder
from ssvm_dsl.learning.counting.report import CERTIFICATES
from ssvm_dsl.learning.estimators.parameters import check_choice, check_strength

SOLVERS = ("ncg", "sgd", "closed-form")
STEP_RULES = ("decay", "smd")


def check_predictor(predictor: Any) -> None:
    """Refuse parameters that make no sense.

    Raises
    ------
    OptionError
        Names the parameter, the expected value and the given one.
    """
    if not isinstance(predictor.space, OutputSpace):
        raise OptionError(f"space must be an OutputSpace such as Subsets(5) or Dicycles(10), got {predictor.space!r}")
    check_strength(predictor.C, predictor.lam)
    if np.inf == predictor.C:
        raise OptionError("C must be a finite number: counting predictors have no hard margins")
    chosen_decoder(predictor.space, predictor.decoder)
    choices = (("solver", SOLVERS), ("certificate", ("auto", *CERTIFICATES)), ("step_rule", STEP_RULES))
    for name, known in choices:
        check_choice(getattr(predictor, name), known, name)
    for name in ("max_iter", "n_passes"):
        value = getattr(predictor, name)
        if not (is_number(value) and isinstance(value, int | np.integer) and value >= 1):
            raise OptionError(f"{name} must be a whole number of at least 1, got {value!r}")
    for name, optional in (("step", False), ("meta_step", False), ("max_seconds", True), ("truncation", True)):
        value = getattr(predictor, name)
        if not (optional and value is None) and not (is_number(value) and 0 < value < np.inf):
            raise OptionError(f"{name} must be a positive number, got {value!r}")
    if isinstance(predictor.truncation, float) and predictor.truncation > 1.0:
        raise OptionError(f"truncation must be a whole number, or a share of at most 1.0; got {predictor.truncation!r}")
    delay: Any = predictor.delay
    if not (isinstance(delay, str) and delay == "auto") and not (is_number(delay) and 0 <= delay < np.inf):
        raise OptionError(f"delay is 'auto' or a number of at least 0, got {delay!r}")
    if not (is_number(predictor.tol) and predictor.tol >= 0):
        raise OptionError(f"tol must be a non-negative number, got {predictor.tol!r}")


def inputs_of(X: Any) -> F64:
    """Return the inputs as an array.

    Raises
    ------
    DataError
        They are no table of finite numbers.
    """
    expected = "a table of finite numbers, shape (n, p)"
    try:
        inputs = as_floats(real_array(X))
    except NotNumbers as err:
        raise DataError("X", expected=expected, found=err.found, hint=err.hint) from None
    if inputs.ndim != 2 or not inputs.size:
        raise DataError("X", expected=expected, found=f"shape {inputs.shape}")
    wrong = np.flatnonzero(~np.isfinite(inputs).all(axis=1))
    if len(wrong):
        raise DataError("X", example=int(wrong[0]), expected="finite numbers", found=repr(inputs[wrong[0]].tolist()))
    return inputs
