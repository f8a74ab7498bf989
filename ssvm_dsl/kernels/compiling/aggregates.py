"""A builder of LLVM's code that knows what tuples and arrays are made of.

Numba takes records apart and puts them together again for each call: with forty arrays of seven fields each that is
hundreds of instructions, which LLVM finds out to do nothing.  Here a value that is put together is no instruction but a
note of its elements, until something needs it as a whole.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from llvmlite import ir


class Aggregate(ir.Value):  # type: ignore[misc]
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


class Builder(ir.IRBuilder):  # type: ignore[misc]
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


class _Phi(ir.PhiInstr):  # type: ignore[misc]
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
