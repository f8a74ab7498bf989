"""``Program``: the structure of a batch of examples, without any weight or score.

Unary scores live on the variables themselves (``Theta.node``), so groups hold factors of two or more
variables only.  A factor's table is a row of its group's table pool: factors that share weights and features
share the row, and it is stored once.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ssvm_dsl.ir.features import Block
from ssvm_dsl.ir.need import Topology
from ssvm_dsl.ir.ragged import pointers

I8 = NDArray[np.int8]
I32 = NDArray[np.int32]
I64 = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Group:
    """Factors of one template: the same number of variables with the same numbers of states.

    Parameters
    ----------
    name : str
        Name of the factor template.
    cards : tuple of int
        Number of states of each variable of a factor (two or more variables).
    scope : ndarray of int32, shape (n, r)
        The variables of each factor (global numbers).
    ptr : ndarray of int64, shape (B + 1,)
        Factors ``ptr[i]:ptr[i + 1]`` belong to example i.
    table : ndarray of int32, shape (n,)
        Row of the group's table pool that a factor uses.
    n_tables : int
        Number of rows of the pool.
    """

    name: str
    cards: tuple[int, ...]
    scope: I32
    ptr: I64
    table: I32
    n_tables: int
    kind: str = "table"

    @property
    def arity(self) -> int:
        """Number of variables in a factor."""
        return len(self.cards)

    @property
    def n_factors(self) -> int:
        """Number of factors in the batch."""
        return len(self.scope)

    @property
    def n_configs(self) -> int:
        """Number of joint states of a factor: the width of a table row (C order over ``cards``)."""
        return prod(self.cards)

    @property
    def strides(self) -> I64:
        """Multipliers that turn the states of a factor into a position in its table row."""
        return np.array([prod(self.cards[k + 1 :]) for k in range(self.arity)], dtype=np.int64)


@dataclass(frozen=True, eq=False)
class ConstraintGroup:
    """Hard constraints of one kind over literals "variable v has state s" (or its negation).

    Parameters
    ----------
    kind : str
        Registered constraint kind.
    ptr : ndarray of int64, shape (B + 1,)
        Constraints ``ptr[i]:ptr[i + 1]`` belong to example i.
    literal_ptr : ndarray of int64, shape (m + 1,)
        Literals ``literal_ptr[k]:literal_ptr[k + 1]`` belong to constraint k.
    variable, state : ndarray of int32
        The literals.
    negated : ndarray of bool
        Literals that say "has not".
    meta : mapping of str to ndarray
        What the kind needs besides, e.g. bounds.
    """

    kind: str
    ptr: I64
    literal_ptr: I64
    variable: I32
    state: I32
    negated: NDArray[np.bool_]
    meta: Mapping[str, NDArray[Any]] = field(default_factory=dict)


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
        0 for outputs, 1 for latent variables; all outputs when left out.
    """

    var_ptr: I64
    card: I32
    groups: tuple[Group, ...] = ()
    constraints: tuple[ConstraintGroup, ...] = ()
    blocks: tuple[Block, ...] = ()
    allowed: NDArray[np.bool_] | None = None
    role: I8 | None = None

    @property
    def n_examples(self) -> int:
        """Number of examples B."""
        return len(self.var_ptr) - 1

    @property
    def n_variables(self) -> int:
        """Number of variables V."""
        return len(self.card)

    @property
    def n_states(self) -> int:
        """Number of (variable, state) pairs S."""
        return int(self.state_ptr[-1])

    @cached_property
    def state_ptr(self) -> I64:
        """States ``state_ptr[v]:state_ptr[v + 1]`` belong to variable v; ``ndarray, shape (V + 1,)``."""
        return pointers(self.card)

    @cached_property
    def uniform_card(self) -> int:
        """The number of states when all variables have the same, else 0."""
        return int(self.card[0]) if len(self.card) and bool((self.card == self.card[0]).all()) else 0

    @property
    def max_arity(self) -> int:
        """Largest number of variables in a factor (1 without groups)."""
        return max((group.arity for group in self.groups if group.n_factors), default=1)

    @cached_property
    def _structure(self) -> tuple[I8, I32]:
        from ssvm_dsl.ir.topology import topology_and_order

        return topology_and_order(self)

    @property
    def topology(self) -> I8:
        """Topology of each example as a :class:`~ssvm_dsl.ir.need.Topology` value; ``shape (B,)``."""
        return self._structure[0]

    @property
    def order(self) -> I32:
        """Elimination order, leaves before their parent (chains from their first end); ``shape (V,)``.

        Variables of an example stay together; for loopy examples the order has no meaning.
        """
        return self._structure[1]

    @cached_property
    def hardest_topology(self) -> Topology:
        """The most general topology among the examples."""
        return Topology(int(self.topology.max(initial=Topology.CHAIN)))

    @cached_property
    def content_hash(self) -> str:
        """SHA-256 of the whole structure, in hexadecimal."""
        digest = hashlib.sha256()
        arrays: list[NDArray[Any]] = [self.var_ptr, self.card]
        arrays += [a for a in (self.allowed, self.role) if a is not None]
        for group in self.groups:
            digest.update(repr((group.name, group.kind, group.cards, group.n_tables)).encode())
            arrays += [group.scope, group.ptr, group.table]
        for one in self.constraints:
            digest.update(repr((one.kind, sorted(one.meta))).encode())
            arrays += [one.ptr, one.literal_ptr, one.variable, one.state, one.negated]
            arrays += [one.meta[key] for key in sorted(one.meta)]
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
        return self

    def _validate_group(self, group: Group) -> None:
        name, n = group.name, group.n_factors
        _require(group.arity >= 2, f"group {name}: factors join two or more variables; unary scores are node")
        _require(group.scope.dtype == np.int32 and group.scope.shape == (n, group.arity), f"group {name}: scope")
        _require(group.ptr.dtype == np.int64 and group.ptr.shape == (self.n_examples + 1,), f"group {name}: ptr")
        _require(group.ptr[0] == 0 and group.ptr[-1] == n, f"group {name}: ptr runs from 0 to the number of factors")
        _require(bool((np.diff(group.ptr) >= 0).all()), f"group {name}: ptr does not decrease")
        _require(group.table.dtype == np.int32 and group.table.shape == (n,), f"group {name}: table")
        if not n:
            return
        _require(group.table.min() >= 0 and group.table.max() < group.n_tables, f"group {name}: table rows")
        _require(group.scope.min() >= 0 and group.scope.max() < self.n_variables, f"group {name}: variables")
        _require(bool((self.card[group.scope] == group.cards).all()), f"group {name}: cards differ from card[scope]")
        owner = np.repeat(np.arange(self.n_examples), np.diff(group.ptr))[:, None]
        inside = (group.scope >= self.var_ptr[owner]) & (group.scope < self.var_ptr[owner + 1])
        _require(bool(inside.all()), f"group {name}: a factor reaches into another example")
        ordered = np.sort(group.scope, axis=1)
        _require(bool((ordered[:, 1:] != ordered[:, :-1]).all()), f"group {name}: a factor names a variable twice")


def _require(ok: bool | np.bool_, text: str) -> None:
    if not ok:
        raise ValueError(f"program: {text}")
