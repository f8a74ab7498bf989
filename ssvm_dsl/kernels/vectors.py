"""Loops over short rows of numbers: sums, four at a time, exponentials, copies.

Sums of rows of a table are for kernels whose inner loops are as short as there are states.  The compiler does loops
over states for several at a time, too, but only those of a round number of times: 9 states are 9 separate steps, and of
22 states 6 are, each with a look at whether arrays overlap.  Here rows are as long as a multiple of ``BLOCK`` says, and
sums stay in registers until they are complete.  Measured on one thread, tables of 9 and 22 states times a vector: 14
and 40 ns, those of loops 23 and 75.

They are functions of Python, too.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import lower_builtin, type_callable

from ssvm_dsl.array_types import F64
from ssvm_dsl.kernels.compiling.jit import njit

#: Numbers of a block; rows consist of blocks.
BLOCK = 4

_DOUBLE = ir.DoubleType()
_ANY = "contract", "nsz"  # nothing that depends on there being no infinite numbers


def padded(n: int) -> int:
    """Return the length of a row for n numbers."""
    return -(-n // BLOCK) * BLOCK


def weigh_rows(out: Any, place: int, width: int, x: Any, at: int, n: int, table: Any, start: int) -> None:
    """Write ``out[place + j] = sum_s x[at + s] table[start + s width + j]`` for s below n and j below ``width``."""
    for j in range(width):
        out[place + j] = sum(x[at + s] * table[start + s * width + j] for s in range(n))


def gather_rows(out: Any, place: int, width: int, x: Any, columns: Any, lo: int, hi: int, table: Any) -> None:
    """Write ``out[place + j] = sum_e x[e] table[columns[e] width + j]`` for e from lo to hi - 1, j below ``width``."""
    for j in range(width):
        out[place + j] = sum(x[e] * table[columns[e] * width + j] for e in range(lo, hi))


def scatter_row(table: Any, width: int, x: Any, columns: Any, lo: int, hi: int, row: Any, at: int) -> None:
    """Add ``x[e] row[at + j]`` to ``table[columns[e] width + j]`` for e from lo to hi - 1 and j below ``width``."""
    for e in range(lo, hi):
        for j in range(width):
            table[columns[e] * width + j] += x[e] * row[at + j]


def multiply_rows(out: Any, place: int, width: int, x: Any, at: int, y: Any, start: int, factor: float) -> float:
    """Write ``out[place + j] = factor x[at + j] y[start + j]`` for j below ``width``; return the sum of these."""
    for j in range(width):
        out[place + j] = factor * x[at + j] * y[start + j]
    return float(sum(out[place : place + width]))


def add_outer(table: Any, start: int, width: int, x: Any, at: int, n: int, y: Any, place: int, m: int) -> None:
    """Add ``sum_r x[at + r width + s] y[place + r width + j]`` to ``table[start + s width + j]``.

    The sums are over r below m, for s below n and j below ``width``.
    """
    for s in range(n):
        for j in range(width):
            for r in range(0, m * width, width):
                table[start + s * width + j] += x[at + r + s] * y[place + r + j]


_int = types.intp


@type_callable(weigh_rows)
def _weigh_rows_type(context: Any) -> Any:
    return lambda out, place, width, x, at, n, table, start: types.void(out, _int, _int, x, _int, _int, table, _int)


@type_callable(gather_rows)
def _gather_rows_type(context: Any) -> Any:
    return lambda out, place, width, x, columns, lo, hi, table: types.void(
        out, _int, _int, x, columns, _int, _int, table
    )


@type_callable(scatter_row)
def _scatter_row_type(context: Any) -> Any:
    return lambda table, width, x, columns, lo, hi, row, at: types.void(table, _int, x, columns, _int, _int, row, _int)


@type_callable(multiply_rows)
def _multiply_rows_type(context: Any) -> Any:
    return lambda out, place, width, x, at, y, start, factor: types.float64(
        out, _int, _int, x, _int, y, _int, types.float64
    )


@type_callable(add_outer)
def _add_outer_type(context: Any) -> Any:
    return lambda table, start, width, x, at, n, y, place, m: types.void(
        table, _int, _int, x, _int, _int, y, _int, _int
    )


class _Memory:
    """Numbers and blocks of them in the memory of an array."""

    def __init__(self, context: Any, builder: Any, kind: Any, array: Any) -> None:
        self.builder, self.data = builder, context.make_array(kind)(context, builder, array).data

    def _address(self, index: Any, kind: Any) -> Any:
        return self.builder.bitcast(self.builder.gep(self.data, [index]), kind.as_pointer())

    def block(self, index: Any, kind: Any) -> Any:
        """Return the block that begins at an index."""
        return self.builder.load(self._address(index, kind), align=8)

    def write(self, index: Any, block: Any) -> None:
        """Write a block that begins at an index."""
        self.builder.store(block, self._address(index, block.type), align=8)

    def number(self, index: Any) -> Any:
        """Return the number at an index."""
        return self.builder.load(self.builder.gep(self.data, [index]))


def _spread(builder: Any, number: Any, kind: Any) -> Any:
    """Return a block of one number."""
    none = ir.Constant(kind, ir.Undefined)
    first = builder.insert_element(none, number, ir.IntType(32)(0))
    return builder.shuffle_vector(first, none, ir.Constant(ir.VectorType(ir.IntType(32), kind.count), None))


def _each_block(builder: Any, width: Any, body: Callable[[Any, Any], None]) -> None:
    """Write code for the blocks of a row, two at a time, and one at the end where their number is odd."""
    even = builder.and_(width, width.type(-2 * BLOCK))
    with cgutils.for_range_slice(builder, width.type(0), even, width.type(2 * BLOCK), inc=True) as (j, _):
        body(j, ir.VectorType(_DOUBLE, 2 * BLOCK))
    with builder.if_then(builder.icmp_signed("<", even, width)):
        body(even, ir.VectorType(_DOUBLE, BLOCK))


def _add(builder: Any, total: Any, block: Any, number: Any) -> Any:
    """Return ``total + number block``."""
    product = builder.fmul(block, _spread(builder, number, block.type), flags=_ANY)
    return builder.fadd(total, product, flags=_ANY)


def _sum(builder: Any, kind: Any, lo: Any, hi: Any, term: Callable[[Any], tuple[Any, Any]]) -> Any:
    """Return the sum of ``number block`` over the terms lo..hi-1: those of even and of odd numbers at the same time."""
    totals, one = [cgutils.alloca_once(builder, kind) for _ in range(2)], lo.type(1)
    for total in totals:
        builder.store(ir.Constant(kind, None), total)
    rest = builder.and_(builder.sub(hi, lo), one)
    with cgutils.for_range_slice(builder, lo, builder.sub(hi, rest), lo.type(2), inc=True) as (k, _):
        for total, number in zip(totals, (k, builder.add(k, one)), strict=True):
            builder.store(_add(builder, builder.load(total), *term(number)), total)
    with builder.if_then(builder.icmp_signed("!=", rest, lo.type(0))):
        builder.store(_add(builder, builder.load(totals[0]), *term(builder.sub(hi, one))), totals[0])
    return builder.fadd(builder.load(totals[0]), builder.load(totals[1]), flags=_ANY)


def _summed(builder: Any, block: Any) -> Any:
    """Return the sum of the numbers of a block: halves are added until there is one."""
    parts = [builder.extract_element(block, ir.IntType(32)(k)) for k in range(block.type.count)]
    while len(parts) > 1:
        half = len(parts) // 2
        parts = [builder.fadd(parts[k], parts[k + half], flags=_ANY) for k in range(half)]
    return parts[0]


@lower_builtin(weigh_rows, *[types.Any] * 8)
def _weigh_rows(context: Any, builder: Any, signature: Any, args: Any) -> Any:
    out, x, table = (_Memory(context, builder, signature.args[k], args[k]) for k in (0, 3, 6))
    _, place, width, _, at, n, _, start = args

    def body(j: Any, kind: Any) -> None:
        def term(s: Any) -> tuple[Any, Any]:
            where = builder.add(builder.add(start, j), builder.mul(s, width))
            return table.block(where, kind), x.number(builder.add(at, s))

        out.write(builder.add(place, j), _sum(builder, kind, n.type(0), n, term))

    _each_block(builder, width, body)
    return context.get_dummy_value()


def _entry(builder: Any, columns: Any, e: Any, width: Any) -> Any:
    """Return where the row of an entry's column begins."""
    return builder.mul(builder.sext(columns.number(e), width.type), width)


@lower_builtin(gather_rows, *[types.Any] * 8)
def _gather_rows(context: Any, builder: Any, signature: Any, args: Any) -> Any:
    out, x, columns, table = (_Memory(context, builder, signature.args[k], args[k]) for k in (0, 3, 4, 7))
    _, place, width, _, _, lo, hi, _ = args

    def body(j: Any, kind: Any) -> None:
        def term(e: Any) -> tuple[Any, Any]:
            return table.block(builder.add(_entry(builder, columns, e, width), j), kind), x.number(e)

        out.write(builder.add(place, j), _sum(builder, kind, lo, hi, term))

    _each_block(builder, width, body)
    return context.get_dummy_value()


@lower_builtin(scatter_row, *[types.Any] * 8)
def _scatter_row(context: Any, builder: Any, signature: Any, args: Any) -> Any:
    table, x, columns, row = (_Memory(context, builder, signature.args[k], args[k]) for k in (0, 2, 3, 6))
    _, width, _, _, lo, hi, _, at = args

    def body(j: Any, kind: Any) -> None:
        block = row.block(builder.add(at, j), kind)
        with cgutils.for_range_slice(builder, lo, hi, lo.type(1), inc=True) as (e, _):
            where = builder.add(_entry(builder, columns, e, width), j)
            table.write(where, _add(builder, table.block(where, kind), block, x.number(e)))

    _each_block(builder, width, body)
    return context.get_dummy_value()


@lower_builtin(multiply_rows, *[types.Any] * 8)
def _multiply_rows(context: Any, builder: Any, signature: Any, args: Any) -> Any:
    out, x, y = (_Memory(context, builder, signature.args[k], args[k]) for k in (0, 3, 5))
    _, place, width, _, at, _, start, factor = args
    total = cgutils.alloca_once(builder, ir.VectorType(_DOUBLE, BLOCK))
    builder.store(ir.Constant(ir.VectorType(_DOUBLE, BLOCK), None), total)
    with cgutils.for_range_slice(builder, width.type(0), width, width.type(BLOCK), inc=True) as (j, _):
        kind = ir.VectorType(_DOUBLE, BLOCK)
        product = builder.fmul(x.block(builder.add(at, j), kind), y.block(builder.add(start, j), kind), flags=_ANY)
        product = builder.fmul(product, _spread(builder, factor, kind), flags=_ANY)
        out.write(builder.add(place, j), product)
        builder.store(builder.fadd(builder.load(total), product, flags=_ANY), total)
    return _summed(builder, builder.load(total))


@lower_builtin(add_outer, *[types.Any] * 9)
def _add_outer(context: Any, builder: Any, signature: Any, args: Any) -> Any:
    table, x, row = (_Memory(context, builder, signature.args[k], args[k]) for k in (0, 3, 6))
    _, start, width, _, at, n, _, place, m = args

    def body(j: Any, kind: Any) -> None:
        with cgutils.for_range(builder, n) as each:

            def term(r: Any) -> tuple[Any, Any]:
                skip = builder.mul(r, width)
                block = row.block(builder.add(builder.add(place, skip), j), kind)
                return block, x.number(builder.add(builder.add(at, skip), each.index))

            where = builder.add(builder.add(start, j), builder.mul(each.index, width))
            total = _sum(builder, kind, m.type(0), m, term)
            table.write(where, builder.fadd(table.block(where, kind), total, flags=_ANY))

    _each_block(builder, width, body)
    return context.get_dummy_value()


# -- exponentials --------------------------------------------------------------------------------------------------
#
# ``exp_all``: exponentials of many numbers, in arithmetic that the compiler does for several at a time.
#
# With ``n = round(x / log 2)`` and ``r = x - n log 2``, ``exp(x) = 2^n exp(r)``, the latter by its Taylor series to
# r^13, as ``|r| <= log(2) / 2``: errors are below 1e-15 of the result.  The library's function takes one number at a
# time, 5.0 ns each, this one 2.2 ns, without instructions that only some processors have.

#: Exponentials of smaller numbers are 0.
LEAST = -708.0

#: 1.5 times 2^52: added to a small number, it rounds it and leaves it in the low bits.
ROUND = 6755399441055744.0

#: log 2 in two parts, the first one of few bits; its inverse.
HIGH, LOW, INVERSE = 6.93147180369123816490e-01, 1.90821492927058770002e-10, 1.4426950408889634


@njit(cache=True, nogil=True, borrowed=True)
def exp_all(values: F64, n: int) -> None:
    """Replace numbers by their exponentials.

    Parameters
    ----------
    values : ndarray of float64, shape (at least n,)
        Each at most 700, none of them nan; the first n are overwritten in place.
    n : int
    """
    for k in range(n):
        x = values[k] if values[k] > LEAST else LEAST
        shifted = x * INVERSE + ROUND
        whole = shifted - ROUND
        r = (x - whole * HIGH) - whole * LOW
        p = 1.0 + r * (1 / 13)
        p = 1.0 + r * (1 / 12) * p
        p = 1.0 + r * (1 / 11) * p
        p = 1.0 + r * (1 / 10) * p
        p = 1.0 + r * (1 / 9) * p
        p = 1.0 + r * (1 / 8) * p
        p = 1.0 + r * (1 / 7) * p
        p = 1.0 + r * (1 / 6) * p
        p = 1.0 + r * (1 / 5) * p
        p = 1.0 + r * (1 / 4) * p
        p = 1.0 + r * (1 / 3) * p
        p = 1.0 + r * (1 / 2) * p
        p = 1.0 + r * p
        power = np.int64((np.float64(shifted).view(np.int64) + 1023) << 52).view(np.float64)
        values[k] = p * power if values[k] > LEAST else 0.0


# -- copies --------------------------------------------------------------------------------------------------------
#
# ``assign``: copies of arrays inside compiled kernels.
#
# ``target[:] = source`` would do, but numba compiles the text of the error for arrays that do not fit together with it:
# two seconds in each process that compiles a kernel, more than the kernel itself often takes.


@njit(cache=True, nogil=True, inline="always")
def assign(target: Any, source: Any) -> None:
    """Copy the elements of ``source`` to ``target``, which has as many or fewer; both are one-dimensional."""
    for k in range(len(target)):
        target[k] = source[k]
