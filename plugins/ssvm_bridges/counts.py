"""``counts-to-states``: bounds on sums become auxiliary variables that hold partial sums, along the graph.

Variables are eliminated in an order that keeps tables small; v hands on to the first of its neighbours at that time
that is eliminated next, its parent (Koller and Friedman 2009, section 9.4).  The partial sum of v is what v counts plus
the partial sums of its children.  All of these are next to each other when v is eliminated, so that tables of exact
elimination grow by a few partial sums, however many literals there are:

    z = min(a + b, cap)        one table (z, a, b) for each addition

On a chain that is one auxiliary variable for each position.  Partial sums are functions of the labelling, so that each
labelling has one completion: the k best, marginals and log Z stay what they are.

Sums beyond the upper bound are ruled out.  Where there is none to speak of, sums at or above the lower bound are one
state.  Where few literals may be *false*, what is missing from the largest sum is added up instead.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from math import ceil, floor

import numpy as np
from numpy.typing import NDArray

from ssvm_dsl.ir import F64, I32, I64, Bools, ConstraintGroup, Program, Topology, members, pointers
from ssvm_dsl.plugin_api import Rewrite, Verdict, pause, structure_keys, width_order

#: Entries of one table at most, and of all tables of an example.
MOST_ENTRIES, MOST_IN_ALL = 2.0**20, 2.0**25

#: What sums of coefficients may be off by, relative to what they are sums of (the kind "linear" says so).
ROUNDING = 1e-9

#: Coefficients are multiples of one over one of these.
DENOMINATORS = (1, 2, 4, 5, 8, 10, 20, 25, 50, 100, 1000)


@dataclass(frozen=True, eq=False)
class Term:
    """A variable, and what each of its states adds."""

    variable: int
    value: I64

    @cached_property
    def most(self) -> int:
        """The most that it adds."""
        return int(self.value.max())


@dataclass(frozen=True, eq=False)
class Addends:
    """Variables, and what each of their states adds.

    Parameters
    ----------
    variable : ndarray of int64, shape (n,)
    ptr : ndarray of int64, shape (n + 1,)
        Where the states of each variable start in ``value``.
    value : ndarray of int64
        What each state adds.
    """

    variable: I64
    ptr: I64
    value: I64

    @cached_property
    def least(self) -> I64:
        """The least that each variable adds."""
        return np.minimum.reduceat(self.value, self.ptr[:-1]) if len(self.variable) else self.variable

    @cached_property
    def most(self) -> I64:
        """The most that each variable adds."""
        return np.maximum.reduceat(self.value, self.ptr[:-1]) if len(self.variable) else self.variable

    def plus(self, offset: I64, sign: int = 1) -> Addends:
        """Return addends whose values are ``offset[variable] + sign * value``."""
        return Addends(self.variable, self.ptr, np.repeat(offset, np.diff(self.ptr)) + sign * self.value)

    def where(self, chosen: Bools) -> Addends:
        """Return the chosen variables."""
        counts = np.diff(self.ptr)
        return Addends(self.variable[chosen], pointers(counts[chosen]), self.value[np.repeat(chosen, counts)])

    def terms(self) -> Iterator[Term]:
        """Yield each variable with its values."""
        ends = self.ptr.tolist()
        for variable, lo, hi in zip(self.variable.tolist(), ends[:-1], ends[1:], strict=True):
            pause()
            yield Term(variable, self.value[lo:hi])


@dataclass(frozen=True, eq=False)
class PartialSum:
    """``lower <= sum over variables of value[state] <= upper`` in natural numbers.

    Parameters
    ----------
    addends : Addends
        Variables that make a difference; the least that each adds is 0.
    lower, upper : int
        Within 0 and the largest sum, or ``lower > upper`` where no labelling keeps the bounds.
    """

    addends: Addends
    lower: int
    upper: int

    @classmethod
    def from_addends(cls, given: Addends, lower: float, upper: float) -> PartialSum:
        """Return bounds on a sum of any integers, with the fewest partial sums."""
        least = sum(given.least.tolist())  # Python's integers: sums of large ones do not wrap around
        moved = given.plus(-given.least)
        moved = moved.where(moved.most > 0)
        total = sum(moved.most.tolist())
        low = ceil(min(max(lower - least, 0.0), total + 1.0))
        high = floor(max(min(upper - least, float(total)), -1.0))
        if low > high:
            return cls(moved.where(np.zeros(len(moved.variable), np.bool_)), 1, 0)
        direct = cls(moved, low, high)
        other = cls(moved.plus(moved.most, -1), total - direct.upper, total - direct.lower)
        return other if other.cap < direct.cap else direct

    def __len__(self) -> int:
        """Return the number of variables that make a difference."""
        return len(self.addends.variable)

    @cached_property
    def total(self) -> int:
        """The largest sum."""
        return sum(self.addends.most.tolist())

    @cached_property
    def bounded(self) -> bool:
        """Whether the upper bound rules anything out."""
        return self.upper < self.total

    @cached_property
    def cap(self) -> int:
        """The largest partial sum that is told apart: beyond the upper bound nothing is allowed."""
        return self.upper if self.bounded else self.lower

    @property
    def idle(self) -> bool:
        """Whether nothing is ruled out."""
        return self.lower <= 0 and self.upper >= self.total


class CountsToStates:
    """Partial sums of counts, and of linear sums whose coefficients are multiples of one number."""

    def check(self, example: Program) -> Verdict:
        """Accept sums with few different partial sums."""
        group, entries = example.constraints[0], 0.0
        widest = float(example.card.max(initial=1))
        for k in range(group.n_constraints):
            partial_sum = _sum(example, group, k)
            if partial_sum is None:
                return Verdict(False, reasons=("its coefficients are not small multiples of one number",))
            states = float(min(partial_sum.cap, partial_sum.total) + 1) if len(partial_sum) else 1.0
            table = states * states * max(1.0 if example.hardest_topology is Topology.CHAIN else states, widest)
            if len(partial_sum) > 2 and table > MOST_ENTRIES:
                why = f"{states:.0f} different partial sums make tables of {table:.2g} entries"
                return Verdict(False, reasons=(why,))
            entries += table * len(partial_sum)
        if entries > MOST_IN_ALL:
            return Verdict(False, reasons=(f"tables of {entries:.2g} entries in all",))
        return Verdict(True, entries)

    def lower(self, example: Program) -> Rewrite:
        """Return the partial sums of each constraint."""
        group, made = example.constraints[0], Rewrite.of(example)
        parents: list[tuple[int, int]] | None = None
        for k in range(group.n_constraints):
            partial_sum = _sum(example, group, k)
            assert partial_sum is not None, "check has accepted it"
            if partial_sum.lower > partial_sum.upper:
                made.never()
            elif not partial_sum.idle:
                parents = _parents(example) if parents is None else parents
                _Additions(made, partial_sum).along(parents)
        return made


class _Additions:
    """Adds up the terms of one sum.

    Parameters
    ----------
    made : Rewrite
        Variables and tables are added to it.
    total : PartialSum
    """

    def __init__(self, made: Rewrite, total: PartialSum) -> None:
        self.made, self.total, self.left = made, total, len(total)
        self._tables: dict[tuple[int, bytes, bytes], Bools] = {}

    def along(self, parents: list[tuple[int, int]]) -> None:
        """Add up along a forest, given as (variable, parent or -1) in the order of elimination; then the roots."""
        own = {term.variable: term for term in self.total.addends.terms()}
        below: dict[int, Term] = {}
        for v, parent in parents:
            pause()
            whole = self._added(below.pop(v, None), own.get(v))
            if whole is not None:  # a parent of -1 gathers the roots
                joined = self._added(below.get(parent), whole)
                if joined is None:
                    return
                below[parent] = joined
        if -1 in below:
            self._end(below[-1])

    def _added(self, first: Term | None, second: Term | None) -> Term | None:
        """Return the sum of two terms, either of which may be missing; ``None`` where they were the last ones."""
        if first is None or second is None:
            return first if second is None else second
        sums = first.value[:, None] + second.value
        total = self.total
        self.left -= 1
        if self.left == 1:
            self.made.table((first.variable, second.variable), (sums >= total.lower) & (sums <= total.upper))
            return None
        reach = min(total.cap, first.most + second.most)
        states = _rounded_up(reach + 1, total.cap + 1)
        z = np.arange(states, dtype=np.int64)
        key = (states, first.value.tobytes(), second.value.tobytes())
        if key not in self._tables:
            self._tables[key] = z[:, None, None] == (sums if total.bounded else np.minimum(sums, total.cap))
        variable = self.made.variable(states)
        self.made.table((variable, first.variable, second.variable), self._tables[key])
        return Term(variable, z)

    def _end(self, last: Term) -> None:
        """Keep the bounds where there is one term."""
        value, total = last.value, self.total
        self.made.table((last.variable,), (value >= total.lower) & (value <= total.upper))


def _rounded_up(states: int, most: int) -> int:
    """Return a power of two, so that there are few kinds of tables; not more than is needed at most."""
    return min(most, 1 << (states - 1).bit_length())


def _sum(example: Program, group: ConstraintGroup, k: int) -> PartialSum | None:
    """Return what a constraint says about sums; ``None`` where its coefficients are of too many kinds."""
    literals = group.literals(k)
    lower, upper = float(group.meta["lower"][k]), float(group.meta["upper"][k])
    n = literals.stop - literals.start
    weight: NDArray[np.int64] = np.ones(n, dtype=np.int64)
    if "coefficient" in group.literal_meta:
        given: F64 = group.literal_meta["coefficient"][literals]
        slack = ROUNDING * float(np.abs(given).sum())
        unit = next((d for d in DENOMINATORS if _whole(given * d)), 0)
        if not unit:
            return None
        weight = np.rint(given * unit).astype(np.int64)
        lower, upper = (lower - slack) * unit, (upper + slack) * unit
    return PartialSum.from_addends(_addends(example, group, literals, weight), lower, upper)


def _whole(numbers: F64) -> bool:
    """Whether numbers are integers, up to their own rounding, and not too large to be added up."""
    size = np.abs(numbers)
    return bool((size < 2**40).all() and (np.abs(numbers - np.rint(numbers)) <= 1e-12 * size).all())


def _addends(example: Program, group: ConstraintGroup, literals: slice, weight: I64) -> Addends:
    """Return what each variable adds: the weights of the literals that its states make true."""
    variable, state, negated = group.variable[literals], group.state[literals], group.negated[literals]
    added = np.zeros(example.n_states, dtype=np.int64)
    np.add.at(added, example.state_ptr[variable] + state, np.where(negated, -weight, weight))
    always = np.zeros(example.n_variables, dtype=np.int64)
    np.add.at(always, variable[negated], weight[negated])
    used = np.unique(variable).astype(np.int64)
    addends = Addends(used, pointers(example.card[used]), added[members(example.state_ptr, used)])
    return addends.plus(always[used])


def _parents(example: Program) -> list[tuple[int, int]]:
    """Return (variable, parent or -1) in an order of elimination with small tables."""
    order = example.order if example.hardest_topology < Topology.LOOPY else _order(example)
    if len(order) < example.n_variables:  # exact elimination is hopeless, and others do not mind
        return [(v, -1) for v in range(example.n_variables)]
    neighbours: list[set[int]] = [set() for _ in range(example.n_variables)]
    for group in example.groups:
        for scope in group.scope.tolist():
            for v in scope:
                neighbours[v].update(scope)
    place = np.empty(len(order), dtype=np.int64)
    place[order] = np.arange(len(order))
    out = []
    for v in order.tolist():
        pause()
        rest = neighbours[v] - {v}
        parent = min(rest, key=lambda one: place[one], default=-1)
        for one in rest:
            neighbours[one] |= rest
            neighbours[one].discard(v)
        out.append((v, int(parent)))
    return out


def _order(example: Program) -> I32:
    """Return an order of elimination of a graph with cycles."""
    arity = np.concatenate([np.full(group.n_factors, group.arity, dtype=np.int64) for group in example.groups])
    slots = np.append(0, np.cumsum(arity)).astype(np.int64)
    scope = np.concatenate([group.scope.ravel() for group in example.groups]).astype(np.int32)
    ends = np.array([0, len(arity)], dtype=np.int64)
    (key,) = structure_keys(example.var_ptr, example.card, ends, slots, scope)
    elimination = width_order(key)
    return elimination.order if elimination.complete else elimination.order[:0]
