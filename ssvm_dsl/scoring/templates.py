"""The shape that scores of a factor template have: its positions, then the states of a factor (or its form's numbers).

=====================  ================================================================================
target                 positions of an example
=====================  ================================================================================
``y``, ``y.is_(k)``    those of the label: ``y = Label(H, W, 5)`` has ``(H, W)``, a pointer label ``(T, T)``
``y.at(p)``            none: one factor
``chain(y, order)``    ``(T - order,)``; entry t ends at position ``t + order``
``pairs(y, W)``        those of the label, one less along W: ``(H, W - 1)``
``cross(a, b)``        the axes of both labels
``spans(y)``           ``(T, L)``: where the segment starts, its length less 1; those that do not fit are ignored
``starts(y)``          ``(T,)``
``along(y, e)``        ``(M,)``, in the order of the edges
``(y[t], y[t + 1])``   of a pattern that is a box an axis for each index: ``(T - 1,)``; of another one ``(n,)``
all others             ``(n,)``, in the order of the pattern: ``complete(y)`` has (0, 1), (0, 2), ..., (1, 2), ...
=====================  ================================================================================
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from math import prod

import numpy as np
from numpy.typing import NDArray

from ssvm_dsl.array_types import I64
from ssvm_dsl.compiler.labels.segments import span_ends
from ssvm_dsl.lang.declaration import Declaration
from ssvm_dsl.lang.dims import Dim
from ssvm_dsl.lang.factors import Factor, Given, of_one_number
from ssvm_dsl.lang.features.sources import Concat
from ssvm_dsl.lang.inputs import Input
from ssvm_dsl.lang.outputs.about_target import in_tables
from ssvm_dsl.lang.outputs.agreements import FactorTerm
from ssvm_dsl.lang.outputs.labels import Label, Target
from ssvm_dsl.lang.rules.rule_patterns import RuleTarget


@dataclass(frozen=True)
class Axis:
    """An axis of the positions of a template.

    Parameters
    ----------
    dim : Dim, optional
        The model's axis; ``None`` for an axis that counts factors.
    less : int
        How many positions fewer than the model's axis it has.
    """

    dim: Dim | None
    less: int = 0

    @property
    def name(self) -> str:
        """The name of the axis whose size decides; empty for numbers of factors."""
        return "" if self.dim is None else self.dim.origin.name

    @property
    def words(self) -> str:
        """Its size in words: the name of the model's axis, or the size that is declared."""
        name = "n" if self.dim is None else self.dim.name if self.dim.size is None else str(self.dim.size)
        return f"{name} - {self.less}" if self.less else name


@dataclass(frozen=True, eq=False)
class Template:
    """A factor template whose scores are given: a factor, or given scores that would come with examples.

    Parameters
    ----------
    symbol : Factor or Given
    """

    symbol: Factor | Given

    @classmethod
    def of_label(cls, label: Label) -> Template:
        """Return the template of one number at each position of a label."""
        made = Factor(label, form=np.ones((1, label.n_states)))
        made.__set_name__(cls, label.name)
        return cls(made)

    @property
    def name(self) -> str:
        """The name in the model."""
        return self.symbol.name

    @property
    def target(self) -> Target:
        """What its factors join."""
        return self.symbol.target

    @property
    def nonneg(self) -> bool:
        """Whether scores must not be negative."""
        return isinstance(self.symbol, Factor) and self.symbol.nonneg

    @cached_property
    def shape(self) -> tuple[int, ...]:
        """The shape of the scores of one factor: its joint states, or the weights of its form."""
        target = self.target
        if target.is_indicator:
            return ()
        if isinstance(self.symbol, Given):
            return () if self.symbol.only_state is not None or of_one_number(target) else target.cards
        return target.cards if self.symbol.joint else self.symbol.form.weight_shape(target.cards)

    @cached_property
    def width(self) -> int:
        """Numbers of one factor."""
        return prod(self.shape)

    @cached_property
    def inputs(self) -> tuple[Input, ...] | None:
        """The dense inputs whose concatenation is the features; ``None`` for all other features."""
        source = self.symbol.features
        parts = () if source is None else source.parts if isinstance(source, Concat) else (source,)
        if not all(isinstance(part, Input) and not part.sparse for part in parts):
            return None
        return tuple(part for part in parts if isinstance(part, Input))

    @cached_property
    def parts(self) -> tuple[FactorTerm, ...]:
        """What programs have of it."""
        if isinstance(self.symbol, Factor) and not self.symbol.joint:
            return self.symbol.parts
        target = self.target
        basis = None
        if isinstance(self.symbol, Given) and self.symbol.only_state is not None:
            basis = np.eye(target.label.n_states)[[self.symbol.only_state]]
        elif isinstance(self.symbol, Given) and isinstance(target, RuleTarget):
            basis = target.form.matrix(target.cards)
        elif target.of_segments:
            basis = in_tables(target, np.eye(prod(target.cards)))
        return (FactorTerm(self.name, target, basis),)

    @cached_property
    def selects(self) -> bool:
        """Whether each of its numbers is the score of one joint state, so that it may be ``-inf``."""
        bases = [part.basis for part in self.parts]
        if len(bases) > 1:
            return False
        return all(
            basis is None or (bool(np.isin(basis, (0, 1)).all()) and bool((np.count_nonzero(basis, axis=1) == 1).all()))
            for basis in bases
        )

    @cached_property
    def axes(self) -> tuple[Axis, ...]:
        """The axes of its positions."""
        return tuple(Axis(dim, less) for dim, less in self.target.position_axes)

    def sizes(self, known: Mapping[str, I64], n: int, counts: I64 | None = None) -> I64:
        """Return the size of each axis in each example; ``shape (n, n_axes)``.

        Parameters
        ----------
        known : mapping of str to ndarray, shape (n,)
            Sizes of the model's axes.
        n : int
        counts : ndarray of int64, shape (n,), optional
            The numbers of factors, where these do not follow from sizes of axes alone.
        """
        columns = []
        for axis in self.axes:
            if axis.dim is None:
                own = self.target.count(known) if counts is None else counts
            else:
                own = known[axis.dim.name] - axis.less
            columns.append(np.maximum(np.broadcast_to(np.asarray(own, dtype=np.int64), n), 0))
        return np.stack(columns, axis=1) if columns else np.zeros((n, 0), dtype=np.int64)

    def counts(self, known: Mapping[str, I64], n: int) -> I64:
        """Return the number of factors of each example; ``shape (n,)``."""
        return np.broadcast_to(np.asarray(self.target.count(known), dtype=np.int64), n)

    @property
    def fixed_count(self) -> int | None:
        """Number of factors of every example, where the model says it."""
        dims = self.target.all_axes
        if any(dim.ragged for dim in dims) or self.target.count_reads_inputs:
            return None
        return int(self.target.count({dim.name: dim.size for dim in dims}))

    def places(self, sizes: NDArray[np.int64]) -> list[NDArray[np.int64]]:
        """Return the coordinates of each factor of an example, axis by axis, for the sizes of its axes."""
        if self.target.of_spans:
            start, end, _ = span_ends(sizes[:1], self.target.label.segments or 1)
            return [start, end - start - 1]
        if not self.axes:
            return []
        return list(np.indices(tuple(sizes.tolist())).reshape(len(sizes), -1))

    def words(self, tied: bool = True) -> str:
        """Return the shapes that its scores may have, in words."""
        names = [axis.words for axis in self.axes]
        states = [str(size) for size in self.shape]
        one = f"({', '.join([*names, *states])}{',' if len(names) + len(states) == 1 else ''})"
        return f"{one} for each example" + (f", or {self.shape} for all factors" if tied and self.axes else "")


def templates_of(declaration: Declaration) -> dict[str, Template]:
    """Return the templates of a model by name: factors, and given scores that come with examples."""
    symbols: list[Factor | Given] = [*declaration.factors, *(g for g in declaration.given if g.table is None)]
    return {symbol.name: Template(symbol) for symbol in symbols}
