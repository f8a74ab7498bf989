r"""Scores of one example as the integer costs that toulbar2 minimises.

A *block* is a variable or a factor; it adds one of its scores ``t`` to the score of a labelling.  With the largest
finite score of each block,

    peak = const + sum over blocks of max t          loss = max t - t >= 0          score(y) = peak - sum of losses

The solver is given ``floor(loss / unit)``.  Rounding down keeps every bound true: with ``low`` a lower bound of the sum
of the integer costs of every labelling,

    score(y) <= peak - unit * low        for all y,

and the labelling of least integer cost is within ``n_blocks * unit`` of the best score.  The unit is 1 where all scores
are integers (nothing is rounded then), and otherwise a power of two such that all losses together are about ``2**50``
units: the answer is exact to ``n_blocks * 2**-50`` of what labellings differ by.  Integers of this size pass exactly
through the double precision numbers of the solver's interface.

Forbidden entries (``-inf``, masks, other states than a clamp's) cost one more than all losses together, and the search
starts with that as its upper bound: a labelling that contains one is never accepted.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import frexp, fsum, isfinite, ldexp

import numpy as np
from numpy.typing import NDArray

from ssvm_dsl.errors import ScoreError
from ssvm_dsl.ir import Program, Theta

F64 = NDArray[np.float64]
I64 = NDArray[np.int64]
I32 = NDArray[np.int32]

#: Base-2 logarithm of the sum of all losses in units, for scores that are not integers.
BITS = 50


@dataclass(frozen=True, eq=False)
class Example:
    """The scores of one example.

    Parameters
    ----------
    cards : ndarray of int32, shape (n,)
        Number of states of each variable.
    node : ndarray of float64
        Scores of all states, variable by variable; ``-inf`` where a mask or a clamp forbids one.
    scopes : list of ndarray of int32, shape (m, r)
        For each group its factors' variables, counted from the example's first.
    tables : list of ndarray of float64, shape (m, prod(cards))
        For each group its factors' scores.
    const : float
    """

    cards: I32
    node: F64
    scopes: list[I32]
    tables: list[F64]
    const: float

    @classmethod
    def of(cls, program: Program, theta: Theta, node: F64, i: int) -> Example:
        """Return the scores of example i of a program; ``node`` is :meth:`ssvm_dsl.ir.Question.masked_node`."""
        first, last = (int(v) for v in program.var_ptr[i : i + 2])
        cards, states = program.card[first:last], node[program.state_ptr[first] : program.state_ptr[last]]
        scopes, tables = [], []
        for group, pool in zip(program.groups, theta.tables, strict=True):
            mine = slice(int(group.ptr[i]), int(group.ptr[i + 1]))
            scopes.append((group.scope[mine] - first).astype(np.int32))
            tables.append(pool[group.table[mine]])
        return cls(cards, states, scopes, tables, float(theta.const[i]))

    def score(self, labels: I32) -> float:
        """Return the score of a labelling."""
        terms = [np.array([self.const]), self.node[starts_of(self.cards) + labels]]
        for scope, table in zip(self.scopes, self.tables, strict=True):
            terms.append(table[np.arange(len(scope)), self.places(scope, labels)])
        together = np.concatenate(terms)
        return fsum(together) if np.isfinite(together).all() else -np.inf

    def places(self, scope: I32, labels: I32) -> I64:
        """Return which entry of its table each factor takes: tables are in C order."""
        place = np.zeros(len(scope), dtype=np.int64)
        for k in range(scope.shape[1]):
            place = place * self.cards[scope[:, k]] + labels[scope[:, k]]
        return place


@dataclass(frozen=True, eq=False)
class Costs:
    """What the solver is given.

    Parameters
    ----------
    node : ndarray of int64
        Costs of all states, variable by variable.
    tables : list of ndarray of int64, shape (m, prod(cards))
    unit : float
        What a cost of 1 is in scores.
    peak : float
        The score of a labelling of cost 0, if there were one; ``-inf`` where a block forbids everything.
    top : int
        The cost of what is forbidden, more than a labelling can cost.
    """

    node: I64
    tables: list[I64]
    unit: float
    peak: float
    top: int

    @classmethod
    def of(cls, example: Example) -> Costs:
        """Return the costs of an example.

        Raises
        ------
        ScoreError
            The differences of the scores are too large for double precision.
        """
        starts = starts_of(example.cards)
        node_high = np.maximum.reduceat(example.node, starts) if len(starts) else np.zeros(0)
        highs = [node_high, *(table.max(axis=1) for table in example.tables)]
        if any((high == -np.inf).any() for high in highs):
            return cls(np.zeros(0, np.int64), [], 1.0, -np.inf, 1)
        with np.errstate(over="ignore"):
            losses = [np.repeat(node_high, example.cards) - example.node]
            losses += [high[:, None] - table for high, table in zip(highs[1:], example.tables, strict=True)]
            node_worst = np.maximum.reduceat(finite(losses[0]), starts) if len(starts) else np.zeros(0)
            worst = [node_worst, *(finite(loss).max(axis=1) for loss in losses[1:])]
            total = float(sum(part.sum() for part in worst))
        peak = fsum([example.const, *np.concatenate(highs)])
        if not (isfinite(total) and isfinite(peak)):
            raise ScoreError("'toulbar2' cannot add up scores of this size in double precision")
        unit = 1.0 if all(map(whole, losses)) and total < 2.0**BITS else ldexp(1.0, max(frexp(total)[1] - BITS, -1000))
        top = int(sum(np.floor(part / unit).sum() for part in worst)) + 1
        node, *tables = (
            np.where(np.isfinite(loss), np.floor(finite(loss) / unit), top).astype(np.int64) for loss in losses
        )
        return cls(node, tables, unit, peak, top)

    def bound(self, low: int) -> float:
        """Return the upper bound of all scores that a lower bound of all integer costs gives."""
        return self.peak - self.unit * low if low < self.top else -np.inf

    def of_labels(self, example: Example, labels: I32) -> int:
        """Return the integer cost of a labelling."""
        cost = int(self.node[starts_of(example.cards) + labels].sum())
        for scope, table in zip(example.scopes, self.tables, strict=True):
            cost += int(table[np.arange(len(scope)), example.places(scope, labels)].sum())
        return cost


def starts_of(cards: I32) -> I64:
    """Return where the states of each variable start."""
    return np.cumsum(cards, dtype=np.int64) - cards


def finite(loss: F64) -> F64:
    """Return losses with 0 for the infinite ones."""
    return np.where(np.isfinite(loss), loss, 0.0)


def whole(loss: F64) -> bool:
    """Return whether all finite losses are integers."""
    return bool((np.rint(finite(loss)) == finite(loss)).all())
