"""Upper bounds of scores that need no search: the sum of the largest term of each variable and each factor.

    max_y s(y)  <=  const + sum over variables of max t  +  sum over factors of max t

It holds for the local polytope, too.  States that masks rule out do not count.
"""

from __future__ import annotations

import numpy as np

from ssvm_dsl.array_types import F64, I32, I64
from ssvm_dsl.ir.program import Program
from ssvm_dsl.ir.ragged import owners, pointers, positions
from ssvm_dsl.ir.theta import Theta


def sums_of_maxima(program: Program, theta: Theta, ids: I64) -> F64:
    """Return an upper bound of all scores of some examples; O(all their terms).

    Parameters
    ----------
    program : Program
    theta : Theta
    ids : ndarray of int64, shape (n,)

    Returns
    -------
    ndarray of float64, shape (n,)
    """
    total = theta.const[ids].copy()
    states = positions(program.state_ptr[program.var_ptr], ids)
    node = theta.node[states]
    if program.allowed is not None:
        node = np.where(program.allowed[states], node, -np.inf)
    variables = positions(program.var_ptr, ids)
    if len(node):
        most = np.maximum.reduceat(node, pointers(program.card[variables])[:-1])
        total += np.bincount(owners(pointers(np.diff(program.var_ptr)[ids])), most, len(ids))
    for group, table in zip(program.groups, theta.tables, strict=True):
        if not group.n_configs:
            continue
        for part in group.shapes.portions(ids):
            rows = group.table_rows(ids[part])
            owner = np.repeat(np.arange(part.start, part.stop), group.shapes.counts[ids[part]])
            total += np.bincount(owner, _largest(table, rows), len(ids))
    return np.asarray(total, dtype=np.float64)


def _largest(table: F64, rows: I32) -> F64:
    """Return the largest number of each of some rows, which may repeat."""
    if len(rows) >= len(table):
        return np.asarray(table.max(axis=1)[rows])
    return np.asarray(table[rows].max(axis=1))
