"""Scores as users pass them - padded, packed, in lists, or the same for all factors - and as the program has them.

=========  ====================================================================================================
form       shape, with the positions and states of :mod:`ssvm_dsl.scoring.templates`
=========  ====================================================================================================
padded     an array ``(B, *positions, *states)``; what is beyond an example's positions, or masked, is not looked at
packed     an array ``(n, *states)``: the factors of all examples, one after the other
list       an array ``(*positions, *states)`` for each example
tied       an array ``(*states)``: every factor of every example has these scores
=========  ====================================================================================================

A mask keeps some positions of an axis, which then follow each other: those of sub-words can be left out of the middle
of a sentence.  Of padded scores of steps, such as ``chain(y)``, the entry of the step *into* a kept position counts.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ssvm_dsl.array_types import F64, I64, Bools
from ssvm_dsl.errors import DataError
from ssvm_dsl.ir.ragged import owner_of, pointers
from ssvm_dsl.lang.arrays import NotNumbers, as_floats, describe, real_array
from ssvm_dsl.scoring.templates import Template

PADDED, PACKED, LIST, TIED = "padded", "packed", "list", "tied"


@dataclass(frozen=True, eq=False)
class RawScores:
    """The scores of one template as they came.

    Parameters
    ----------
    template : Template
    form : str
        One of the forms above.
    values : ndarray, or list of ndarray
    """

    template: Template
    form: str
    values: Any

    @classmethod
    def read(cls, template: Template, value: Any) -> RawScores:
        """Return scores with their form; sizes are compared later.

        Raises
        ------
        DataError
            Names the factor, and the example in a list.
        """
        states, n_axes = template.shape, len(template.axes)
        if isinstance(value, list | tuple):
            arrays = [_array(template, scores, i) for i, scores in enumerate(value)]
            for i, array in enumerate(arrays):
                if array.ndim != n_axes + len(states) or array.shape[n_axes:] != states:
                    raise cls._refused(template, array, i)
            return cls(template, LIST, arrays)
        array = _array(template, value)
        lead = array.ndim - len(states)
        forms = {0: TIED, 1: PACKED} | {1 + n_axes: PADDED}
        if lead not in forms or array.shape[lead:] != states:
            raise cls._refused(template, array)
        return cls(template, forms[lead], array)

    @staticmethod
    def _refused(template: Template, array: NDArray[Any], example: int | None = None) -> DataError:
        positions = ", ".join(_names(template))
        states = "".join(f", {size}" for size in template.shape)
        if example is None:
            expected = (
                f"scores padded (B{positions and ', '}{positions}{states}), packed (n{states}), a list of one array "
                f"for each example, or {template.shape} for all factors"
            )
        else:
            inner = ", ".join([*_names(template), *map(str, template.shape)])
            expected = f"an array of shape ({inner})"
        return DataError(scores_of(template), example=example, expected=expected, found=describe(array))

    @property
    def n_examples(self) -> int | None:
        """Number of examples, where the form tells it."""
        if self.form == PACKED:
            each = self.template.fixed_count
            return len(self.values) // each if each else None
        return None if self.form == TIED else len(self.values)

    def axis_sizes(self) -> I64 | None:
        """Return the sizes of the axes of each example, ``shape (n, n_axes)``, where the form tells them."""
        n_axes = len(self.template.axes)
        if self.form == LIST:
            shapes = [array.shape[:n_axes] for array in self.values]
            return np.array(shapes, dtype=np.int64).reshape(len(shapes), n_axes)
        if self.form == PADDED:
            return np.tile(np.array(self.values.shape[1 : 1 + n_axes], dtype=np.int64), (len(self.values), 1))
        return None


def scores_of(template: Template) -> str:
    """Return how messages call the scores of a template."""
    return f"scores of '{template.name}'"


def _names(template: Template) -> list[str]:
    return [axis.words for axis in template.axes]


def _array(template: Template, value: Any, example: int | None = None) -> NDArray[Any]:
    try:
        array = real_array(value)
        return array if array.dtype in (np.float64, np.float32) else as_floats(array)
    except NotNumbers as err:
        what = scores_of(template)
        raise DataError(what, example=example, expected=err.expected, found=err.found, hint=err.hint) from None


class Sizes:
    """Sizes of the axes of each example, and which positions of padded arrays are kept.

    Parameters
    ----------
    n : int
        Number of examples.
    known : dict of str to ndarray of int64, shape (n,)
    kept : dict of str to ndarray of bool, shape (n, width)
        Masks that leave out positions in the middle, by axis.
    mask_widths : dict of str to int
        The number of columns of every mask, by axis: padded arrays have as many positions.
    counted : mapping of str to ndarray of int64, shape (n,), optional
        Numbers of factors, by template, where these follow from the content of inputs.
    """

    def __init__(
        self, n: int, known: dict[str, I64], kept: dict[str, Bools], mask_widths: dict[str, int] | None = None,
        counted: Mapping[str, I64] | None = None,
    ) -> None:  # fmt: skip
        self.n, self.known, self.kept, self.mask_widths = n, known, kept, mask_widths or {}
        self._counted = counted or {}
        self._places: dict[tuple[str, tuple[int, ...]], I64 | None] = {}

    def counts(self, template: Template) -> I64:
        """Return the number of factors of a template in each example."""
        counts = self._counted.get(template.name)
        return template.counts(self.known, self.n) if counts is None else counts

    def of(self, template: Template) -> I64:
        """Return the size of each axis of a template in each example; ``shape (n, n_axes)``."""
        return template.sizes(self.known, self.n, self._counted.get(template.name))

    def places(self, template: Template, widths: tuple[int, ...], what: str) -> I64 | None:
        """Return :func:`padded_places` of a template, kept for the next time."""
        key = (template.name, widths)
        if key not in self._places:
            self._places[key] = padded_places(template, self, widths, what)
        return self._places[key]


def padded_places(template: Template, sizes: Sizes, widths: tuple[int, ...], what: str) -> I64 | None:
    """Return where the factors of each example are in padded scores, ``None`` where these are all of them, in order.

    Parameters
    ----------
    template : Template
    sizes : Sizes
    widths : tuple of int
        The axes of the padded array.
    what : str
        What messages call the array.

    Raises
    ------
    DataError
        An example has more positions than the array, or the array has another width than the mask of its axis.
    """
    own = sizes.of(template)
    names = [axis.name for axis in template.axes]
    for k, (axis, width) in enumerate(zip(template.axes, widths, strict=True)):
        masked = sizes.mask_widths.get(axis.name, width + axis.less)
        if masked != width + axis.less:
            expected = f"{masked - axis.less} positions along {_names(template)[k]}, as in the mask of {axis.name}"
            raise DataError(what, expected=expected, found=f"{width} (padded)")
        if axis.name in sizes.kept:
            continue
        wrong = np.flatnonzero(own[:, k] > width)
        if len(wrong):
            i = int(wrong[0])
            expected = f"at least {int(own[i, k])} positions along {_names(template)[k]}"
            raise DataError(what, example=i, expected=expected, found=f"{width} (padded)")
    parts, area, known = [], prod(widths), dict[bytes, list[I64]]()
    for i in range(sizes.n):
        key = own[i].tobytes()
        if key not in known:
            known[key] = template.places(own[i])
        flat = np.zeros(len(known[key][0]) if known[key] else 1, dtype=np.int64)
        for at, axis, name, width in zip(known[key], template.axes, names, widths, strict=True):
            if name in sizes.kept:
                at = np.flatnonzero(sizes.kept[name][i])[at + axis.less] - axis.less
            flat = flat * width + at
        if not template.axes:
            flat = flat[: int(sizes.counts(template)[i])]
        parts.append(i * area + flat)
    places = np.concatenate(parts)
    if len(places) == sizes.n * area and (places == np.arange(len(places))).all():
        return None
    return places


class RawLayout:
    """How the scores of one template lie in the arrays that users passed, for a batch of known sizes.

    It follows from the shapes of the arrays, so that it serves other scores of the same shapes.

    Parameters
    ----------
    raw : RawScores
        Of these shapes.
    sizes : Sizes
    """

    def __init__(self, raw: RawScores, sizes: Sizes) -> None:
        values, template, n = raw.values, raw.template, sizes.n
        what, n_axes = scores_of(template), len(template.axes)
        self.form, self.template, self.n_factors = raw.form, template, 1
        self.shapes = [array.shape for array in (values if raw.form == LIST else [values])]
        self.at: I64 | None = None
        if raw.form == TIED:
            return
        counts = sizes.counts(template)
        self.n_factors, self.ptr = int(counts.sum()), pointers(counts)
        if raw.form == PACKED:
            if len(values) != self.n_factors:
                expected = f"{self.n_factors} factors in {n} examples, one after the other"
                raise DataError(what, expected=expected, found=describe(values))
        elif len(values) != n:
            found = f"{len(values)}" if raw.form == LIST else describe(values)
            raise DataError(what, expected=f"{n} examples", found=found)
        elif raw.form == PADDED:
            self.at = sizes.places(template, values.shape[1 : 1 + n_axes], what)
        else:
            for i, (array, own) in enumerate(zip(values, sizes.of(template).tolist(), strict=True)):
                if array.shape[:n_axes] != tuple(own):
                    expected = f"shape {(*own, *template.shape)}"
                    raise DataError(what, example=i, expected=expected, found=describe(array))

    def packed(self, values: Any) -> F64:
        """Return scores factor by factor, ``shape (n, width)``, unchecked (:meth:`check`).

        Parameters
        ----------
        values : ndarray, or list of ndarray
            Of the shapes that this is for.
        """
        if self.form == LIST:
            pieces = [self._own(i, array) for i, array in enumerate(values)]
            out = np.concatenate(pieces) if pieces else np.zeros((0, self.template.width))
        else:
            out = values.reshape(-1, self.template.width)
            if self.at is not None:
                out = out[self.at]
        return np.ascontiguousarray(out, dtype=np.float64)

    def _own(self, i: int, array: NDArray[Any]) -> NDArray[Any]:
        """Return the scores of the factors of an example in a list."""
        axes = array.shape[: len(self.template.axes)]
        flat = array.reshape(prod(axes), self.template.width)
        if int(self.ptr[i + 1] - self.ptr[i]) == len(flat):
            return flat
        coordinates = self.template.places(np.array(axes))
        return flat[np.ravel_multi_index(tuple(coordinates), axes)] if axes else flat[:0]

    def check(self, packed: F64) -> None:
        """Refuse scores that are no scores.

        Raises
        ------
        DataError
            A score is nan, infinite or of the wrong sign: names the template and the example.
        """
        template, selects = self.template, self.template.selects
        wrong = np.isnan(packed) | (packed == np.inf)
        if not selects:
            wrong |= packed == -np.inf
        if wrong.any():
            expected = "numbers, or -inf for forbidden states" if selects else "finite numbers (of a form)"
            raise self._wrong(packed, wrong, expected)
        if template.nonneg and packed.min(initial=0.0) < 0.0:
            raise self._wrong(packed, packed < 0.0, "scores of at least 0 (nonneg=True)")

    def _wrong(self, packed: F64, wrong: Bools, expected: str) -> DataError:
        factor, number = np.argwhere(wrong)[0].tolist()
        example = None if self.form == TIED else owner_of(self.ptr, factor)
        found = f"{packed[factor, number]:g}"
        if example is not None:
            found += f" in factor {factor - int(self.ptr[example])}"
        return DataError(scores_of(self.template), example=example, expected=expected, found=found)

    def restored(self, packed: F64) -> Any:
        """Return numbers of factors, ``shape (n, width)``, in the shape in which the scores came."""
        if self.form == LIST:
            return [self._spread(i, shape, packed) for i, shape in enumerate(self.shapes)]
        (shape,) = self.shapes
        if self.at is None:
            return packed.reshape(shape)
        out = np.zeros((prod(shape[: 1 + len(self.template.axes)]), self.template.width))
        out[self.at] = packed
        return out.reshape(shape)

    def _spread(self, i: int, shape: tuple[int, ...], packed: F64) -> F64:
        mine, axes = packed[self.ptr[i] : self.ptr[i + 1]], shape[: len(self.template.axes)]
        if len(mine) == prod(axes):
            return mine.reshape(shape)
        out = np.zeros((prod(axes), self.template.width))
        if axes:
            out[np.ravel_multi_index(tuple(self.template.places(np.array(axes))), axes)] = mine
        return out.reshape(shape)


def told_sizes(raw: Mapping[str, RawScores], known: Mapping[str, I64]) -> dict[str, I64]:
    """Return the known sizes of axes, and the sizes that follow from the shapes of scores."""
    sizes_by_axis = dict(known)
    ends = [(axis.less, k, axis, scores) for scores in raw.values() for k, axis in enumerate(scores.template.axes)]
    for less, k, axis, scores in sorted(ends, key=lambda end: end[0]):
        sizes = scores.axis_sizes()
        if sizes is not None and axis.dim is not None and axis.name not in sizes_by_axis:
            sizes_by_axis[axis.name] = sizes[:, k] + less
    return sizes_by_axis
