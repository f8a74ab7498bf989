"""Which variable is which: labels of each example in order of declaration, positions in C order."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any, NamedTuple
from unicodedata import normalize

import numpy as np
from numpy.typing import NDArray

from ssvm_dsl.array_types import I32, I64, Bools
from ssvm_dsl.compiler.inputs.validate import Examples, check_sequence, position_words, refuse_mixture
from ssvm_dsl.compiler.labels.class_states import class_array, equal_to, states_of
from ssvm_dsl.compiler.labels.missing_labels import missing_entries, signed_hint
from ssvm_dsl.compiler.labels.pointers import pair_values, pointed, read_pointers
from ssvm_dsl.compiler.labels.segments import read_segments, segments_of
from ssvm_dsl.errors import DataError, TooLargeError
from ssvm_dsl.ir.ragged import pointers, runs
from ssvm_dsl.ir.shapes import first_of_each, kinds_of_rows
from ssvm_dsl.lang.arrays import MOST, describe, is_masked, is_sparse, number_text
from ssvm_dsl.lang.declaration import Declaration
from ssvm_dsl.lang.losses.count_loss import CountLoss
from ssvm_dsl.lang.losses.label_losses import Hamming
from ssvm_dsl.lang.outputs.agreements import Agreement
from ssvm_dsl.lang.outputs.labels import Label, Latent, Target
from ssvm_dsl.lang.symbols import plain


class EncodedLabels(NamedTuple):
    """Labels as states, as :meth:`Layout.encode` returns them.

    Parameters
    ----------
    states : ndarray of int32, shape (V,)
    unknown : ndarray of bool, shape (V,), optional
        Which of them are not known.
    """

    states: I32
    unknown: Bools | None


@dataclass(frozen=True, eq=False)
class Layout:
    """Numbering of the variables of a batch.

    Parameters
    ----------
    declaration : Declaration
    n : int
        Number of examples.
    sizes : dict of str to ndarray of int64, shape (n,)
        Axis sizes.
    """

    declaration: Declaration
    n: int
    sizes: dict[str, I64]

    @classmethod
    def of(cls, declaration: Declaration, examples: Examples) -> Layout:
        """Return the layout of checked examples.

        Raises
        ------
        TooLargeError
            There are more variables than 32 bits can number.
        """
        total = 0.0
        for label in declaration.labels:
            total += float(_count(label, examples.sizes, np.ones(examples.n)).sum())
        if total > MOST:
            text = f"model {declaration.name}: {total:.3g} variables in {examples.n} examples, {MOST} are the most"
            raise TooLargeError(f"{text}; pass fewer examples at a time")
        return cls(declaration, examples.n, examples.sizes)

    def count(self, label: Label) -> I64:
        """Return the number of variables of a label in each example; ``shape (n,)``."""
        found = self._known_counts.get(label.name)
        if found is None:
            found = np.asarray(_count(label, self.sizes, np.ones(self.n, dtype=np.int64)), dtype=np.int64)
            self._known_counts[label.name] = found
        return found

    @cached_property
    def _known_counts(self) -> dict[str, I64]:
        return {}

    @cached_property
    def _known_ends(self) -> dict[str, list[int]]:
        return {}

    def _ends(self, label: Label) -> list[int]:
        """Return where the positions of each example end among those of a label: 0 and the running sums."""
        found = self._known_ends.get(label.name)
        if found is None:
            found = self._known_ends[label.name] = pointers(self.count(label)).tolist()
        return found

    @cached_property
    def _counts(self) -> NDArray[np.int64]:
        return np.stack([self.count(label) for label in self.declaration.labels])

    @cached_property
    def var_ptr(self) -> I64:
        """Variables of each example; ``shape (n + 1,)``."""
        return pointers(self._counts.sum(axis=0))

    def start(self, label: Label) -> I64:
        """Return the first variable of a label in each example; ``shape (n,)``."""
        k = [one.name for one in self.declaration.labels].index(label.name)
        return np.asarray(self.var_ptr[:-1] + self._counts[:k].sum(axis=0))

    def variables(self, label: Label) -> slice | I64:
        """Return all variables of a label, example by example (a slice when it is the only label)."""
        if len(self.declaration.labels) == 1:
            return slice(0, int(self.var_ptr[-1]))
        return runs(self.start(label), self.count(label))

    def shapes_of(self, target: Target, examples: Examples) -> tuple[I32, I64]:
        """Return (shape of each example, first example of each shape): what the scopes of an example follow from."""
        labels = [part for label in target.labels for part in (label, *label.parts)]
        edges = None if target.edges is None else target.edges.name
        key = tuple([label.name for label in labels]), edges
        found = self._known_shapes.get(key)
        if found is None:
            columns = [self.start(label) - self.var_ptr[:-1] for label in labels]
            names = {dim.name for label in labels for dim in label.dims}
            columns += [self.sizes[name] for name in sorted(names)]
            if edges is not None:
                lists = examples.raw[edges]
                columns.append(first_of_each(np.asarray(one, dtype=np.int64).tobytes() for one in lists)[0])
            found = self._known_shapes[key] = kinds_of_rows(columns, self.n)
        return found

    @cached_property
    def _known_shapes(self) -> dict[tuple[tuple[str, ...], str | None], tuple[I32, I64]]:
        return {}

    @cached_property
    def card(self) -> I32:
        """Number of states of each variable; ``shape (V,)``."""
        labels = self.declaration.labels
        if len(labels) == 1:
            return np.full(int(self.var_ptr[-1]), labels[0].n_states, dtype=np.int32)
        out = np.empty(int(self.var_ptr[-1]), dtype=np.int32)
        for label in labels:
            out[self.variables(label)] = label.n_states
        return out

    def shape(self, label: Label, i: int) -> tuple[int, ...]:
        """Return the shape of a label's array in example i."""
        if isinstance(label, Agreement):
            return (int(self.count(label)[i]),)
        return tuple(int(self.sizes[dim.name][i]) for dim in label.dims)

    def _pairs(self, label: Label) -> tuple[I64, I64]:
        """Return (pointers, positions to point to) of a pointer label in each example."""
        first, second = (self.sizes[dim.name] for dim in label.dims)
        return first, second

    # -- users' labels to states and back --------------------------------------------------------------

    @cached_property
    def latent(self) -> Bools:
        """Which variables are latent, auxiliary ones of latent variables among them; ``shape (V,)``."""
        hidden = [one for one in self.agreements if isinstance(one.of.label, Latent)]
        return self._which([*self.declaration.latents, *hidden])

    @cached_property
    def auxiliary(self) -> Bools:
        """Which variables are auxiliary ones of factors; ``shape (V,)``."""
        return self._which(self.agreements)

    @property
    def agreements(self) -> list[Agreement]:
        """The auxiliary variables of factors."""
        return [one for one in self.declaration.labels if isinstance(one, Agreement)]

    def _which(self, labels: Sequence[Label]) -> Bools:
        out = np.zeros(int(self.var_ptr[-1]), dtype=bool)
        for label in labels:
            out[self.variables(label)] = True
        return out

    def encode(
        self, Y: object, what: str = "Y", partial: bool = False, labels: Sequence[Label] | None = None
    ) -> EncodedLabels:
        """Return (state of each variable, mask of those that are not known or ``None``) for the users' labels.

        Not known are entries that are ``None`` or masked, what the label says is (``unknown=``), and what the loss
        ignores.

        Parameters
        ----------
        Y : list of labels, or EncodedLabels
            The latter are returned as they are.
        what : str
            What they are called in messages.
        partial : bool
            Whether labels may be left out of the dict of an example.
        labels : sequence of Label, optional
            Those that are given: all but the latent ones by default.  Variables of others are in state 0.

        Raises
        ------
        DataError
            Naming label, example, expected and found.
        """
        if isinstance(Y, EncodedLabels):
            return Y
        given = check_sequence(Y, what)
        if len(given) != self.n:
            raise DataError(what, expected=f"{self.n} examples, as in X", found=f"{len(given)}")
        states = np.zeros(int(self.var_ptr[-1]), dtype=np.int32)
        ignored = np.zeros(len(states), dtype=bool)
        known = self.declaration.outputs if labels is None else labels
        for label, values in self._split(given, what, partial, known):
            if label.pointer:
                self._encode_pointers(label, values, states, ignored)
                continue
            if label.segments is not None:
                self._encode_segments(label, values, states, ignored)
                continue
            flat, skip = _read_label(self, label, values, _ignore_value(self.declaration, label))
            states[self.variables(label)] = flat
            if skip is not None:
                ignored[self.variables(label)] = skip
        return EncodedLabels(states, ignored if ignored.any() else None)

    def _encode_pointers(self, label: Label, values: Sequence[Any], states: I32, ignored: Bools) -> None:
        """Write whether each position points to each, or nowhere, and which pointers are not known."""
        n_rows, n_cols = self._pairs(label)
        pairs, none, unknown = read_pointers(label, values, n_rows, n_cols)
        states[self.variables(label)] = pairs
        ignored[self.variables(label)] = np.repeat(unknown, np.repeat(n_cols, n_rows))
        if label.none is not None:
            states[self.variables(label.none)], ignored[self.variables(label.none)] = none, unknown

    def _encode_segments(self, label: Label, values: Sequence[Any], states: I32, ignored: Bools) -> None:
        """Write classes of positions, where segments begin, and which spans are segments, and what is not known."""
        read = read_segments(label, values, self.count(label))
        for part, found, unknown in zip((label, *label.parts), read[:3], read[3:], strict=True):
            states[self.variables(part)], ignored[self.variables(part)] = found, unknown

    def _split(
        self, given: Sequence[Any], what: str, partial: bool, labels: Sequence[Label]
    ) -> list[tuple[Label, Sequence[Any]]]:
        if partial:
            whole: dict[str, Any] = {label.name: None for label in labels}
            given = [whole if one is None and len(labels) > 1 else one for one in given]
            given = [whole | dict(one) if isinstance(one, Mapping) else one for one in given]
        if len(labels) == 1 and not any(isinstance(one, Mapping) for one in given):
            return [(labels[0], given)]
        names = [label.name for label in labels]
        refuse_mixture(given, names, what)
        for i, one in enumerate(given):
            if not isinstance(one, Mapping) or set(one) != set(names):
                found = f"a dict with {', '.join(map(str, one))}" if isinstance(one, Mapping) else describe(one)
                raise DataError(what, example=i, expected=f"a dict with the labels {', '.join(names)}", found=found)
        return [(label, [one[label.name] for one in given]) for label in labels]

    def decode(self, states: I32, latent: bool = False) -> list[Any]:
        """Return the users' form of a labelling: arrays of class names, one entry for each example.

        A model with several labels gives a dict for each example; a label without axes gives single values.  With
        ``latent``, the states of the latent variables alone.
        """
        labels = self.declaration.latents if latent else self.declaration.outputs
        parts = [self._decode_label(label, states) for label in labels]
        if len(parts) == 1:
            return parts[0]
        names = [label.name for label in labels]
        return [dict(zip(names, values, strict=True)) for values in zip(*parts, strict=True)]

    def _decode_label(self, label: Label, states: I32) -> list[Any]:
        if label.pointer:
            return pointed(states[self.variables(label)], *self._pairs(label))
        flat = states[self.variables(label)]
        named: NDArray[Any] = flat.astype(np.int64) if label.classes is None else class_array(label.classes)[flat]
        if not label.dims:
            return list(named.tolist())
        if label.segments is not None:
            return segments_of(label, named, states[self.variables(label.begins)], self.count(label))
        ptr = self._ends(label)
        arrays = [named[lo:hi] for lo, hi in pairwise(ptr)]
        if len(label.dims) == 1:
            return arrays
        return [array.reshape(self.shape(label, i)) for i, array in enumerate(arrays)]

    def decode_states(self, values: NDArray[np.float64]) -> list[Any]:
        """Return numbers given for every state of every variable as arrays ``(*axes, n_states)`` for each example.

        A model with several labels gives a dict for each example.
        """
        start = pointers(self.card)
        parts = []
        for label in self.declaration.outputs:
            if label.pointer:
                true = values[start[1:] - 1]  # of the second state, "points there"
                none = None if label.none is None else true[self.variables(label.none)]
                parts.append(pair_values(true[self.variables(label)], none, *self._pairs(label)))
                continue
            first, k = start[:-1][self.variables(label)], label.n_states
            rows = values[first[:, None] + np.arange(k)]
            ptr = self._ends(label)
            parts.append([rows[lo:hi].reshape(*self.shape(label, i), k) for i, (lo, hi) in enumerate(pairwise(ptr))])
        if len(parts) == 1:
            return parts[0]
        names = [label.name for label in self.declaration.outputs]
        return [dict(zip(names, one, strict=True)) for one in zip(*parts, strict=True)]


def _count(label: Label, sizes: Mapping[str, Any], ones: NDArray[Any]) -> NDArray[Any]:
    """Return the number of variables of a label in each example, for axis sizes."""
    if isinstance(label, Agreement):
        return np.asarray(ones * label.of.count(sizes))
    for dim in label.dims:
        ones = ones * sizes[dim.name]
    return ones


def _ignore_value(declaration: Declaration, label: Label) -> object:
    """Return the value that marks unlabelled variables, ``None`` when the loss names none."""
    terms = declaration.loss.terms if declaration.loss is not None else ()
    for _, term in terms:
        if isinstance(term, Hamming | CountLoss) and term.label == label and term.ignore is not None:
            return term.ignore
    return None


def _read_label(layout: Layout, label: Label, values: Sequence[Any], ignore: object) -> tuple[I32, Bools | None]:
    """Return (states, mask of those that are ignored or not known) of all variables of one label."""
    values, hidden = _fill_missing(layout, label, values)
    pieces = _pieces(layout, label, values)
    states = _joined([states_of(label, piece) for piece in pieces], np.int32)
    skip = None if ignore is None else _joined([equal_to(piece, ignore) for piece in pieces], np.bool_)
    if hidden is not None:
        skip = hidden if skip is None else skip | hidden
    wrong = states < 0 if skip is None else (states < 0) & ~skip
    if wrong.any():
        _complain(layout, label, pieces, int(np.flatnonzero(wrong)[0]))
    if skip is not None:
        states[skip] = 0
    return states, skip


def _fill_missing(layout: Layout, label: Label, values: Sequence[Any]) -> tuple[Sequence[Any], Bools | None]:
    """Return the labels with some class in place of what is not known, and where that was; ``None`` for nowhere."""
    found = [missing_entries(label, value) for value in values]
    if all(one is None for one in found):
        return values, None
    holder = 0 if label.classes is None else label.classes[0]
    filled, masks = [], []
    for i, (value, mask) in enumerate(zip(values, found, strict=True)):
        shape = layout.shape(label, i)
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
    if any(mask.shape != layout.shape(label, i) for i, mask in enumerate(masks)):
        return filled, None  # the shape of the labels is wrong, which is said next
    return filled, np.concatenate([mask.ravel() for mask in masks])


def _joined(parts: list[NDArray[Any]], dtype: Any) -> NDArray[Any]:
    return parts[0] if len(parts) == 1 else np.concatenate([np.zeros(0, dtype), *parts])


def _pieces(layout: Layout, label: Label, values: Sequence[Any]) -> list[NDArray[Any]]:
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
        if array.shape != (shape := layout.shape(label, i)):
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


def _complain(layout: Layout, label: Label, pieces: list[NDArray[Any]], at: int) -> None:
    before = pointers(np.array([len(piece) for piece in pieces]))
    piece = int(np.searchsorted(before, at, side="right")) - 1
    value = plain(pieces[piece][at - before[piece]])
    ptr = pointers(layout.count(label))
    i = int(np.searchsorted(ptr, at, side="right")) - 1
    place = position_words(label.dims, layout.shape(label, i), at - int(ptr[i]))
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
