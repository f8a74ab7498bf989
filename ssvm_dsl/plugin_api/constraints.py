"""What kinds of hard constraints implement (``ConstraintSpec``)."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

import numpy as np

from ssvm_dsl.ir.constraints import ConstraintRules
from ssvm_dsl.ir.program import Program
from ssvm_dsl.ir.theta import Theta


@runtime_checkable
class ConstraintKind(ConstraintRules, Protocol):
    """What there is to know about one kind of constraint; the factory of a ``ConstraintSpec`` makes one."""

    def problem(self, rng: np.random.Generator) -> tuple[Program, Theta]:
        """Return a small random problem with constraints of this kind, for the conformance kit.

        It has a few examples of at most about a thousand labellings each.  Some should have no labelling, some no
        constraint, and some constraints no literal where the kind allows that.
        """
