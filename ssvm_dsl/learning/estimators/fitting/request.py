"""``TrainingTarget`` and ``FitRequest``: the objective of a fit, and what its caller asks for."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from ssvm_dsl.compiler import Grounded
from ssvm_dsl.deadline import Deadline
from ssvm_dsl.ir.loss import LossTerm
from ssvm_dsl.learning.driver.times import Times
from ssvm_dsl.learning.risks.kinds import Risk


@dataclass(frozen=True, eq=False)
class TrainingTarget:
    """The objective on a grounded data set.

    Parameters
    ----------
    risk : Risk
    loss : LossTerm
        The loss, with the truth.
    facts : mapping
        What else the risk depends on, as plain data and arrays: a checkpoint is continued with the same only.
    """

    risk: Risk
    loss: LossTerm
    facts: Mapping[str, Any] = field(default_factory=dict)


#: Returns what is to be minimised on a grounded data set.
TargetOf = Callable[[Grounded], TrainingTarget]


@dataclass(frozen=True, eq=False)
class FitRequest:
    """What one call of ``fit`` was given.

    Parameters
    ----------
    target_of : callable
    sample_weight : array_like or None
    held_out : pair or None
        Examples for ``validation``.
    deadline : Deadline
        Its time began with the call.
    times : Times
    """

    target_of: TargetOf
    sample_weight: Any
    held_out: Any
    deadline: Deadline
    times: Times = field(default_factory=Times)
