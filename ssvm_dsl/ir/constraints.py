"""``ConstraintGroup``: hard constraints over literals, as packed arrays, and the rules of a kind of constraint.

A literal says "variable v has state s", or that it has not.  A constraint says something about which of its literals
are true, and nothing else: whoever knows the truth of the literals can judge it, and whoever has a column for each
literal can state it by linear rows.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from ssvm_dsl.array_types import F64, I32, I64, Bools
from ssvm_dsl.ir.ragged import members, owners, pointers


@dataclass(frozen=True, eq=False)
class LinearRows:
    """An exact linear description of one constraint: ``lower <= A x <= upper``.

    The first columns of x are the literals, 0 or 1, in the order of the constraint; others are auxiliary.

    Parameters
    ----------
    ptr : ndarray of int64, shape (n_rows + 1,)
        Entries ``ptr[r]:ptr[r + 1]`` belong to row r.
    column : ndarray of int32, shape (n_entries,)
    coefficient : ndarray of float64, shape (n_entries,)
    lower, upper : ndarray of float64, shape (n_rows,)
        Infinite where there is no bound.
    least, most : ndarray of float64, shape (n_auxiliary,)
        Bounds of the auxiliary columns; finite.
    whole : ndarray of bool, shape (n_auxiliary,)
        Auxiliary columns that are integers.
    """

    ptr: I64
    column: I32
    coefficient: F64
    lower: F64
    upper: F64
    least: F64 = field(default_factory=lambda: np.zeros(0))
    most: F64 = field(default_factory=lambda: np.zeros(0))
    whole: Bools = field(default_factory=lambda: np.zeros(0, dtype=bool))

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return len(self.lower)

    @property
    def n_auxiliary(self) -> int:
        """Number of columns in addition to the literals."""
        return len(self.least)

    @classmethod
    def one(cls, coefficient: F64, lower: float, upper: float) -> LinearRows:
        """Return a single row with a coefficient for each literal."""
        n = len(coefficient)
        ends = np.array([0, n], dtype=np.int64)
        bounds = np.array([lower], dtype=np.float64), np.array([upper], dtype=np.float64)
        return cls(ends, np.arange(n, dtype=np.int32), np.asarray(coefficient, dtype=np.float64), *bounds)

    @property
    def owner(self) -> I64:
        """The row of each entry; ``ndarray, shape (n_entries,)``."""
        return np.repeat(np.arange(self.n_rows), np.diff(self.ptr))

    def of_true_states(self, negated: Bools) -> tuple[F64, F64, F64]:
        """Return coefficients and bounds for columns that say "has the state" where literals say "has not".

        The opposite of a literal is one less its column: it turns signs around and moves bounds.

        Parameters
        ----------
        negated : ndarray of bool, shape (n_literals,)

        Returns
        -------
        coefficient : ndarray of float64, shape (n_entries,)
        lower, upper : ndarray of float64, shape (n_rows,)
        """
        opposite = np.concatenate([negated, np.zeros(self.n_auxiliary, dtype=bool)])[self.column]
        moved = np.bincount(self.owner, np.where(opposite, self.coefficient, 0.0), self.n_rows)
        return np.where(opposite, -self.coefficient, self.coefficient), self.lower - moved, self.upper - moved


class ConstraintRules(Protocol):
    """What constraints of one kind say."""

    def violated(self, group: ConstraintGroup, true: Bools) -> Bools:
        """Return which constraints are broken.

        Parameters
        ----------
        group : ConstraintGroup
        true : ndarray of bool, shape (l,)
            Which literals are true.

        Returns
        -------
        ndarray of bool, shape (m,)
        """

    def rows(self, group: ConstraintGroup, k: int) -> LinearRows:
        """Return the linear description of constraint k: x is feasible exactly where ``violated`` says no."""


@runtime_checkable
class IntegralKind(Protocol):
    """Optional methods of a kind of constraints: a linear description that adds nothing but mixtures of solutions.

    Trainers of marginals (``lp-dual-qp``, ``extragradient``) ask it: they maximise over the points of the description,
    and where these are mixtures of what satisfies the constraint, the maximum is that over labellings.
    """

    def hull(self, group: ConstraintGroup, k: int) -> LinearRows | None:
        """Return rows whose points are the convex combinations of what satisfies constraint k.

        Of a point, literals from 0 to 1 and auxiliary columns from 0 on, the literals are such a combination; auxiliary
        columns need not be whole, and the rows must imply their bounds.  ``None`` where no such rows are known, or far
        too many would be needed.

        Parameters
        ----------
        group : ConstraintGroup
        k : int
        """


@runtime_checkable
class LabelRules(ConstraintRules, Protocol):
    """Rules of structures that labels tell and literals do not; their literals only name variables, each once."""

    def judged(self, group: ConstraintGroup, labels: I32) -> Bools:
        """Return which constraints are broken.

        Parameters
        ----------
        group : ConstraintGroup
        labels : ndarray of int32, shape (l,)
            The label of each literal's variable.

        Returns
        -------
        ndarray of bool, shape (m,)
        """


@dataclass(frozen=True)
class CustomOracle:
    """A user's own class that judges and finds structures: those of ``Custom`` constraints.

    Parameters
    ----------
    path : str
        Its import path.
    factory : class
        A :class:`~ssvm_dsl.plugin_api.StructureOracle`.
    options : tuple of (name, value)
        Arguments of its constructor.
    sizes : tuple of int
        The sizes of the label's axes; 0 for ragged ones.
    n_states : int
    exact : bool
        Whether it claims to find the best structure.
    """

    path: str
    factory: Callable[..., Any]
    options: tuple[tuple[str, Any], ...]
    sizes: tuple[int, ...]
    n_states: int
    exact: bool


@dataclass(frozen=True, eq=False)
class ConstraintGroup:
    """All constraints of one declared symbol over a batch of B examples; immutable.

    Parameters
    ----------
    kind : str
        Registered kind (``ConstraintSpec.name``).
    name : str
        The symbol's name in the model, for messages.
    ptr : ndarray of int64, shape (B + 1,)
        Constraints ``ptr[i]:ptr[i + 1]`` belong to example i; m in all.
    literal_ptr : ndarray of int64, shape (m + 1,)
        Literals ``literal_ptr[k]:literal_ptr[k + 1]`` belong to constraint k; l in all.
    variable : ndarray of int32, shape (l,)
        The variable of each literal, counted from the first one of its example.
    state : ndarray of int32, shape (l,)
    negated : ndarray of bool, shape (l,)
        Literals that say "has not".
    meta : mapping of str to ndarray, first axis m
        Data of the kind about each constraint.
    literal_meta : mapping of str to ndarray, first axis l
        Data of the kind about each literal.
    rules : ConstraintRules, optional
        The rules of the kind; the host fills them in before a backend is opened.
    oracle : CustomOracle, optional
        The user's class that defines the rules, in place of a kind.
    shared : mapping of str to ndarray
        What all constraints have in common, of any shapes: the rules of a grammar.
    places : mapping of str to ndarray of int, shape (m,)
        Where each constraint is, by the names of indices or axes; for messages.
    """

    kind: str
    name: str
    ptr: I64
    literal_ptr: I64
    variable: I32
    state: I32
    negated: Bools
    meta: Mapping[str, NDArray[Any]] = field(default_factory=dict)
    literal_meta: Mapping[str, NDArray[Any]] = field(default_factory=dict)
    rules: ConstraintRules | None = None
    oracle: CustomOracle | None = None
    shared: Mapping[str, NDArray[Any]] = field(default_factory=dict)
    places: Mapping[str, NDArray[Any]] = field(default_factory=dict)

    def words(self, k: int) -> str:
        """Return where constraint k is: ``"i = 0, j = 2"``, empty where it is alone."""
        return ", ".join(f"{name} = {int(at[k])}" for name, at in self.places.items())

    @property
    def without_rows(self) -> bool:
        """Whether nothing but whole labellings is judged: there is no linear description."""
        return self.oracle is not None or self._label_rules is not None

    @cached_property
    def _label_rules(self) -> LabelRules | None:
        """The rules if they judge labels: to see that takes more time than to judge a small structure."""
        return self.rules if isinstance(self.rules, LabelRules) else None

    @property
    def n_constraints(self) -> int:
        """Number of constraints m of the batch."""
        return len(self.literal_ptr) - 1

    @property
    def counts(self) -> I64:
        """Number of constraints of each example; ``ndarray, shape (B,)``."""
        return np.diff(self.ptr)

    @cached_property
    def constraint_of(self) -> I64:
        """The constraint that each literal belongs to; ``ndarray, shape (l,)``."""
        return owners(self.literal_ptr)

    @cached_property
    def example_of(self) -> I64:
        """The example that each constraint belongs to; ``ndarray, shape (m,)``."""
        return owners(self.ptr)

    def literals(self, k: int) -> slice:
        """Return where the literals of constraint k are."""
        return slice(int(self.literal_ptr[k]), int(self.literal_ptr[k + 1]))

    def take(self, examples: I64) -> ConstraintGroup:
        """Return the constraints of some examples, in this order; an example may be taken more than once."""
        if np.array_equal(examples, np.arange(len(self.ptr) - 1)):
            return self
        mine = members(self.ptr, examples)
        made = self._some(mine)
        return replace(made, ptr=pointers(self.counts[examples]))

    def only(self, constraints: I64) -> ConstraintGroup:
        """Return some of the constraints, in increasing order, over the same examples."""
        counts = np.bincount(self.example_of[constraints], minlength=len(self.ptr) - 1)
        return replace(self._some(constraints), ptr=pointers(counts))

    def _some(self, constraints: I64) -> ConstraintGroup:
        """Return some constraints; ``ptr`` is left as it is."""
        inner = members(self.literal_ptr, constraints)
        return replace(
            self,
            literal_ptr=pointers(np.diff(self.literal_ptr)[constraints]),
            variable=self.variable[inner],
            state=self.state[inner],
            negated=self.negated[inner],
            meta={key: value[constraints] for key, value in self.meta.items()},
            literal_meta={key: value[inner] for key, value in self.literal_meta.items()},
            places={key: value[constraints] for key, value in self.places.items()},
        )

    def true_literals(self, labels: I32, label_ptr: I64) -> Bools:
        """Return which literals are true of labellings of all examples of the group; ``shape (l,)``.

        Parameters
        ----------
        labels : ndarray of int32
            Packed labels of the examples of this group.
        label_ptr : ndarray of int64, shape (B + 1,)
            Where the labels of each example are.
        """
        return np.asarray((self._labels(labels, label_ptr) == self.state) != self.negated)

    def _labels(self, labels: I32, label_ptr: I64) -> I32:
        """Return the label of the variable of each literal; ``shape (l,)``."""
        if len(self.ptr) == 2:  # nothing to look up for each literal of a single example
            return labels[int(label_ptr[0]) :][self.variable]
        first = label_ptr[:-1].repeat(np.diff(self.literal_ptr[self.ptr]))
        return labels[first + self.variable]

    def broken(self, labels: I32, label_ptr: I64) -> Bools:
        """Return which constraints labellings of all examples break; ``shape (m,)``.

        Raises
        ------
        ValueError
            Nothing is known of the kind: ``rules`` is missing.
        """
        if self.rules is None:
            raise ValueError(f"constraint '{self.name}': the rules of the kind '{self.kind}' are not known here")
        if self._label_rules is not None:
            return self._label_rules.judged(self, self._labels(labels, label_ptr))
        return self.rules.violated(self, self.true_literals(labels, label_ptr))

    def true_counts(self, true: Bools) -> I64:
        """Return how many literals of each constraint are true; ``ndarray, shape (m,)``."""
        running = pointers(true.astype(np.int64))
        return running[self.literal_ptr[1:]] - running[self.literal_ptr[:-1]]

    def arrays(self) -> list[NDArray[Any]]:
        """Return all arrays, in an order that depends on the names of ``meta`` only."""
        given: list[NDArray[Any]] = [self.ptr, self.literal_ptr, self.variable, self.state, self.negated]
        return given + [one[key] for one in (self.meta, self.literal_meta, self.shared) for key in sorted(one)]

    def signature(self) -> str:
        """Return everything but the arrays, as text."""
        own = () if self.oracle is None else (self.oracle.path, self.oracle.options)
        return repr((self.kind, self.name, sorted(self.meta), sorted(self.literal_meta), sorted(self.shared), *own))

    def mistakes(self, var_ptr: I64, card: I32) -> list[str]:
        """Return the mistakes in the arrays, as text, for a program of these variables."""
        m, l = self.n_constraints, len(self.variable)
        flat: dict[str, tuple[NDArray[Any], type, int]] = {
            "ptr": (self.ptr, np.int64, len(var_ptr)),
            "literal_ptr": (self.literal_ptr, np.int64, m + 1),
            "variable": (self.variable, np.int32, l),
            "state": (self.state, np.int32, l),
            "negated": (self.negated, np.bool_, l),
        }
        wrong = [
            name for name, (array, dtype, size) in flat.items() if array.dtype != dtype or array.shape != (size,)
        ]
        wrong += [name for name, array in self.meta.items() if array.shape[:1] != (m,)]
        wrong += [name for name, array in self.literal_meta.items() if array.shape[:1] != (l,)]
        if wrong:
            return wrong
        for name, ptr, end in (("ptr", self.ptr, m), ("literal_ptr", self.literal_ptr, l)):
            if ptr[0] != 0 or ptr[-1] != end or (np.diff(ptr) < 0).any():
                return [f"{name} runs from 0 to {end} and does not decrease"]
        example = self.example_of[self.constraint_of]
        if l and (self.variable.min() < 0 or (self.variable >= np.diff(var_ptr)[example]).any()):
            return ["a literal reaches out of its example"]
        if l and (self.state.min() < 0 or (self.state >= card[var_ptr[:-1][example] + self.variable]).any()):
            return ["a literal names a state that its variable does not have"]
        return []


def broken_constraints(
    groups: tuple[ConstraintGroup, ...], labels: I32, label_ptr: I64, examples: I64 | None
) -> Bools:
    """Return which of the examples asked for break a constraint; ``ndarray of bool, shape (n,)``.

    Parameters
    ----------
    groups : tuple of ConstraintGroup
        Of the whole program, with rules.
    labels : ndarray of int32
        Packed over the examples asked for.
    label_ptr : ndarray of int64, shape (n + 1,)
    examples : ndarray of int64, shape (n,), optional
        All by default.
    """
    out = np.zeros(len(label_ptr) - 1 if examples is None else len(examples), dtype=bool)
    for group in groups:
        mine = group if examples is None else group.take(examples)
        out[mine.example_of[mine.broken(labels, label_ptr)]] = True
    return out


# -- limits of matchings -------------------------------------------------------------------------------------------
#
# How many true literals their rows and columns may have.  Constraints of the kind ``matching`` have one number for all
# rows, and one for all columns: ``row_least`` and the others are in ``meta``.  Those of the kind ``transport`` have a
# number for each row and column, which each of its literals repeats: they are in ``literal_meta``.  A row or column
# without literals has no limits then.


class SideLimits(NamedTuple):
    """The limits of the rows (or columns) of the constraints of a group, packed over these.

    Parameters
    ----------
    ptr : ndarray of int64, shape (m + 1,)
        Rows ``ptr[k]:ptr[k + 1]`` belong to constraint k.
    least, most : ndarray of int64
    """

    ptr: I64
    least: I64
    most: I64


def matching_limits(group: ConstraintGroup, side: str) -> SideLimits:
    """Return the limits of the rows (``side="row"``) or columns (``"col"``) of matchings.

    Parameters
    ----------
    group : ConstraintGroup
        Of the kind ``matching`` or ``transport``.
    side : {"row", "col"}
    """
    sizes = np.asarray(group.meta[f"n_{side}s"], dtype=np.int64)
    ptr = pointers(sizes)
    names = (f"{side}_least", f"{side}_most")
    if names[0] in group.meta:
        least, most = (np.asarray(group.meta[name], dtype=np.int64).repeat(sizes) for name in names)
        return SideLimits(ptr, least, most)
    at = ptr[:-1][group.constraint_of] + group.literal_meta[side]
    least, most = np.zeros(ptr[-1], dtype=np.int64), np.full(ptr[-1], np.iinfo(np.int32).max, dtype=np.int64)
    least[at], most[at] = (group.literal_meta[name] for name in names)
    return SideLimits(ptr, least, most)
