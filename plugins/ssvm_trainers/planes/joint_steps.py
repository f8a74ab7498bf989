"""Steps on the dual weights of all examples at once, which ``bcfw`` adds to visits where there are few weights.

Few weights tie all examples to each other: a step on one example alone undoes the progress of others, and visits
oscillate.  There the dual over the kept planes of all examples is raised with aggregated
planes instead (Joachims, Finley and Yu 2009, section 5.2): an aggregated plane takes the best kept plane of every
example at some weights, the first one is that of the dual weights so far, and the best combination of them
(:mod:`ssvm_trainers.cutting.aggregated_qp`) is a combination of the kept planes, so it is dual weights again.

A climb costs as much as many visits, so it has a budget (:class:`JointBudget`): never more operations than the visits
and oracle calls before it, and less and less often where visits gain more for each operation.  Operations are counted,
so that results do not depend on the clock.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, NamedTuple

import numpy as np

from ssvm_dsl.ir import F64, I64
from ssvm_dsl.plugin_api import Objective
from ssvm_trainers.cutting.aggregated_qp import INNER, AggregatedModel, Stabilizer
from ssvm_trainers.planes.cache import Cache, places
from ssvm_trainers.shared.resumable import COUNTS, Stateful

#: Most aggregated planes of one climb.
MOST_CUTS = 100

#: Costs in multiply-adds: that of an aggregated plane in Python, besides products of vectors, and that of
#: the call of a kernel from Python.
CUT_WORK, KERNEL_WORK = 2.0**18, 2.0**16

#: A climb begins when the budget suffices for this number of aggregated planes.
LEAST_CUTS = 8

#: The longest wait for a climb, in budgets of a climb, where the last ones gained less than visits.
LONGEST_WAIT = 64.0


class JointBudget(Stateful):
    """The allowed cost of joint steps: as much as the visits and oracle calls since the last ones.

    Where a climb gains less for each operation than the visits before it did, the next one waits twice as long, and is
    of the shortest length; else it waits half as long.
    """

    earned: Annotated[float, COUNTS]  #: operations of visits and oracle calls that no climb has used up
    gained: Annotated[float, COUNTS]  #: gain of the visits since the last climb
    wait: Annotated[float, COUNTS]  #: budgets of a climb to wait for
    spent: Annotated[float, COUNTS]  #: operations of all climbs
    total: Annotated[float, COUNTS]  #: operations of all visits and oracle calls

    def __init__(self) -> None:
        self.earned = self.gained = self.spent = self.total = 0.0
        self.wait = 1.0

    @property
    def share(self) -> float:
        """The share of all operations that were joint steps."""
        return self.spent / max(self.spent + self.total, 1.0)

    def earn(self, operations: float, gain: float) -> None:
        """Record what visits and oracle calls cost, and by how much they raised the dual value."""
        self.earned += operations
        self.total += operations
        self.gained += max(gain, 0.0)

    def allows(self, n_rows: int, dim: int) -> float:
        """Return the allowed cost of a climb over ``n_rows`` planes now; 0 where it has to wait."""
        least = LEAST_CUTS * cut_work(n_rows, dim, LEAST_CUTS)
        if self.earned < self.wait * least:
            return 0.0
        return self.earned if self.wait == 1.0 else least

    def spend(self, operations: float, gain: float) -> None:
        """Record what a joint step cost, and by how much it raised the dual value."""
        worth = gain * self.earned >= self.gained * operations
        self.wait = max(1.0, 0.5 * self.wait) if worth else min(2.0 * self.wait, LONGEST_WAIT)
        self.spent += operations
        self.earned, self.gained = max(self.earned - operations, 0.0), 0.0


def cut_work(n_rows: int, dim: int, n_cuts: int) -> float:
    """Return the operations of one more aggregated plane, when there are ``n_cuts``."""
    return CUT_WORK + 3.0 * n_rows * dim + float(n_cuts) ** 3


class KeptRows(NamedTuple):
    """The kept planes of all examples as vectors, example by example.

    Parameters
    ----------
    owner : ndarray of int64, shape (m,)
        Never falling.
    loss : ndarray of float64, shape (m,)
    psi : ndarray of float64, shape (m, dim)
        The plane at w is ``loss - psi @ w``.
    alpha : ndarray of float64, shape (m,)
        Dual weight of each plane; the truth of each example has the rest to 1.
    """

    owner: I64
    loss: F64
    psi: F64
    alpha: F64

    @classmethod
    def of(cls, cache: Cache) -> KeptRows:
        """Return the planes of a cache that keeps their vectors."""
        there = places(cache)
        return cls(np.nonzero(there)[0], cache.loss[there], cache.dense.psi[:, :-1][there], cache.alpha[there])


class Climb(NamedTuple):
    """The result of a climb.

    Parameters
    ----------
    alpha : ndarray of float64, shape (m,)
        Dual weights of the planes, not worse than those at first.
    w : ndarray of float64, shape (dim,)
        Weights of low objective.
    operations : float
        The cost.
    gap : float
        How far the objective over the planes at ``w`` is above the dual value.
    """

    alpha: F64
    w: F64
    operations: float
    gap: float


def climb(
    objective: Objective, share: F64, rows: KeptRows, enough: float, pause: Callable[[], None] = lambda: None,
    start: F64 | None = None, most: float = np.inf,
) -> Climb:  # fmt: skip
    """Raise the dual value over the kept planes, up to nearly the best one or the end of the budget.

    Parameters
    ----------
    objective : Objective
    share : ndarray of float64, shape (n,)
        Share of each example in the mean risk.
    rows : KeptRows
    enough : float
        How far the dual value may stay below the best.
    pause : callable
        Checks the clock; called once for each cut.
    start : ndarray of float64, shape (dim,), optional
        The weights to look at first; those of the dual weights by default.
    most : float
        Operations at most; the first aggregated plane is free.
    """
    model = AggregatedModel(objective, keep=MOST_CUTS + 1)  # no plane is dropped
    stabilizer = Stabilizer(stabilise=True)
    first = np.flatnonzero(np.diff(rows.owner, prepend=-1))
    lengths = np.diff(first, append=len(rows.owner))
    of_owner = share[rows.owner[first]]
    mixed = share[rows.owner] * rows.alpha
    model.add(mixed @ rows.psi, float(mixed @ rows.loss))
    model.solve()
    n_rows, dim = len(rows.loss), len(model.w)
    cuts, operations = [], cut_work(n_rows, dim, 0)
    w = model.w if start is None else start
    for number in range(MOST_CUTS):
        pause()
        values = rows.loss - rows.psi @ w
        top = np.maximum.reduceat(values, first)
        best = np.flatnonzero(values == np.repeat(top, lengths))
        best = best[np.flatnonzero(np.diff(rows.owner[best], prepend=-1))]
        above = top > 0.0
        cuts.append(best[above])
        primal = objective.regularizer(w) + float(of_owner[above] @ top[above])
        coef = of_owner[above]
        model.add(coef @ rows.psi[cuts[-1]], float(coef @ rows.loss[cuts[-1]]))
        model.solve(INNER * max(min(stabilizer.lowest, primal) - model.dual, 0.0))
        w = stabilizer.next(w, primal, model.w)
        operations += cut_work(n_rows, dim, number + 1)
        if stabilizer.lowest - model.dual <= enough or operations >= most:
            break
    shares = model.shares
    alpha = shares[1] * rows.alpha
    for cut, part in zip(cuts, shares[2:], strict=True):
        alpha[cut] += part
    total = np.add.reduceat(alpha, first)
    alpha /= np.repeat(np.maximum(total, 1.0), lengths)  # above 1 by rounding only
    assert stabilizer.best is not None
    return Climb(alpha, stabilizer.best, operations, stabilizer.lowest - model.dual)
