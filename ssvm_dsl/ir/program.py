"""``Program``: the structure of a batch of examples, without any weight or score.

Unary scores live on the variables themselves (``Theta.node``), so groups hold factors of two or more
variables only.  A factor's table is a row of its group's table pool: factors that share weights and features
share the row, and it is stored once.  So are the factors of examples of one shape (:mod:`ssvm_dsl.ir.shapes`).
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from itertools import pairwise
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ssvm_dsl.array_types import I8, I32, I64
from ssvm_dsl.ir.analysis.topology import Topology, distinct_edges, topology_and_order
from ssvm_dsl.ir.constraints import ConstraintGroup
from ssvm_dsl.ir.features import Block
from ssvm_dsl.ir.ragged import members, pointers, positions
from ssvm_dsl.ir.shapes import GroupFactors, Shapes, first_of_each, kinds_of_rows

#: The kinds of groups whose factors score whole segments, by class and length, or single spans (:class:`Group`).
SPANS, ONE_SPAN = "spans", "one-span"

#: Variables in the scope of such a factor.
SPAN_SCOPE = {SPANS: 3, ONE_SPAN: 4}

#: The role of auxiliary variables (:mod:`ssvm_dsl.lang.outputs.agreements` has the equation of their tables).
AUXILIARY = 2


def take_fields(made: Group | Program, state: Mapping[str, Any]) -> None:
    """Set the fields of a group or program from a pickle, and derive the other attributes again.

    A pickle also holds attributes derived by the version that wrote it; other versions may define these differently.
    """
    vars(made).update({each.name: state[each.name] for each in fields(made) if each.init})
    made.__post_init__()


@dataclass(frozen=True, eq=False)
class Group:
    """Factors of one template: the same number of variables with the same numbers of states.

    Parameters
    ----------
    name : str
        Name of the factor template.
    cards : tuple of int
        Number of states of each variable of a factor (two or more variables).
    shapes : Shapes
        The variables of the factors, stored once for each distinct shape.
    rows : ndarray of int32, shape (m,)
        Table row of each factor of the shapes, counted from the example's ``table_base``.
    table_base : ndarray of int64, shape (B,)
        0 for all examples where they share the tables.
    n_tables : int
        Number of rows of the group's table pool.
    kind : str
        ``"table"``, or ``"spans"``: factor t scores the segment that begins at position t of a segmentation, if one
        does, by its class and its length, so that ``cards`` are (K, L).  Spans themselves are no variables.  The scope
        has three columns: the class of the position, whether a segment begins there, and whether one begins at the
        next position (the last position repeats its own).  Where no segment begins the factor has no joint state and
        scores 0.  Marginals have a row for each example, not for each factor: the expected number of segments of each
        class and length.  ``"one-span"``: a factor scores one span, by its class, where it is a segment; otherwise it
        has no joint state.  The scope has four columns: the class of its first position, whether a segment begins
        there, at its last position, and at the position after it (at the first one again, where it reaches the end).
        ``cards`` are (K,).

    Attributes
    ----------
    arity : int
        Number of variables in a factor.
    n_configs : int
        Number of joint states of a factor: the width of a table row (C order over ``cards``).
    of_spans : bool
        Whether factors score segments, or spans that may be segments.

    See Also
    --------
    Group.of : from factors that are listed example by example.
    """

    name: str
    cards: tuple[int, ...]
    shapes: Shapes
    rows: I32
    table_base: I64
    n_tables: int
    kind: str = "table"
    arity: int = field(init=False, repr=False)
    n_configs: int = field(init=False, repr=False)
    of_spans: bool = field(init=False, repr=False)

    def __post_init__(self) -> None:
        vars(self).update(arity=len(self.cards), n_configs=prod(self.cards), of_spans=self.kind in SPAN_SCOPE)

    def __setstate__(self, state: dict[str, Any]) -> None:
        take_fields(self, state)

    @classmethod
    def of(
        cls,
        name: str,
        cards: tuple[int, ...],
        scope: I32,
        ptr: I64,
        table: I32,
        n_tables: int,
        var_ptr: I64,
        kind: str = "table",
    ) -> Group:
        """Return the group of factors that are listed example by example; shapes are found by their content.

        Parameters
        ----------
        name, cards, n_tables, kind
            As of the class.
        scope : ndarray of int32, shape (n, r)
            The variables of each factor (global numbers).
        ptr : ndarray of int64, shape (B + 1,)
            Factors ``ptr[i]:ptr[i + 1]`` belong to example i.
        table : ndarray of int32, shape (n,)
            Row of the group's table pool that a factor uses.
        var_ptr : ndarray of int64, shape (B + 1,)
            Variables of each example, as of the program.

        Raises
        ------
        ValueError
            Naming the argument that has a wrong type or shape.
        """
        n = len(scope)
        width = SPAN_SCOPE.get(kind, len(cards))
        _require(scope.dtype == np.int32 and scope.shape == (n, width), f"group {name}: scope")
        _require(ptr.dtype == np.int64 and ptr.shape == var_ptr.shape, f"group {name}: ptr")
        _require(ptr[0] == 0 and ptr[-1] == n, f"group {name}: ptr runs from 0 to the number of factors")
        _require(bool((np.diff(ptr) >= 0).all()), f"group {name}: ptr does not decrease")
        _require(table.dtype == np.int32 and table.shape == (n,), f"group {name}: table")
        counts = np.diff(ptr)
        base, filled = np.zeros(len(counts), dtype=np.int64), np.flatnonzero(counts)
        if len(filled):
            base[filled] = np.minimum.reduceat(table, ptr[filled])
        row = (table - np.repeat(base, counts)).astype(np.int32)
        own = (scope - np.repeat(var_ptr[:-1], counts)[:, None]).astype(np.int32)
        content = np.column_stack([own, row])
        of, chosen = first_of_each(content[lo:hi].tobytes() for lo, hi in pairwise(ptr.tolist()))
        kept = members(ptr, chosen)
        shapes = Shapes(of, pointers(counts[chosen]), own[kept], var_ptr[:-1])
        return cls(name, cards, shapes, row[kept], base, n_tables, kind)

    def answer_rows(self, examples: I64) -> I64:
        """Return how many rows of marginals each of some examples has; ``shape (n,)``."""
        if self.kind == SPANS:
            return np.ones(len(examples), dtype=np.int64)
        return np.asarray(self.shapes.counts[examples])

    def joint_states(self, variables: I32, labels: I32) -> I64:
        """Return the joint state of each factor, by its variables; -1 for spans that are no segments.

        Not of groups of the kind ``"spans"``.
        """
        if self.kind != ONE_SPAN:
            return np.asarray(labels[variables].astype(np.int64) @ self.strides)
        label, begin, last, after = variables.T
        begun = np.append(0, np.cumsum(labels == 1))  # only of beginnings, which are one run of variables
        whole = (labels[begin] == 1) & (begun[last + 1] == begun[begin + 1])
        whole &= (after == begin) | (labels[after] == 1)
        return np.where(whole, labels[label], -1).astype(np.int64)

    @cached_property
    def strides(self) -> I64:
        """Multipliers that turn the states of a factor into a position in its table row; ``shape (r,)``."""
        return np.ascontiguousarray(np.cumprod((1, *self.cards[:0:-1]), dtype=np.int64)[::-1])

    @property
    def n_factors(self) -> int:
        """Number of factors in the batch."""
        return self.shapes.n_factors

    @property
    def ptr(self) -> I64:
        """Factors ``ptr[i]:ptr[i + 1]`` belong to example i; ``ndarray, shape (B + 1,)``."""
        return self.shapes.ptr

    @cached_property
    def flat(self) -> GroupFactors:
        """The factors as the record that compiled kernels read."""
        shapes = self.shapes
        return GroupFactors(shapes.of, shapes.start, shapes.scope, self.rows, self.table_base, self.strides)

    @cached_property
    def scope(self) -> I32:
        """The variables of each factor of the batch (global numbers); ``ndarray of int32, shape (n, r)``.

        It takes memory for every factor of every example, and keeps it: :attr:`shapes` does not.
        """
        return self.shapes.variables()

    @cached_property
    def table(self) -> I32:
        """Row of the group's table pool that each factor of the batch uses; ``ndarray of int32, shape (n,)``.

        As :attr:`scope` it takes memory for every factor of every example; :meth:`table_rows` for those of some.
        """
        return self.table_rows()

    def factors(self, example: int) -> tuple[I32, I64]:
        """Return the factors of one example.

        Returns
        -------
        scope : ndarray of int32, shape (n, r)
            Their variables, counted from the example's first one (a view).
        table : ndarray of int64, shape (n,)
            Their rows of the group's table pool.
        """
        part = self.shapes.factors(example)
        return self.shapes.scope[part], self.rows[part] + self.table_base[example]

    def table_rows(self, examples: I64 | None = None) -> I32:
        """Return the row of the table pool that each factor of the selected examples uses; ``shape (n,)``."""
        return self.shapes.spread(self.rows, self.table_base, examples)

    def table_uses(self) -> NDArray[np.float64]:
        """Return how many factors of the batch use each row of the table pool; ``ndarray, shape (n_tables,)``."""
        uses, shapes = np.zeros(self.n_tables), self.shapes
        kinds, times = np.unique(np.stack([shapes.of, self.table_base], axis=1), axis=0, return_counts=True)
        for (k, base), n in zip(kinds, times, strict=True):
            np.add.at(uses, base + self.rows[shapes.start[k] : shapes.start[k + 1]], n)
        return uses

    def take(self, examples: I64, var_ptr: I64) -> Group:
        """Return the factors of some examples, which have the variables ``var_ptr`` now; the tables stay."""
        base = np.ascontiguousarray(self.table_base[examples])
        return replace(self, shapes=self.shapes.take(examples, var_ptr[:-1]), table_base=base)


@dataclass(frozen=True, eq=False)
class Program:
    """A batch of B factor graphs over discrete variables; immutable.

    Parameters
    ----------
    var_ptr : ndarray of int64, shape (B + 1,)
        Variables ``var_ptr[i]:var_ptr[i + 1]`` belong to example i; V in all.
    card : ndarray of int32, shape (V,)
        Number of states of each variable.
    groups : tuple of Group
        Factors of two or more variables.
    constraints : tuple of ConstraintGroup
        Hard constraints.
    blocks : tuple of Block
        The layout of the weight vector, empty for programs without weights.
    allowed : ndarray of bool, shape (S,), optional
        States a variable may take; hard domain facts are masks, never large penalties.
    role : ndarray of int8, shape (V,), optional
        0 for outputs, 1 for latent variables, 2 (:data:`AUXILIARY`) for auxiliary ones; all outputs when left out.
        An auxiliary variable says whether all of some others have the same state; it comes first in its factors, which
        are pairs with each of the others, and where it has more than two states, the last one says that they differ.

    Attributes
    ----------
    n_examples, n_variables : int
        B and V.
    """

    var_ptr: I64
    card: I32
    groups: tuple[Group, ...] = ()
    constraints: tuple[ConstraintGroup, ...] = ()
    blocks: tuple[Block, ...] = ()
    allowed: NDArray[np.bool_] | None = None
    role: I8 | None = None
    n_examples: int = field(init=False, repr=False)
    n_variables: int = field(init=False, repr=False)

    def __post_init__(self) -> None:
        vars(self).update(n_examples=len(self.var_ptr) - 1, n_variables=len(self.card))

    def __setstate__(self, state: dict[str, Any]) -> None:
        take_fields(self, state)

    @property
    def n_states(self) -> int:
        """Number of (variable, state) pairs S."""
        return int(self.state_ptr[-1])

    @cached_property
    def state_ptr(self) -> I64:
        """States ``state_ptr[v]:state_ptr[v + 1]`` belong to variable v; ``ndarray, shape (V + 1,)``."""
        return pointers(self.card)

    def own_state_ptr(self, examples: I64 | None) -> I64:
        """Return where the states of each variable of some examples begin among theirs; ``shape (v + 1,)``."""
        variables = positions(self.var_ptr, examples)
        if isinstance(variables, slice):
            ptr = self.state_ptr[variables.start : variables.stop + 1]
            return ptr - ptr[0] if variables.start else ptr
        return pointers(self.card[variables])

    @cached_property
    def every_example(self) -> I64:
        """The numbers of all examples; ``ndarray, shape (B,)``, not to be written to."""
        return np.arange(self.n_examples, dtype=np.int64)

    @cached_property
    def table_places(self) -> list[tuple[int, int, tuple[int, int]]]:
        """For each group where its tables begin and end among those of all, and (their number, entries of each)."""
        places, end = [], 0
        for group in self.groups:
            start, end = end, end + group.n_tables * group.n_configs
            places.append((start, end, (group.n_tables, group.n_configs)))
        return places

    @cached_property
    def uniform_card(self) -> int:
        """The number of states when all variables have the same, else 0."""
        return int(self.card[0]) if len(self.card) and bool((self.card == self.card[0]).all()) else 0

    @property
    def max_arity(self) -> int:
        """Largest number of variables in a factor (1 without groups)."""
        return max((group.arity for group in self.groups if group.n_factors), default=1)

    @property
    def graph_groups(self) -> tuple[Group, ...]:
        """The groups whose factors are joint states of some variables: the graph; factors of spans are none of it."""
        return tuple(group for group in self.groups if not group.of_spans)

    @cached_property
    def _shapes(self) -> tuple[I32, I64]:
        """Return (shape of each example, first example of each shape)."""
        if self.uniform_card or not len(self.card):
            columns: list[NDArray[Any]] = [np.diff(self.var_ptr)]
        else:
            ends = pairwise(self.var_ptr.tolist())
            columns = [first_of_each(self.card[lo:hi].tobytes() for lo, hi in ends)[0]]
        columns += [group.shapes.of for group in self.groups]
        return kinds_of_rows(columns, self.n_examples)

    @property
    def shape(self) -> I32:
        """The shape of each example: those of one shape differ in nothing but their scores; ``shape (B,)``.

        They have the same variables and the same factors; masks (``allowed``) and roles may differ.
        """
        return self._shapes[0]

    @property
    def representatives(self) -> Program:
        """One example of each shape, without constraints: what follows from the factors is worked out for these."""
        alone = self.n_examples == 1 or len(self._shapes[1]) == self.n_examples
        return self if alone else self._one_of_each

    @cached_property
    def _one_of_each(self) -> Program:
        return replace(self.take(self._shapes[1]), constraints=())

    def take(self, examples: I64) -> Program:
        """Return the program of some examples, in this order; shapes and tables are shared with this one.

        Parameters
        ----------
        examples : ndarray of int64, shape (n,)
        """
        inner = members(self.var_ptr, examples)
        var_ptr = pointers(self.var_ptr[1:][examples] - self.var_ptr[examples])
        return Program(
            var_ptr,
            np.ascontiguousarray(self.card[inner]),
            tuple(group.take(examples, var_ptr) for group in self.groups),
            tuple(group.take(examples) for group in self.constraints),
            blocks=self.blocks,
            allowed=None if self.allowed is None else self.allowed[members(self.state_ptr, inner)],
            role=None if self.role is None else self.role[inner],
        )

    def example(self, i: int) -> Program:
        """Return the program of one example; its groups list their factors in ``scope`` and ``table``."""
        return self.take(np.array([i], dtype=np.int64))

    def distinct_edges(self) -> I64:
        """Return the pairs of variables that share a pairwise factor, each once, ``shape (m, 2)``, sorted."""
        return distinct_edges([group.shapes for group in self.graph_groups], self.n_variables)

    @cached_property
    def _structure(self) -> tuple[I8, I32]:
        """Topology of each shape, and order of its variables."""
        few = self.representatives
        return topology_and_order(few.var_ptr, [group.shapes for group in few.graph_groups])

    @cached_property
    def topology(self) -> I8:
        """Topology of each example as a :class:`~ssvm_dsl.ir.analysis.topology.Topology` value; ``shape (B,)``."""
        topology = self._structure[0]
        return topology if self.representatives is self else topology[self.shape]

    @cached_property
    def order(self) -> I32:
        """Elimination order, leaves before their parent (chains from their first end); ``shape (V,)``.

        Variables of an example stay together; for loopy examples the order has no meaning.
        """
        few, order = self.representatives, self._structure[1]
        if few is self:
            return order
        local = order - np.repeat(few.var_ptr[:-1], np.diff(few.var_ptr))
        first = np.repeat(self.var_ptr[:-1], np.diff(self.var_ptr))
        return (local[members(few.var_ptr, self.shape)] + first).astype(np.int32)

    @cached_property
    def hardest_topology(self) -> Topology:
        """The most general topology among the examples."""
        return Topology(int(self._structure[0].max(initial=Topology.CHAIN)))

    @cached_property
    def content_hash(self) -> str:
        """SHA-256 of the whole structure, in hexadecimal."""
        digest = hashlib.sha256()
        arrays: list[NDArray[Any]] = [self.var_ptr, self.card]
        arrays += [a for a in (self.allowed, self.role) if a is not None]
        for group in self.groups:
            digest.update(repr((group.name, group.kind, group.cards, group.n_tables)).encode())
            arrays += [group.shapes.of, group.shapes.start, group.shapes.scope, group.rows, group.table_base]
        for constraint in self.constraints:
            digest.update(constraint.signature().encode())
            arrays += constraint.arrays()
        for array in arrays:
            digest.update(f"{array.dtype.str}{array.shape}".encode())
            digest.update(np.ascontiguousarray(array).data)
        digest.update(repr([(block.name, block.shape) for block in self.blocks]).encode())
        return digest.hexdigest()

    def n_labellings(self, example: int) -> float:
        """Return the number of labellings of an example (``inf`` when it overflows a float)."""
        cards = self.card[self.var_ptr[example] : self.var_ptr[example + 1]]
        with np.errstate(over="ignore"):
            return float(np.prod(cards.astype(float)))

    def validate(self) -> Program:
        """Check every array against the contract and return the program.

        Raises
        ------
        ValueError
            Naming the field and what is wrong.
        """
        _require(self.var_ptr.dtype == np.int64 and self.var_ptr[0] == 0, "var_ptr starts with 0, int64")
        _require(bool((np.diff(self.var_ptr) >= 0).all()), "var_ptr does not decrease")
        _require(self.var_ptr[-1] == len(self.card), "var_ptr ends with the number of variables")
        _require(self.card.dtype == np.int32 and bool((self.card >= 1).all()), "card is int32, at least 1")
        if self.allowed is not None:
            shape = (self.n_states,)
            _require(self.allowed.shape == shape and self.allowed.dtype == bool, "allowed has one bool for each state")
        if self.role is not None:
            shape = (self.n_variables,)
            _require(self.role.shape == shape and self.role.dtype == np.int8, "role has one int8 for each variable")
        for group in self.groups:
            self._validate_group(group)
        for constraint in self.constraints:
            wrong = constraint.mistakes(self.var_ptr, self.card)
            _require(not wrong, f"constraint {constraint.name}: {', '.join(wrong)}")
        return self

    def _validate_group(self, group: Group) -> None:
        name, shapes, start = group.name, group.shapes, group.shapes.start
        m, k = len(shapes.scope), shapes.n_shapes
        joins = group.of_spans or group.arity >= 2
        _require(joins, f"group {name}: factors join two or more variables; unary scores are node")
        width = SPAN_SCOPE.get(group.kind, group.arity)
        _require(shapes.scope.dtype == np.int32 and shapes.scope.shape == (m, width), f"group {name}: scope")
        _require(start.dtype == np.int64 and start[0] == 0 and start[-1] == m, f"group {name}: start of the shapes")
        _require(bool((np.diff(start) >= 0).all()), f"group {name}: start of the shapes decreases")
        _require(group.rows.dtype == np.int32 and group.rows.shape == (m,), f"group {name}: rows")
        _require(shapes.of.dtype == np.int32 and shapes.of.shape == (self.n_examples,), f"group {name}: shapes")
        _require(np.array_equal(shapes.first, self.var_ptr[:-1]), f"group {name}: first variables of the examples")
        base = group.table_base
        _require(base.dtype == np.int64 and base.shape == (self.n_examples,), f"group {name}: table_base")
        _require(not self.n_examples or 0 <= shapes.of.min() <= shapes.of.max() < k, f"group {name}: shapes")
        filled = np.flatnonzero(shapes.counts)
        if not len(filled):
            return
        some = np.flatnonzero(np.diff(start))  # shapes with factors
        first, of = start[some], np.searchsorted(some, shapes.of[filled])
        least = np.minimum.reduceat(group.rows, first)[of] + base[filled]
        most = np.maximum.reduceat(group.rows, first)[of] + base[filled]
        _require(least.min() >= 0 and most.max() < group.n_tables, f"group {name}: table rows")
        last = np.maximum.reduceat(shapes.scope.max(axis=1), first)[of]
        inside = (last < np.diff(self.var_ptr)[filled]).all() and shapes.scope.min() >= 0
        _require(inside, f"group {name}: a factor reaches out of its example")
        if group.of_spans:
            shared = group.kind != SPANS or group.n_tables == 1
            _require(shared, f"group {name}: factors of classes and lengths share one table")
            return
        ordered = np.sort(shapes.scope, axis=1)
        _require(bool((ordered[:, 1:] != ordered[:, :-1]).all()), f"group {name}: a factor names a variable twice")
        one_of_each = self._shapes[1]
        cards = self.card[shapes.variables(one_of_each)]
        _require(bool((cards == group.cards).all()), f"group {name}: cards differ from card[scope]")


def _require(ok: bool | np.bool_, text: str) -> None:
    if not ok:
        raise ValueError(f"program: {text}")
