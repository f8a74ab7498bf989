"""Loops over ``range``, in as many instructions as LLVM leaves of numba's.

Numba's iterator is a struct of where it is (an address), its end, its step, and how many numbers are left (an address).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from llvmlite import ir as llvm
from numba.core import cgutils

from ssvm_dsl.kernels.compiling.aggregates import Builder


def new_range(builder: Builder, kind: llvm.Type, arguments: list[Any]) -> Any:
    """Return what ``range`` of some arguments is: start, end and step."""
    number = arguments[0].type
    first = [number(0)] if len(arguments) == 1 else []
    last = [number(1)] if len(arguments) < 3 else []
    return packed(builder, kind, [*first, *arguments, *last])


def begun(builder: Builder, kind: llvm.Type, values: Any) -> Any:
    """Return an iterator over a range whose step is known to be 1 or -1, ``None`` for others."""
    start, stop, step = (builder.extract_value(values, k) for k in range(3))
    if not isinstance(step, llvm.Constant) or step.constant not in (1, -1):
        return None
    low, high = (start, stop) if step.constant == 1 else (stop, start)
    left, none = builder.sub(high, low), start.type(0)
    count = builder.select(builder.icmp_signed(">", left, none), left, none)
    at, rest = (cgutils.alloca_once(builder, start.type) for _ in range(2))
    builder.store(start, at)
    builder.store(count, rest)
    return packed(builder, kind, [at, stop, step, rest])


def advanced(builder: Builder, kind: llvm.Type, iterator: Any) -> Any:
    """Return the pair of the next number of a range and whether there is one."""
    at, step, rest = (builder.extract_value(iterator, k) for k in (0, 2, 3))
    count, value = builder.load(rest), builder.load(at)
    valid = builder.icmp_signed(">", count, count.type(0))
    with builder.if_then(valid):
        builder.store(builder.sub(count, count.type(1), flags=["nsw"]), rest)
        builder.store(builder.add(value, step), at)
    return packed(builder, kind, [value, valid])


def packed(builder: Builder, kind: llvm.Type, values: Sequence[Any]) -> Any:
    """Return a struct of some values."""
    made = kind(llvm.Undefined)
    for which, value in enumerate(values):
        made = builder.insert_value(made, value, which)
    return made
