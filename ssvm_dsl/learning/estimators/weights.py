"""Weights by factor, in the shapes of the declaration: ``Weights`` of a fit with their names, and given ones."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from math import prod
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ssvm_dsl.array_types import F64
from ssvm_dsl.compiler.features.check_fitted import LearntWidths, weight_blocks
from ssvm_dsl.compiler.features.encode import LearntFeatures
from ssvm_dsl.compiler.features.observed import of_learnt
from ssvm_dsl.compiler.features.weight_names import WeightNames, weight_names
from ssvm_dsl.errors import OptionError
from ssvm_dsl.ir.features import Block, ObservedPairs
from ssvm_dsl.ir.ragged import owners
from ssvm_dsl.lang.arrays import NotNumbers, as_floats, real_array
from ssvm_dsl.lang.declaration import Declaration
from ssvm_dsl.lang.factors import Factor
from ssvm_dsl.learning.objective import factor_name

if TYPE_CHECKING:
    from rich.table import Table


class NamedWeight(NamedTuple):
    """One weight, with its name.

    Parameters
    ----------
    factor : str
    unit : tuple
        Its position on the axes of ``per``; empty where all factors share the weights.
    states : tuple
        The class names it scores, one for each variable of a factor; ``("all equal",)`` for ``POTTS``,
        ``("basis 0",)`` and so on for an explicit form, empty for a ``JointFeature``.
    feature : str or None
        Name of the feature it is multiplied with.
    weight : float
    """

    factor: str
    unit: tuple[Any, ...]
    states: tuple[Any, ...]
    feature: str | None
    weight: float


class TopWeights(tuple[NamedWeight, ...]):
    """Weights in the order of their size; prints as a table."""

    __slots__ = ()

    def _shown(self) -> tuple[list[str], list[list[str]]]:
        """Return (columns, rows) of the table; columns that say nothing are left out."""
        columns = {
            "weight": [f"{one.weight:+.4g}" for one in self],
            "factor": [one.factor for one in self],
            "unit": [", ".join(map(str, one.unit)) for one in self],
            "states": [", ".join(map(str, one.states)) for one in self],
            "feature": [one.feature or "" for one in self],
        }
        shown = {name: texts for name, texts in columns.items() if any(texts) or name in ("weight", "factor")}
        return list(shown), [list(row) for row in zip(*shown.values(), strict=True)]

    def __str__(self) -> str:
        names, rows = self._shown()
        widths = [max(map(len, column)) for column in zip(names, *rows, strict=True)]
        lines = ["  ".join(f"{text:{k}}" for text, k in zip(row, widths, strict=True)) for row in [names, *rows]]
        return "\n".join(line.rstrip() for line in lines)

    def __rich__(self) -> Table:
        from ssvm_dsl.report.tables import plain_table

        return plain_table("", *self._shown())

    def _repr_html_(self) -> str:
        from ssvm_dsl.notebook_tables import html_table

        return html_table("weights", [("  ".join(filter(None, row[1:])), row[0]) for row in self._shown()[1]])


class Weights(Mapping["str | Factor", Any]):
    """A read-only mapping from factors (or their names) to arrays of weights.

    Weights for observed pairs only are a ``scipy.sparse.csc_array`` of states (joint states, for factors of several
    variables) by features; entries that are not stored have no weight.

    Parameters
    ----------
    w : ndarray of float64, shape (dim,)
        All weights.
    blocks : tuple of Block
        Their layout.
    declaration : Declaration
        The model.
    fitted : LearntFeatures
        What its features learnt.

    Examples
    --------
    >>> svm.weights_[OCR.trans].shape
    (26, 26)
    >>> svm.weights_["emit"].shape
    (26, 128)
    >>> classes, features = svm.weights_.names("emit")
    >>> print(svm.weights_.top("emit", k=5))
    """

    def __init__(self, w: F64, blocks: tuple[Block, ...], declaration: Declaration, fitted: LearntFeatures) -> None:
        self._w, self._declaration, self._fitted = w, declaration, fitted
        self._blocks = {block.name: block for block in blocks}
        self._ties = {f.name: f.tie.name for f in declaration.factors if f.tie is not None}

    def __getitem__(self, key: str | Factor) -> Any:
        name = _name(key)
        values, pairs = self._block(name).view(self._w), self._observed(name)
        if pairs is None:
            return values
        from scipy.sparse import csc_array

        return csc_array((values, pairs.state, pairs.ptr), shape=self._shape(name))

    def _block(self, name: str) -> Block:
        block = self._blocks.get(self._ties.get(name, name))
        if block is None:
            raise KeyError(f"no factor '{name}'; the factors are {', '.join(self._all())}")
        return block

    def _all(self) -> list[str]:
        return [*self._blocks, *self._ties]

    def __iter__(self) -> Iterator[str | Factor]:
        return iter(self._all())

    def __len__(self) -> int:
        return len(self._blocks) + len(self._ties)

    def __repr__(self) -> str:
        return f"Weights({', '.join(map(self._text, self._blocks))})"

    def _repr_html_(self) -> str:
        """Return the factors with their shapes and largest weights, as notebooks show them."""
        from ssvm_dsl.notebook_tables import html_grid

        rows = []
        for name in self._blocks:
            tops = [" ".join(filter(None, (f"{one.weight:+.3g}", ", ".join(map(str, one.states)), one.feature)))
                    for one in self.top(name, 3)]  # fmt: skip
            rows.append([self._text(name), "; ".join(tops)])
        return html_grid("weights", ["factor", "largest"], rows)

    def _text(self, name: str) -> str:
        pairs = self._observed(name)
        return f"{name}{list(self._shape(name))}" + ("" if pairs is None else f" ({pairs.n_pairs} observed)")

    @property
    def classes(self) -> tuple[Any, ...]:
        """The class names of all labels, each once."""
        labels = (*self._declaration.outputs, *self._declaration.latents)
        listed = [range(one.n_states) if one.classes is None else one.classes for one in labels]
        return tuple(dict.fromkeys(name for classes in listed for name in classes))

    def names(self, factor: str | Factor) -> tuple[tuple[Any, ...], ...]:
        """Return the names along each axis of a factor's array: units, then states, then features.

        Units are positions on the axes of ``per`` (for ``per="edge"`` the positions that an edge joins), states are
        class names (pairs of them for ``SYMMETRIC`` and ``ANTISYMMETRIC``), features the names of attributes
        (``x[3]`` for column 3 of an input, ``words#3`` for bucket 3 of hashed ones).
        """
        return tuple(tuple(axis) for axis in self._names(_name(factor)).axes)

    def top(
        self, factor: str | Factor | None = None, k: int | None = 10, state: Any = None, feature: str | None = None
    ) -> TopWeights:
        """Return the k weights of largest absolute value, largest first, with their names.

        Parameters
        ----------
        factor : Factor or str, optional
            Its weights only; those of all factors by default.
        k : int, optional
            How many at most (``None``: all); weights of 0 are left out.
        state : class name, optional
            Only weights that score this class.
        feature : str, optional
            Only weights of this feature, or of what was made of it: ``"city"`` are those of ``city:a``, ``city:b`` and
            ``Scaled(city:a)``, too.

        Raises
        ------
        OptionError
            k is no positive int, or no factor asked about has the state or the feature.
        KeyError
            There is no such factor.
        """
        if k is not None and not (isinstance(k, int | np.integer) and k >= 1):
            raise OptionError(f"k must be None or a positive int, got {k!r}")
        asked = list(self._blocks) if factor is None else [_name(factor)]
        largest, known, named = [], False, feature is None
        for name in asked:
            values, names, pairs = self._block(name).view(self._w), self._names(name), self._observed(name)
            shape = values.shape if pairs is None else (len(names.states[0]), 1)
            mask = None if state is None else _with_state(names, state, shape)
            known = known or mask is None or bool(mask.any())
            if mask is not None and pairs is not None:
                mask = mask[pairs.state, 0]
            if feature is not None:
                own = np.array([_is_of(one, feature) for one in names.features or ()], dtype=bool)
                named = named or bool(own.any())
                if names.features is None:
                    continue
                of_feature = np.broadcast_to(own, values.shape) if pairs is None else own[owners(pairs.ptr)]
                mask = of_feature if mask is None else mask & of_feature
            places, sizes = _largest(values if mask is None else np.where(mask, values, 0.0), k)
            if pairs is not None:
                places = [pairs.pair(number) for (number,) in places]
            largest += [_named(name, names, place, size) for place, size in zip(places, sizes, strict=True)]
        if not known:
            raise OptionError(f"state={state!r} is not a class that {', '.join(asked)} scores")
        if not named:
            raise OptionError(f"feature={feature!r} is no feature of {', '.join(asked)}")
        largest.sort(key=lambda one: -abs(one.weight))
        return TopWeights(largest[:k])

    def _names(self, name: str) -> WeightNames:
        return weight_names(self._declared(name), self._declaration, self._fitted)

    def _declared(self, name: str) -> Factor:
        self._block(name)
        (declared,) = (one for one in self._declaration.factors if one.name == name)
        return declared

    def _observed(self, name: str) -> ObservedPairs | None:
        """Return the pairs that have weights, ``None`` for all."""
        return of_learnt(self._fitted[name]) if self._declared(name).observed else None

    def _shape(self, name: str) -> tuple[Any, ...]:
        """Return the shape of the array of a factor."""
        pairs = self._observed(name)
        return self._block(name).shape if pairs is None else self._declared(name).weight_shape(pairs.n_features)


def _name(factor: str | Factor) -> str:
    return factor.name if isinstance(factor, Factor) else factor


def _is_of(name: str, feature: str) -> bool:
    """Whether a feature is one of a name, or made of it."""
    begins = (f"{feature}:", f"{feature} is missing", f"{feature}[", f"{feature} at ")
    return name == feature or name.startswith(begins) or f"({feature})" in name or f"({feature}:" in name


def _with_state(names: WeightNames, state: Any, shape: tuple[int, ...]) -> NDArray[np.bool_]:
    """Return which weights score a class."""
    mask = np.full(shape, state in names.only)
    for axis, along in enumerate(names.states, start=len(names.units)):
        has = np.array([state == one or (isinstance(one, tuple) and state in one) for one in along])
        mask |= has.reshape(-1, *(1,) * (len(shape) - axis - 1))
    return mask


def _largest(values: F64, k: int | None) -> tuple[list[tuple[int, ...]], list[float]]:
    """Return (places, values) of the k of largest absolute value that are not 0; of equals the first."""
    size = np.abs(values).ravel()
    found = np.flatnonzero(size)
    if k is not None and k < len(found):
        least = np.partition(size[found], len(found) - k)[len(found) - k]
        found = found[size[found] >= least]
    found = found[np.argsort(-size[found], kind="stable")][:k]
    places: list[tuple[int, ...]] = [()] * len(found)
    if values.ndim:
        places = list(zip(*(axis.tolist() for axis in np.unravel_index(found, values.shape)), strict=True))
    return places, [float(value) for value in values.ravel()[found]]


def _named(factor: str, names: WeightNames, place: Sequence[int], weight: float) -> NamedWeight:
    """Return the weight at a place of a factor's array."""
    n_units, n_states = len(names.units), len(names.states)
    unit = tuple(axis[i] for axis, i in zip(names.units, place, strict=False))
    feature = None if names.features is None else names.features[place[-1]]
    return NamedWeight(factor, unit, names.states_at(place[n_units : n_units + n_states]), feature, weight)


def lay_weights(
    declaration: Declaration, weights: Mapping[Any, Any], fitted: LearntFeatures | None = None
) -> tuple[F64, tuple[Block, ...]]:
    """Return (all weights in a row, their layout) for arrays by factor.

    Parameters
    ----------
    declaration : Declaration
    weights : mapping of Factor (or its name) to array
        In the shapes that ``print(Model)`` shows; a number, or an array of one, where there is one weight.
    fitted : LearntFeatures, optional
        What features have learnt from data.

    Raises
    ------
    OptionError
        The model learns features from data and none are given, a factor has no weights or is none of the model, or an
        array has another shape, or numbers that its factor does not take.
    """
    if declaration.fitted and fitted is None:
        text = f"model {declaration.name} learns features (or which weights there are) from data"
        hint = "give these data (fitted_on=X), fit it, or load a model that was saved"
        raise OptionError(f"{text}, and weights alone do not define them: {hint}")
    if not isinstance(weights, Mapping):
        raise OptionError(f"weights must be a dict of arrays by factor, got {type(weights).__name__}")
    blocks = weight_blocks(declaration, LearntWidths(declaration, fitted or {}))
    given = {factor_name(key): _array(key, value) for key, value in weights.items()}
    names = [block.name for block in blocks]
    if set(given) != set(names):
        missing, unknown = sorted(set(names) - set(given)), sorted(map(str, set(given) - set(names)))
        parts = [f"no weights for {', '.join(missing)}"] if missing else []
        parts += [f"{', '.join(unknown)} owns no weights"] if unknown else []
        raise OptionError(f"model {declaration.name}: {'; '.join(parts)}; its factors are {', '.join(names) or 'none'}")
    w = np.zeros(max((block.stop for block in blocks), default=0))
    for block in blocks:
        array = given[block.name]
        if array.shape in ((), (1,)) and prod(block.shape) == 1:  # one weight, in whatever form a number has
            array = array.reshape(block.shape)
        if array.shape != block.shape:
            raise OptionError(f"weights of '{block.name}': expected shape {block.shape}, found {array.shape}")
        if (array < block.lower_bound).any():
            raise OptionError(f"weights of '{block.name}': expected none below 0 (nonneg=True), found {array.min():g}")
        block.view(w)[...] = array
    return w, blocks


def _array(key: Factor | str, value: Any) -> F64:
    """Return an array of finite numbers."""
    name = factor_name(key)
    try:
        array = as_floats(real_array(value))
    except NotNumbers as err:
        raise OptionError(f"weights of '{name}': {err}") from None
    if not np.isfinite(array).all():
        hint = "declare forbidden states: Forbid(...), or Given(...) for scores of -inf"
        raise OptionError(f"weights of '{name}': expected finite numbers ({hint})")
    return array
