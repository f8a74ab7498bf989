"""Labels whose values are classes of positions: arrays are checked and become states, and states become arrays."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache, partial
from itertools import pairwise
from math import prod
from operator import attrgetter
from typing import Any, ClassVar
from unicodedata import normalize

import numpy as np
from numpy.typing import NDArray

from ssvm_dsl.array_types import I32, I64, Bools
from ssvm_dsl.compiler.inputs import position_words
from ssvm_dsl.compiler.labels.label_structure import LabelPlaces, LabelStructure
from ssvm_dsl.compiler.labels.unknown_labels import UnseenClasses, missing_entries, signed_hint
from ssvm_dsl.errors import DataError
from ssvm_dsl.ir.ragged import owner_of, pointers
from ssvm_dsl.lang.arrays import describe, is_masked, is_sparse, number_text, whole_numbers
from ssvm_dsl.lang.declaration import Declaration
from ssvm_dsl.lang.losses.label_losses import CountLoss, Hamming
from ssvm_dsl.lang.outputs.labels import Label
from ssvm_dsl.lang.outputs.variables import ClassName
from ssvm_dsl.lang.symbols import plain

_DTYPE, _KIND = attrgetter("dtype"), attrgetter("dtype.kind")


class ClassLabels(LabelStructure):
    """Labels whose values are classes of positions."""

    has_classes: ClassVar[bool] = True

    def words(self, label: Label) -> str:
        """Return nothing: such labels are variables of the program."""
        return ""

    def judged(self, label: Label, parts_alone: bool) -> tuple[Label, ...]:
        """Return the label."""
        return (label,)

    def encode(
        self, places: LabelPlaces, label: Label, values: Sequence[Any], out: tuple[I32, Bools], partial: bool,
        unseen: UnseenClasses | None = None,
    ) -> list[I64]:  # fmt: skip
        """Write the state of each class; not known is also what the loss ignores."""
        domain, variables = places.domains.get(label.name), places.variables(label)
        given = values if domain is None else domain.masked(values)
        states, hidden, strange = read_classes(places, label, given, ignored_class(places.declaration, label), unseen)
        if domain is not None:
            states, hidden, strange = domain.of_arrays(label, states, hidden, strange)
        out[0][variables] = states
        if hidden is not None:
            out[1][variables] = hidden
        if unseen is not None:
            unseen.variables[variables] = strange
        return []

    def decode(self, places: LabelPlaces, label: Label, states: I32) -> list[Any]:
        """Return arrays of class names; single ones of a label without axes."""
        flat = states[places.variables(label)]
        named: NDArray[Any] = flat.astype(np.int64) if label.classes is None else class_array(label.classes)[flat]
        if not label.dims:
            return list(named.tolist())
        ends, domain = places.ends(label), places.domains.get(label.name)
        if domain is not None:
            return [domain.as_array(label, flat[lo:hi], i) for i, (lo, hi) in enumerate(pairwise(ends))]
        if len(label.dims) == 1:
            return [named[lo:hi] for lo, hi in pairwise(ends)]
        shaped = zip(pairwise(ends), places.shapes(label), strict=True)
        return [named[lo:hi].reshape(shape) for (lo, hi), shape in shaped]


def ignored_class(declaration: Declaration, label: Label) -> ClassName | None:
    """Return the value that marks unlabelled variables, ``None`` when the loss names none."""
    for _, term in () if declaration.loss is None else declaration.loss.terms:
        if isinstance(term, Hamming | CountLoss) and term.label == label and term.ignore is not None:
            return term.ignore
    return None


def read_classes(
    places: LabelPlaces, label: Label, values: Sequence[Any], ignore: object, unseen: UnseenClasses | None = None
) -> tuple[I32, Bools | None, Bools]:
    """Return (states, mask of those that are ignored or not known, of unseen classes) of all variables of one label.

    A class that the label does not have is an error unless ``unseen`` takes it; its state is 0 then.
    """
    known, hidden = _is_known(label, values), None
    if not known:
        values, hidden = _fill_missing(places, label, values)
    pieces = _pieces(places, label, values, known) if label.dims else _single_values(label, values)
    states = np.concatenate([np.zeros(0, np.int32), *map(partial(states_of, label), pieces)])
    if ignore is not None:
        marked = np.concatenate([np.zeros(0, np.bool_), *(equal_to(piece, ignore) for piece in pieces)])
        hidden = marked if hidden is None else hidden | marked
    wrong = states < 0 if hidden is None else (states < 0) & ~hidden
    if wrong.any():
        left = wrong
        if unseen is not None:
            parts = np.split(wrong, np.cumsum(list(map(len, pieces)))[:-1])
            left = np.concatenate([unseen.take(label, *pair) for pair in zip(parts, pieces, strict=True)])
        if left.any():
            _complain(places, label, pieces, int(np.flatnonzero(left)[0]))
    np.maximum(states, 0, out=states)
    if hidden is not None:
        states[hidden] = 0
    return states, hidden, wrong


def _is_known(label: Label, values: Any) -> bool:
    """Whether there are arrays of ints or strings alone (or one of numbers), without marks of what is not known."""
    if label.unknown is not None:
        return False
    if type(values) is np.ndarray and values.dtype != object:
        whole = values.ndim == 1 + len(label.dims)
        return whole and (values.dtype.kind != "f" or not bool(np.isnan(values).any()))
    return set(map(type, values)) == {np.ndarray} and set("biuU").issuperset(map(_KIND, values))


def _fill_missing(
    places: LabelPlaces, label: Label, values: Sequence[Any]
) -> tuple[Sequence[Any], Bools | None]:
    """Return the labels with some class in place of what is not known, and where that was; ``None`` for nowhere."""
    missing = [missing_entries(label, value) for value in values]
    if all(one is None for one in missing):
        return values, None
    holder = 0 if label.classes is None else label.classes[0]
    filled, masks, fits = [], [], True
    for value, mask, shape in zip(values, missing, places.shapes(label), strict=True):
        if mask is None:
            filled.append(value)
            masks.append(np.zeros(shape, dtype=bool))
        elif mask.shape == () or mask.all():
            filled.append(np.full(shape, holder) if shape else holder)
            masks.append(np.ones(shape, dtype=bool))
        else:
            array = np.array(list(value) if isinstance(value, str) else value, dtype=object)
            array[mask] = holder
            filled.append(array.tolist())
            masks.append(mask)
            fits = fits and mask.shape == shape
    # where a shape of the labels is wrong, that is said next
    return filled, np.concatenate([mask.ravel() for mask in masks]) if fits else None


def _pieces(places: LabelPlaces, label: Label, values: Sequence[Any], known: bool) -> list[NDArray[Any]]:
    """Return the labels of all examples one after the other, after checking shapes.

    They are in one piece where putting them together changes none of them: numbers of different types are not.
    ``known`` are arrays of ints or strings alone.
    """
    if known:
        arrays = list(values)
    elif len(label.dims) == 1 and all(isinstance(value, str) for value in values):
        arrays = [_letters(label, value, i) for i, value in enumerate(values)]
    else:
        arrays = [_label_array(label, value, i) for i, value in enumerate(values)]
    for i, (array, shape) in enumerate(zip(arrays, places.shapes(label), strict=True)):
        if array.shape != shape:
            axes = ", ".join(f"{dim.name}={size}" for dim, size in zip(label.dims, shape, strict=True))
            found = f"shape {array.shape}"
            raise DataError(f"label '{label.name}'", example=i, expected=f"shape ({axes})", found=found)
    filled = [array.ravel() for array in arrays if array.size]
    kinds = set(map(_KIND, filled))
    if len(kinds - set("biuf")) > (0 if kinds & set("biuf") else 1):
        odd = next(i for i, array in enumerate(arrays) if array.size and array.dtype.kind != filled[0].dtype.kind)
        raise DataError(
            f"label '{label.name}'", example=odd, expected="labels of one kind", found=f"dtype {arrays[odd].dtype}"
        )
    if len(filled) > 1 and (kinds == {"U"} or len(set(map(_DTYPE, filled))) == 1):
        return [np.concatenate(filled)]
    return filled


def _letters(label: Label, value: str, i: int) -> NDArray[Any]:
    """Return the characters of a string of classes."""
    _check_nul(label, value, "\0" in value, i)
    return np.array(list(value), dtype=np.str_)


def _check_nul(label: Label, value: object, ends: bool, i: int) -> None:
    """Refuse strings that numpy would cut: no class name ends with NUL."""
    if ends:
        expected, hint = "class names", "no class name ends with the character NUL, which numpy drops"
        raise DataError(f"label '{label.name}'", example=i, expected=expected, found=ascii(value)[:60], hint=hint)


def _single_values(label: Label, values: Sequence[Any]) -> list[NDArray[Any]]:
    kinds = set(map(type, values))
    if len(kinds) == 1 and issubclass(next(iter(kinds)), int | float | np.number):  # no look at each
        together = np.asarray(list(values))
        return [together] if together.dtype != object else [_alone(value) for value in values]
    values = [_unpacked(value) for value in values]
    for i, value in enumerate(values):
        if np.ndim(value) != 0 or is_sparse(value):
            raise DataError(f"label '{label.name}'", example=i, expected="a single class", found=describe(value))
        if is_masked(value):
            raise DataError(f"label '{label.name}'", example=i, expected="a single class", found="a masked entry")
        if isinstance(value, str):
            _check_nul(label, value, value.endswith("\0"), i)
    strings = [isinstance(value, str) for value in values]
    if any(strings) and not all(strings):
        i = strings.index(not strings[0])
        found = f"{describe(values[i])} after {describe(values[0])}"
        raise DataError(f"label '{label.name}'", example=i, expected="labels of one kind", found=found)
    if len(set(map(type, values))) == 1:
        together = np.asarray(list(values))
        if together.ndim == 1 and together.dtype != object:
            return [together]
    return [_alone(value) for value in values]


def _unpacked(value: Any) -> Any:
    """Return the only entry of an array without axes, unless it is masked."""
    alone = isinstance(value, np.ndarray) and value.ndim == 0 and not is_masked(value)
    return plain(value) if alone else value


def _alone(value: object) -> NDArray[Any]:
    """Return a single value as an array, one of Python objects where numpy has no type for it."""
    array = np.empty(1, dtype=object)
    array[0] = value
    typed = np.asarray(value)
    return typed.reshape(1) if typed.dtype != object and typed.size == 1 else array


def _label_array(label: Label, value: Any, i: int) -> NDArray[Any]:
    if type(value) is np.ndarray and value.dtype.kind in "biufU":
        return value
    what, given = f"label '{label.name}'", list(value) if isinstance(value, str) else value
    if is_masked(given):
        hint = "mark what is not known by a value that the loss ignores: Hamming(y, ignore=...)"
        raise DataError(what, example=i, expected="labels without masked entries", found=describe(given), hint=hint)
    if isinstance(given, np.ndarray) and not given.size:  # as a list it has one axis
        return np.zeros(given.shape)
    value = plain(given)
    try:
        array = np.asarray(value)
    except Exception as err:  # numpy calls methods of the value, which may raise anything
        raise DataError(what, example=i, expected="an array of classes", found=describe(value)) from err
    # numpy turns numbers beside strings into strings: 1 would pass for the class "1"
    flat = list(_leaves(value)) if array.dtype.kind in "UO" else []
    kinds = sorted({_kind(one) for one in flat})
    if len(kinds) > 1 or array.dtype == object:
        found = f"{describe(value)} of {' and '.join(kinds)}" if kinds else describe(value)
        raise DataError(what, example=i, expected="labels of one kind", found=found)
    _check_nul(label, value, "\0" in "".join(flat) and any(one.endswith("\0") for one in flat), i)
    return array


def _leaves(value: Any) -> Iterator[Any]:
    """Yield the entries of lists inside lists."""
    if isinstance(value, list | tuple):
        for one in value:
            yield from _leaves(one)
    else:
        yield value


def _kind(value: Any) -> str:
    """Return the name of a value's type; numpy's strings are strings."""
    return "str" if isinstance(value, str) else type(value).__name__


def _complain(places: LabelPlaces, label: Label, pieces: list[NDArray[Any]], at: int) -> None:
    before = pointers(np.array([len(piece) for piece in pieces]))
    piece = int(np.searchsorted(before, at, side="right")) - 1
    value = plain(pieces[piece][at - before[piece]])
    ptr = pointers(np.array(list(map(prod, places.shapes(label))), dtype=np.int64))
    i = owner_of(ptr, at)
    place = position_words(label.dims, places.shape(label, i), at - int(ptr[i]))
    if label.classes is None:
        expected = f"an int in 0..{label.n_states - 1}"
    else:
        names = [repr(name) for name in label.classes]
        listed = ", ".join(names if len(names) <= 10 else [*names[:4], "...", names[-1]])
        expected = f"one of the {len(names)} classes {listed}"
    found, hint = f"{number_text(value)} {place}".strip(), signed_hint(label, value)
    alike = {normalize("NFC", str(name)) for name in label.classes or ()}
    if isinstance(value, str) and normalize("NFC", value) in alike:
        hint = "a class looks like it, in other Unicode characters: use unicodedata.normalize on classes and labels"
    raise DataError(f"label '{label.name}'", example=i, expected=expected, found=found, hint=hint)


@lru_cache(maxsize=64)
def class_array(classes: tuple[ClassName, ...], of_objects: bool = False) -> NDArray[Any]:
    """Return class names as an array of strings or of int64, or of Python's own objects."""
    if of_objects:
        return np.array(classes, dtype=object)
    return np.array(classes, dtype=np.str_ if isinstance(classes[0], str) else np.int64)


def equal_to(flat: NDArray[Any], value: object) -> Bools:
    """Return which labels are a value of the type of the classes."""
    if isinstance(value, str):
        return np.asarray(flat == value) if flat.dtype.kind == "U" else np.zeros(len(flat), dtype=bool)
    whole, exact = whole_numbers(flat)
    return np.asarray(exact & (whole == value))


def states_of(label: Label, flat: NDArray[Any]) -> I32:
    """Return the state of each class name, -1 where it is not a class; whole numbers may be floats."""
    if label.classes is None:
        whole, exact = whole_numbers(flat)
        return np.where(exact & (whole >= 0) & (whole < label.n_states), whole, -1).astype(np.int32)
    names = class_array(label.classes)
    exact = np.asarray(flat.dtype.kind == "U")
    if names.dtype.kind != "U":
        flat, exact = whole_numbers(flat)
    elif not exact:
        return np.full(len(flat), -1, dtype=np.int32)
    order = np.argsort(names, kind="stable")
    place = np.minimum(np.searchsorted(names[order], flat), len(names) - 1)
    state = order[place]
    return np.where(exact & (names[state] == flat), state, -1).astype(np.int32)
