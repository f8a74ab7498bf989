"""npz: arrays ``X`` and ``Y`` of numpy, an example in each row; ``ptr`` says where sequences begin.

With ``ptr``, example i is made of the rows ``ptr[i]`` to ``ptr[i + 1]``.  A sparse X is ``X_data``, ``X_indices``,
``X_indptr`` and ``X_shape``.  Nothing is unpickled.
"""

from __future__ import annotations

import zipfile
import zlib
from collections.abc import Sequence
from dataclasses import replace
from io import BytesIO
from itertools import pairwise
from typing import IO, Any

import numpy as np

from ssvm_dsl.datasets.formats.examples import DataSettings, LabelledData, require_examples
from ssvm_dsl.datasets.formats.lines import opened, source_name, write_bytes
from ssvm_dsl.errors import FileFormatError, OptionError
from ssvm_dsl.lang.arrays import is_sparse
from ssvm_dsl.learning.json_ready import as_json
from ssvm_dsl.memory import require_memory

#: Parts of a sparse matrix.
_SPARSE = ("X_data", "X_indices", "X_indptr", "X_shape")

#: What reading a damaged archive raises.
_DAMAGED = (ValueError, KeyError, TypeError, EOFError, zipfile.BadZipFile, zlib.error, NotImplementedError)


def _read_arrays(source: str) -> dict[str, Any]:
    """Return the arrays of a file by name."""
    name = source_name(source)
    with opened(source) as stream:
        try:
            file: IO[bytes] = stream if stream.seekable() else BytesIO(stream.read())
            with zipfile.ZipFile(file) as archive:
                size = sum(entry.file_size for entry in archive.infolist())
            require_memory(size, f"{name}: unpacked, it", "split it into smaller files")
            file.seek(0)
            with np.load(file, allow_pickle=False) as stored:
                return {key: stored[key] for key in stored.files}
        except _DAMAGED as err:
            expected = "an npz file with arrays X and Y of numbers or texts"
            raise FileFormatError(f"{name}: expected {expected}, found another or a damaged one ({err})") from err


def read(source: str, settings: DataSettings) -> LabelledData:
    """Return the examples and labels of a file.

    Raises
    ------
    FileFormatError
        There is no X, or sizes do not fit together.
    """
    arrays, name = _read_arrays(source), source_name(source)
    X, Y = _matrix(arrays, name), arrays.get("Y", arrays.get("y"))
    if "ptr" in arrays:
        bounds = _bounds(arrays["ptr"], X.shape[0], name)
        if Y is not None and len(Y) not in (X.shape[0], len(bounds)):
            raise FileFormatError(f"{name}: expected Y of {X.shape[0]} rows, as in X, found {len(Y)}")
        if Y is not None and len(Y) == X.shape[0]:
            Y = [_labels(Y[lo:hi]) for lo, hi in bounds]
        X = [X[lo:hi] for lo, hi in bounds]
    elif Y is not None and np.shape(Y)[:1] != X.shape[:1]:
        raise FileFormatError(f"{name}: expected Y of {X.shape[0]} rows, as in X, found shape {np.shape(Y)}")
    require_examples(source, X.shape[0] if hasattr(X, "shape") else len(X), "example in X")
    return LabelledData(source, replace(settings, learnt=True), X, _labels(Y), (), "ptr" in arrays)


def _labels(Y: Any) -> Any:
    """Return labels; single ones as plain values."""
    return Y.tolist() if isinstance(Y, np.ndarray) and Y.ndim == 1 else Y


def _matrix(arrays: dict[str, Any], name: str) -> Any:
    X = arrays.get("X", arrays.get("x"))
    if X is None and all(part in arrays for part in _SPARSE):
        from scipy.sparse import csr_array

        data, indices, indptr, shape = (arrays[part] for part in _SPARSE)
        try:
            X = csr_array((data, indices, indptr), shape=tuple(shape.tolist()))
            X.check_format()
        except (ValueError, TypeError, IndexError) as err:
            expected = f"the parts of a sparse matrix in {', '.join(_SPARSE)}"
            raise FileFormatError(f"{name}: expected {expected}, found others ({err})") from err
    if X is None or not X.shape:
        listed = ", ".join(arrays) or "none"
        raise FileFormatError(f"{name}: expected an array X with an example in each row, found the arrays {listed}")
    return X


def _bounds(ptr: Any, n: int, name: str) -> list[tuple[int, int]]:
    """Return the first row of each sequence and the one behind its last."""
    whole = ptr.ndim == 1 and ptr.dtype.kind in "iu" and len(ptr) > 1
    if not whole or ptr[0] != 0 or ptr[-1] != n or (np.diff(ptr.astype(np.int64)) < 0).any():
        raise FileFormatError(f"{name}: expected ptr to rise from 0 to {n}, the number of rows of X, found {ptr!r:.80}")
    return list(pairwise(ptr.tolist()))


def read_answers(source: str, data: LabelledData) -> Any:
    """Return the array Y of a file, by sequence where it has ``ptr``."""
    arrays = _read_arrays(source)
    if "Y" not in arrays:
        raise FileFormatError(f"{source_name(source)}: expected an array Y, found {', '.join(arrays) or 'none'}")
    Y = arrays["Y"]
    if "ptr" in arrays:
        return [Y[lo:hi] for lo, hi in _bounds(arrays["ptr"], len(Y), source_name(source))]
    return _labels(Y)


def write_answers(out: str, data: LabelledData, predicted: Sequence[Any]) -> None:
    """Write the predicted labels as Y, with ``ptr`` where examples differ in size."""
    _write(out, _packed("Y", list(predicted), bool(data.raw)))


def write_data(out: str, data: LabelledData) -> None:
    """Write examples and labels."""
    sequences = isinstance(data.X, list)
    if is_sparse(data.X):
        X = data.X.tocsr()
        parts = (X.data, X.indices, X.indptr, np.array(X.shape))
        arrays = dict(zip(_SPARSE, parts, strict=True))
    else:
        blocks = [one.toarray() if is_sparse(one) else one for one in data.X]
        arrays = _packed("X", blocks, sequences and len({np.shape(one)[:1] for one in blocks}) > 1)
    if data.Y is not None:
        arrays |= _packed("Y", list(data.Y), "ptr" in arrays)
    _write(out, arrays)


def _packed(name: str, values: list[Any], ragged: bool) -> dict[str, Any]:
    """Return an array of all examples, and where they begin if they are ragged."""
    try:
        each = [np.asarray(as_json(one)) for one in values]
        made = {name: np.concatenate(each) if ragged else np.stack(each)}
        if ragged:
            made["ptr"] = np.cumsum([0, *map(len, each)])
    except (ValueError, TypeError) as err:
        made = {name: np.array(None)}
        cause: Exception | None = err
    else:
        cause = None
    if made[name].dtype.kind not in "biufU":
        hint = "jsonl takes all that models take"
        raise OptionError(f"npz: expected arrays of numbers or texts as {name}, found others; {hint}") from cause
    return made


def _write(out: str, arrays: dict[str, Any]) -> None:
    def write(file: IO[bytes]) -> None:
        np.savez_compressed(file, **arrays)

    write_bytes(out, write)
