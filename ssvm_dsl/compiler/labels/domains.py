"""Labels that have variables at some positions of their axes only: ``Label(i, j, 2, where=i < j)``.

Users' arrays are full; variables are numbered without gaps.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ssvm_dsl.array_types import F64, I32, I64, Bools
from ssvm_dsl.compiler.inputs import Examples
from ssvm_dsl.compiler.labels.class_labels import class_array
from ssvm_dsl.errors import DataError
from ssvm_dsl.ir.features import SparseRows
from ssvm_dsl.ir.ragged import members, owners, pointers
from ssvm_dsl.ir.shapes import first_of_each, kinds_of_rows
from ssvm_dsl.lang.outputs.labels import Label
from ssvm_dsl.lang.patterns.join import World


def content_key(value: Any) -> tuple[Hashable, ...]:
    """Return a key of the content of an input of one example."""
    if isinstance(value, SparseRows):
        return value.indices.tobytes(), value.ptr.tobytes(), value.data.tobytes()
    array = value if isinstance(value, np.ndarray) else np.asarray(value)
    if array.dtype.hasobject:  # whose bytes are addresses
        return repr(array.tolist()), array.shape
    return array.tobytes(), array.shape, array.dtype


@dataclass(frozen=True, eq=False)
class LabelDomain:
    """The positions at which a label has variables, stored once for each distinct shape of B examples.

    Parameters
    ----------
    of : ndarray of int32, shape (B,)
        The shape of each example.
    start : ndarray of int64, shape (K + 1,)
        Variables of each shape.
    cell : ndarray of int64, shape (m,)
        The flat position of each variable in the full array.
    area : ndarray of int64, shape (K,)
        Positions of the full arrays.
    side : ndarray of int64, shape (K,)
        The size of the last axis.
    sizes : dict of str to ndarray of int64, shape (K,)
        Axis sizes.
    symmetric : bool
        Whether each variable stands at (j, i), too.
    """

    of: I32
    start: I64
    cell: I64
    area: I64
    side: I64
    sizes: dict[str, I64]
    symmetric: bool

    @classmethod
    def find(cls, label: Label, examples: Examples) -> LabelDomain:
        """Return the variables of a label in some examples."""
        names = [dim.name for dim in label.dims]
        columns: list[NDArray[Any]] = [examples.sizes[name] for name in names]
        inputs = [one.name for one in label.domain_inputs]
        columns += [first_of_each(map(content_key, examples.raw[name]))[0] for name in inputs]
        of, chosen = kinds_of_rows(columns, examples.n)
        sizes = {name: size[chosen] for name, size in examples.sizes.items()}
        raw: dict[str, Sequence[Any]] = {name: [examples.raw[name][i] for i in chosen] for name in inputs}
        instances = label.domain(World(sizes, raw, len(chosen), chosen.tolist()))
        flat, area = np.zeros(len(instances), dtype=np.int64), np.ones(len(chosen), dtype=np.int64)
        for index, dim in zip(label.indices, label.dims, strict=True):
            flat = flat * sizes[dim.name][instances.owner] + instances.columns[id(index)]
            area = area * sizes[dim.name]
        order = np.lexsort((flat, instances.owner))
        start = pointers(np.bincount(instances.owner, minlength=len(chosen)))
        side = sizes[label.dims[-1].name] if label.dims else np.ones(len(chosen), dtype=np.int64)
        return cls(of, start, flat[order], area, side, sizes, label.symmetric)

    @property
    def counts(self) -> I64:
        """Variables of each example; ``shape (B,)``."""
        return np.asarray(np.diff(self.start)[self.of])

    def chosen(self, examples: I64) -> LabelDomain:
        """Return those of some examples."""
        return LabelDomain(self.of[examples], self.start, self.cell, self.area, self.side, self.sizes, self.symmetric)

    def numbers(self, label: Label, owner: I64, flat: I64) -> I64:
        """Return the number of the variable at flat positions of examples, -1 where there is none.

        Parameters
        ----------
        owner : ndarray of int64, shape (n,)
            The example of each.
        flat : ndarray of int64, shape (n,)
        """
        base = pointers(self.area)
        table = np.full(int(base[-1]), -1, dtype=np.int64)
        shape = owners(self.start)
        local = np.arange(len(self.cell)) - self.start[shape]
        table[base[shape] + self.cell] = local
        if label.symmetric:
            table[base[shape] + self._mirrored(self.cell, shape)] = local
        return np.asarray(table[base[self.of[owner]] + flat])

    def _mirrored(self, flat: I64, shape: Any) -> I64:
        """Return the flat position (j, i) of (i, j)."""
        side = self.side[shape]
        return np.asarray(flat % side * side + flat // side)

    def mirrored_cells(self) -> I64:
        """Return where (j, i) of each variable is in the full arrays of all examples."""
        shape = np.repeat(self.of, self.counts)
        base = np.repeat(pointers(self.area[self.of])[:-1], self.counts)
        return np.asarray(self._mirrored(self.cell[members(self.start, self.of)], shape) + base)

    def cells(self, example: int) -> I64:
        """Return the flat positions of the variables of an example."""
        k = self.of[example]
        return self.cell[self.start[k] : self.start[k + 1]]

    # -- arrays of users -----------------------------------------------------------------------------------------

    def masked(self, values: Sequence[Any]) -> list[Any]:
        """Return arrays of labels in which positions without a variable count as not known."""
        out: list[Any] = []
        for i, value in enumerate(values):
            area = int(self.area[self.of[i]])
            if value is None or np.size(value) != area:  # what is wrong with it is said later
                out.append(value)
                continue
            mask = np.ones(area, dtype=bool)
            mask[self._both_halves(i)] = False
            array = np.ma.masked_array(value) if isinstance(value, np.ndarray) else np.ma.masked_array(_objects(value))
            old = np.ma.getmaskarray(array)
            out.append(np.ma.masked_array(array.data, mask=old | mask.reshape(array.shape)))
        return out

    def _both_halves(self, example: int) -> I64:
        cells = self.cells(example)
        if not self.symmetric:
            return cells
        return np.concatenate([cells, self._mirrored(cells, int(self.of[example]))])

    def of_arrays(
        self, label: Label, states: I32, skip: Bools | None, strange: Bools
    ) -> tuple[I32, Bools | None, Bools]:
        """Return (states, not known, unseen) of the variables, of those of full arrays one after the other.

        Raises
        ------
        DataError
            Both halves of a symmetric label are known, and differ.
        """
        base = pointers(self.area[self.of])[:-1]
        at = self.cell[members(self.start, self.of)] + np.repeat(base, self.counts)
        unknown = np.zeros(len(states), dtype=bool) if skip is None else skip
        if not label.symmetric:
            return states[at], None if skip is None or not unknown[at].any() else unknown[at], strange[at]
        other = self.mirrored_cells()
        converse = np.array(label.converse, dtype=np.int32)
        first, second = states[at], converse[states[other]]
        wrong = np.flatnonzero(~unknown[at] & ~unknown[other] & (first != second))
        if len(wrong):
            k = int(wrong[0])
            example = int(np.searchsorted(pointers(self.counts), k, side="right")) - 1
            i, j = divmod(int(at[k] - base[example]), int(self.side[self.of[example]]))
            names = label.classes or tuple(range(label.n_states))
            expected = f"{names[int(second[k])]} at ({i}, {j}), as ({j}, {i}) says (the label is symmetric)"
            found = str(names[int(first[k])])
            raise DataError(f"label '{label.name}'", example=example, expected=expected, found=found)
        both = np.where(unknown[at], second, first)
        hidden = unknown[at] & unknown[other]
        return both.astype(np.int32), hidden if hidden.any() else None, strange[at] | (unknown[at] & strange[other])

    def as_array(self, label: Label, states: I32, example: int) -> Any:
        """Return the states of an example's variables as a full array of classes, masked where there is none."""
        shape = tuple(int(self.sizes[dim.name][self.of[example]]) for dim in label.dims)
        k, cells = int(self.of[example]), self.cells(example)
        full, mask = np.zeros(int(np.prod(shape)), dtype=np.int64), np.ones(int(np.prod(shape)), dtype=bool)
        full[cells], mask[cells] = states, False
        if label.symmetric:
            other = self._mirrored(cells, k)
            full[other], mask[other] = np.array(label.converse)[states], False
        named: NDArray[Any] = full if label.classes is None else class_array(label.classes)[full]
        return np.ma.masked_array(named.reshape(shape), mask=mask.reshape(shape))

    def as_rows(self, label: Label, rows: F64, example: int) -> Any:
        """Return numbers for each state of an example's variables as a full array, masked where there is none."""
        shape = tuple(int(self.sizes[dim.name][self.of[example]]) for dim in label.dims)
        k, cells = int(self.of[example]), self.cells(example)
        full = np.zeros((int(np.prod(shape)), rows.shape[1]))
        mask = np.ones(full.shape, dtype=bool)
        full[cells], mask[cells] = rows, False
        if label.symmetric:
            other = self._mirrored(cells, k)
            full[other], mask[other] = rows[:, np.array(label.converse)], False
        return np.ma.masked_array(full.reshape(*shape, -1), mask=mask.reshape(*shape, -1))


def _objects(value: Any) -> NDArray[Any]:
    """Return nested lists as an array of Python objects."""
    return np.array(value, dtype=object)
