"""Segmentations as users write them, ``(start, end, class)``, and as programs have them: classes, beginnings, spans."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain, pairwise
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ssvm_dsl.array_types import I32, I64, Bools
from ssvm_dsl.compiler.labels.class_labels import class_array
from ssvm_dsl.compiler.labels.label_structure import LabelPlaces, LabelStructure
from ssvm_dsl.compiler.labels.unknown_labels import UnseenClasses, may_be_class
from ssvm_dsl.errors import DataError
from ssvm_dsl.ir.ragged import pointers, runs
from ssvm_dsl.lang.arrays import describe, is_masked
from ssvm_dsl.lang.outputs.labels import Label
from ssvm_dsl.lang.outputs.variables import ClassName, n_spans
from ssvm_dsl.lang.symbols import plain, show

#: A segment: where it starts, the position after its last one, its class (``None`` for what is not known).
Segment = tuple[int, int, ClassName | None]


class Segments(NamedTuple):
    """States of the variables of a label of segments, and which are not known, packed over the examples.

    Parameters
    ----------
    classes, begins, spans : ndarray of int32
        Of each position its class and whether a segment begins there; of each position and length 0 or the number of
        the class and 1.
    hidden_classes, hidden_begins, hidden_spans : ndarray of bool
    unseen_classes, unseen_begins, unseen_spans : ndarray of bool
        Where the class is one that the label does not have.
    """

    classes: I32
    begins: I32
    spans: I32
    hidden_classes: Bools
    hidden_begins: Bools
    hidden_spans: Bools
    unseen_classes: Bools
    unseen_begins: Bools
    unseen_spans: Bools


def span_ends(sizes: I64, longest: int) -> tuple[I64, I64, I64]:
    """Return (start, end, pointers) of all spans up to a length, those of each start by length.

    Parameters
    ----------
    sizes : ndarray of int64, shape (n,)
        Positions of each example.
    longest : int

    Returns
    -------
    start, end : ndarray of int64, shape (m,)
        Counted from the first position of the example; ``end`` is not included.
    ptr : ndarray of int64, shape (n + 1,)
        The spans of each example.
    """
    at = runs(np.zeros(len(sizes), dtype=np.int64), sizes)
    choices = np.minimum(np.repeat(sizes, sizes) - at, longest)
    start = np.repeat(at, choices)
    return start, start + runs(np.ones(len(choices), dtype=np.int64), choices), pointers(n_spans(sizes, longest))


def read_segments(
    label: Label, values: Sequence[Any], sizes: I64, spans: bool = True, unseen: UnseenClasses | None = None
) -> Segments:
    """Return the states that segmentations are.

    Parameters
    ----------
    label : Label
        A label of segments.
    values : sequence
        For each example a list of ``(start, end, class)`` that divide its positions, or a class for each position,
        where neighbours of one class are one segment.  Not known is an example that is ``None``, and a segment whose
        class is: some segments from its start to its end.
    sizes : ndarray of int64, shape (n,)
        Positions of each example.
    spans : bool
        Whether spans are variables; without them there are no states of them.
    unseen : UnseenClasses, optional
        Takes classes that the label does not have; they are an error where it is left out.

    Raises
    ------
    DataError
        Naming label, example, expected and found.
    """
    longest, first = label.segments or 1, pointers(sizes)[:-1]
    total = int(sizes.sum())
    lengths = (total, total, total * longest * spans)
    classes_at, begins, ends = (np.zeros(n, np.int32) for n in lengths)
    out = Segments(classes_at, begins, ends, *(np.zeros(n, dtype=bool) for _ in range(2) for n in lengths))
    classes = _plain_classes(label, values, sizes)
    if classes is not None and _write_runs(classes, first, longest, out):
        return out
    for i, (value, size) in enumerate(zip(values, sizes.tolist(), strict=True)):
        for start, end, name in _divided(label, value, i, size):
            lo, hi = int(first[i]) + start, int(first[i]) + end
            out.begins[lo] = 1
            if name is None:
                out.hidden_classes[lo:hi] = True
                out.hidden_begins[lo + 1 : hi] = True
                if spans:
                    within = np.arange(longest) < np.arange(hi - lo, 0, -1)[:, None]
                    out.hidden_spans.reshape(-1, longest)[lo:hi] = within
                continue
            if end - start > longest:
                expected = f"segments of at most {longest} positions (segments={longest})"
                hint = "declare a larger number, or divide the segment"
                found = f"({start}, {end}, {show(name)}) of {end - start}"
                raise DataError(f"label '{label.name}'", example=i, expected=expected, found=found, hint=hint)
            state = label.index(name)
            if state is None and unseen is not None and may_be_class(label, name):
                unseen.counts[name] += 1
                out.unseen_classes[lo:hi] = True
                if spans:
                    out.unseen_spans[lo * longest + end - start - 1] = True
                continue
            if state is None:
                names = list(range(label.n_states)) if label.classes is None else list(label.classes)
                expected = f"one of the classes {show(names)}"
                raise DataError(f"label '{label.name}'", example=i, expected=expected, found=show((start, end, name)))
            out.classes[lo:hi] = state
            if spans:
                out.spans[lo * longest + end - start - 1] = state + 1
    return out


def _plain_classes(label: Label, values: Sequence[Any], sizes: I64) -> I32 | None:
    """Return the class of each position where all examples are lists of known names; ``None`` for anything else."""
    if label.classes is None or set(map(type, values)) != {list} or list(map(len, values)) != sizes.tolist():
        return None
    names = list(chain.from_iterable(values))
    if set(map(type, names)) != {str}:
        return None
    place = {name: k for k, name in enumerate(label.classes)}
    if not set(names) <= place.keys():
        return None
    return np.fromiter(map(place.__getitem__, names), np.int32, len(names))


def _write_runs(classes: I32, first: I64, longest: int, out: Segments) -> bool:
    """Write the runs of equal classes as segments; return False, with nothing written, where one is too long."""
    begins = np.append(True, classes[1:] != classes[:-1])
    begins[first[first < len(classes)]] = True
    start = np.flatnonzero(begins)
    length = np.diff(start, append=len(classes))
    if length.max(initial=0) > longest:
        return False
    out.classes[:], out.begins[:] = classes, begins
    if len(out.spans):
        out.spans[start * longest + length - 1] = classes[start] + 1
    return True


def _divided(label: Label, value: Any, i: int, size: int) -> Iterator[Segment]:
    """Yield the segments of an example, in order; they cover all positions."""
    what = f"label '{label.name}'"
    if value is None:
        yield from [(0, size, None)] if size else []
        return
    listed = _listed(value)
    if listed is None:
        expected = "a list of (start, end, class), or a class for each position"
        raise DataError(what, example=i, expected=expected, found=describe(value))
    if listed and not isinstance(listed[0], list | tuple | np.ndarray):
        yield from _runs(label, listed, i, size)
        return
    reached = 0
    for one in listed:
        start, end, name = _segment(what, one, i)
        if start != reached or not start < end <= size:
            expected = f"segments (start, end, class) that follow each other from 0 to {label.dims[0].name}={size}"
            found = f"{show((start, end, name))} where one starts at {reached}"
            raise DataError(what, example=i, expected=expected, found=found)
        yield start, end, name
        reached = end
    if reached != size:
        expected = f"segments that reach the end, {label.dims[0].name}={size}"
        hint = "a segment (start, end, None) is one that is not known"
        raise DataError(what, example=i, expected=expected, found=f"the last one ends at {reached}", hint=hint)


def _listed(value: Any) -> list[Any] | None:
    """Return what stands in a list or an array; ``None`` for anything else."""
    if isinstance(value, str) or is_masked(value):
        return list(value) if isinstance(value, str) else None
    if isinstance(value, np.ndarray):
        items = value.tolist() if value.ndim in (1, 2) else None
        return items if isinstance(items, list) else None
    return list(value) if isinstance(value, list | tuple) else None


def _segment(what: str, one: Any, i: int) -> Segment:
    """Return one segment as plain values."""
    given = [plain(part) for part in one] if isinstance(one, list | tuple | np.ndarray) else []
    whole = len(given) == 3 and all(isinstance(end, int) and not isinstance(end, bool) for end in given[:2])
    if not whole:
        raise DataError(what, example=i, expected="segments (start, end, class)", found=show(one))
    return given[0], given[1], given[2]


def _runs(label: Label, names: list[Any], i: int, size: int) -> Iterator[Segment]:
    """Yield the runs of equal classes."""
    what, names = f"label '{label.name}'", [plain(name) for name in names]
    if len(names) != size:
        expected = f"a class for each of {label.dims[0].name}={size} positions, or segments (start, end, class)"
        raise DataError(what, example=i, expected=expected, found=f"{len(names)} entries")
    wrong = next((name for name in names if not isinstance(name, str | int)), "")
    if not isinstance(wrong, str | int):
        hint = "what is not known is said of segments: (start, end, None)"
        raise DataError(what, example=i, expected="a class for each position", found=show(wrong), hint=hint)
    ends = [t for t in range(size + 1) if t in (0, size) or names[t] != names[t - 1]]
    yield from ((start, end, names[start]) for start, end in pairwise(ends))


def segments_of(label: Label, classes: NDArray[Any], begins: I32, sizes: I64) -> list[list[tuple[int, int, Any]]]:
    """Return the segments ``(start, end, class)`` of each example.

    Parameters
    ----------
    label : Label
    classes, begins : ndarray
        The class of each position (a name), and whether a segment begins there.
    sizes : ndarray of int64, shape (n,)
        Positions of each example.
    """
    out = []
    for lo, hi in pairwise(pointers(sizes).tolist()):
        at = np.flatnonzero(begins[lo:hi])
        starts, names = at.tolist(), classes[lo:hi][at].tolist()
        out.append(list(zip(starts, [*starts[1:], hi - lo], names, strict=False)))  # no segment: one end too many
    return out


class SegmentLabels(LabelStructure):
    """Labels whose values are segments."""

    has_classes: ClassVar[bool] = True

    def words(self, label: Label) -> str:
        """Return what plans and reports call such a label."""
        return f"segments of up to {label.segments} positions, {label.n_states} classes"

    def judged(self, label: Label, parts_alone: bool) -> tuple[Label, ...]:
        """Return the spans, or classes and where segments begin."""
        return (label.spans,) if parts_alone else (label, label.begins)

    def encode(
        self, places: LabelPlaces, label: Label, values: Sequence[Any], out: tuple[I32, Bools], partial: bool,
        unseen: UnseenClasses | None = None,
    ) -> list[I64]:  # fmt: skip
        """Write classes of positions, where segments begin, and which spans are segments, and what is not known."""
        parts = (label, *places.declaration.parts_of(label))
        read = read_segments(label, values, places.count(label), len(parts) > 2, unseen)
        for part, found, unknown, strange in zip(parts, read[:3], read[3:6], read[6:], strict=False):  # spans may be no
            out[0][places.variables(part)], out[1][places.variables(part)] = found, unknown  # variables
            if unseen is not None:
                unseen.variables[places.variables(part)] = strange
        return []

    def decode(self, places: LabelPlaces, label: Label, states: I32) -> list[Any]:
        """Return ``(start, end, class)`` of each segment."""
        flat = states[places.variables(label)]
        named: NDArray[Any] = flat.astype(np.int64) if label.classes is None else class_array(label.classes)[flat]
        return segments_of(label, named, states[places.variables(label.begins)], places.count(label))
