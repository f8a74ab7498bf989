"""A hard formula that has a table, as the joint states that it rules out."""

from __future__ import annotations

import numpy as np

from ssvm_dsl.lang.constraints.forbidden import Forbid
from ssvm_dsl.lang.rules.formulas import Formula, truth_table
from ssvm_dsl.lang.rules.rule_patterns import RulePattern


class RuledOut(Forbid):
    """The joint states for which a formula is false.

    Parameters
    ----------
    formula : Formula
        An attribute of a model.
    """

    formula: Formula

    def __init__(self, formula: Formula) -> None:
        target = RulePattern(formula)
        true = truth_table(formula, target.references)
        states = tuple(np.flatnonzero(~true).tolist())
        self._fill([], target=target, forbidden=states, ref=None, places=(), formula=formula)
        object.__setattr__(self, "name", formula.name)
        object.__setattr__(self, "line", formula.line)
