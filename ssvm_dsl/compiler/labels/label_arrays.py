"""Arrays of labels become states: shapes and classes are checked, unknown labels are marked."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from math import prod
from typing import Any
from unicodedata import normalize

import numpy as np
from numpy.typing import NDArray

from ssvm_dsl.array_types import I32, Bools
from ssvm_dsl.compiler.inputs.validate import position_words
from ssvm_dsl.compiler.labels.class_states import equal_to, states_of
from ssvm_dsl.compiler.labels.missing_labels import missing_entries, signed_hint
from ssvm_dsl.compiler.labels.unseen_classes import UnseenClasses
from ssvm_dsl.errors import DataError
from ssvm_dsl.ir.ragged import pointers
from ssvm_dsl.lang.arrays import describe, is_masked, is_sparse, number_text
from ssvm_dsl.lang.declaration import Declaration
from ssvm_dsl.lang.losses.label_losses import CountLoss, Hamming
from ssvm_dsl.lang.outputs.labels import Label
from ssvm_dsl.lang.symbols import plain

#: Returns the shape of the label's array in an example.
ShapeOf = Callable[[int], tuple[int, ...]]


def ignore_value(declaration: Declaration, label: Label) -> object:
    """Return the value that marks unlabelled variables, ``None`` when the loss names none."""
    terms = declaration.loss.terms if declaration.loss is not None else ()
    for _, term in terms:
        if isinstance(term, Hamming | CountLoss) and term.label == label and term.ignore is not None:
            return term.ignore
    return None


def read_label(
    shape_of: ShapeOf, label: Label, values: Sequence[Any], ignore: object, unseen: UnseenClasses | None = None
) -> tuple[I32, Bools | None, Bools]:
    """Return (states, mask of those that are ignored or not known, of unseen classes) of all variables of one label.

    A class that the label does not have is an error unless ``unseen`` takes it; its state is 0 then.
    """
    values, hidden = _fill_missing(shape_of, label, values)
    pieces = _pieces(shape_of, label, values)
    states = _joined([states_of(label, piece) for piece in pieces], np.int32)
    skip = None if ignore is None else _joined([equal_to(piece, ignore) for piece in pieces], np.bool_)
    if hidden is not None:
        skip = hidden if skip is None else skip | hidden
    wrong = states < 0 if skip is None else (states < 0) & ~skip
    left = wrong
    if unseen is not None and wrong.any():
        left = np.concatenate([
            unseen.take(label, *pair)
            for pair in zip(np.split(wrong, np.cumsum(list(map(len, pieces)))[:-1]), pieces, strict=True)
        ])  # fmt: skip
    if left.any():
        _complain(shape_of, label, pieces, int(np.flatnonzero(left)[0]))
    if skip is not None or wrong.any():
        states[states < 0 if skip is None else skip | (states < 0)] = 0
    return states, skip, wrong


def _fill_missing(shape_of: ShapeOf, label: Label, values: Sequence[Any]) -> tuple[Sequence[Any], Bools | None]:
    """Return the labels with some class in place of what is not known, and where that was; ``None`` for nowhere."""
    if _all_known(label, values):
        return values, None
    missing = [missing_entries(label, value) for value in values]
    if all(one is None for one in missing):
        return values, None
    holder = 0 if label.classes is None else label.classes[0]
    filled, masks = [], []
    for i, (value, mask) in enumerate(zip(values, missing, strict=True)):
        shape = shape_of(i)
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
    if any(mask.shape != shape_of(i) for i, mask in enumerate(masks)):
        return filled, None  # the shape of the labels is wrong, which is said next
    return filled, np.concatenate([mask.ravel() for mask in masks])


def _all_known(label: Label, values: Sequence[Any]) -> bool:
    """Whether an array of numbers or strings has no mark of what is not known: there is no need to look at each."""
    if not isinstance(values, np.ndarray) or is_masked(values) or values.dtype == object or label.unknown is not None:
        return False
    return values.dtype.kind != "f" or not bool(np.isnan(values).any())


def _joined(parts: list[NDArray[Any]], dtype: Any) -> NDArray[Any]:
    return parts[0] if len(parts) == 1 else np.concatenate([np.zeros(0, dtype), *parts])


def _pieces(shape_of: ShapeOf, label: Label, values: Sequence[Any]) -> list[NDArray[Any]]:
    """Return the labels of all examples one after the other, after checking shapes.

    They are in one piece where putting them together changes none of them: numbers of different types are not.
    """
    if not label.dims:
        return _single_values(label, values)
    if len(label.dims) == 1 and all(isinstance(value, str) for value in values):
        arrays = [_letters(label, value, i) for i, value in enumerate(values)]
    else:
        arrays = [_label_array(label, value, i) for i, value in enumerate(values)]
    for i, array in enumerate(arrays):
        if array.shape != (shape := shape_of(i)):
            axes = ", ".join(f"{dim.name}={size}" for dim, size in zip(label.dims, shape, strict=True))
            found = f"shape {array.shape}"
            raise DataError(f"label '{label.name}'", example=i, expected=f"shape ({axes})", found=found)
    filled = [array.ravel() for array in arrays if array.size]
    kinds = {array.dtype.kind for array in filled}
    if len(kinds - set("biuf")) > (0 if kinds & set("biuf") else 1):
        odd = next(i for i, array in enumerate(arrays) if array.size and array.dtype.kind != filled[0].dtype.kind)
        raise DataError(
            f"label '{label.name}'", example=odd, expected="labels of one kind", found=f"dtype {arrays[odd].dtype}"
        )
    if len(filled) > 1 and (kinds == {"U"} or len({array.dtype for array in filled}) == 1):
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


def _complain(shape_of: ShapeOf, label: Label, pieces: list[NDArray[Any]], at: int) -> None:
    before = pointers(np.array([len(piece) for piece in pieces]))
    piece = int(np.searchsorted(before, at, side="right")) - 1
    value = plain(pieces[piece][at - before[piece]])
    i = 0
    while at >= (size := prod(shape_of(i))):
        at, i = at - size, i + 1
    place = position_words(label.dims, shape_of(i), at)
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
