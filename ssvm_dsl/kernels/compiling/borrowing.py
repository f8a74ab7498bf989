"""Which kernels need not count references to arrays, decided for each when its types are known.

Numba counts references whenever an array, or a tuple with arrays in it, gets another name: for a record of forty arrays
that is forty calls, made and then mostly taken out again.  A function that makes no array and returns none need not
count, as its caller holds on to what it has passed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any
from weakref import WeakSet

from numba.core import ir, types
from numba.core.compiler_machinery import AnalysisPass, register_pass
from numba.core.errors import NumbaError
from numba.core.types.containers import BaseTuple
from numba.core.types.misc import NoneType, Omitted

from ssvm_dsl.kernels.intrinsics import borrow

#: Functions that make arrays out of sight, as it turned out when they were compiled.
_count: WeakSet[Callable[..., Any]] = WeakSet()

#: Operations whose results may be views of what they are applied to, but are no arrays of their own.
VIEWS = (
    *("getattr", "getitem", "static_getitem", "build_tuple", "cast", "phi"),
    *("getiter", "iternext", "exhaust_iter", "pair_first", "pair_second"),
)

#: Types of arguments that own nothing but arrays, unlike lists.
PLAIN: tuple[Any, ...] = (types.Array, types.Number, types.Boolean, types.Record, types.Literal, Omitted, NoneType)
PLAIN += (types.FunctionType, types.Dispatcher)


@register_pass(mutates_CFG=False, analysis_only=True)
class Borrowing(AnalysisPass):  # type: ignore[misc]
    """Lets a function that only borrows arrays count no references."""

    _name = "ssvm_borrowing"

    def __init__(self) -> None:
        super().__init__()

    def run_pass(self, state: Any) -> bool:
        """Return whether the code was changed: never."""
        if state.flags.nrt and state.func_id.func not in _count and only_borrows(state):
            count_nothing(state.targetctx)
            state.library.borrows = True
        return False


def count_nothing(context: Any) -> None:
    """Let the function that a target context is for count no references; what numba brings itself may make arrays."""
    context.enable_nrt = False
    context.__dict__.pop("nrt", None)


def must_count(function: Callable[..., Any], error: NumbaError) -> bool:
    """Return whether a function was compiled in vain without reference counts, which it then gets the next time."""
    if function in _count or "NRT required" not in str(error):
        return False
    _count.add(function)
    return True


def only_borrows(state: Any) -> bool:
    """Return whether a typed function makes no arrays, gets none from functions that it calls, and returns none."""
    owned = _Owned(state.targetctx)
    if state.func_ir.generator_info or owned.within(state.return_type) or not all(map(_is_plain, state.args)):
        return False
    return not any(owned.within(kind) for kind in _made(state))


class _Owned:
    """Which types have owners of memory in them."""

    def __init__(self, targetctx: Any) -> None:
        self._models = targetctx.data_model_manager

    def within(self, kind: Any) -> bool:
        """Return whether a value of a type has an owner."""
        return bool(self._models[kind].contains_nrt_meminfo())


def _is_plain(kind: Any) -> bool:
    """Return whether a type is a number, an array, a function, or a tuple of these."""
    if isinstance(kind, BaseTuple):
        return all(map(_is_plain, kind.types))
    return isinstance(kind, PLAIN)


def _made(state: Any) -> Iterator[Any]:
    """Yield the types of what operations return that may be neither arguments nor views of them."""
    for block in state.func_ir.blocks.values():
        for assigned in block.find_insts(ir.Assign):
            value, kind = assigned.value, state.typemap[assigned.target.name]
            if isinstance(value, ir.Yield):
                yield kind
            if isinstance(value, ir.Expr) and not _is_view(state, value):
                yield kind


def _is_view(state: Any, value: ir.Expr) -> bool:
    """Return whether the result of an operation is a view of what it is applied to, or holds that."""
    if value.op == "call":
        called = state.typemap[value.func.name]
        known = isinstance(called, types.Function) and called.typing_key is borrow
        return known or isinstance(called, types.NamedTupleClass)
    if value.op == "getitem":
        index = state.typemap[value.index.name]
        return not any(isinstance(one, types.Array) for one in getattr(index, "types", (index,)))
    return value.op in VIEWS
