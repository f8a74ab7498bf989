"""The equations of polytopes of marginals, as the kernels of projections read them."""

from __future__ import annotations

from typing import NamedTuple

from ssvm_dsl.ir import F64, I64, Bools


class PolytopeLayout(NamedTuple):
    """Columns and rows of all examples; numbers of columns and rows are those of all examples together.

    Parameters
    ----------
    state_ptr : ndarray of int64, shape (B + 1,)
        Columns of the variables of each example.
    entry_ptr : ndarray of int64, shape (S + 1,)
        Entries of each of these columns ...
    entry_row, entry_sign : ndarray of int64 and of float64
        ... their rows and values.
    factor_ptr : ndarray of int64, shape (B + 1,)
        Factors of each example.
    first, pool : ndarray of int64, shape (F,)
        Where the columns of a factor start, and where their scores do.
    size, arity : ndarray of int64, shape (F,)
        Its columns, and its variables.
    card, slot : ndarray of int64, shape (F, max_arity)
        States of each variable of a factor, and the row of the first: ``+1`` for the joint states that hold it.
    row_ptr : ndarray of int64, shape (B + 1,)
        Rows of each example.
    right : ndarray of float64, shape (n_rows,)
    implied : ndarray of bool, shape (n_rows,)
        Rows that follow from others; their multipliers are zero.
    """

    state_ptr: I64
    entry_ptr: I64
    entry_row: I64
    entry_sign: F64
    factor_ptr: I64
    first: I64
    pool: I64
    size: I64
    arity: I64
    card: I64
    slot: I64
    row_ptr: I64
    right: F64
    implied: Bools
