"""Evaluate feature sources on examples; results of fitted sources are returned for later use.

Features are functions of users, long lists of attributes, expansions: they may take longer than the limit of the call
at hand.  Those of the first examples are computed then, and those of the others are 0.  At weights of 0, which a fit
has by then, this changes nothing; predictions get the number of complete examples.  What decides on labels without
weights (masks, given scores) is always computed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, replace
from functools import cached_property, partial
from math import prod
from typing import Any, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from ssvm_dsl.array_types import F64, I64
from ssvm_dsl.compiler.features.attributes import Names, hashed_rows, known_rows, learn_rows, malformed, tokens_of
from ssvm_dsl.compiler.features.expansions import hat_functions, kernel_rows, learn_kernel, learn_pivots, pivot_rows
from ssvm_dsl.compiler.features.sparse import checked, first_rows, side_by_side, stack_rows, with_empty_rows
from ssvm_dsl.compiler.inputs import Examples, check_finite, example_inputs, position_words, stack_dense
from ssvm_dsl.compiler.labels.segments import span_ends
from ssvm_dsl.deadline import time_left
from ssvm_dsl.errors import DataError
from ssvm_dsl.ir.features import SlicedRows, SparseRows
from ssvm_dsl.ir.ragged import pointers, runs
from ssvm_dsl.lang.arrays import as_floats, real_array
from ssvm_dsl.lang.declaration import Declaration
from ssvm_dsl.lang.dims import Dim
from ssvm_dsl.lang.features import sources as lang
from ssvm_dsl.lang.features.kernel_features import Kernel, KernelMap, Nystroem, RandomFourier
from ssvm_dsl.lang.features.sources import SpanLength, SpanMean, SpanSum
from ssvm_dsl.lang.functions import FunctionRef
from ssvm_dsl.lang.inputs import Attributes, Input, Source
from ssvm_dsl.lang.outputs.labels import Target
from ssvm_dsl.lang.patterns.join import World
from ssvm_dsl.lang.patterns.pattern import Pattern

T = TypeVar("T")

#: Rows that a transform is computed of where there is no time: it must learn from some.
FEW_ROWS = 1024

#: What fitted features learnt: arrays (or lists of names) by the text of the feature, e.g. "Standardized(x)".
#: Factors with weights for observed pairs only keep these pairs here, too, by the name of the factor.
LearntFeatures = dict[str, dict[str, Any]]


@dataclass(frozen=True, eq=False)
class Rows:
    """Feature rows over all examples.

    Parameters
    ----------
    dims : tuple of Dim
        Axes of the rows.
    values : ndarray (R, P) or SparseRows (or SlicedRows, which nothing else is made of)
    ptr : ndarray of int64, shape (B + 1,)
        Rows of each example.
    """

    dims: tuple[Dim, ...]
    values: F64 | SparseRows
    ptr: I64


def fitted_keys(declaration: Declaration) -> dict[Source, str]:
    """Return the key under which each source keeps what it learnt: its name, or its text.

    Different sources may read the same (two lambdas, long lists of knots); the later ones get a number.
    """
    keys: dict[Source, str] = {}
    for source in declaration.sources:
        if source not in keys:
            text = source.name or repr(source)
            same = sum((other.name or repr(other)) == text for other in keys)
            keys[source] = f"{text} ({same + 1})" if same else text
    return keys


class Encoder:
    """Evaluates sources on one batch of examples, each source once.

    Parameters
    ----------
    declaration : Declaration
    examples : Examples
    fitted : LearntFeatures, optional
        Fitted state of an earlier call; without it, fitted features learn from these examples.
    first : int
        Number of the first example, for messages.
    in_time : bool
        Whether features are left out when the call at hand has no time left.

    Attributes
    ----------
    n_computed : int
        Number of examples, from the first, that have all of their features.
    of_terms : dict of int to Rows
        Rows of the factors of a template, by the identity of what they are a part of.
    spreads : dict
        For features that learnt a scale here, by their keys, what joins it with those of other examples: the number of
        rows, and of each column the standard deviation (or the largest absolute value), 0 where it is constant (0).
    """

    def __init__(
        self, declaration: Declaration, examples: Examples, fitted: LearntFeatures | None = None, first: int = 0,
        in_time: bool = False,
    ) -> None:  # fmt: skip
        self.declaration, self.examples, self.first = declaration, examples, first
        self.n_computed, self._in_time = examples.n, in_time
        self.fitting = fitted is None
        self.fitted: LearntFeatures = {} if fitted is None else fitted
        if fitted is None and examples.columns:
            self.fitted.update({name: {"columns": names} for name, names in examples.columns.items()})
        self.spreads: dict[str, tuple[int, F64]] = {}
        self._done: dict[Source, Rows] = {}
        self._plain: dict[str, F64 | SparseRows] = {}
        self.of_terms: dict[int, Rows | None] = {}

    def rows(self, source: Source) -> Rows:
        """Return the feature rows of a source."""
        rows = self._done.get(source) if self._done else None
        if rows is None:
            if isinstance(source, lang.Transform) and not self.goes_on(source, 0):
                rows = self._some_rows(source)
            else:
                rows = _EVALUATORS.get(type(source), _brought)(self, source)
            self._done[source] = rows
        return rows

    def plain(self, source: Input | Attributes) -> F64 | SparseRows:
        """Return the numbers of a dense input, or attributes, as features: nothing is computed from them."""
        values = self._plain.get(source.name)
        if values is None:
            values = _attributes(self, source) if isinstance(source, Attributes) else stack_dense(source, self.examples)
            self._plain[source.name] = values
        return values

    @cached_property
    def _needed(self) -> set[Source]:
        """The sources of masks and given scores."""
        declaration = self.declaration
        fixed = (*(label.allowed for label in declaration.labels), *(given.features for given in declaration.given))
        return {source for one in fixed for source in lang.walk_sources(one)}

    def may_end(self, source: Source) -> bool:
        """Whether features of a source may be left out."""
        return self._in_time and time_left() < float("inf") and source not in self._needed

    def goes_on(self, source: Source, i: int) -> bool:
        """Return whether a source is computed for example i; where it is not, it is for none after it either."""
        if not self.may_end(source) or time_left() > 0.0:
            return True
        self.n_computed = min(self.n_computed, i)
        return False

    def _some_rows(self, source: lang.Transform) -> Rows:
        """Return rows of a source for which there is no time: a few rows are computed, the others are 0."""
        inner = self.rows(source.source)
        few = first_rows(inner.values, FEW_ROWS)
        short = copy(self)
        short._done = {source.source: Rows(inner.dims, few, np.minimum(inner.ptr, few.shape[0]))}
        made = _EVALUATORS.get(type(source), _brought)(short, source).values
        return Rows(source.dims, with_empty_rows(made, inner.values.shape[0]), inner.ptr)

    def learnt(self, source: Source, learn: Callable[[], dict[str, Any]]) -> dict[str, Any]:
        """Return the fitted state of a source; fit it now in training."""
        return self.kept(fitted_keys(self.declaration)[source], learn)

    def kept(self, key: str, learn: Callable[[], dict[str, Any]]) -> dict[str, Any]:
        """Return the fitted state of a key; fit it now in training."""
        if self.fitting:
            self.fitted[key] = learn()
        return self.fitted[key]

    def call(
        self, ref: FunctionRef, i: int, what: str, more: Mapping[str, Any] | None = None,
        names: Sequence[str] | None = None,
    ) -> F64:  # fmt: skip
        """Return a user function's array for example i: a copy, as functions may use their memory again.

        Parameters
        ----------
        ref : FunctionRef
        i : int
        what : str
            The name of the function, for messages.
        more : mapping of str to ndarray, optional
            Other things that it may ask for.
        names : sequence of str, optional
            The inputs that it asks for, by default those that its parameters name.

        Raises
        ------
        DataError
            The function fails (its exception is the cause), or returns something else than real numbers.
        """
        named = f"{what} {ref.path}"
        assert ref.function is not None
        spare, asked = more or {}, ref.arguments() if names is None else tuple(names)
        names = None if asked is None else [name for name in asked if name not in spare]
        given = {name: value for name, value in spare.items() if asked is None or name in asked}
        try:
            value = ref.function(**example_inputs(self.examples, i, names), **given)
        except Exception as err:
            hint = "inputs are read-only for functions; x = x.copy() may be changed" if "read-only" in str(err) else ""
            found = f"{type(err).__name__}: {err}"
            raise DataError(named, example=i, expected="an array for the example", found=found, hint=hint) from err
        return np.array(as_floats(checked(real_array, value, named, i)))

    def call_at(self, ref: FunctionRef, i: int, positions: list[I64], what: str) -> F64:
        """Return a user's function of positions, given by place, for example i; the inputs it asks for come by name."""
        function, asked = ref.function, ref.arguments()
        assert function is not None
        rest = None if asked is None else asked[len(positions) :]
        placed = FunctionRef(ref.path, partial(function, *positions))
        return self.call(placed, i, what, names=rest)

    def joint(self, source: lang.JointFeature, counts: I64, cards: tuple[int, ...]) -> F64:
        """Return the tables of a JointFeature, ``shape (sum(counts) * prod(cards), width)``."""
        parts = []
        for i in range(self.examples.n):
            if not self.goes_on(source, i):
                parts.append(np.zeros((int(counts[i:].sum()) * int(np.prod(cards)), source.width)))
                break
            value = self.call(source.ref, i, "JointFeature")
            expected = (int(counts[i]), *cards, source.width)
            if value.shape != expected:
                what, found = f"JointFeature {source.ref.path}", f"shape {value.shape}"
                raise DataError(what, example=i, expected=f"shape {expected}", found=found)
            parts.append(value.reshape(-1, source.width))
        rows = np.ascontiguousarray(np.concatenate(parts))
        check_finite(rows, pointers(counts * int(np.prod(cards))), f"JointFeature {source.ref.path}")
        return rows


def _of_input(encoder: Encoder, source: Input | Attributes) -> Rows:
    ptr = pointers(encoder.examples.size(source.dims))
    if isinstance(source, Input) and source.sparse:
        raw = encoder.examples.raw[source.name]
        return Rows(source.dims, stack_rows(raw, source.width, f"input '{source.name}'"), ptr)
    return Rows(source.dims, encoder.plain(source), ptr)


def _attributes(encoder: Encoder, source: Attributes) -> SparseRows:
    """Return rows of attributes: in training their names are learnt, later others are left out."""
    goes_on = _attributes_go_on(encoder, source)
    if encoder.fitting:
        names, rows = _checked(encoder, source, lambda tokens: learn_rows(tokens, goes_on))
        encoder.learnt(source, lambda: {"names": names})
        return rows
    state = encoder.fitted[source.name]
    if not isinstance(state["names"], Names):  # a plain list, as read from a file
        state["names"] = Names(state["names"])
    return _checked(encoder, source, partial(known_rows, names=state["names"], goes_on=goes_on))


def _hashed(encoder: Encoder, source: lang.Hashed) -> Rows:
    assert isinstance(source.source, Attributes)
    go_on = _attributes_go_on(encoder, source.source)
    rows = _checked(encoder, source.source, lambda tokens: hashed_rows(tokens, source.width, go_on))
    return Rows(source.dims, rows, pointers(encoder.examples.size(source.dims)))


def _attributes_go_on(encoder: Encoder, source: Attributes) -> Callable[[int], bool] | None:
    """Return a function that says if there is time for the attributes from a position on; ``None`` without a limit.

    While fitting, those of the first positions are read in any case, since the names must come from some positions.
    """
    if not encoder.may_end(source):
        return None
    ptr = pointers(encoder.examples.size(source.dims))

    def goes_on(position: int) -> bool:
        first = encoder.fitting and position == 0
        return first or encoder.goes_on(source, int(np.searchsorted(ptr, position, side="right")) - 1)

    return goes_on


def _checked(encoder: Encoder, source: Attributes, make: Callable[[list[Any]], T]) -> T:
    """Return ``make`` of the attributes of all positions; errors name malformed ones."""
    try:
        return make(list(tokens_of(source, encoder.examples.raw[source.name])))
    except (TypeError, ValueError, AttributeError, OverflowError) as err:
        _complain_attributes(encoder, source)
        raise DataError(f"input '{source.name}'", expected=_TOKEN, found=f"{type(err).__name__}: {err}") from err


#: What the attributes of one position are.
_TOKEN = "a dict {name: finite number} or a list of names"


def _complain_attributes(encoder: Encoder, source: Attributes) -> None:
    """Find the first malformed token and raise the error that names it."""
    for i, one in enumerate(encoder.examples.raw[source.name]):
        shape = tuple(int(encoder.examples.size((dim,))[i]) for dim in source.dims)
        for flat, token in enumerate(tokens_of(source, [one])):
            found = malformed(token)
            if found is not None:
                place = position_words(source.dims, shape, flat)
                raise DataError(f"input '{source.name}'", example=i, expected=_TOKEN, found=f"{found} {place}".rstrip())


def _feature(encoder: Encoder, source: lang.Feature) -> Rows:
    sizes = encoder.examples.sizes
    parts, counts = [], []
    goal = source.target
    if goal is not None and not source.stored:
        return _sliced_rows(encoder, source, goal)
    ends = None if goal is None else _ends_of(encoder, goal)
    for i in range(encoder.examples.n):
        if source.target is None:
            shape: tuple[int, ...] = tuple(int(sizes[dim.name][i]) for dim in source.dims)
        else:
            shape = (_n_factors(source.target, encoder, i),)
        if not encoder.goes_on(source, i):
            counts.append(prod(shape))
            continue
        value = encoder.call(source.ref, i, "Feature", None if ends is None else ends(i))
        grid = None if source.target is None else _grid_shape(source.target, encoder, i)
        fitting = [(*one, source.width) for one in (shape, grid) if one is not None]
        if value.shape not in fitting and not (source.width == 1 and value.shape in (shape, grid)):
            expected = " or ".join(f"{one}" for one in dict.fromkeys(fitting))
            what = f"Feature {source.ref.path}"
            raise DataError(what, example=i, expected=f"shape {expected}", found=f"shape {value.shape}")
        parts.append(value.reshape(-1, source.width))
        counts.append(len(parts[-1]))
    ptr = pointers(np.array(counts, dtype=np.int64))
    if (rest := int(ptr[-1]) - sum(map(len, parts))) or not parts:
        parts.append(np.zeros((rest, source.width)))
    return _finite(np.concatenate(parts), source.dims, ptr, f"Feature {source.ref.path}")


def _sliced_rows(encoder: Encoder, source: lang.Feature, target: Target) -> Rows:
    """Return rows of all spans, those of each start by length, that are made whenever they are asked for."""
    sizes, longest = encoder.examples.size(target.label.dims), target.label.segments or 1
    first, width, what = pointers(sizes), source.width, f"Feature {source.ref.path}"
    at = runs(np.zeros(len(sizes), dtype=np.int64), sizes)
    before = pointers(np.minimum(np.repeat(sizes, sizes) - at, longest))  # spans of all earlier positions

    def make(rows: I64) -> F64:
        out, place = np.zeros((len(rows), width)), np.searchsorted(before, rows, side="right") - 1
        owner = np.searchsorted(first, place, side="right") - 1
        for i in np.unique(owner).tolist():
            mine = np.flatnonzero(owner == i)
            start = place[mine] - first[i]
            ends = {"start": start, "end": start + 1 + rows[mine] - before[place[mine]]}
            value = encoder.call(source.ref, i, "Feature", ends)
            if value.shape != (len(mine), width) and not (width == 1 and value.shape == (len(mine),)):
                expected = f"shape {(len(mine), width)}, a row for each of some spans"
                raise DataError(what, example=i, expected=expected, found=f"shape {value.shape}")
            out[mine] = value.reshape(-1, width)
            check_finite(out[mine], np.append(np.zeros(i + 1, dtype=np.int64), len(mine)), what)
        return out

    return Rows((), cast(Any, SlicedRows((int(before[-1]), width), make)), before[first])


def _span_ends(encoder: Encoder, target: Target) -> tuple[I64, I64, I64]:
    """Return (start, end, pointers) of all spans of all examples."""
    return span_ends(encoder.examples.size(target.label.dims), target.label.segments or 1)


def _ends_of(encoder: Encoder, target: Target) -> Callable[[int], dict[str, I64]] | None:
    """Return where the factors of an example are, as functions receive it: copies; ``None`` where they do not."""
    if isinstance(target, Pattern) and target.word is not None and target.word.ends:
        ends = target.word.ends

        def found(i: int) -> dict[str, I64]:
            sizes = {name: size[i : i + 1] for name, size in encoder.examples.sizes.items()}
            made = target.instances(World(sizes, {}, 1))
            return {name: made.number(place)[0].copy() for name, place in ends.items()}

        return found
    if not target.of_spans:
        return None
    *both, ptr = _span_ends(encoder, target)
    return lambda i: {name: one[ptr[i] : ptr[i + 1]].copy() for name, one in zip(lang.SPAN_ENDS, both, strict=True)}


def _span_length(encoder: Encoder, source: SpanLength) -> Rows:
    start, end, ptr = _span_ends(encoder, source.target)
    rows = np.zeros((len(start), source.width))
    rows[np.arange(len(start)), end - start - 1] = 1.0
    return Rows((), rows, ptr)


def _span_rows(encoder: Encoder, source: SpanMean, mean: bool) -> Rows:
    """Return sums over spans, or means: each sum is that of the span one shorter and the last position."""
    inner = encoder.rows(source.source)
    values = inner.values
    assert isinstance(values, np.ndarray)
    start, end, ptr = _span_ends(encoder, source.target)
    first, length = np.repeat(inner.ptr[:-1], np.diff(ptr)), end - start
    rows = np.zeros((len(start), values.shape[1]))
    with np.errstate(over="ignore", invalid="ignore"):
        for l in range(1, int(length.max(initial=0)) + 1):
            at = np.flatnonzero(length == l)
            rows[at] = values[(first + end - 1)[at]] + (rows[at - 1] if l > 1 else 0.0)  # shorter ones come before
        if mean:
            rows /= length[:, None]
    return _finite(rows, (), ptr, f"feature {source!r}")


def _finite(values: F64, dims: tuple[Dim, ...], ptr: I64, what: str) -> Rows:
    """Return computed rows after looking for nan and infinity."""
    rows = np.ascontiguousarray(values)
    check_finite(rows, ptr, what)
    return Rows(dims, rows, ptr)


def _n_factors(target: Target, encoder: Encoder, i: int) -> int:
    return int(target.count({name: int(sizes[i]) for name, sizes in encoder.examples.sizes.items()}))


def _grid_shape(target: Target, encoder: Encoder, i: int) -> tuple[int, ...] | None:
    """Return the shape in which factors lie on the axes of a label, such as ``(H, W - 1)`` for ``pairs(y, W)``."""
    axes = target.position_axes if isinstance(target, Pattern) else ()
    if len(axes) < 2:
        return None
    sizes = [int(encoder.examples.sizes[dim.origin.name][i]) - less if dim is not None else -1 for dim, less in axes]
    return None if min(sizes) < 0 else tuple(sizes)


def _learnt_arrays(what: str, learnt: object) -> dict[str, NDArray[Any]]:
    """Return copies of what the method ``learn`` of a feature has returned.

    Raises
    ------
    DataError
        It is something else than a dict of arrays of numbers.
    """
    if isinstance(learnt, Mapping) and all(isinstance(name, str) for name in learnt):
        arrays = {name: np.array(value) for name, value in learnt.items()}
        if are_arrays(arrays):
            return arrays
    raise DataError(what, expected="a dict of arrays of numbers from its method learn", found=f"{learnt!r}"[:80])


def are_arrays(learnt: object) -> bool:
    """Whether something is a dict of arrays of numbers: of a feature of another package, nothing else is known."""
    if not isinstance(learnt, Mapping):
        return False
    return all(isinstance(array, np.ndarray) and array.dtype.kind in "biuf" for array in learnt.values())


def _brought(encoder: Encoder, source: lang.Transform) -> Rows:
    """Return the rows of a kind of feature from another package, which computes them itself."""
    values, rows = _dense_of(encoder, source)
    what = f"feature {source!r}"
    if type(source).learn is not lang.Transform.learn and not source.learns:
        raise DataError(what, expected="learns = True in a class that defines learn()", found="learns = False")
    values = values.view()
    values.flags.writeable = False
    learnt = encoder.learnt(source, lambda: _learnt_arrays(what, source.learn(values))) if source.learns else {}
    made = np.asarray(source.transform(values, learnt), dtype=np.float64)
    if made.shape != (len(values), source.width):
        raise DataError(what, expected=f"shape {(len(values), source.width)}", found=f"shape {made.shape}")
    if encoder.fitting and len(values) > 1:
        again, few = _made_again(source, what), np.unique([len(values) // 2, len(values) - 1])
        alone = np.asarray(again.transform(values[few], learnt), dtype=np.float64)
        size = 1e-9 * np.abs(made[np.isfinite(made)]).max(initial=0.0)
        if alone.shape != made[few].shape or not np.allclose(alone, made[few], rtol=1e-6, atol=size, equal_nan=True):
            expected = "transform() of some rows, by a feature made of arguments(), to return what it does among all"
            hint = "what depends on other rows is learnt in training: return it from learn(), and read it from learnt"
            hint += "; options of the constructor are among arguments()"
            raise DataError(what, expected=expected, found="other numbers", hint=hint)
    return _finite(made, rows.dims, rows.ptr, what)


def _made_again(source: lang.Transform, what: str) -> lang.Transform:
    """Return the feature that the arguments of another one make, as files of models do."""
    args, named = source.arguments()
    expected = f"arguments() to return all that {type(source).__name__} is made with"
    try:
        made = type(source)(*args, **named)
    except TypeError as err:
        raise DataError(what, expected=expected, found=f"{err}") from err
    if made.width != source.width:
        raise DataError(what, expected=expected, found=f"width {made.width} instead of {source.width} without the rest")
    return made


def _dense_of(encoder: Encoder, source: lang.Transform) -> tuple[F64, Rows]:
    rows = encoder.rows(source.source)
    assert isinstance(rows.values, np.ndarray)
    return rows.values, rows


def _learn(
    encoder: Encoder, source: lang.Transform, values: F64, learn: Callable[[], dict[str, Any]]
) -> dict[str, Any]:
    """Return the state that a feature learns from its source's rows.

    Raises
    ------
    DataError
        There are none, or numbers so large that sums of their squares are not finite.
    """

    def checked_learn() -> dict[str, Any]:
        what = f"feature {source!r}"
        if len(values) == 0:
            raise DataError(what, expected="at least one row to learn from", found="empty examples only")
        with np.errstate(over="ignore", invalid="ignore"):
            state = learn()
        if not all(np.isfinite(part).all() for part in state.values()):
            largest = f"features up to {np.abs(values).max():.3g}"
            raise DataError(what, expected="features whose squares are finite", found=largest, hint="rescale the input")
        return state

    return encoder.learnt(source, checked_learn)


def _plif(encoder: Encoder, source: lang.PLiF) -> Rows:
    values, rows = _dense_of(encoder, source)
    if source.knots:
        knots = np.tile(np.array(source.knots), (values.shape[1], 1))
    else:
        levels = np.linspace(0.0, 1.0, source.n_knots)
        knots = _learn(encoder, source, values, lambda: {"knots": np.quantile(values, levels, axis=0).T})["knots"]
    out = np.zeros((len(values), values.shape[1], source.n_knots))
    for p in range(values.shape[1]):
        out[:, p] = hat_functions(values[:, p], knots[p])
    flat = out.reshape(len(values), values.shape[1] * source.n_knots)
    return _finite(flat, source.dims, rows.ptr, f"feature {source!r}")


def _kernel_map(encoder: Encoder, source: KernelMap) -> Rows:
    values, rows = _dense_of(encoder, source)
    state = _learn(encoder, source, values, lambda: learn_kernel(source, values))
    with np.errstate(over="ignore", invalid="ignore"):
        features = kernel_rows(source, values, state)
    return _finite(features, source.dims, rows.ptr, f"feature {source!r}")


def _kernel(encoder: Encoder, source: Kernel) -> Rows:
    values, rows = _dense_of(encoder, source)
    state = _learn(encoder, source, values, lambda: learn_pivots(source, values))
    return _finite(pivot_rows(source, values, state), source.dims, rows.ptr, f"feature {source!r}")


def _polynomial(encoder: Encoder, source: lang.Polynomial) -> Rows:
    from sklearn.preprocessing import PolynomialFeatures

    monomials = PolynomialFeatures(source.degree, include_bias=False)
    if not source.sparse:
        values, rows = _dense_of(encoder, source)
        with np.errstate(over="ignore", invalid="ignore"):
            # without rows it computes nothing
            features = monomials.fit_transform(values) if len(values) else np.zeros((0, source.width or 0))
        return _finite(features, source.dims, rows.ptr, f"feature {source!r}")
    return _sparse_polynomial(encoder, source, monomials)


def _sparse_polynomial(encoder: Encoder, source: lang.Polynomial, monomials: Any) -> Rows:
    from scipy.sparse import csr_array

    rows = encoder.rows(source.source)
    assert isinstance(rows.values, SparseRows)
    given = csr_array((rows.values.data, rows.values.indices, rows.values.ptr), shape=rows.values.shape)
    with np.errstate(over="ignore", invalid="ignore"):
        made = monomials.fit_transform(given).tocsr()
    made.sort_indices()
    check_finite(made.data[:, None], made.indptr.astype(np.int64)[rows.ptr], f"feature {source!r}")
    return Rows(source.dims, SparseRows.of_csr(made), rows.ptr)


def _standardized(encoder: Encoder, source: lang.Standardized) -> Rows:
    values, rows = _dense_of(encoder, source)

    def learn() -> dict[str, Any]:
        scale, mean = values.std(axis=0), values.mean(axis=0)
        # a constant is off its own rounded mean by an ulp or so, which is no spread
        rounding = len(values) * np.finfo(np.float64).eps * np.abs(mean)
        constant = (scale <= rounding) & (values.max(axis=0) == values.min(axis=0))
        spread = np.where(constant, 0.0, scale)
        encoder.spreads[fitted_keys(encoder.declaration)[source]] = len(values), spread
        return {"mean": np.where(constant, values[0], mean), "scale": np.where(spread > 0, spread, 1.0)}

    state = _learn(encoder, source, values, learn)
    with np.errstate(over="ignore", invalid="ignore"):
        features = (values - state["mean"]) / state["scale"]
    return _finite(features, source.dims, rows.ptr, f"feature {source!r}")


def _scaled(encoder: Encoder, source: lang.Scaled) -> Rows:
    rows = encoder.rows(source.source)
    values = rows.values

    def learnt(largest: F64) -> dict[str, Any]:
        encoder.spreads[fitted_keys(encoder.declaration)[source]] = int(rows.ptr[-1]), largest
        return {"scale": np.where(largest > 0, largest, 1.0)}

    if not isinstance(values, SparseRows):
        assert isinstance(values, np.ndarray)
        scale = _learn(encoder, source, values, lambda: learnt(np.abs(values).max(axis=0)))["scale"]
        return _finite(values / scale, source.dims, rows.ptr, f"feature {source!r}")

    def learn() -> dict[str, Any]:
        largest = np.zeros(values.n_columns)
        np.maximum.at(largest, values.indices, np.abs(values.data))
        return learnt(largest)

    scale = encoder.learnt(source, learn)["scale"]
    return Rows(source.dims, replace(values, data=values.data / scale[values.indices]), rows.ptr)


def _whitened(encoder: Encoder, source: lang.Whitened) -> Rows:
    values, rows = _dense_of(encoder, source)

    def learn() -> dict[str, Any]:
        mean = values.mean(axis=0)
        centred = values - mean
        covariance = centred.T @ centred / len(values)
        if not np.isfinite(covariance).all():
            return {"mean": mean, "matrix": covariance}
        variance, axes = np.linalg.eigh(covariance)
        keep = variance > 1e-10 * max(variance.max(initial=0.0), 1e-300)
        inverse = np.where(keep, 1.0 / np.sqrt(np.where(keep, variance, 1.0)), 0.0)
        return {"mean": mean, "matrix": (axes * inverse) @ axes.T}

    state = _learn(encoder, source, values, learn)
    with np.errstate(over="ignore", invalid="ignore"):
        features = (values - state["mean"]) @ state["matrix"]
    return _finite(features, source.dims, rows.ptr, f"feature {source!r}")


def _concat(encoder: Encoder, source: lang.Concat) -> Rows:
    parts = [encoder.rows(part) for part in source.parts]
    return Rows(source.dims, side_by_side([part.values for part in parts]), parts[0].ptr)


_EVALUATORS: dict[type[Source], Callable[[Encoder, Any], Rows]] = {
    Input: _of_input,
    Attributes: _of_input,
    lang.Feature: _feature,
    SpanLength: _span_length,
    SpanMean: partial(_span_rows, mean=True),
    SpanSum: partial(_span_rows, mean=False),
    lang.PLiF: _plif,
    lang.Polynomial: _polynomial,
    lang.Standardized: _standardized,
    lang.Scaled: _scaled,
    lang.Whitened: _whitened,
    lang.Hashed: _hashed,
    RandomFourier: _kernel_map,
    Nystroem: _kernel_map,
    Kernel: _kernel,
    lang.Concat: _concat,
}
