"""Scores of marginals, sums of them, their way back to the local polytope, and from there to labellings.

Numbers that are off by a little are rounded: a factor's table whose margins are m_k becomes one with the margins mu_k
of its variables by scaling down what is too much, along one variable after the other, and adding the product of what is
then missing (Altschuler, Weed and Rigollet 2017, algorithm 2, for tables of any order).  The equations that are kept
are those of :mod:`ssvm_dsl.ir.analysis.local_polytope`.

Marginals that solve a linear program over the local polytope need not be a labelling even where one is as good: with
ties a solver may end anywhere between the best ones.  Here a labelling is read off one variable after the other, from a
first one outwards along factors: each takes the state of the largest marginal given the states taken so far.  On
forests every state taken that way, and every pair of them, has a positive marginal, so that the labelling solves the
program, too (complementary slackness); on graphs with cycles it may or may not, which its score tells.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ssvm_dsl.array_types import F64, I32, I64
from ssvm_dsl.ir.program import Program
from ssvm_dsl.ir.ragged import members, pointers, positions
from ssvm_dsl.ir.solution import Marginals, select
from ssvm_dsl.ir.theta import Theta


def score_marginals(program: Program, theta: Theta, marginals: Marginals, examples: I64 | None = None) -> F64:
    """Return the score ``const + <theta, mu>`` of marginals packed over the selected examples; ``shape (n,)``."""
    from ssvm_dsl.kernels.marginals import add_state_products, add_table_products

    ids = select(program, examples)
    total = theta.const[ids]
    add_state_products(program.var_ptr, program.state_ptr, theta.node, ids, marginals.node, total)
    for group, tables, given in zip(program.groups, theta.tables, marginals.tables, strict=True):
        add_table_products(group.flat, tables, ids, given, total)
    return total


def add_marginals(
    program: Program, marginals: Marginals, coef: F64, ids: I64, node: F64, tables: Sequence[F64]
) -> None:
    """Add ``coef_i`` times the marginals of each listed example to numbers laid out as a Theta.

    Parameters
    ----------
    marginals : Marginals
        Packed over the listed examples.
    coef : ndarray of float64, shape (n,)
    ids : ndarray of int64, shape (n,)
        Distinct examples.
    node : ndarray of float64, shape (S,)
    tables : sequence of ndarray, shape (n_tables, prod(cards))
        One for each group; factors that share a row add up.
    """
    from ssvm_dsl.kernels.marginals import add_table_marginals

    starts = program.state_ptr[program.var_ptr]
    node[positions(starts, ids)] += np.repeat(coef, starts[ids + 1] - starts[ids]) * marginals.node
    for group, table, given in zip(program.groups, tables, marginals.tables, strict=True):
        add_table_marginals(group.flat, ids, coef, given, table)


def consistent(program: Program, marginals: Marginals, ids: I64) -> Marginals:
    """Return the marginals rounded to the local polytope; those of examples without any (zeros) stay as they are.

    Marginals that keep the equations exactly, as labellings and half-integral points do, are returned as given.
    """
    if agree(program, marginals, ids):
        return marginals
    variables = members(program.var_ptr, ids)
    ptr = pointers(program.card[variables].astype(np.int64))
    node = np.maximum(marginals.node, 0.0)
    total = np.add.reduceat(node, ptr[:-1]) if len(variables) else np.zeros(0)
    node = node / np.repeat(np.where(total > 0.0, total, 1.0), np.diff(ptr))
    place = np.zeros(program.n_variables, dtype=np.int64)
    place[variables] = ptr[:-1]
    tables = []
    for group, given in zip(program.groups, marginals.tables, strict=True):
        starts = place[group.shapes.variables(ids)]
        wanted = [node[starts[:, k, None] + np.arange(card)] for k, card in enumerate(group.cards)]
        tables.append(with_margins(given.reshape(len(given), *group.cards), wanted).reshape(given.shape))
    return Marginals(node, tuple(tables))


def agree(program: Program, marginals: Marginals, ids: I64) -> bool:
    """Whether marginals keep the equations to the last bit and none is negative (examples without any may be zero)."""
    from ssvm_dsl.kernels.marginals import margins_agree, states_agree

    var_ptr, state_ptr = program.var_ptr, program.state_ptr
    if not states_agree(var_ptr, state_ptr, ids, marginals.node):
        return False
    return all(
        margins_agree(group.flat, var_ptr, state_ptr, ids, marginals.node, given)
        for group, given in zip(program.groups, marginals.tables, strict=True)
    )


def with_margins(tables: F64, wanted: list[F64]) -> F64:
    """Return tables with the margins wanted, close to those given.

    Parameters
    ----------
    tables : ndarray of float64, shape (n, *cards)
    wanted : list of ndarray, shape (n, card)
        For each variable; each sums to one.
    """
    axes = range(1, tables.ndim)
    out = np.maximum(tables, 0.0)
    if all(np.array_equal(out.sum(axis=_others(axes, k)), wanted[k - 1]) for k in axes):
        return out
    for k in axes:
        margin = out.sum(axis=_others(axes, k))
        with np.errstate(divide="ignore", invalid="ignore"):
            shrink = np.where(margin > wanted[k - 1], wanted[k - 1] / margin, 1.0)
        out = out * np.expand_dims(shrink, _others(axes, k))
    missing = [wanted[k - 1] - out.sum(axis=_others(axes, k)) for k in axes]
    mass = np.maximum(missing[0].sum(axis=1), 0.0)
    product = np.ones_like(out)
    for k in axes:
        share = np.maximum(missing[k - 1], 0.0) / np.where(mass > 0.0, mass, 1.0)[:, None]
        product = product * np.expand_dims(share, _others(axes, k))
    rounded: F64 = out + product * mass.reshape(-1, *(1 for _ in axes))
    return rounded


def _others(axes: range, k: int) -> tuple[int, ...]:
    return tuple(axis for axis in axes if axis != k)


def rounded(program: Program, marginals: Marginals) -> I32:
    """Return a labelling near the marginals of all examples; ``shape (V,)``.

    Hard constraints are ignored.  Time is linear in the size of the tables, memory a copy of them.
    """
    from ssvm_dsl.kernels.flat import FactorLists
    from ssvm_dsl.kernels.marginals import round_marginals

    groups = program.groups
    arity = np.repeat([group.arity for group in groups], [group.n_factors for group in groups]).astype(np.int64)
    width = np.repeat([group.n_configs for group in groups], [group.n_factors for group in groups]).astype(np.int64)
    scope = np.concatenate([np.zeros(0, np.int32), *(group.shapes.variables().ravel() for group in groups)])
    tables = np.concatenate([np.zeros(0), *(table.ravel() for table in marginals.tables)])
    factor = np.repeat(np.arange(len(arity)), arity)[np.argsort(scope, kind="stable")]
    degree = np.bincount(scope, minlength=program.n_variables)
    labels = np.full(program.n_variables, -1, dtype=np.int32)
    lists = FactorLists(
        program.card, program.state_ptr, pointers(arity), scope, pointers(width), pointers(degree), factor
    )
    round_marginals(lists, marginals.node, tables, labels)
    return labels
