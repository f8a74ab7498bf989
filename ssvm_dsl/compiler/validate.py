"""Read what the user passed as X into checked arrays; every complaint names the input and the example."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod
from operator import attrgetter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ssvm_dsl.errors import DataError, ModelError
from ssvm_dsl.ir.ragged import pointers
from ssvm_dsl.lang.declaration import Declaration
from ssvm_dsl.lang.dims import Dim
from ssvm_dsl.lang.inputs import Attributes, Edges, Input

F64 = NDArray[np.float64]
I64 = NDArray[np.int64]


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
        What the user passed for each input, example by example (arrays where the input is dense).
    """

    n: int
    sizes: dict[str, I64]
    raw: dict[str, list[Any]]

    def size(self, dims: tuple[Dim, ...]) -> I64:
        """Return the number of positions of some axes in each example; ``shape (n,)``."""
        total = np.ones(self.n, dtype=np.int64)
        for dim in dims:
            total = total * self.sizes[dim.name]
        return total


class _Sizes:
    """Axis sizes as they become known, with the input that told each."""

    def __init__(self, declaration: Declaration, n: int) -> None:
        self.n = n
        self.known = {dim.name: np.full(n, dim.size, np.int64) for dim in declaration.dims if dim.size}
        self.source = dict.fromkeys(self.known, "the declaration")

    def tell(self, dim: Dim, sizes: I64, what: str) -> None:
        """Record sizes of an axis; complain where they differ from what is known."""
        if dim.name not in self.known:
            self.known[dim.name], self.source[dim.name] = sizes, what
            return
        wrong = np.flatnonzero(self.known[dim.name] != sizes)
        if len(wrong):
            i = int(wrong[0])
            expected = f"size {self.known[dim.name][i]} along {dim.name} (from {self.source[dim.name]})"
            raise DataError(what, example=i, expected=expected, found=f"size {sizes[i]}")


def check_sequence(values: object, what: str) -> Sequence[Any]:
    """Return ``values`` if it is a non-empty list of examples."""
    if isinstance(values, Mapping) or not hasattr(values, "__len__") or not hasattr(values, "__getitem__"):
        hint = "pass a list with one entry for each example" if isinstance(values, Mapping) else ""
        raise DataError(what, expected="a list of examples", found=type(values).__name__, hint=hint)
    if not isinstance(values, np.ndarray) and len(getattr(values, "shape", ())) > 1:  # sparse matrix, data frame
        hint = "pass a list (or a numpy array) with one entry for each example"
        raise DataError(what, expected="a list of examples", found=type(values).__name__, hint=hint)
    if len(values) == 0:
        raise DataError(what, expected="at least one example", found="an empty list")
    return values  # type: ignore[return-value]


def read_examples(declaration: Declaration, X: object, judged: bool = True) -> Examples:
    """Return the checked examples of ``X``; what only the loss reads is read only when there are labels to judge.

    Raises
    ------
    DataError
        Naming the input, the example, what was expected and what came.
    """
    if not declaration.labels:
        raise ModelError(declaration.name, [("", "it has no Label; there is nothing to predict")])
    if not declaration.inputs:
        raise ModelError(declaration.name, [("", "it has no Input; examples would be empty")])
    if not declaration.factors:
        text = "it has no Factor; nothing scores its labellings: add e.g. emit = Factor(y, features=x)"
        raise ModelError(declaration.name, [("", text)])
    examples = check_sequence(X, "X")
    sizes = _Sizes(declaration, len(examples))
    inputs = declaration.inputs if judged else declaration.scored_inputs
    raw = split_inputs(declaration, examples, inputs)
    for symbol in inputs:
        if isinstance(symbol, Input):
            raw[symbol.name] = _read_sparse(symbol, raw, sizes) if symbol.sparse else _read_dense(symbol, raw, sizes)
        elif isinstance(symbol, Attributes):
            _read_attributes(symbol, raw[symbol.name], sizes)
    for symbol in inputs:
        if isinstance(symbol, Edges):
            raw[symbol.name] = _read_edges(symbol, raw[symbol.name], sizes)
    return Examples(len(examples), sizes.known, raw)


def split_inputs(
    declaration: Declaration, examples: Sequence[Any], inputs: tuple[Input | Attributes | Edges, ...]
) -> dict[str, list[Any]]:
    """Return the examples by input name; a bare value is allowed when there is one input.

    Values of inputs of the declaration that are not among ``inputs`` may be there, and are left alone.
    """
    names = [symbol.name for symbol in inputs]
    unread = {symbol.name for symbol in declaration.inputs} - set(names)
    if len(names) == 1:
        # the attributes of a single position are a dict themselves
        bare = isinstance(inputs[0], Attributes) and not inputs[0].dims
        kinds = [kind for kind in set(map(type, examples)) if issubclass(kind, Mapping)]
        if not kinds or not any(isinstance(one, Mapping) and (names[0] in one or not bare) for one in examples):
            return {names[0]: list(examples)}
    listed = ", ".join(names)
    for i, example in enumerate(examples):
        if not isinstance(example, Mapping):
            hint = "" if len(names) == 1 else f"the model has {len(names)} inputs; pass {{{names[0]!r}: ..., ...}}"
            raise DataError(
                "X", example=i, expected=f"a dict with the inputs {listed}", found=describe(example), hint=hint
            )
        if set(example) - unread != set(names):
            missing, extra = sorted(set(names) - set(example)), sorted(map(str, set(example) - unread - set(names)))
            parts = [f"no {', '.join(missing)}"] if missing else []
            found = "; ".join([*parts, f"unknown {', '.join(extra)}"] if extra else parts)
            raise DataError("X", example=i, expected=f"a dict with the inputs {listed}", found=found)
    return {name: [example[name] for example in examples] for name in names}


def describe(value: object) -> str:
    """Return a short description of a value for messages."""
    shape = getattr(value, "shape", None)
    if shape is not None:
        return f"an array of shape {tuple(shape)}"
    if isinstance(value, str):
        return repr(value if len(value) <= 30 else value[:27] + "...")
    if isinstance(value, list | tuple):
        return f"a {type(value).__name__} of {len(value)}"
    return f"{type(value).__name__} {value!r}" if isinstance(value, int | float | bool) else type(value).__name__


def _shape_words(symbol: Input) -> str:
    parts = [dim.name if dim.ragged else f"{dim.name}={dim.size}" for dim in symbol.dims]
    return f"({', '.join([*parts, *map(str, symbol.shape)])}{',' if len(parts) + len(symbol.shape) == 1 else ''})"


_DTYPE, _SHAPE = attrgetter("dtype"), attrgetter("shape")


def _read_dense(symbol: Input, raw: dict[str, list[Any]], sizes: _Sizes) -> list[Any]:
    """Return one array for each example after checking shapes and kinds of numbers."""
    what = f"input '{symbol.name}'"
    arrays = raw[symbol.name]
    n_axes, expected = len(symbol.dims), len(symbol.dims) + len(symbol.shape)
    if set(map(type, arrays)) != {np.ndarray}:
        arrays = [_as_array(array, what, i) for i, array in enumerate(arrays)]
    odd = [dtype for dtype in set(map(_DTYPE, arrays)) if dtype.kind not in "biuf"]
    if odd:
        i = next(i for i, array in enumerate(arrays) if array.dtype in odd)
        raise DataError(what, example=i, expected="real numbers", found=f"dtype {arrays[i].dtype}")
    # Not a list of all shapes: so many tuples would wake the garbage collector.
    if any(len(shape) != expected or shape[n_axes:] != symbol.shape for shape in set(map(_SHAPE, arrays))):
        i = next(i for i, a in enumerate(arrays) if a.ndim != expected or a.shape[n_axes:] != symbol.shape)
        raise DataError(what, example=i, expected=f"shape {_shape_words(symbol)}", found=f"shape {arrays[i].shape}")
    for axis, dim in enumerate(symbol.dims):
        lengths = map(len, arrays) if axis == 0 else (array.shape[axis] for array in arrays)
        sizes.tell(dim, np.fromiter(lengths, np.int64, len(arrays)), what)
    return arrays


def _as_array(value: object, what: str, example: int) -> NDArray[Any]:
    try:
        array = np.asarray(value)
    except (ValueError, TypeError):
        raise DataError(what, example=example, expected="a rectangular array", found=describe(value)) from None
    if array.dtype == object:
        hint = "is it ragged, or sparse? (declare sparse=True)"
        raise DataError(what, example=example, expected="a rectangular array", found=describe(value), hint=hint)
    return array


def stack_dense(symbol: Input, arrays: list[NDArray[Any]], sizes: I64) -> F64:
    """Return all rows of a dense input, ``shape (R, width)``, float64; refuse nan and infinity."""
    width = symbol.width
    flat = arrays if len(symbol.dims) == 1 and len(symbol.shape) == 1 else [a.reshape(-1, width) for a in arrays]
    rows = np.ascontiguousarray(np.concatenate(flat), dtype=np.float64)
    check_finite(rows, pointers(sizes), f"input '{symbol.name}'")
    return rows


def check_finite(rows: F64, row_ptr: I64, what: str) -> None:
    """Raise a DataError naming the first example with nan or infinity."""
    with np.errstate(over="ignore", invalid="ignore"):
        squares = np.dot(rows.ravel(), rows.ravel())  # BLAS: twice as fast as a sum
    if np.isfinite(squares):
        return
    bad = np.argwhere(~np.isfinite(rows.reshape(len(rows), -1)))
    if len(bad):
        row, column = bad[0]
        example = int(np.searchsorted(row_ptr, row, side="right")) - 1
        value = rows.reshape(len(rows), -1)[row, column]
        place = f"{value} at row {row - row_ptr[example]}, column {column}"
        raise DataError(what, example=example, expected="finite numbers", found=place)


def _read_sparse(symbol: Input, raw: dict[str, list[Any]], sizes: _Sizes) -> list[Any]:
    from scipy.sparse import csr_array, issparse

    what, matrices = f"input '{symbol.name}'", []
    for i, value in enumerate(raw[symbol.name]):
        array = value if issparse(value) else np.atleast_2d(_as_array(value, what, i))
        if array.dtype.kind not in "biuf":
            raise DataError(what, example=i, expected="real numbers", found=f"dtype {array.dtype}")
        matrix = csr_array(array)
        if matrix.shape[1] != symbol.width or (not symbol.dims and matrix.shape[0] != 1):
            rows = symbol.dims[0].name if symbol.dims else "1"
            raise DataError(
                what, example=i, expected=f"a sparse matrix of shape ({rows}, {symbol.width})", found=describe(matrix)
            )
        if not np.isfinite(matrix.data).all():
            raise DataError(what, example=i, expected="finite numbers", found="nan or infinity")
        matrices.append(matrix)
    if symbol.dims:
        sizes.tell(symbol.dims[0], np.array([m.shape[0] for m in matrices], dtype=np.int64), what)
    return matrices


def _read_attributes(symbol: Attributes, values: list[Any], sizes: _Sizes) -> None:
    what = f"input '{symbol.name}'"
    if not symbol.dims:
        return
    for i, tokens in enumerate(values):
        if isinstance(tokens, str | Mapping) or not hasattr(tokens, "__len__"):
            expected = "a list with a dict (or list) of attributes for each position"
            raise DataError(what, example=i, expected=expected, found=describe(tokens))
    sizes.tell(symbol.dims[0], np.array([len(tokens) for tokens in values], dtype=np.int64), what)


def _read_edges(symbol: Edges, values: list[Any], sizes: _Sizes) -> list[Any]:
    what, over = f"input '{symbol.name}'", symbol.over.name
    arrays = []
    for i, value in enumerate(values):
        array = _as_array(value, what, i)
        if array.size == 0:
            array = np.zeros((0, 2), dtype=np.int64)
        if array.ndim != 2 or array.shape[1] != 2 or array.dtype.kind not in "iu":
            found = f"shape {array.shape}, dtype {array.dtype}"
            raise DataError(what, example=i, expected=f"ints of shape ({symbol.dim.name}, 2)", found=found)
        arrays.append(array.astype(np.int64))
    sizes.tell(symbol.dim, np.array([len(array) for array in arrays], dtype=np.int64), what)
    if over not in sizes.known:
        raise DataError(what, expected=f"another input that tells the size of {over}", found="none")
    for i, array in enumerate(arrays):
        n = int(sizes.known[over][i])
        wrong = np.flatnonzero(((array < 0) | (array >= n)).any(axis=1) | (array[:, 0] == array[:, 1]))
        if len(wrong):
            edge = tuple(array[wrong[0]].tolist())
            expected = f"two different positions in 0..{n - 1} ({over}={n})"
            raise DataError(what, example=i, expected=expected, found=f"edge {edge} at row {wrong[0]}")
    return arrays


def example_inputs(examples: Examples, i: int) -> dict[str, Any]:
    """Return the inputs of one example by name, as user functions receive them."""
    return {name: values[i] for name, values in examples.raw.items()}


def position_words(dims: tuple[Dim, ...], shape: tuple[int, ...], flat: int) -> str:
    """Return a flat position in words, e.g. ``"at position 3 of T"`` or ``"at position 1 of H, 4 of W"``."""
    if not dims or not prod(shape):
        return ""
    where = np.unravel_index(flat, shape)
    return "at position " + ", ".join(f"{int(k)} of {dim.name}" for dim, k in zip(dims, where, strict=True))
