"""Energies of problems with (semi)metric tables, and how far a labelling is from the least one, as a factor.

Scores of variables and of pairs can be written as a constant minus energies,

    score(y) = origin - sum_v D_v(y_v) - sum_vw V_vw(y_v, y_w) ,      V(a, b) = (t(a, a) + t(b, b)) / 2 - t(a, b) ,

where half of the diagonal of each table t goes to either of its variables, and ``min_a D_v(a) = 0``.  Where tables are
metrics, ``V(a, a) = 0``, ``V(a, b) >= 0`` and ``V(a, b) <= V(a, c) + V(c, b)``.  The *energy* of a labelling is
``origin - score(y)``, at least 0.  A labelling is within a factor eta of the best one when its energy is at most eta
times the least energy.

*A priori*: no expansion improves the labelling f, and g is another one.  Then

    D(f) + V(f) <= D(g) + 2 c V(g) ,      c = max_vw (max_{a, b} V_vw(a, b) / min_{a != b} V_vw(a, b))

(Boykov, Veksler and Zabih, PAMI 2001, theorem 6.1, whose proof bounds the two parts like this), so that f is within
``eta = 2 c``: 2 with Potts tables.  Masks do not matter: where g has label alpha, alpha is allowed.

There is no such factor for swaps: with the metric ``V(a, b) = V(b, c) = K / 2``, ``V(a, c) = K``, for which c = 2, no
swap improves a labelling of energy K where another has energy 4, whatever K is (a test has it).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ssvm_dsl.array_types import F64
from ssvm_dsl.ir.analysis.tolerance import ROUNDING
from ssvm_dsl.ir.program import Group, Program
from ssvm_dsl.ir.question import Question
from ssvm_dsl.ir.ragged import owners, positions, reduced
from ssvm_dsl.ir.solution import Solution
from ssvm_dsl.ir.theta import Theta

#: States that are ruled out have no energies, and scores near the largest float have infinite ones: nothing is known
#: then, which is an answer here.
UNKNOWN: dict[str, Any] = {"divide": "ignore", "invalid": "ignore", "over": "ignore"}


@np.errstate(**UNKNOWN)
def expansion_factor(program: Program, theta: Theta) -> F64:
    """Return within which factor of the least energy a labelling is that no expansion improves; ``shape (n,)``.

    ``nan`` where nothing is known: factors of more than two variables, of variables with different numbers of states,
    negative distances, or a distance of 0 between two states.
    """
    factor = np.full(program.n_examples, 2.0)
    for group, tables in zip(program.groups, theta.tables, strict=True):
        if group.n_factors:
            factors = 2.0 * _distance_ratios(group, tables)[group.table_rows()]
            np.maximum.at(factor, owners(group.ptr), factors)  # of nan and a number the larger one is nan
    return factor


@np.errstate(**UNKNOWN)
def energy_origins(program: Program, question: Question) -> F64:
    """Return the score that energies are counted from, for each example asked for; ``shape (n,)``.

    ``nan`` where a factor has another number of variables than two, or of variables with different numbers of states,
    or distances that are negative: energies may be negative then.
    """
    node, ids, known = question.masked_node(program).copy(), question.ids(program), np.zeros(program.n_examples)
    for group, tables in zip(program.groups, question.theta.tables, strict=True):
        if not group.n_factors:
            continue
        rows, negative = group.table_rows(), np.isnan(_distance_ratios(group, tables))
        known[owners(group.ptr)[negative[rows]]] = np.nan
        if negative.all():
            continue
        k, t = group.cards[0], tables.reshape(-1, *group.cards)
        half = 0.5 * np.einsum("nkk->nk", t)[rows]
        for variables in group.shapes.variables().T:
            np.add.at(node, program.state_ptr[variables][:, None] + np.arange(k), half)
    states = positions(program.state_ptr[program.var_ptr], ids)
    best = reduced(np.maximum, node[states], program.own_state_ptr(ids)[:-1])
    counts = np.diff(program.var_ptr)[ids]
    total = np.bincount(np.repeat(np.arange(len(ids)), counts), best, len(ids))
    return np.asarray(question.theta.const[ids] + total + known[ids])


@np.errstate(**UNKNOWN)
def energy_ratio(program: Program, question: Question, solution: Solution) -> F64:
    """Return within which factor of the least energy each labelling is, as its bound proves; ``shape (n,)``.

    ``nan`` without a bound, without a labelling, or where energies are not known to be positive; ``inf`` where the
    bound is that of the energy 0 alone.
    """
    origin = energy_origins(program, question)
    energy, least = origin - solution.best, origin - solution.bound
    rounding = ROUNDING * (np.abs(origin) + np.abs(solution.best))
    ratio = np.where(energy <= rounding, 1.0, energy / np.where(least > rounding, least, 0.0))
    there = np.isfinite(solution.best) & ~np.isnan(least)
    return np.where(there, np.maximum(ratio, 1.0), np.nan)


def _distance_ratios(group: Group, tables: F64) -> F64:
    """Return the largest distance V of each table over the least between two states; ``shape (n_tables,)``.

    At least 1 (also where all distances are 0); ``inf`` where some are 0, ``nan`` where one is negative, and where
    tables have no distances: between variables with different numbers of states, or of other numbers of variables.
    """
    if group.of_spans or group.arity != 2 or group.cards[0] != group.cards[1]:
        return np.full(len(tables), np.nan)
    t = tables.reshape(-1, *group.cards)
    own = np.einsum("nkk->nk", t)
    V = 0.5 * (own[:, :, None] + own[:, None, :]) - t  # states that are ruled out have no distance
    most, rounding = V.max(axis=(1, 2), initial=0.0), ROUNDING * np.abs(tables).max(axis=1, initial=0.0)
    least = np.where(np.eye(group.cards[0]) > 0, np.inf, V).min(axis=(1, 2), initial=np.inf)
    ratio = np.where(least > rounding, most / least, np.inf)
    ratio = np.where(most <= rounding, 1.0, np.maximum(ratio, 1.0))
    return np.where(least < -rounding, np.nan, ratio)
