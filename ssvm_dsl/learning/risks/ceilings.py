"""Upper bounds of the objective if time was left for the answers of some examples only, or of none.

A fit that a limit ends returns weights w whose objective nobody has seen.  Without the oracle it is known that no risk
is negative, and how large it can be: at most z_i at weights of 0, from the losses and the scores that no weight
multiplies, and it rises by at most as much as scores can,

    risk_i(w)  <=  z_i + q_i ,        q_i = r_i sum_{factors of i} |x| max |basis| |w| ,

where r_i says how many labellings' scores a risk is made of.  The sum of the weighted q_i is that of the masses which
are known for the sake of rounding (:mod:`ssvm_dsl.learning.risks.accuracy`),

    1/n sum_i weight_i q_i  =  S(w)  =  sum_j m_j |w_j| ,

so that it takes a look at w, and none at the data.  Of sums of squares it is the root that rises so (the *degree* of a
risk).  Which examples the rise comes from is not known; a power is convex, so that the mean is largest where all of it
comes from one.
"""

from __future__ import annotations

import numpy as np

from ssvm_dsl.array_types import F64, Bools
from ssvm_dsl.ir.loss import LossTerm
from ssvm_dsl.ir.program import Program
from ssvm_dsl.ir.ragged import owners
from ssvm_dsl.learning.objective import RegularizedRisk
from ssvm_dsl.scores.constants import Constants

#: What rounding may add to the masses and to sums with them, relatively; they are sums of positive numbers.
ROUNDING = 1e-9


def objective_at_most(
    objective: RegularizedRisk, w: F64, known: F64, open_: Bools, rise: float, degree: float = 1.0
) -> float:
    """Return an upper bound of the objective.

    Parameters
    ----------
    objective : RegularizedRisk
    w : ndarray of float64, shape (dim,)
    known : ndarray of float64, shape (n,)
        Upper bounds of the risks at w; at weights of 0 where ``open_``.
    open_ : ndarray of bool, shape (n,)
    rise : float
        The most that the mean of the roots of the risks, each times its weight, rises from weights of 0 to w.
    degree : float
        Of these roots.
    """
    weight = objective.weight
    total = objective.primal(w, known)
    some = np.flatnonzero(open_ & (weight > 0.0))
    if not len(some):
        return total
    rise *= 1.0 + ROUNDING
    if degree * objective.power == 1.0:
        return total + rise
    with np.errstate(over="ignore"):
        risen = (known[some] ** (1.0 / degree) + rise * objective.n / weight[some]) ** degree
        risen = objective.powered(risen) - objective.powered(known[some])
    return total + float((weight[some] * risen).max()) / objective.n


def risen_sum(known: float, rise: float, degree: float, lightest: float) -> float:
    """Return by how much a weighted sum of risks can rise from weights of 0, from the sum there alone.

    With roots a_i that rise by b_i, ``(sum_i weight_i (a_i + b_i)^d)^(1/d)`` is at most the same of a plus the same of
    b (Minkowski), and ``sum_i weight_i b_i^d`` is largest where the lightest example has all of the rise.

    Parameters
    ----------
    known : float
        The sum at weights of 0, or more.
    rise : float
        The most that the weighted sum of the roots rises.
    degree : float
        Of the roots, the power included.
    lightest : float
        The smallest weight of an example that is not 0.
    """
    if not rise > 0.0:
        return rise  # 0, or nan
    rise *= 1.0 + ROUNDING
    if degree == 1.0:
        return rise
    with np.errstate(over="ignore"):
        most = np.float64(rise) * np.float64(lightest) ** (1.0 / degree - 1.0)
        return float((np.float64(known) ** (1.0 / degree) + most) ** degree - known)


def largest_losses(loss: LossTerm, program: Program, constants: Constants | None) -> F64:
    """Return the most that loss and scores without weights are above those of the truth; ``shape (n,)``."""
    largest = np.maximum(loss.largest(program), 0.0)
    return largest if constants is None else largest + spreads(constants, program)


def spreads(constants: Constants, program: Program) -> F64:
    """Return how far labellings can be apart in what they score without weights; ``shape (n,)``."""
    total = np.zeros(program.n_examples)
    if constants.node is not None and len(constants.node):
        first = program.state_ptr[:-1]
        apart = np.maximum.reduceat(constants.node, first) - np.minimum.reduceat(constants.node, first)
        total += np.bincount(owners(program.var_ptr), apart, program.n_examples)
    for number, table in constants.tables.items():
        group = program.groups[number]
        there = table > -np.inf
        high = table.max(axis=1, initial=-np.inf, where=there)
        apart = np.where(there.any(axis=1), high - table.min(axis=1, initial=np.inf, where=there), 0.0)
        owner = np.repeat(np.arange(program.n_examples), group.shapes.counts)
        total += np.bincount(owner, apart[group.table_rows()], program.n_examples)
    return total


def labelling_logarithms(program: Program) -> F64:
    """Return the logarithm of how many labellings each example has at most; ``shape (n,)``."""
    count = program.card.astype(np.float64)
    if program.allowed is not None:
        variable = np.repeat(np.arange(program.n_variables), program.card)
        count = np.bincount(variable, program.allowed, program.n_variables).astype(np.float64)
    each = np.log(np.maximum(count, 1.0))
    return np.asarray(np.bincount(owners(program.var_ptr), each, program.n_examples), dtype=np.float64)
