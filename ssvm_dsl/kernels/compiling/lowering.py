"""How typed functions become code of LLVM: as numba does it, but with a third of the instructions.

Numba writes one instruction for each thought: an array is copied to memory before an element is read, a variable lives
in memory unless it is used in one block only, a record is taken apart and put together for each call.  LLVM takes all
of that out again: writing, printing, reading and simplifying these instructions was half of the time of compiling.
What is done otherwise here:

* variables that are assigned once live in no memory, wherever they are used;
* elements of aggregates are known (:class:`Builder`);
* elements of arrays are read and written, and numbers are computed with, by the instructions that remain of numba's.

The code does the same to the last bit, as it consists of what LLVM leaves of numba's.
"""

from __future__ import annotations

import operator
from collections.abc import Mapping, Sequence
from typing import Any

from llvmlite import ir as llvm
from numba.core import cgutils, ir, types
from numba.core.analysis import compute_cfg_from_blocks, must_use_alloca
from numba.core.compiler_machinery import register_pass
from numba.core.lowering import Lower
from numba.core.typed_passes import NativeLowering
from numba.core.types.containers import BaseNamedTuple, BaseTuple
from numba.core.types.iterators import RangeIteratorType, RangeType
from numba.core.unsafe import eh

# -- a builder that knows what tuples and arrays are made of -------------------------------------------------------
#
# Numba takes records apart and puts them together again for each call: with forty arrays of seven fields each that is
# hundreds of instructions, which LLVM finds out to do nothing.  Here a value that is put together is no instruction but
# a note of its elements, until something needs it as a whole.


class Aggregate(llvm.Value):  # type: ignore[misc]
    """A struct or an array of LLVM's whose elements are known.

    Parameters
    ----------
    base : value
        Has the other elements.
    elements : mapping from int to value
    """

    def __init__(self, base: Any, elements: Mapping[int, Any]) -> None:
        self.type, self.base, self.elements = base.type, base, elements

    def get_reference(self) -> str:
        """Return how instructions name the value: none may, without :meth:`Builder.whole`."""
        raise AssertionError(f"{self.type} is not put together")


class Builder(llvm.IRBuilder):  # type: ignore[misc]
    """Builds code as llvmlite's builder does, with fewer instructions for aggregates."""

    def insert_value(self, agg: Any, value: Any, idx: Any, name: str = "") -> Any:
        """Return an aggregate with another element."""
        first, *rest = idx if isinstance(idx, tuple | list) else [idx]
        if rest:
            value = self.insert_value(self.extract_value(agg, first), value, rest)
        expected = agg.type.elements[first]
        if value.type != expected:
            raise TypeError(f"element {first} of {agg.type} is no {value.type}")
        base, known = (agg.base, agg.elements) if isinstance(agg, Aggregate) else (agg, {})
        return Aggregate(base, {**known, first: value})

    def extract_value(self, agg: Any, idx: Any, name: str = "") -> Any:
        """Return an element of an aggregate."""
        path = list(idx) if isinstance(idx, tuple | list) else [idx]
        while path and isinstance(agg, Aggregate):
            agg = agg.elements[path.pop(0)] if path[0] in agg.elements else agg.base
        return super().extract_value(agg, path, name) if path else agg

    def phi(self, typ: Any, name: str = "", flags: Sequence[str] = ()) -> Any:
        """Return a value that depends on the block before; it takes aggregates, too."""
        made = _Phi(self, typ, name, flags)
        super()._insert(made)
        return made

    def whole(self, value: Any) -> Any:
        """Return a value that instructions can name."""
        if not isinstance(value, Aggregate):
            return value
        made = self.whole(value.base)
        for which, element in sorted(value.elements.items()):
            made = super().insert_value(made, self.whole(element), which)
        return made

    def _insert(self, instr: Any) -> None:
        """Add an instruction, and before it what puts its operands together."""
        if any(isinstance(one, Aggregate) for one in instr.operands):
            instr.operands = type(instr.operands)([self.whole(one) for one in instr.operands])
        super()._insert(instr)


class _Phi(llvm.PhiInstr):  # type: ignore[misc]
    """A value that depends on the block before."""

    def __init__(self, builder: Builder, typ: Any, name: str, flags: Sequence[str]) -> None:
        super().__init__(builder.block, typ, name=name, flags=flags)
        self._builder = builder

    def add_incoming(self, value: Any, block: Any) -> None:
        """Say which value comes from a block."""
        if isinstance(value, Aggregate):
            with self._builder.goto_block(block):
                value = self._builder.whole(value)
        super().add_incoming(value, block)


# -- loops over range, in as many instructions as LLVM leaves of numba's -------------------------------------------
#
# Numba's iterator is a struct of where it is (an address), its end, its step, and how many numbers are left (an
# address).


def new_range(builder: Builder, kind: llvm.Type, arguments: list[Any]) -> Any:
    """Return what ``range`` of some arguments is: start, end and step."""
    number = arguments[0].type
    first = [number(0)] if len(arguments) == 1 else []
    last = [number(1)] if len(arguments) < 3 else []
    return pack_struct(builder, kind, [*first, *arguments, *last])


def range_iterator(builder: Builder, kind: llvm.Type, values: Any) -> Any:
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
    return pack_struct(builder, kind, [at, stop, step, rest])


def advance_range(builder: Builder, kind: llvm.Type, iterator: Any) -> Any:
    """Return the pair of the next number of a range and whether there is one."""
    at, step, rest = (builder.extract_value(iterator, k) for k in (0, 2, 3))
    count, value = builder.load(rest), builder.load(at)
    valid = builder.icmp_signed(">", count, count.type(0))
    with builder.if_then(valid):
        builder.store(builder.sub(count, count.type(1), flags=["nsw"]), rest)
        builder.store(builder.add(value, step), at)
    return pack_struct(builder, kind, [value, valid])


def pack_struct(builder: Builder, kind: llvm.Type, values: Sequence[Any]) -> Any:
    """Return a struct of some values."""
    made = kind(llvm.Undefined)
    for which, value in enumerate(values):
        made = builder.insert_value(made, value, which)
    return made


#: Operators of two numbers of one type, by what the builder calls them.
SUMS = {operator.add: "add", operator.sub: "sub", operator.mul: "mul"}
SUMS |= {operator.iadd: "add", operator.isub: "sub", operator.imul: "mul"}
ORDERS = {operator.lt: "<", operator.le: "<=", operator.gt: ">", operator.ge: ">="}
ORDERS |= {operator.eq: "==", operator.ne: "!="}

#: Which element of a pair an expression is.
PAIRS = {"pair_first": 0, "pair_second": 1}

#: Attributes of arrays that are fields of them.
FIELDS = {"shape": "shape", "size": "nitems"}


class LeanLower(Lower):  # type: ignore[misc]
    """Writes the code of one function."""

    def setup_function(self, fndesc: Any) -> None:
        """Begin the function, with a builder that knows aggregates."""
        super().setup_function(fndesc)
        self.builder = Builder(self.entry_block)
        self.call_helper = self.call_conv.init_call_helper(self.builder)

    def _find_singly_assigned_variable(self) -> None:
        """Find variables that need no memory."""
        super()._find_singly_assigned_variable()
        if self.func_ir.func_id.is_generator or catches(self.blocks):
            return
        assigned = assigned_once(self.blocks) - must_use_alloca(self.blocks)
        self._singly_assigned_vars |= {name for name in assigned if not self._counts(self.typeof(name))}

    def _counts(self, kind: Any) -> bool:
        """Return whether references to values of a type are counted."""
        models = self.context.data_model_manager
        return self.context.enable_nrt and models[kind].contains_nrt_meminfo()

    def lower_inst(self, inst: Any) -> Any:
        """Write the code of a statement."""
        if isinstance(inst, ir.StaticSetItem) and inst.index_var is not None:
            signature = self.fndesc.calltypes[inst]
            if self._is_element(inst.target.name, signature):
                return self.lower_setitem(inst.target, inst.index_var, inst.value, signature)
        return super().lower_inst(inst)

    def lower_expr(self, resty: Any, expr: Any) -> Any:
        """Return the value of an expression."""
        if expr.op == "static_getitem" and expr.index_var is not None:
            signature = self.fndesc.calltypes.get(expr)
            if self._is_element(expr.value.name, signature):
                return self.lower_getitem(resty, expr, expr.value, expr.index_var, signature)
        if expr.op == "getattr":
            kind = self.typeof(expr.value.name)
            if isinstance(kind, BaseNamedTuple) and kind[kind.fields.index(expr.attr)] == resty:
                field = self.builder.extract_value(self.loadvar(expr.value.name), kind.fields.index(expr.attr))
                self.incref(resty, field)
                return field
            if type(kind) is types.Array and expr.attr in FIELDS:
                return self._field(kind, self.loadvar(expr.value.name), FIELDS[expr.attr])
        if expr.op in ("getiter", "iternext", "pair_first", "pair_second"):
            made = self._step(resty, expr)
            if made is not None:
                return made
        return super().lower_expr(resty, expr)

    def lower_getitem(self, resty: Any, expr: Any, value: Any, index: Any, signature: Any) -> Any:
        """Return an element or a slice."""
        if not self._is_element(value.name, signature):
            return super().lower_getitem(resty, expr, value, index, signature)
        array = signature.args[0]
        place = self._place(array, value.name, index.name, signature.args[1])
        element = self.context.unpack_value(self.builder, array.dtype, place, align=None if array.aligned else 1)
        return self.context.cast(self.builder, element, signature.return_type, resty)

    def lower_setitem(self, target_var: Any, index_var: Any, value_var: Any, signature: Any) -> Any:
        """Write an element or a slice."""
        if not self._is_element(target_var.name, signature):
            return super().lower_setitem(target_var, index_var, value_var, signature)
        array, index, kind = signature.args
        place = self._place(array, target_var.name, index_var.name, index)
        value = self.context.cast(self.builder, self._cast(value_var.name, kind), kind, array.dtype)
        self.context.pack_value(self.builder, array.dtype, value, place, align=None if array.aligned else 1)
        return None

    def lower_binop(self, resty: Any, expr: Any, op: Any) -> Any:
        """Return the value of an operator."""
        signature = self.fndesc.calltypes[expr]
        kind = signature.args[0]
        if kind != signature.args[1] or kind not in (types.int64, types.float64) or op not in SUMS | ORDERS:
            return super().lower_binop(resty, expr, op)
        left, right = self._cast(expr.lhs.name, kind), self._cast(expr.rhs.name, kind)
        made = computed(self.builder, op, left, right)
        return self.context.cast(self.builder, made, signature.return_type, resty)

    def _step(self, resty: Any, expr: Any) -> Any:
        """Return the value of an expression that a loop over a range consists of, ``None`` for other loops."""
        kind, value = self.typeof(expr.value.name), self.loadvar(expr.value.name)
        if expr.op in PAIRS:
            half = self.builder.extract_value(value, PAIRS[expr.op])
            self.incref(resty, half)
            return half
        if isinstance(kind, RangeType) and expr.op == "getiter":
            return range_iterator(self.builder, self.context.get_value_type(resty), value)
        if isinstance(kind, RangeIteratorType) and expr.op == "iternext":
            return advance_range(self.builder, self.context.get_value_type(resty), value)
        return None

    def _lower_call_normal(self, fnty: Any, expr: Any, signature: Any) -> Any:
        """Return what a call returns."""
        if isinstance(fnty, types.Function) and fnty.typing_key is len and type(signature.args[0]) is types.Array:
            array = signature.args[0]
            return self.builder.extract_value(self._field(array, self._cast(expr.args[0].name, array), "shape"), 0)
        if isinstance(fnty, types.Function) and fnty.typing_key is range and expr.target is None:
            arguments = self.fold_call_args(fnty, signature, expr.args, expr.vararg, expr.kws)
            return new_range(self.builder, self.context.get_value_type(signature.return_type), arguments)
        return super()._lower_call_normal(fnty, expr, signature)

    def _cast(self, name: str, kind: Any) -> Any:
        """Return the value of a variable as another type."""
        return self.context.cast(self.builder, self.loadvar(name), self.typeof(name), kind)

    def _field(self, array: Any, value: Any, name: str) -> Any:
        """Return a field of an array."""
        model = self.context.data_model_manager[array]
        return self.builder.extract_value(value, model.get_field_position(name))

    def _is_element(self, name: str, signature: Any) -> bool:
        """Return whether an index of a variable denotes a number of an array, to be read or written."""
        if signature is None or type(signature.args[0]) is not types.Array or self.context.enable_boundscheck:
            return False
        array, index, *value = signature.args
        kinds = index.types if isinstance(index, BaseTuple) else (index,)
        numbers = all(isinstance(one, types.Number | types.Boolean) for one in (array.dtype, *value))
        return numbers and self.typeof(name) == array and kinds == (types.intp,) * array.ndim

    def _place(self, array: Any, name: str, index_name: str, index: Any) -> Any:
        """Return the address of an element: negative indices count from the end."""
        builder, value, at = self.builder, self.loadvar(name), self._cast(index_name, index)
        data, sizes, strides = (self._field(array, value, name) for name in ("data", "shape", "strides"))
        sizes = [builder.extract_value(sizes, k) for k in range(array.ndim)]
        several = isinstance(index, BaseTuple)
        indices = [builder.extract_value(at, k) for k in range(array.ndim)] if several else [at]
        fixed = [from_start(builder, one, size) for one, size in zip(indices, sizes, strict=True)]
        if array.layout == "A":
            strides = [builder.extract_value(strides, k) for k in range(array.ndim)]
            return cgutils.get_item_pointer2(self.context, builder, data, sizes, strides, "A", fixed)
        if array.layout == "F":
            fixed, sizes = fixed[::-1], sizes[::-1]
        return builder.gep(data, [offset(builder, fixed, sizes)])


def computed(builder: Builder, op: Any, left: Any, right: Any) -> Any:
    """Return the result of an operator of two integers with signs, or two floating-point numbers, of one type."""
    whole = isinstance(left.type, llvm.IntType)
    if op in SUMS:
        call = getattr(builder, SUMS[op] if whole else f"f{SUMS[op]}")
        return call(left, right, flags=["nsw"] if whole else [])
    if whole:
        return builder.icmp_signed(ORDERS[op], left, right)
    return (builder.fcmp_unordered if op is operator.ne else builder.fcmp_ordered)(ORDERS[op], left, right)


def from_start(builder: Builder, index: Any, size: Any) -> Any:
    """Return an index that is not negative."""
    if isinstance(index, llvm.Constant) and isinstance(index.constant, int):
        return index if index.constant >= 0 else builder.add(index, size)
    negative = builder.icmp_signed("<", index, index.type(0))
    return builder.select(negative, builder.add(index, size), index)


def offset(builder: Builder, indices: list[Any], sizes: list[Any]) -> Any:
    """Return how many elements of an array are before one; the last index runs fastest."""
    total = None
    for axis, index in enumerate(indices):
        for size in sizes[axis + 1 :]:
            index = builder.mul(index, size)
        total = index if total is None else builder.add(total, index)
    return total


def catches(blocks: Mapping[int, Any]) -> bool:
    """Return whether a function catches errors, so that code may be left anywhere."""
    values = (one.value for block in blocks.values() for one in block.find_insts(ir.Assign))
    return any(isinstance(one, ir.Global | ir.FreeVar) and one.value is eh.exception_check for one in values)


def assigned_once(blocks: Mapping[int, Any]) -> set[str]:
    """Return the variables that have one assignment, which comes before all their uses."""
    before = compute_cfg_from_blocks(blocks).dominators()
    homes: dict[str, int] = {}
    others: set[str] = set()
    used = []
    for offset, block in blocks.items():
        for inst in block.body:
            target = inst.target.name if isinstance(inst, ir.Assign) else ""
            names = [inst.value] if isinstance(inst, ir.Del) else [one.name for one in inst.list_vars()]
            for name in names:
                if name != target and homes.get(name) != offset:
                    used.append((name, offset))
            if target in homes:
                others.add(target)
            elif target:
                homes[target] = offset
    for name, offset in used:
        home = homes.get(name, offset)
        if home >= offset or home not in before.get(offset, ()):
            others.add(name)
    return set(homes) - others


@register_pass(mutates_CFG=True, analysis_only=False)
class LeanLowering(NativeLowering):  # type: ignore[misc]
    """Writes the code of a function."""

    _name = "ssvm_lowering"

    @property
    def lowering_class(self) -> type[LeanLower]:
        """What writes it."""
        return LeanLower
