"""``Given``: scores that come from elsewhere and have no weight."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

from ssvm_dsl.lang.arrays import NotNumbers, as_floats, number_text, real_array
from ssvm_dsl.lang.features.sources import JointFeature, has_sliced, positions_of
from ssvm_dsl.lang.inputs import Source
from ssvm_dsl.lang.outputs.about_target import ScoredTarget, table_mistakes
from ssvm_dsl.lang.outputs.labels import Label, Target
from ssvm_dsl.lang.outputs.targets import as_target
from ssvm_dsl.lang.patterns.pattern import Pattern
from ssvm_dsl.lang.patterns.references import LabelAt
from ssvm_dsl.lang.rules.rule_patterns import RuleTarget, RuleTruth
from ssvm_dsl.lang.symbols import Mistake, got


@dataclass(frozen=True, init=False, repr=False)
class Given(ScoredTarget):
    """Scores with no weight: logits of a network, log-probabilities, prior costs.

    They are added to the scores of the factors unchanged; ``-inf`` rules a state out.

    Parameters
    ----------
    target : Label or Target
        ``y``, ``y.is_(k)``, ``y.at(0)``, ``chain(y)`` and so on, as for :class:`Factor`.
    scores : Input, feature, or array
        An input (or another dense feature, fitted ones included: ``Standardized(logits)``) with a number for each
        joint state of the target (one for ``y.is_(k)``, and for each position of a pointer label and what it points
        to), at the positions that features of a factor have; or an array of the shape of the joint states, the same
        for all.

    Examples
    --------
    >>> net = Given(y, scores=logits)                    # logits = Input(T, 26)
    >>> arcs = Given(head, scores=matrix)                # head = Label(T, over=T), matrix = Input(T, T)
    >>> bigrams = Given(chain(y), scores=np.log(counts))  # the same (26, 26) table everywhere
    """

    table: tuple[float, ...] | None

    joint, observed, per, n_units = False, False, (), 1  # as of a Factor

    def __init__(self, target: Label | Target | LabelAt | Sequence[Any], scores: Any, where: Any = None) -> None:
        mistakes: list[Mistake] = []
        goal = as_target(target, where)
        n, source, table = 1 if of_one_number(goal) else prod(goal.cards), None, None
        if isinstance(scores, Source) and (scores.sparse or isinstance(scores, JointFeature)):
            mistakes.append(got("Given: scores must be a dense Input, another dense feature, or an array", scores))
        elif isinstance(scores, Source):
            source, width = scores, scores.width or n
            if width != n and not (width == 1 and _of_pairs(goal)) and not goal.mistakes:
                words = f"{number_text(n)} numbers, one for each joint state of the target"
                if _of_pairs(goal):
                    words = "one number for each position and what it points to, as of Input(T, T)"
                mistakes.append(f"Given: expected {words}, {number_text(width)} are declared")
        else:
            table = self._read_table(goal, scores, n, mistakes)
        mistakes += [f"Given: {text}" for text in table_mistakes(goal)]
        if goal.label.pointer and goal.arity > 1 and not goal.mistakes and not isinstance(goal, RuleTarget):
            mistakes.append("Given: of several pointers there are no given scores; use a Factor with them as features")
        if has_sliced(source):
            mistakes.append("Given: scores are kept; a Feature of them has no stored=False")
        mistakes = [*goal.mistakes, *mistakes]
        if isinstance(goal, Pattern) and source is not None:
            goal = goal.reading(positions_of(source))
        self._fill(mistakes, target=goal, features=source, table=table)

    def __set_name__(self, owner: type, name: str) -> None:
        super().__set_name__(owner, name)
        if isinstance(self.target, RuleTruth):
            self.target.circuit.rename(self.name)

    @staticmethod
    def _read_table(goal: Target, scores: Any, n: int, mistakes: list[Mistake]) -> tuple[float, ...] | None:
        """Return an array of scores as plain numbers."""
        shape = () if of_one_number(goal) else goal.cards
        try:
            table = as_floats(real_array(scores))
        except NotNumbers as err:
            mistakes.append(f"Given: scores must be an Input, a feature or an array of numbers, found {err.found}")
            return None
        if table.shape not in (shape, (n,)):  # or one after the other, as files have them
            if not goal.mistakes:
                mistakes.append(f"Given: an array of scores has the shape {shape}, got {table.shape}")
        elif np.isnan(table).any() or (table == np.inf).any():
            mistakes.append("Given: scores are numbers or -inf, not nan or +inf")
        else:
            return tuple(table.ravel().tolist())
        return None

    @property
    def only_state(self) -> int | None:
        """The state that scores are for: that of ``y.is_(k)``, or that a pointer is there; ``None`` for all states."""
        if self.target.kind == "indicator":
            assert self.target.state is not None
            return self.target.label.index(self.target.state) or 0
        alone = self.features is not None and self.features.width == 1
        return 1 if alone and _of_pairs(self.target) else None

    @property
    def note(self) -> str:
        """``"no weights"``, for ``print(Model)``."""
        return "no weights"

    def arguments(self) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Return the constructor's arguments."""
        scores = self.features if self.table is None else list(self.table)
        target, where = self.written()
        return (target,), {"scores": scores} | where


def of_one_number(target: Target) -> bool:
    """Whether there is one score for each factor: that of a class, or of a rule that is true."""
    return target.kind == "indicator" or (isinstance(target, RuleTarget) and target.rule.op != "Count")


def _of_pairs(target: Target) -> bool:
    """Whether a target is each position of a pointer label and what it points to."""
    return target.kind == "each" and target.label.pointer
