"""Linear rows of hard constraints as factors of AD3: of all examples, and of the reduced examples asked for.

Where masks and clamps have decided a column it moves into the bounds of its rows.  Rows that nothing can break are left
out, and those that nothing can keep prove that an example has no labelling.  A constraint that is a directed tree has
one row without bounds, all of whose entries are one factor (:mod:`ssvm_backends.dual.admm.trees`); so has one whose
kind finds best truth values (:mod:`ssvm_backends.dual.admm.mixtures`).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from ssvm_backends.dual.admm.mixtures import Mixture, MixtureConstraint, existing_mixtures, is_mixture
from ssvm_backends.dual.admm.program_trees import FALSE, TRUE, ProgramTrees, TreeFactors, is_tree
from ssvm_backends.graphs.deadline import UNLIMITED
from ssvm_backends.graphs.reduce import Reduced
from ssvm_backends.programs.side_rows import SLACK, SideRows
from ssvm_dsl.ir import F64, I64, Bools, Program, members, pointers
from ssvm_dsl.plugin_api import Clock


class RowFactors(NamedTuple):
    """Rows ``lower <= a . x <= upper`` of n examples over S states and A auxiliary columns.

    Parameters
    ----------
    ptr : ndarray of int64, shape (n + 1,)
        Rows of each example.
    entry_ptr : ndarray of int64, shape (R + 1,)
        Entries of each row.
    column : ndarray of int64, shape (E,)
        A state, or S and the number of an auxiliary column.
    coefficient : ndarray of float64, shape (E,)
        Not zero.
    least, most : ndarray of float64, shape (E,)
        The box of the entry's column.
    lower, upper : ndarray of float64, shape (R,)
    auxiliary_ptr : ndarray of int64, shape (n + 1,)
        Auxiliary columns of each example.
    touch_ptr : ndarray of int64, shape (S + A + 1,)
        Entries of each column: ``touch[touch_ptr[c] : touch_ptr[c + 1]]``.
    touch : ndarray of int64, shape (E,)
    """

    ptr: I64
    entry_ptr: I64
    column: I64
    coefficient: F64
    least: F64
    most: F64
    lower: F64
    upper: F64
    auxiliary_ptr: I64
    touch_ptr: I64
    touch: I64


@dataclass(frozen=True, eq=False)
class ProgramRows:
    """The rows of all constraints of a program; entries and rows as in :class:`RowFactors`, over its own states.

    Parameters
    ----------
    ptr, entry_ptr : ndarray of int64
    column : ndarray of int64
        A state of the program, or ``n_states`` and the number of an auxiliary column.
    coefficient : ndarray of float64
    lower, upper : ndarray of float64
        Moved outwards by what sums of fractions may be off.
    auxiliary_ptr : ndarray of int64, shape (B + 1,)
    least, most : ndarray of float64
        Of the auxiliary columns.
    trees : ProgramTrees
    mixtures : list of MixtureConstraint
    mixture : ndarray of int64, shape (R,)
        Which of these each row is, -1 for others.
    """

    ptr: I64
    entry_ptr: I64
    column: I64
    coefficient: F64
    lower: F64
    upper: F64
    auxiliary_ptr: I64
    least: F64
    most: F64
    trees: ProgramTrees
    mixtures: list[MixtureConstraint]
    mixture: I64

    @classmethod
    def from_program(cls, program: Program, clock: Clock = UNLIMITED) -> ProgramRows:
        """Return the rows of a program's constraints.

        Raises
        ------
        OutOfTime
        TooLargeError
            There are more entries than any solver takes.
        """
        starts, auxiliary, trees = program.state_ptr[program.var_ptr], 0, ProgramTrees.from_program(program)
        by_rows = [one for one in program.constraints if not (is_tree(one) or is_mixture(one))]
        others, mixtures, of_row = replace(program, constraints=tuple(by_rows)), list[MixtureConstraint](), list[I64]()
        whole = [one for one in program.constraints if is_mixture(one)]
        n_rows, n_auxiliary, parts = list[int](), list[int](), list[tuple[I64, I64, F64, F64, F64, F64, F64]]()
        for i in range(program.n_examples):
            lo, hi = program.var_ptr[i : i + 2]
            n = int(starts[i + 1] - starts[i])
            side = SideRows.from_group(others, i, n, program.state_ptr[lo : hi + 1] - starts[i], clock)
            matrix, at = side.matrix, side.matrix.indices.astype(np.int64)
            column = np.where(at < n, at + starts[i], at - n + program.n_states + auxiliary)
            parts.append(
                (np.diff(matrix.indptr).astype(np.int64), column, matrix.data, *_loosened(side), side.least, side.most)
            )
            mine = [MixtureConstraint(one, k) for one in whole for k in range(int(one.ptr[i]), int(one.ptr[i + 1]))]
            parts.extend(_without_bounds(one.columns(program, i), one.sign) for one in mine)
            parts.extend(trees.rows(i))
            of_row.append(np.full(side.n_rows + len(mine) + len(trees.mine(i)), -1, dtype=np.int64))
            of_row[-1][side.n_rows : side.n_rows + len(mine)] = len(mixtures) + np.arange(len(mine))
            mixtures.extend(mine)
            auxiliary += side.n_auxiliary
            n_rows.append(len(of_row[-1]))
            n_auxiliary.append(side.n_auxiliary)
        joined = [np.concatenate([np.zeros(0), *(part[k] for part in parts)]) for k in range(7)]
        lengths, column = joined[0].astype(np.int64), joined[1].astype(np.int64)
        # steps are as long in each column: auxiliary ones are measured in units of their boxes, as states are
        unit = np.maximum(np.abs(joined[5]), np.abs(joined[6]))
        unit[~((unit > 0.0) & np.isfinite(unit))] = 1.0
        inner = column >= program.n_states
        joined[2][inner] *= unit[column[inner] - program.n_states]
        return cls(
            pointers(np.array(n_rows, dtype=np.int64)), pointers(lengths), column, joined[2], joined[3], joined[4],
            pointers(np.array(n_auxiliary, dtype=np.int64)), joined[5] / unit, joined[6] / unit, trees,
            mixtures, np.concatenate([np.zeros(0, np.int64), *of_row]),
        )  # fmt: skip


def _without_bounds(column: I64, coefficient: F64) -> tuple[I64, I64, F64, F64, F64, F64, F64]:
    """Return a row of these columns: its length, columns, coefficients and bounds, and no auxiliary columns."""
    ends, none = np.array([np.inf]), np.zeros(0)
    return np.array([len(column)]), column, coefficient, -ends, ends, none, none


def _loosened(side: SideRows) -> tuple[F64, F64]:
    """Return the bounds of rows, moved outwards by the rounding that sums of fractions are granted."""
    owner = np.repeat(np.arange(side.n_rows), np.diff(side.matrix.indptr))
    reach = np.ones(side.matrix.shape[1])
    if side.n_auxiliary:
        reach[-side.n_auxiliary :] = np.maximum(np.abs(side.least), np.abs(side.most))
    size = np.bincount(owner, np.abs(side.matrix.data) * reach[side.matrix.indices], side.n_rows)
    fractions = np.bincount(owner, side.matrix.data != np.rint(side.matrix.data), side.n_rows) > 0
    for bound in (side.lower, side.upper):
        fractions |= np.isfinite(bound) & (bound != np.rint(bound))
    slack = np.where(fractions, SLACK * size, 0.0)
    return side.lower - slack, side.upper + slack


def reduced_rows(
    program: Program, rows: ProgramRows, ids: I64, reduced: Reduced
) -> tuple[RowFactors, TreeFactors, list[Mixture | None], I64, Bools]:
    """Return the rows of some reduced examples.

    Parameters
    ----------
    program : Program
    rows : ProgramRows
    ids : ndarray of int64, shape (n,)
    reduced : Reduced
        Of these examples, compact (``reduced.ids`` counts them).

    Returns
    -------
    rows : RowFactors
    trees : TreeFactors
        Of those of these rows that are trees.
    mixtures : list of Mixture
        That each row is; ``None`` for others.
    entry : ndarray of int64, shape (E,)
        The place of each entry among those of the examples asked for.
    possible : ndarray of bool, shape (n,)
        False where a row cannot be kept.
    """
    mine = members(rows.ptr, ids)
    lengths = np.diff(rows.entry_ptr)[mine]
    entries, owner = members(rows.entry_ptr, mine), np.repeat(np.arange(len(mine)), lengths)
    place, fixed = columns_left(program, ids, reduced)
    column, coefficient = rows.column[entries], rows.coefficient[entries]
    auxiliary = column >= program.n_states
    n_left, new_auxiliary = len(reduced.state), np.zeros(len(rows.least), dtype=np.int64)
    chosen = members(rows.auxiliary_ptr, ids)
    new_auxiliary[chosen] = n_left + np.arange(len(chosen))
    now, constant = np.zeros(len(column), dtype=np.int64), np.zeros(len(column))
    now[auxiliary] = new_auxiliary[column[auxiliary] - program.n_states]
    now[~auxiliary], constant[~auxiliary] = place[column[~auxiliary]], fixed[column[~auxiliary]]
    shift = np.bincount(owner, coefficient * constant, len(mine))
    lower, upper = rows.lower[mine] - shift, rows.upper[mine] - shift
    kept, true = (now >= 0) & (coefficient != 0.0), constant == (coefficient > 0.0)
    tree = rows.trees.of_rows(rows.ptr)[mine]
    entries, owner, now, coefficient = np.flatnonzero(kept), owner[kept], now[kept], coefficient[kept]
    box = np.concatenate([np.zeros(n_left), rows.least[chosen]]), np.concatenate([np.ones(n_left), rows.most[chosen]])
    least, most = box[0][now], box[1][now]
    ends = np.stack([coefficient * least, coefficient * most])
    low, high, size = (np.bincount(owner, one, len(mine)) for one in (ends.min(0), ends.max(0), np.abs(ends).max(0)))
    size = size + np.bincount(owner, np.abs(coefficient), len(mine)) + np.abs(shift)
    example = np.repeat(np.arange(len(ids)), np.diff(rows.ptr)[ids])
    impossible = (low > upper + SLACK * size) | (high < lower - SLACK * size) | (lower > upper)
    mixture = rows.mixture[mine]
    whole = ((tree >= 0) | (mixture >= 0)) & (np.bincount(owner, minlength=len(mine)) > 0)
    left = ~impossible & ((low < lower) | (high > upper) | whole)
    # what rounding leaves of a bound that is met by one point alone
    lower, upper = np.minimum(lower, high), np.maximum(upper, low)
    in_use = left[owner]
    entries, now, coefficient, least, most = (x[in_use] for x in (entries, now, coefficient, least, most))
    touch = np.argsort(now, kind="stable").astype(np.int64)
    made = RowFactors(
        pointers(np.bincount(example[left], minlength=len(ids))),
        pointers(np.bincount(owner[in_use], minlength=len(mine))[left]), now, coefficient, least, most,
        lower[left], upper[left], pointers(np.diff(rows.auxiliary_ptr)[ids]),
        pointers(np.bincount(now, minlength=n_left + len(chosen))), touch,
    )  # fmt: skip
    trees, there = _tree_factors(rows.trees, tree, lengths, entries, true)
    impossible[tree >= 0] = ~there
    mixtures, there = existing_mixtures(rows.mixtures, mixture, lengths, entries, true)
    impossible |= ~there
    trees = trees._replace(of_row=np.where(tree >= 0, np.cumsum(tree >= 0) - 1, -1)[left])
    kept_mixtures = [mixtures[row] for row in np.flatnonzero(left).tolist()]
    return made, trees, kept_mixtures, entries, np.bincount(example[impossible], minlength=len(ids)) == 0


def _tree_factors(
    trees: ProgramTrees, tree: I64, lengths: I64, entries: I64, true: Bools
) -> tuple[TreeFactors, Bools]:
    """Return the trees among some rows, of which it is not said yet which row each is, and whether each exists.

    Parameters
    ----------
    trees : ProgramTrees
    tree, lengths : ndarray of int64, shape (rows,)
        The tree of each row (-1: none), and how many columns it mentions.
    entries : ndarray of int64, shape (E,)
        Which of these columns are entries.
    true : ndarray of bool
        Of each column that is decided: whether its literal is true.
    """
    chosen, code = tree[tree >= 0], np.where(true, TRUE, FALSE)
    if not len(chosen):
        return trees.factors(chosen, code[:0]), np.zeros(0, dtype=bool)
    from ssvm_backends.dual.admm.trees import trees_exist

    code[entries] = np.arange(len(entries))
    factors = trees.factors(chosen, code[np.repeat(tree >= 0, lengths)])
    return factors, trees_exist(factors)


def columns_left(program: Program, ids: I64, reduced: Reduced) -> tuple[I64, F64]:
    """Return for each state of a program its reduced number (-1: none), and whether it is decided to hold."""
    place, fixed = np.full(program.n_states, -1, dtype=np.int64), np.zeros(program.n_states)
    assert reduced.kept is not None
    variables = members(program.var_ptr, ids)
    decided = np.ones(len(variables), dtype=bool)
    decided[reduced.kept] = False
    fixed[program.state_ptr[:-1][variables[decided]] + reduced.decided[decided]] = 1.0
    first = program.state_ptr[:-1][variables[reduced.kept]]
    place[np.repeat(first, reduced.instance.graph.card) + reduced.state] = np.arange(len(reduced.state))
    return place, fixed
