"""Names of the axes of a factor's weights, in the user's words."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import chain, combinations, combinations_with_replacement, product
from typing import Any

import numpy as np

from ssvm_dsl.compiler.features.encode import LearntFeatures, fitted_keys
from ssvm_dsl.compiler.inputs import Examples
from ssvm_dsl.compiler.layout import Layout
from ssvm_dsl.compiler.scopes import ground_scopes
from ssvm_dsl.lang.declaration import Declaration
from ssvm_dsl.lang.factors import Factor
from ssvm_dsl.lang.features import sources as lang
from ssvm_dsl.lang.features.kernel_features import Kernel, KernelMap
from ssvm_dsl.lang.features.sources import SpanLength, SpanMean, SpanSum
from ssvm_dsl.lang.inputs import At, Attributes, Input, Source
from ssvm_dsl.lang.outputs.labels import Label, NoneOf


@dataclass(frozen=True)
class WeightNames:
    """Names along each axis of the weights of a factor.

    Parameters
    ----------
    units : tuple of sequences
        Positions on each axis of ``per``; one sequence of edges for ``per="edge"``.
    states : tuple of sequences
        Class names along each axis of states; with other forms one sequence, of pairs of class names or
        ``"basis 0"`` and so on; with weights for observed pairs one sequence, too, of all joint states.
    features : sequence of str, optional
        Names of the features; ``None`` for a factor without.
    only : tuple
        The states a form without an axis of its own is about: ``("all equal",)`` for ``POTTS``, the class of an
        indicator.
    """

    units: tuple[Sequence[Any], ...]
    states: tuple[Sequence[Any], ...]
    features: Sequence[str] | None
    only: tuple[Any, ...] = ()

    @property
    def axes(self) -> tuple[Sequence[Any], ...]:
        """The names of all axes, in the order of the array's."""
        return (*self.units, *self.states, *(() if self.features is None else (self.features,)))

    def states_at(self, place: Sequence[int]) -> tuple[Any, ...]:
        """Return the states of the weight at given places on the axes of states."""
        if not self.states:
            return self.only
        states = [names[i] for names, i in zip(self.states, place, strict=True)]
        return states[0] if isinstance(states[0], tuple) else tuple(states)


def weight_names(factor: Factor, declaration: Declaration, fitted: LearntFeatures) -> WeightNames:
    """Return the names of a factor's weights, for what its features learnt."""
    states, only = _states(factor)
    keys = fitted_keys(declaration)

    def learnt(source: Source) -> dict[str, Any]:
        return fitted.get(keys[source], {})

    features = None if factor.features is None else _columns(factor.features, learnt)
    return WeightNames(_units(factor, declaration), states, features, only)


# -- units -------------------------------------------------------------------------------------------------


def _units(factor: Factor, declaration: Declaration) -> tuple[Sequence[Any], ...]:
    """Return positions on fixed axes, or the positions that each edge joins."""
    if not isinstance(factor.per, str):
        return tuple(range(size) for size in factor.unit_shape)
    axes = {dim for label in declaration.labels for dim in label.dims}
    sizes = {dim.name: np.array([dim.size or 0]) for dim in (*declaration.dims, *declaration.fixed_dims, *axes)}
    one = Examples(1, sizes, {})
    layout = Layout.of(declaration, one)
    scopes = ground_scopes(factor.target, layout, one).shapes.variables()
    labels = factor.target.labels * (scopes.shape[1] if len(factor.target.labels) == 1 else 1)
    columns = [_positions(label, layout, scopes[:, k]) for k, label in enumerate(labels) if label.dims]
    return (list(zip(*columns, strict=True)),)


def _positions(label: Label, layout: Layout, variables: Any) -> list[Any]:
    """Return the position of each variable on the axes of its label: an int, a tuple for several axes."""
    places = [layout.place(label, 0, int(one)) for one in variables - layout.start(label)[0]]
    return [one[0] for one in places] if len(label.dims) == 1 else places


# -- states ------------------------------------------------------------------------------------------------


def _states(factor: Factor) -> tuple[tuple[Sequence[Any], ...], tuple[Any, ...]]:
    """Return (names along each axis of states, the states when there is no axis)."""
    target, form = factor.target, factor.form.name
    if factor.joint:
        return (), ()
    labels = target.labels if len(target.labels) == target.arity else target.labels * target.arity
    classes = [range(label.n_states) if label.classes is None else label.classes for label in labels]
    if factor.observed and len(classes) > 1:
        return (list(product(*classes)),), ()
    if form == "full":
        return tuple(classes), ()
    if form == "symmetric":
        return (list(combinations_with_replacement(classes[0], 2)),), ()
    if form == "antisymmetric":
        return (list(combinations(classes[0], 2)),), ()
    if form == "basis":
        return ([f"basis {k}" for k in range(factor.form.n_weights(target.cards))],), ()
    if target.label.pointer or isinstance(target.label, NoneOf):
        there = "pair" if target.arity == 1 else "all pairs"
        return (), (there if target.label.pointer else "nowhere",)
    return (), ("all equal",) if form == "potts" else (target.state,)


# -- features ----------------------------------------------------------------------------------------------


def _columns(source: Source, learnt: Callable[[Source], dict[str, Any]]) -> Sequence[str]:
    """Return the name of each column of a source; ``learnt`` gives what a fitted one learnt."""
    if isinstance(source, Attributes):
        names: Sequence[str] = learnt(source)["names"]
        return names
    if isinstance(source, lang.Concat):
        return _side_by_side(source, learnt)
    if isinstance(source, At):
        return _at_positions(source, learnt)
    if isinstance(source, Input):
        named: Sequence[str] | None = learnt(source).get("columns")  # of data frames
        return _numbered(source.name, source.shape) if named is None else named
    if isinstance(source, SpanLength):
        return [f"length {k + 1}" for k in range(source.width)]
    if isinstance(source, SpanMean):
        word = "sum" if isinstance(source, SpanSum) else "mean"
        return [f"{word} of {name}" for name in _columns(source.source, learnt)]
    if isinstance(source, lang.Feature | lang.JointFeature):
        called = source.name or source.ref.path.rpartition(":")[2]
        return _numbered(called, () if source.width == 1 else (source.width or 0,))
    assert isinstance(source, lang.Transform)
    if isinstance(source, lang.Hashed):
        return [f"{source.source.name}#{k}" for k in range(source.width)]
    inner = _columns(source.source, learnt)
    if isinstance(source, lang.Standardized | lang.Scaled) and _has_names(source.source, learnt):
        return inner  # one for one
    if isinstance(source, lang.PLiF):
        knots = [source.knots] * len(inner) if source.knots else learnt(source)["knots"]
        return [f"{name} at {knot:.6g}" for name, mine in zip(inner, knots, strict=True) for knot in mine]
    if isinstance(source, KernelMap | Kernel):
        called = f"{type(source).__name__}({source.source.name or repr(source.source)})"
        return [f"{called}#{k}" for k in range(source.width or len(learnt(source)["components"]))]
    if isinstance(source, lang.Polynomial):
        degrees = range(1, source.degree + 1)
        return ["*".join(picked) for degree in degrees for picked in combinations_with_replacement(inner, degree)]
    return [f"{type(source).__name__}({name})" for name in inner]


def _at_positions(source: At, learnt: Callable[[Source], dict[str, Any]]) -> Sequence[str]:
    """Return the names of columns read at positions, with the positions: ``x[t - 1][3]``, ``words[t - 1]:cap``."""
    inner, read = source.source, f"[{', '.join(map(repr, source.places))}]"
    if isinstance(inner, Input) and not _has_names(inner, learnt):
        names: Sequence[str] = _numbered(f"{inner.name}{read}", inner.shape)
    else:
        text = f"{inner.name or repr(inner)}{read}"
        names = [f"{text}:{name}" for name in _columns(inner, learnt)]
    return names if source.column is None else [names[source.column]]


def _has_names(source: Source, learnt: Callable[[Source], dict[str, Any]]) -> bool:
    """Whether the columns of a source have names of their own: attributes, and columns of data frames."""
    return isinstance(source, Attributes) or "columns" in learnt(source)


def _numbered(name: str, shape: tuple[int, ...]) -> list[str]:
    """Return ``x[0], x[1] ...``, with a number for each axis; ``x`` without axes."""
    if not shape:
        return [name]
    if len(shape) == 1:
        return [f"{name}[{k}]" for k in range(shape[0])]
    return [f"{name}[{', '.join(map(str, at))}]" for at in np.ndindex(shape)]


def _side_by_side(source: lang.Concat, learnt: Callable[[Source], dict[str, Any]]) -> list[str]:
    """Return the names of all parts; where several have attributes, theirs come with the input's name in front."""
    several = sum(isinstance(part, Attributes) for part in source.parts) > 1
    parts = []
    for part in source.parts:
        names = _columns(part, learnt)
        parts.append([f"{part.name}:{name}" for name in names] if several and isinstance(part, Attributes) else names)
    return list(chain.from_iterable(parts))
