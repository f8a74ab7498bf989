"""The structure of a program of forests as flat arrays, for the kernels of dynamic programming.

Variables are eliminated leaves first.  Each variable but the last of a component sends one message to its
parent; the edge between them may carry several factors (of several groups, in either direction), whose tables
are added.  Eliminating into a virtual one-state parent joins the components of an example.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ssvm_dsl.ir import I32, I64, Program, pointers


class Forest(NamedTuple):
    """A program whose examples are forests.

    Parameters
    ----------
    var_ptr, state_ptr, card, order
        As in :class:`~ssvm_dsl.ir.Program`.
    parent : ndarray of int32, shape (V,)
        Parent of each variable, -1 for the last one of a component.
    entry_ptr : ndarray of int64, shape (V + 1,)
        Factors on the edge from a variable to its parent.
    entry_offset : ndarray of int64
        Where the factor's table starts in ``Theta.pool``.
    entry_group, entry_factor : ndarray of int32
        Which factor it is.
    entry_flip : ndarray of int32
        1 where its first variable is the parent.
    """

    var_ptr: I64
    state_ptr: I64
    card: I32
    order: I32
    parent: I32
    entry_ptr: I64
    entry_offset: I64
    entry_group: I32
    entry_factor: I32
    entry_flip: I32


class Chains(NamedTuple):
    """Chains of equal cardinality, variables in natural order, one factor on each edge.

    Parameters
    ----------
    var_ptr : ndarray of int64, shape (B + 1,)
        Variables of each example.
    link : ndarray of int64, shape (V,)
        Where the table between a variable and the next starts, -1 at the end of a chain.
    c : int
        Number of states of every variable.
    """

    var_ptr: I64
    link: I64
    c: int


def build_forest(program: Program) -> Forest:
    """Return the flat structure of a program of forests."""
    n = program.n_variables
    rank = np.empty(n, dtype=np.int64)
    rank[program.order] = np.arange(n)
    offsets = pointers(np.array([g.n_tables * g.n_configs for g in program.groups], dtype=np.int64))
    child, parent, where, group_of, factor_of, flip = [], [], [], [], [], []
    for number, group in enumerate(program.groups):
        scope = group.shapes.variables()
        first, second = scope[:, 0], scope[:, 1]  # groups of larger factors are there, but empty
        first_is_child = rank[first] < rank[second]
        child.append(np.where(first_is_child, first, second))
        parent.append(np.where(first_is_child, second, first))
        where.append(offsets[number] + group.table_rows().astype(np.int64) * group.n_configs)
        group_of.append(np.full(group.n_factors, number, dtype=np.int32))
        factor_of.append(np.arange(group.n_factors, dtype=np.int32))
        flip.append(~first_is_child)
    children = np.concatenate(child) if child else np.zeros(0, np.int32)
    by_child = np.argsort(children, kind="stable")
    parents = np.full(n, -1, dtype=np.int32)
    if len(children):
        parents[children] = np.concatenate(parent)

    def sorted_(parts: list[NDArray[Any]], dtype: Any) -> NDArray[Any]:
        return np.concatenate(parts)[by_child].astype(dtype) if parts else np.zeros(0, dtype)

    return Forest(
        program.var_ptr,
        program.state_ptr,
        program.card,
        program.order,
        parents,
        pointers(np.bincount(children, minlength=n)),
        sorted_(where, np.int64),
        sorted_(group_of, np.int32),
        sorted_(factor_of, np.int32),
        sorted_(flip, np.int32),
    )
