"""``PartitionedDataset``: labelled examples in parts, each read where and when it is needed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from platform import node
from typing import Any

import numpy as np

from ssvm_dsl.calls import CheckedCalls
from ssvm_dsl.errors import DataError, OptionError

#: Returns (X, Y), or (X, Y, sample_weight), of a part.
Load = Callable[[Any], tuple[Any, ...]]

#: Yields (example, label) of a range of examples.
Generate = Callable[[int, int], Iterable[tuple[Any, Any]]]


class PartitionedDataset(CheckedCalls):
    """Labelled examples in parts: files, tables of a database, partitions of a larger list.

    Stands for ``X`` in ``StructuredSVM(..., executor=...).fit``; ``Y`` is left out.

    Parameters
    ----------
    parts : list
        What ``load`` is called with: paths, as a rule.  Each part is a shard.
    load : callable
        Returns the examples and labels of a part, ``(X, Y)`` or ``(X, Y, sample_weight)``.  It runs where the shard is:
        write it in a module that workers can import.

    Raises
    ------
    OptionError
        There is no part, or ``load`` cannot be called.

    Examples
    --------
    >>> data = PartitionedDataset(sorted(Path("shards").glob("*.npz")), read_words)
    >>> StructuredSVM(OCR, risk="log", trainer="lbfgs", executor="stream").fit(data)
    """

    def __init__(self, parts: Sequence[Any], load: Load) -> None:
        listed = hasattr(parts, "__len__") and hasattr(parts, "__getitem__") and not isinstance(parts, str | Mapping)
        if not listed or not len(parts):
            raise OptionError(f"PartitionedDataset: parts must be a list with at least one entry, got {parts!r}")
        if not callable(load):
            raise OptionError(f"PartitionedDataset: load must be a function of a part, got {load!r}")
        self.parts, self.load = parts, load

    @classmethod
    def generated(cls, generate: Generate, n: int, n_parts: int = 8) -> PartitionedDataset:
        """Return n examples that a generator makes, in parts of nearly equal length.

        Parameters
        ----------
        generate : callable
            ``generate(start, stop)`` yields (example, label) of the examples from ``start`` to before ``stop``, the
            same in every call; in a module that workers can import.
        n : int
            Number of all examples.
        n_parts : int

        Raises
        ------
        OptionError
            There are no examples or parts, or ``generate`` cannot be called.
        """
        if not callable(generate):
            raise OptionError(f"PartitionedDataset.generated: generate must be a function, got {generate!r}")
        if n < 1 or n_parts < 1:
            raise OptionError(f"PartitionedDataset.generated: n and n_parts are at least 1, got {n} and {n_parts}")
        return cls(_ranges(n, n_parts), ReadGenerated(generate))

    def __len__(self) -> int:
        """Return the number of parts."""
        return len(self.parts)

    def part(self, number: int) -> DataPart:
        """Return one part."""
        return DataPart(number, self.parts[number], self.load)


@dataclass(frozen=True)
class ReadGenerated:
    """Collects the examples of a part from a generator.

    Parameters
    ----------
    generate : callable
    """

    generate: Generate

    def __call__(self, part: tuple[int, int]) -> tuple[list[Any], list[Any]]:
        """Return the examples and labels of a range.

        Raises
        ------
        DataError
            There are more or fewer.
        """
        pairs = list(self.generate(*part))
        if len(pairs) != part[1] - part[0]:
            raise DataError("examples", expected=f"{part[1] - part[0]} from generate{part}", found=str(len(pairs)))
        return [x for x, _ in pairs], [y for _, y in pairs]


def _ranges(n: int, n_parts: int) -> list[tuple[int, int]]:
    """Return the bounds of parts of nearly equal length."""
    return list(pairwise(np.linspace(0, n, min(n_parts, n) + 1).astype(int).tolist()))


@dataclass(frozen=True, eq=False)
class DataPart:
    """One part of the data, before it is read.

    Parameters
    ----------
    number : int
    what : object
        What ``load`` is called with.
    load : callable
    first : int, optional
        Number of its first example in the list that it was cut from.
    """

    number: int
    what: Any
    load: Load
    first: int | None = None

    @property
    def name(self) -> str:
        """The number of the part, and what it is read from."""
        return f"part {self.number}" if self.first is not None else f"part {self.number} ({_short(self.what)})"

    def located(self, error: DataError) -> DataError:
        """Return an error about an example of this part with its place in all of the data."""
        return error.of(f"part {self.number}, {_short(self.what)}") if self.first is None else error.shifted(self.first)

    def read(self) -> tuple[Any, Any, Any]:
        """Return (X, Y, sample_weight or None).

        Raises
        ------
        DataError
            Reading failed (that exception is the cause), or gave something else.
        """
        try:
            found = self.load(self.what)
        except Exception as err:
            hint = ""
            if isinstance(err, FileNotFoundError):
                hint = f"each worker reads its own parts: paths must be there on every machine; this was {node()}"
            text = f"{type(err).__name__}: {err}"
            raise DataError(self.name, expected="load to return (X, Y)", found=text, hint=hint) from err
        if not isinstance(found, tuple) or len(found) not in (2, 3):
            shown = f"a tuple of {len(found)}" if isinstance(found, tuple) else type(found).__name__
            raise DataError(self.name, expected="(X, Y) or (X, Y, sample_weight) from load", found=shown)
        X, Y = found[:2]
        return X, Y, found[2] if len(found) == 3 else None


def has_examples(values: Any) -> bool:
    """Return whether there are examples, as far as their number can be told."""
    shape = getattr(values, "shape", None)
    return bool(shape[0] if shape else len(values)) if shape or hasattr(values, "__len__") else True


def parts_of(X: Any, Y: Any, sample_weight: Any, n_parts: int) -> list[DataPart]:
    """Return lists of examples cut into parts of nearly equal length, in order."""
    if isinstance(X, PartitionedDataset):
        if Y is not None or sample_weight is not None:
            raise DataError("Y", expected="no Y: the parts of a PartitionedDataset hold the labels", found="Y")
        return [X.part(number) for number in range(len(X))]
    parts = []
    for number, (lo, hi) in enumerate(_ranges(len(X), n_parts)):
        weight = None if sample_weight is None else sample_weight[lo:hi]
        parts.append(DataPart(number, (X[lo:hi], Y[lo:hi], weight), tuple, lo))
    return parts


def _short(what: Any) -> str:
    """Return a part in a few characters."""
    if isinstance(what, tuple) and len(what) == 3 and hasattr(what[0], "__len__"):
        return f"{len(what[0])} examples"
    text = str(what)
    return text if len(text) <= 60 else f"{text[:57]}..."
