"""Read X into checked arrays; every error names the input and the example."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Set
from copy import copy
from dataclasses import dataclass, field
from functools import partial
from math import isfinite, prod
from operator import attrgetter
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ssvm_dsl.array_types import F64, I64
from ssvm_dsl.callers import warn_caller
from ssvm_dsl.compiler.features.sparse import as_csr, checked, read_all_rows, rows_of_matrix
from ssvm_dsl.errors import DataError, ModelError
from ssvm_dsl.ir.features import SparseRows
from ssvm_dsl.ir.ragged import owner_of, pointers
from ssvm_dsl.lang.arrays import MOST, as_floats, describe, is_sparse, plain_array, real_array, whole_numbers
from ssvm_dsl.lang.declaration import Declaration
from ssvm_dsl.lang.dims import Dim
from ssvm_dsl.lang.frames import as_frame, column_names, is_frame, is_numbered, is_row, is_series, matched, matrix_of
from ssvm_dsl.lang.inputs import Attributes, Edges, ExampleInput, Input, Positions
from ssvm_dsl.lang.symbols import plain


@dataclass(frozen=True, eq=False)
class Examples:
    """The checked examples.

    Parameters
    ----------
    n : int
        Number of examples.
    sizes : dict of str to ndarray of int64, shape (n,)
        Size of each axis in each example, by axis name.
    raw : dict of str to list
        The values of each input, example by example: arrays where the input is dense, ``SparseRows`` where
        it is sparse, lists of attributes, and edges as int64.
    columns : dict of str to list of str
        The columns of dense inputs that came as data frames, in the order of the arrays.
    shared : frozenset of str
        The sparse inputs that came as CSR matrices, whose arrays are read where they are.
    """

    n: int
    sizes: dict[str, I64]
    raw: dict[str, Sequence[Any]]
    columns: dict[str, list[str]] = field(default_factory=dict)
    shared: frozenset[str] = frozenset()

    def size(self, dims: tuple[Dim, ...]) -> I64:
        """Return the number of positions of some axes in each example; ``shape (n,)``."""
        if len(dims) == 1:
            return self.sizes[dims[0].name]
        total = np.ones(self.n, dtype=np.int64)
        for dim in dims:
            total = total * self.sizes[dim.name]
        return total


class _AxisSizes:
    """Axis sizes as they become known, with the input that defined each."""

    def __init__(self, declaration: Declaration, n: int) -> None:
        self.n = n
        self.known: dict[str, I64] = {}
        self.source: dict[str, str] = {}
        for dim in declaration.fixed_dims:
            if dim.size:
                self.known[dim.name], self.source[dim.name] = np.full(n, dim.size, np.int64), "the declaration"

    def tell(self, dim: Dim, sizes: I64, what: str) -> None:
        """Record sizes of an axis; complain where they differ from what is known."""
        if dim.origin is not dim:
            self.tell(dim.origin, sizes, what)
        if dim.name not in self.known:
            self.known[dim.name], self.source[dim.name] = sizes, what
            return
        wrong = np.flatnonzero(self.known[dim.name] != sizes)
        if len(wrong):
            i = int(wrong[0])
            expected = f"size {self.known[dim.name][i]} along {dim.name} (from {self.source[dim.name]})"
            raise DataError(what, example=i, expected=expected, found=f"size {sizes[i]}")


def check_sequence(values: object, what: str, declaration: Declaration | None = None) -> Sequence[Any]:
    """Return ``values`` if it is a non-empty list of examples.

    A sparse matrix, or a data frame, is one where the model (of the declaration) has a single input: a row for each.
    """
    if type(values) is list and values:
        return values
    rows = None if declaration is None else _only_row(declaration)
    if isinstance(values, FrameRows) or (is_frame(values) and rows is not None and not rows.sparse):
        examples: Sequence[Any] = values if isinstance(values, FrameRows) else FrameRows(values)
    elif is_sparse(values) and rows is not None and rows.sparse and len(getattr(values, "shape", ())) == 2:
        examples = checked(rows_of_matrix, values, f"input '{rows.name}'")
    elif isinstance(values, Mapping) or not hasattr(values, "__len__") or not hasattr(values, "__getitem__"):
        hint = "pass a list with one entry for each example" if isinstance(values, Mapping) else ""
        raise DataError(what, expected="a list of examples", found=type(values).__name__, hint=hint)
    elif not isinstance(values, np.ndarray) and (is_sparse(values) or len(getattr(values, "shape", ())) > 1):
        hint = "pass a list (or a numpy array) with one entry for each example"  # sparse matrix, data frame
        if hasattr(values, "to_numpy"):
            hint = f"pass {'the column: Y.iloc[:, 0]' if what == 'Y' else 'its rows: X.to_numpy()'}"
        if is_sparse(values) and declaration is not None and len(declaration.inputs) == 1:
            hint = f"declare the input with sparse=True: {declaration.inputs[0].name} = Input(..., sparse=True)"
        raise DataError(what, expected="a list of examples", found=type(values).__name__, hint=hint)
    elif isinstance(values, np.ndarray) and values.ndim == 0:
        raise DataError(what, expected="a list of examples", found=describe(values))
    else:
        examples = list(values) if is_series(values) else values  # type: ignore[assignment, call-overload]
    if len(examples) == 0:
        raise DataError(what, expected="at least one example", found="an empty list")
    return examples


class FrameRows(Sequence[Any]):
    """A data frame whose rows are examples.

    Parameters
    ----------
    frame : data frame
    """

    def __init__(self, frame: Any) -> None:
        self.frame = frame

    def __len__(self) -> int:
        return len(self.frame)

    def __getitem__(self, place: Any) -> Any:
        if isinstance(place, slice):
            return FrameRows(self.frame[place])
        if not -len(self) <= place < len(self):
            raise IndexError(place)
        place %= len(self)
        return self.frame[place : place + 1]


#: Where nothing is known.
_NOTHING: Mapping[str, Any] = MappingProxyType({})


def _only_row(declaration: Declaration) -> Input | None:
    """Return the only input of a model where it is a row of numbers for each example."""
    only = declaration.inputs[0] if len(declaration.inputs) == 1 else None
    return only if isinstance(only, Input) and len(only.shape) == 1 and not only.dims else None


def read_examples(
    declaration: Declaration, X: object, judged: bool = True, learnt: Mapping[str, Any] = _NOTHING
) -> Examples:
    """Return the checked examples of ``X``; inputs of the loss alone are read only if there are labels.

    ``learnt`` is what a fit has learnt: the columns of data frames by the name of the input, among others.

    Raises
    ------
    DataError
        Names the input, the example, the expected value and the given one.
    """
    if not declaration.outputs:
        raise ModelError(declaration.name, [("", "it has no Label; there is nothing to predict")])
    if not declaration.inputs:
        raise ModelError(declaration.name, [("", "it has no Input; examples would be empty")])
    if not declaration.factors and not declaration.given:
        text = "it has no Factor; nothing scores its labellings: add e.g. emit = Factor(y, features=x)"
        raise ModelError(declaration.name, [("", text)])
    inputs = declaration.inputs if judged else declaration.scored_inputs
    return read_inputs(declaration, check_sequence(X, "X", declaration), inputs, judged, learnt)


def read_inputs(
    declaration: Declaration, examples: Sequence[Any], inputs: Sequence[ExampleInput], judged: bool,
    learnt: Mapping[str, Any] = _NOTHING, known: Mapping[str, I64] = _NOTHING,
) -> Examples:  # fmt: skip
    """Return the checked inputs of examples, and the sizes of axes that they define.

    ``known`` are sizes of axes that come with the examples, ``shape (n,)``.

    Raises
    ------
    DataError
        Names the input, the example, the expected value and the given one.
    """
    sizes = _AxisSizes(declaration, len(examples))
    for dim in declaration.dims:
        if dim.name in known:
            sizes.tell(dim, known[dim.name], f"size of axis '{dim.name}'")
    raw, named, shared = _split_inputs(declaration, examples, inputs), dict[str, list[str]](), set[str]()
    for symbol in inputs:
        if isinstance(symbol, Input):
            values = raw[symbol.name]
            if not isinstance(values, np.ndarray) and set(map(type, values)) != {np.ndarray}:
                values = _of_frames(symbol, values, learnt.get(symbol.name, _NOTHING).get("columns"), named)
            raw[symbol.name] = (_read_sparse if symbol.sparse else _read_dense)(symbol, values, sizes)
            if symbol.sparse and len(values) and raw[symbol.name][0].data is getattr(values[0], "data", None):
                shared.add(symbol.name)
        elif isinstance(symbol, Attributes):
            raw[symbol.name] = _read_attributes(symbol, raw[symbol.name], sizes)
        elif isinstance(symbol, Positions):
            raw[symbol.name] = _read_places(symbol, raw[symbol.name], sizes)
        elif isinstance(symbol, Dim):
            raw[symbol.name] = _read_sizes(symbol, raw[symbol.name], sizes)
    for symbol in inputs:
        if isinstance(symbol, Edges):
            raw[symbol.name] = _read_edges(symbol, raw[symbol.name], sizes, declaration.apart(symbol), judged)
        elif isinstance(symbol, Positions):
            _check_places(symbol, raw[symbol.name], sizes)
    for name, origin in declaration.derived_axes:
        if origin in sizes.known:
            sizes.known[name] = sizes.known[origin]
    return Examples(len(examples), sizes.known, raw, named, frozenset(shared))


def _of_frames(
    symbol: Input, values: Sequence[Any], known: list[str] | None, named: dict[str, list[str]]
) -> Sequence[Any]:  # fmt: skip
    """Return the values of an input with arrays in place of data frames, whose columns are matched by name.

    The columns are those that are known, else those of the first frame; they are entered in ``named``.
    """
    what, whole = f"input '{symbol.name}'", isinstance(values, FrameRows)
    frames = [values.frame] if isinstance(values, FrameRows) else values
    places = [] if isinstance(values, np.ndarray) else [
        i for i, one in enumerate(frames)
        if type(one) is not np.ndarray and (is_frame(one) or (not symbol.dims and is_row(one)))
    ]  # fmt: skip
    if not places or len(symbol.shape) != 1:
        return values
    out: list[Any] = list(frames)
    for i in places:
        frame, place = as_frame(frames[i]) if is_row(frames[i]) else frames[i], None if whole else i
        names = checked(column_names, frame, what, place)
        if not is_numbered(frame):
            own = named.setdefault(symbol.name, names if known is None else known)
            frame = checked(partial(matched, names=own), frame, what, place)
        out[i] = checked(matrix_of, frame, what, place)
        if not symbol.dims and not whole and len(out[i]) == 1:
            out[i] = out[i][0]
    return out[0] if whole else out


def arrays_of_frames(
    declaration: Declaration, X: Sequence[Any], known: Mapping[str, list[str]] = _NOTHING
) -> tuple[Sequence[Any], dict[str, list[str]]]:
    """Return examples with arrays in place of data frames of dense inputs, and the columns of these inputs.

    Columns are matched by name over all examples, which shards of them cannot do.
    """
    named: dict[str, list[str]] = {}
    dense = [one for one in declaration.inputs if isinstance(one, Input)]
    if isinstance(X, FrameRows) or (len(declaration.inputs) == 1 and dense and not any(map(_is_dict, X))):
        return _of_frames(dense[0], X, known.get(dense[0].name), named), named
    out = list(X)
    for symbol in dense:
        there = [i for i, one in enumerate(out) if _is_dict(one) and symbol.name in one]
        arrays = _of_frames(symbol, [out[i][symbol.name] for i in there], known.get(symbol.name), named)
        if symbol.name in named:
            for i, value in zip(there, arrays, strict=True):
                out[i] = {**out[i], symbol.name: value}
    return (out if named else X), named


def _split_inputs(
    declaration: Declaration, examples: Sequence[Any], inputs: Sequence[ExampleInput]
) -> dict[str, Sequence[Any]]:
    """Return the examples by input name; a bare value is allowed when there is one input, else a tuple of all values.

    Where all examples are the rows of one array of numbers, each of the input's shape, they stay in it: nothing needs
    to be done for each of them.  There are no other arrays of all examples in what is returned.

    Values of inputs of the declaration that are not among ``inputs`` may be there, and are left alone.
    """
    if len(inputs) == 1:
        only = inputs[0]
        if isinstance(examples, FrameRows):
            return {only.name: examples}
        matrix: Any = examples
        row = only.shape if isinstance(only, Input) and not (only.dims or only.sparse) else None
        numbers = type(matrix) is np.ndarray and matrix.dtype.kind in "biuf"
        if row is not None and numbers and matrix.shape[1:] == row:
            return {only.name: matrix}
        dicts = [kind for kind in set(map(type, examples)) if issubclass(kind, Mapping)]
        # the attributes of a single position are a dict themselves
        bare = isinstance(only, Attributes) and not only.dims
        if not dicts or not any(_is_dict(one) and (only.name in one or not bare) for one in examples):
            return {only.name: list(examples)}
    names = [symbol.name for symbol in inputs]
    unread = {symbol.name for symbol in declaration.inputs} - set(names)
    if len(names) > 1 and all(type(one) is tuple for one in examples):
        every = [symbol.name for symbol in declaration.inputs]
        order = next((one for one in (names, every) if all(len(example) == len(one) for example in examples)), None)
        if order is not None:
            return {name: [example[order.index(name)] for example in examples] for name in names}
    listed = ", ".join(names)
    refuse_mixture(examples, names, "X")
    for i, example in enumerate(examples):
        if not _is_dict(example):
            several = f"the model has {len(names)} inputs; pass {{{names[0]!r}: ..., ...}}, or a tuple ({listed})"
            hint = "" if len(names) == 1 else several
            raise DataError(
                "X", example=i, expected=f"a dict with the inputs {listed}", found=describe(example), hint=hint
            )
        if set(example) - unread != set(names):
            missing, extra = sorted(set(names) - set(example)), sorted(map(str, set(example) - unread - set(names)))
            parts = [f"no {', '.join(missing)}"] if missing else []
            found = "; ".join([*parts, f"unknown {', '.join(extra)}"] if extra else parts)
            of_positions = len(names) == 1 and isinstance(inputs[0], Attributes) and bool(inputs[0].dims)
            hint = "X is a list of sequences; for one of them pass a list: [x]" if of_positions and missing else ""
            if missing and missing == [dim.name for dim in inputs if isinstance(dim, Dim) and dim.name in missing]:
                hint = f"no input has the axis {missing[0]}: its size comes with each example, {{{missing[0]!r}: 5}}"
            raise DataError("X", example=i, expected=f"a dict with the inputs {listed}", found=found, hint=hint)
    return {name: [example[name] for example in examples] for name in names}


def refuse_mixture(examples: Sequence[Any], names: Sequence[str], what: str) -> None:
    """Refuse a dict among bare values, where there is one name.

    Raises
    ------
    DataError
        Names the first dict.
    """
    if len(names) == 1 and not _is_dict(examples[0]):
        i = next((i for i, example in enumerate(examples) if _is_dict(example)), 0)
        hint = f"write all examples as dicts {{{names[0]!r}: ...}}, or none"
        expected, found = f"'{names[0]}' without a dict, as in example 0", describe(examples[i])
        raise DataError(what, example=i, expected=expected, found=found, hint=hint)


def _is_dict(example: object) -> bool:
    """Whether an example is a dict by input name; scipy's dictionaries of keys are matrices."""
    return isinstance(example, Mapping) and not is_sparse(example)


def _shape_words(symbol: Input) -> str:
    parts = [dim.name if dim.ragged else f"{dim.name}={dim.size}" for dim in symbol.dims]
    return f"({', '.join([*parts, *map(str, symbol.shape)])}{',' if len(parts) + len(symbol.shape) == 1 else ''})"


_KIND, _SHAPE = attrgetter("dtype.kind"), attrgetter("shape")


def _read_dense(symbol: Input, arrays: Sequence[Any], sizes: _AxisSizes) -> Sequence[Any]:
    """Return one array for each example after checking shapes and kinds of numbers."""
    if isinstance(arrays, np.ndarray):  # all examples are its rows, see _split_inputs
        return arrays
    what = f"input '{symbol.name}'"
    n_axes, expected = len(symbol.dims), len(symbol.dims) + len(symbol.shape)
    if set(map(type, arrays)) != {np.ndarray}:
        arrays = [checked(real_array, array, what, i) for i, array in enumerate(arrays)]
        if n_axes == 1:  # the list of no positions
            arrays = [array.reshape(0, *symbol.shape) if array.shape == (0,) else array for array in arrays]
    if not set("biuf").issuperset(map(_KIND, arrays)):
        i = next(i for i, array in enumerate(arrays) if array.dtype.kind not in "biuf")
        checked(real_array, arrays[i], what, i)
    # Not a list of all shapes: so many tuples would wake the garbage collector.
    for shape in set(map(_SHAPE, arrays)):
        if len(shape) != expected or shape[n_axes:] != symbol.shape:
            i = next(i for i, a in enumerate(arrays) if a.ndim != expected or a.shape[n_axes:] != symbol.shape)
            hint, found = _shape_hint(symbol, list(map(_SHAPE, arrays)), i), f"shape {arrays[i].shape}"
            raise DataError(what, example=i, expected=f"shape {_shape_words(symbol)}", found=found, hint=hint)
    for axis, dim in enumerate(symbol.dims):
        lengths = map(len, arrays) if axis == 0 else (array.shape[axis] for array in arrays)
        sizes.tell(dim, np.fromiter(lengths, np.int64, len(arrays)), what)
    return arrays


#: The shape of an example; ``None`` for an axis whose size comes with it.
Shape = tuple[int | None, ...]


def _shape_hint(symbol: Input, shapes: list[tuple[int, ...]], wrong: int) -> str:
    """Return a guess at the intended examples of a dense input; empty without one.

    Parameters
    ----------
    symbol : Input
    shapes : list of tuple of int
        Of the arrays that were passed.
    wrong : int
        The first one that does not fit.
    """
    expected: Shape = (*(dim.size for dim in symbol.dims), *symbol.shape)
    found, name = shapes[wrong], symbol.name
    if len(expected) > 1 and _fits(found[::-1], expected):
        return f"it fits transposed: pass {name}.T for each example"
    alike = len(set(shapes)) == 1
    if alike and _fits((len(shapes), *found), expected):
        return f"X reads as {len(shapes)} examples; if it is a single one, pass a list with it: [X]"
    if alike and len(expected) == 1 and len(found) == 1 and len(shapes) == expected[0]:
        return f"X has {len(shapes)} rows of {found[0]} numbers: if these are features by examples, pass X.T"
    return ""


def _fits(shape: tuple[int, ...], expected: Shape) -> bool:
    """Whether an array of this shape may be an example."""
    if len(shape) != len(expected):
        return False
    return all(size is None or size == given for given, size in zip(shape, expected, strict=True))


def stack_dense(symbol: Input, examples: Examples) -> F64:
    """Return all rows of a dense input, ``shape (R, width)``, float64; refuse nan and infinity."""
    arrays = examples.raw[symbol.name]
    if isinstance(arrays, np.ndarray):
        rows = np.array(as_floats(arrays.reshape(-1, symbol.width)), order="C")
    else:
        flat = len(symbol.dims) == 1 and len(symbol.shape) == 1
        joined = np.concatenate(arrays if flat else [array.reshape(-1, symbol.width) for array in arrays])
        rows = np.ascontiguousarray(as_floats(joined))
    if not all_finite(rows):
        check_finite(rows, pointers(examples.size(symbol.dims)), f"input '{symbol.name}'")
    return rows


def check_finite(rows: F64, row_ptr: I64, what: str) -> None:
    """Raise a DataError naming the first example with nan or infinity."""
    if not all_finite(rows):
        _complain_numbers(rows, ~np.isfinite(rows), row_ptr, what, "finite numbers")


def all_finite(rows: F64) -> bool:
    """Whether squares of numbers can be added up; where they cannot, the numbers may still be finite."""
    return isfinite(np.vdot(rows, rows))  # BLAS: twice as fast as a sum; and it does not warn of an overflow


def _complain_numbers(rows: F64, wrong: NDArray[np.bool_], row_ptr: I64, what: str, expected: str) -> None:
    """Raise a DataError naming the first wrong number, if there is one."""
    bad = np.flatnonzero(wrong)
    if len(bad):
        row, column = divmod(int(bad[0]), rows[0].size)
        example = owner_of(row_ptr, row)
        value = rows.flat[bad[0]]
        place = f"{value} at row {row - row_ptr[example]}, column {column}"
        raise DataError(what, example=example, expected=expected, found=place)


def read_scores(symbol: Input, examples: Examples) -> tuple[F64, I64]:
    """Return (all rows of a dense input that holds scores, rows of each example); ``-inf`` is a score.

    Raises
    ------
    DataError
        Naming the first nan or +inf.
    """
    arrays, ptr = examples.raw[symbol.name], pointers(examples.size(symbol.dims))
    rows = np.ascontiguousarray(as_floats(np.concatenate([array.reshape(-1, symbol.width) for array in arrays])))
    _complain_numbers(rows, np.isnan(rows) | (rows == np.inf), ptr, f"input '{symbol.name}'", "numbers or -inf")
    return rows, ptr


def _read_sparse(symbol: Input, values: Sequence[Any], sizes: _AxisSizes) -> list[SparseRows]:
    """Return the rows of each example after checking that no index leads out of them."""
    what, single = f"input '{symbol.name}'", not symbol.dims
    words = f"({'1' if single else symbol.dims[0].name}, {symbol.width})"
    matrices = read_all_rows(values, symbol.width, single, words, what)
    if symbol.dims:
        counts = np.array([m.shape[0] for m in matrices], dtype=np.int64)
        sizes.tell(symbol.dims[-1], counts if len(symbol.dims) == 1 else _sides(counts, symbol, what), what)
    return matrices


def _sides(counts: I64, symbol: Input, what: str) -> I64:
    """Return the sizes of an axis from numbers of pairs of its positions."""
    sides = np.rint(np.sqrt(counts)).astype(np.int64)
    wrong = np.flatnonzero(sides**2 != counts)
    if len(wrong):
        axis, i = symbol.dims[0].name, int(wrong[0])
        expected = f"a row for each pair of positions of {axis}: {axis} times {axis} rows"
        raise DataError(what, example=i, expected=expected, found=f"{counts[i]} rows")
    return sides


def _read_attributes(symbol: Attributes, values: Sequence[Any], sizes: _AxisSizes) -> list[Any]:
    """Return the attributes of each example: a list with an entry for each position where there are positions."""
    what = f"input '{symbol.name}'"
    if not symbol.dims:
        return list(values)
    of_each = "a list with a dict (or list) of attributes for each position"
    first = f"a list with, for each position of {symbol.dims[0].name}, "
    expected = of_each if len(symbol.dims) == 1 else first + of_each
    lists = [_listed(tokens, what, i, expected) for i, tokens in enumerate(values)]
    sizes.tell(symbol.dims[0], np.fromiter(map(len, lists), np.int64, len(lists)), what)
    if len(symbol.dims) == 1:
        return lists
    second, tables = symbol.dims[1], [[_listed(row, what, i, expected) for row in rows] for i, rows in enumerate(lists)]
    for i, rows in enumerate(tables):
        if len(lengths := set(map(len, rows))) > 1:
            one_length = f"lists of one length, the size of {second.origin.name}"
            raise DataError(what, example=i, expected=one_length, found=f"lists of {min(lengths)} to {max(lengths)}")
    sizes.tell(second, np.array([len(rows[0]) if rows else 0 for rows in tables], dtype=np.int64), what)
    return tables


def _listed(tokens: Any, what: str, i: int, expected: str) -> list[Any]:
    """Return what stands at the positions of one axis as a list; the rows of a data frame are dicts."""
    if type(tokens) is list:
        return tokens
    if hasattr(tokens, "columns") and hasattr(tokens, "to_dict"):
        records: list[Any] = tokens.to_dict("records")
        return records
    unlisted = isinstance(tokens, str | bytes | Mapping | Set | type) or is_sparse(tokens)
    if unlisted or not (hasattr(tokens, "__len__") and hasattr(tokens, "__iter__")):
        raise DataError(what, example=i, expected=expected, found=describe(tokens))
    return list(tokens)


def _read_sizes(symbol: Dim, values: Sequence[Any], sizes: _AxisSizes) -> list[int]:
    """Return the size of an axis in each example."""
    what, listed = f"size of axis '{symbol.name}'", list(map(plain, values))
    for i, value in enumerate(listed):
        if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= MOST:
            raise DataError(what, example=i, expected=f"an int from 0 to {MOST}", found=describe(value))
    sizes.tell(symbol, np.array(listed, dtype=np.int64), what)
    return listed


def _read_places(symbol: Positions, values: Sequence[Any], sizes: _AxisSizes) -> list[I64]:
    """Return the positions of each example as int64, with an axis for each of the input's."""
    what, out, n_axes = f"input '{symbol.name}'", list[I64](), len(symbol.dims)
    for i, value in enumerate(values):
        array = checked(plain_array, value, what, i)
        array = np.zeros((0,) * n_axes, dtype=np.int64) if array.shape == (0,) else array
        if array.dtype.kind not in "iu" and array.size:
            expected = f"ints, positions on {symbol.over.name} (-1: none)"
            raise DataError(what, example=i, expected=expected, found=f"dtype {array.dtype}")
        if array.ndim != n_axes:
            axes = ", ".join(dim.origin.name for dim in symbol.dims)
            expected = f"shape ({axes}{',' if n_axes == 1 else ''})"
            raise DataError(what, example=i, expected=expected, found=f"shape {array.shape}")
        out.append(array.astype(np.int64))
    for axis, dim in enumerate(symbol.dims):
        sizes.tell(dim, np.array([array.shape[axis] for array in out], dtype=np.int64), what)
    return out


def _check_places(symbol: Positions, arrays: Sequence[I64], sizes: _AxisSizes) -> None:
    """Refuse positions that are not on the axis that they are on."""
    what, over = f"input '{symbol.name}'", symbol.over.name
    if over not in sizes.known:
        raise DataError(what, expected=f"another input that defines the size of {over}", found="none")
    for i, (array, size) in enumerate(zip(arrays, sizes.known[over].tolist(), strict=True)):
        wrong = array[(array < -1) | (array >= size)]
        if len(wrong):
            expected = f"positions in 0..{size - 1} ({over}={size}), or -1 for none"
            raise DataError(what, example=i, expected=expected, found=str(wrong.flat[0]))


#: Columns of an edge list, and others that are not to be the same.
Apart = list[tuple[tuple[int, ...], tuple[int, ...]]]


def _read_edges(symbol: Edges, values: Sequence[Any], sizes: _AxisSizes, apart: Apart, judged: bool) -> list[I64]:
    """Return the edges of each example as int64, ``shape (m, arity)``; ends in ``apart`` are different positions."""
    what, ends = f"input '{symbol.name}'", [dim.name for dim in symbol.ends]
    arrays = [_edge_rows(symbol, value, what, i) for i, value in enumerate(values)]
    counts = np.fromiter(map(len, arrays), np.int64, len(arrays))
    sizes.tell(symbol.dim, counts, what)
    for over in ends:
        if over not in sizes.known:
            raise DataError(what, expected=f"another input that defines the size of {over}", found="none")
    joined, limits = np.concatenate(arrays), np.stack([sizes.known[over] for over in ends], axis=1)
    wrong = np.flatnonzero(_misplaced(joined, np.repeat(limits, counts, axis=0), apart))
    if len(wrong):
        ptr = pointers(counts)
        i = int(np.searchsorted(ptr, wrong[0], side="right")) - 1
        edge = tuple(joined[wrong[0]].tolist())
        found = f"edge {edge} at row {wrong[0] - ptr[i]}"
        square = arrays[i].shape[0] == symbol.arity
        hint = _transposed(symbol) if square and not _misplaced(arrays[i].T, limits[i], apart).any() else ""
        expected = _ends_words(symbol, limits[i].tolist(), apart)
        raise DataError(what, example=i, expected=expected, found=found, hint=hint)
    if judged and symbol.arity == 2 and (counts == 2).all():
        _mention_reading(values, arrays, limits, apart, what)
    return arrays


def _transposed(symbol: Edges) -> str:
    """Return advice on a list that has a row for each end."""
    if symbol.arity == 2:
        return "edges are rows, (start, end) each; two rows of starts and ends are passed transposed: e.T"
    r = symbol.arity
    return f"edges are rows, {r} positions each; {r} rows, one for each end of the edges, are passed transposed: e.T"


def _ends_words(symbol: Edges, limits: list[int], apart: Apart) -> str:
    """Return a description of the allowed ends of an edge."""
    if apart and len(apart[0][0]) > 1:
        ends = dict(zip(symbol.ends, limits, strict=True))
        within = ", ".join(f"0..{n - 1} ({dim.name}={n})" for dim, n in ends.items())
        return f"different pointers, each a position and what it points to, in {within}"
    if not symbol.several:
        count = "two" if symbol.arity == 2 else str(symbol.arity)
        return f"{count} different positions in 0..{limits[0] - 1} ({symbol.ends[0].name}={limits[0]})"
    places = [f"0..{n - 1} ({dim.name}={n})" for dim, n in zip(symbol.ends, limits, strict=True)]
    alike = "".join(f", {a} and {b} different" for (a,), (b,) in apart)
    return f"an edge from positions in {', '.join(places)}{alike}"


def _edge_rows(symbol: Edges, value: Any, what: str, i: int) -> I64:
    array, r = value if type(value) is np.ndarray else checked(plain_array, value, what, i), symbol.arity
    if array.dtype.kind == "i" and array.ndim == 2 and array.shape[1] == r:
        return array.astype(np.int64)  # a copy: users' functions must not change it
    if array.shape in ((0,), (0, r)):  # of any type
        return np.zeros((0, r), dtype=np.int64)
    if array.ndim != 2 or array.shape[1] != r or array.dtype.kind != "u":
        found = f"shape {array.shape}, dtype {array.dtype}"
        hint = _transposed(symbol) if array.ndim == 2 and array.shape[0] == r else ""
        raise DataError(what, example=i, expected=f"ints of shape ({symbol.dim.name}, {r})", found=found, hint=hint)
    whole, exact = whole_numbers(array)
    return np.where(exact, whole, -1)


def _misplaced(edges: I64, limits: I64, apart: Apart) -> NDArray[np.bool_]:
    """Return which edges do not join positions below limits, different ones where ends must be."""
    wrong = np.asarray(((edges < 0) | (edges >= limits)).any(axis=1))
    for a, b in apart:
        wrong |= (edges[:, a] == edges[:, b]).all(axis=1)
    return wrong


def _mention_reading(values: Sequence[Any], arrays: list[I64], limits: I64, apart: Apart, what: str) -> None:
    """Warn where every example has two edges, as an array that could be read the other way round as well.

    Other libraries keep edges as two rows of ends; arrays of any other number of edges would have been refused.
    """
    for array, value, limit in zip(arrays, values, limits, strict=True):
        if array.shape != (2, 2) or type(value) is list or _misplaced(array.T, limit, apart).any():
            return
    if any(array[0, 1] != array[1, 0] for array in arrays):
        text = f"{what}: every example has edges of shape (2, 2), which are read as rows: edge k joins e[k, 0] and "
        text += "e[k, 1]; pass e.T where they are a row of starts and a row of ends (a list of pairs is not ambiguous)"
        warn_caller(text)


def example_inputs(examples: Examples, i: int, names: Iterable[str] | None) -> dict[str, Any]:
    """Return inputs of one example by name (all by default), as user functions receive them.

    Nothing that a function does to them reaches the user's data, or what is compiled from them.
    """
    return {name: _handed_out(examples.raw[name][i]) for name in (examples.raw if names is None else names)}


def _handed_out(value: Any) -> Any:
    """Return a read-only view of an array, and a copy of everything else."""
    if isinstance(value, np.ndarray):
        view = value.view()
        view.flags.writeable = False
        return view
    if isinstance(value, SparseRows):
        return as_csr(value)
    return [_handed_out(token) for token in value] if isinstance(value, list) else copy(value)


def position_words(dims: tuple[Dim, ...], shape: tuple[int, ...], flat: int) -> str:
    """Return the text of a flat position, e.g. ``"at position 3 of T"`` or ``"at position 1 of H, 4 of W"``."""
    if not dims or not prod(shape):
        return ""
    where = np.unravel_index(flat, shape)
    return "at position " + ", ".join(f"{int(k)} of {dim.name}" for dim, k in zip(dims, where, strict=True))
