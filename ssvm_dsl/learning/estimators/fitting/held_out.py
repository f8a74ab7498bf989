"""The score on held-out examples that ends a fit early."""

from __future__ import annotations

from typing import Any

import numpy as np

from ssvm_dsl.array_types import F64
from ssvm_dsl.compiler import Grounded
from ssvm_dsl.deadline import Deadline
from ssvm_dsl.errors import DataError, OutOfTime
from ssvm_dsl.learning.driver.validation import Validation
from ssvm_dsl.learning.estimator import clone
from ssvm_dsl.learning.estimators.predictor import Predictor
from ssvm_dsl.learning.estimators.scoring import scorer_of
from ssvm_dsl.learning.shards.fit import ShardedData


def validation_of(
    learner: Predictor, grounded: Grounded | ShardedData, held_out: Any, patience: int, deadline: Deadline
) -> Validation | None:
    """Return what watches the score of a learner on held-out examples, if there are any.

    ``patience`` is the number of looks without a better score that end the fit.

    Raises
    ------
    DataError
        Bad held-out data.
    """
    if held_out is None:
        return None
    probe = clone(learner)
    probe._fitted, probe._blocks = grounded.fitted, grounded.parameters.blocks
    scorer = scorer_of(probe)

    def score(w: F64) -> float:
        probe.coef_ = w
        return scorer(probe, *held_out)

    probe._deadline = deadline
    try:
        score(np.zeros(grounded.parameters.dim))  # bad validation data are refused before training
    except DataError as err:
        raise err.of("validation") from err.__cause__
    except OutOfTime:
        pass  # the fit ends before it asks for a score
    return Validation(score, patience)
