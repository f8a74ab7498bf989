"""What bridges implement (``BridgeSpec``): they rewrite hard constraints, so that backends without them can answer.

A bridge looks at one example and says what stands for its constraints: auxiliary variables, and tables of joint states
that are allowed.  Programs are put together from that by the host, once for all examples that are alike, and the host
lays scores over them and brings answers back.  The variables and factors of the example stay as they are and come
first, so that labellings, marginals and lists of the best are those of the first variables, and scores, bounds and log
partitions are the same numbers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import prod
from typing import Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from ssvm_dsl.array_types import Bools
from ssvm_dsl.ir.constraints import ConstraintGroup
from ssvm_dsl.ir.program import Program
from ssvm_dsl.plugin_api.protocols import Verdict


@dataclass(eq=False)
class Rewrite:
    """The replacement of the constraints of one example.

    Each labelling that keeps the constraints has exactly one completion by states of the auxiliary variables that all
    tables (and constraints left) allow; a labelling that breaks one has none.

    Parameters
    ----------
    cards : list of int
        Number of states of each variable of the example.  Append the auxiliary variables.
    tables : list of (scope, allowed)
        Variables, and which of their joint states are allowed: ``ndarray of bool, shape (cards of the scope)``.
    constraints : list of ConstraintGroup
        Constraints of other kinds that replace the given ones, each for one example; bridges or backends take them.
    n_own : int
        Variables that are the example's own.
    """

    cards: list[int]
    tables: list[tuple[tuple[int, ...], Bools]] = field(default_factory=list)
    constraints: list[ConstraintGroup] = field(default_factory=list)
    n_own: int = field(init=False)

    def __post_init__(self) -> None:
        self.n_own = len(self.cards)

    @classmethod
    def of(cls, example: Program) -> Rewrite:
        """Return the rewriting of an example that does not rule anything out."""
        return cls(example.card.tolist())

    def variable(self, n_states: int) -> int:
        """Add an auxiliary variable and return its number."""
        self.cards.append(int(n_states))
        return len(self.cards) - 1

    def table(self, scope: Sequence[int], allowed: NDArray[np.bool_]) -> None:
        """Allow only some joint states of variables; no factor is added if all are allowed."""
        if not allowed.all():
            self.tables.append((tuple(map(int, scope)), allowed))

    def never(self) -> None:
        """Rule out every labelling, also of an example without variables."""
        self.table((self.variable(1),), np.zeros(1, dtype=bool))

    def mistakes(self) -> str:
        """Return the mistakes as text, ``""`` if there are none."""
        if any(not isinstance(one, int | np.integer) or one < 1 for one in self.cards):
            return f"variables have one state or more, got {self.cards!r:.60}"
        for scope, allowed in self.tables:
            if not scope or len(set(scope)) < len(scope) or not all(0 <= v < len(self.cards) for v in scope):
                text = f"a table is about different variables from 0 to {len(self.cards) - 1}, got {scope!r:.60}"
                repeated = len(set(scope)) < len(scope)
                return f"{text}; a variable may be in several literals of a constraint" if repeated else text
            cards = tuple(self.cards[v] for v in scope)
            if not isinstance(allowed, np.ndarray) or allowed.dtype != bool or allowed.shape != cards:
                return f"the table of the variables {scope!r:.40} must be an array of bools of shape {cards}"
        ends, card = np.array([0, len(self.cards)], dtype=np.int64), np.array(self.cards, dtype=np.int32)
        wrong = [text for group in self.constraints for text in group.mistakes(ends, card)]
        return f"a constraint that is left: {', '.join(wrong)}" if wrong else ""

    @property
    def n_entries(self) -> int:
        """Entries of all tables."""
        return sum(prod(allowed.shape) for _, allowed in self.tables)


@runtime_checkable
class Bridge(Protocol):
    """A rewriter of constraints, made by the factory of a ``BridgeSpec``.

    Both methods get one example as a separate program, without masks and with one group of constraints,
    ``example.constraints[0]``, whose kind the spec lists.  They must not depend on anything else: examples that are
    alike are rewritten once.
    """

    def check(self, example: Program) -> Verdict:
        """Return whether the bridge takes an example's constraints; the cost is about the number of table entries.

        It is to be quick: it is asked before anything is built.
        """

    def lower(self, example: Program) -> Rewrite:
        """Return the replacement of the constraints: the same labellings, each with one completion."""
