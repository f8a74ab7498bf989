"""The optimum of the local polytope of a binary pairwise problem, from what roof duality decides.

Decided variables have their state, the others half of each.  A factor has half of (low, low) and (high, high) or half
of (low, high) and (high, low), where an open variable is low in one state and high in the other: the better pair
(Hammer, Hansen and Simeone 1984).  Where a variable is decided both pairs are the same.
"""

from __future__ import annotations

import numpy as np

from ssvm_backends._graphs.graph import F64, I32, I64
from ssvm_dsl.ir import Marginals, Program, Theta
from ssvm_dsl.ir.ragged import members


def half_integral(program: Program, theta: Theta, ids: I64, low: I32, high: I32) -> Marginals:
    """Return the marginals of some examples.

    Parameters
    ----------
    ids : ndarray of int64, shape (n,)
    low, high : ndarray of int32
        Packed labels of these examples, which differ where a variable is open.
    """
    variables = members(program.var_ptr, ids)
    node = np.zeros(program.n_states)
    node[program.state_ptr[variables] + low] = 0.5
    node[program.state_ptr[variables] + high] += 0.5
    labels = np.zeros((2, program.n_variables), dtype=np.int64)
    labels[0, variables], labels[1, variables] = low, high
    tables = []
    for group, scores in zip(program.groups, theta.tables, strict=True):
        factors = members(group.ptr, ids)
        tables.append(_tables(labels[:, group.scope[factors]], scores[group.table[factors]], group.cards[1]))
    return Marginals(node[members(program.state_ptr, variables)], tuple(tables))


def _tables(labels: I64, scores: F64, n_second: int) -> F64:
    """Return the marginals of n factors; ``labels``, shape (2, n, 2), holds low and high states of both variables."""
    rows = np.arange(len(scores))
    a, b = labels[:, :, 0] * n_second, labels[:, :, 1]
    same, other = (a[0] + b[0], a[1] + b[1]), (a[0] + b[1], a[1] + b[0])
    better = scores[rows, same[0]] + scores[rows, same[1]] >= scores[rows, other[0]] + scores[rows, other[1]]
    out = np.zeros_like(scores)
    out[rows, np.where(better, same[0], other[0])] = 0.5
    out[rows, np.where(better, same[1], other[1])] += 0.5
    return out
