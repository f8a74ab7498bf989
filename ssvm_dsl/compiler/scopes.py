"""Lay a target's pattern over all examples at once: the scope of every factor, stored once for each distinct shape.

Which shapes there are follows from axis sizes and, for lists of edges, from what these hold.  The pattern is laid over
one example of each shape; no array has an entry for every factor of every example.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ssvm_dsl.array_types import F64, I32, I64, Bools
from ssvm_dsl.compiler.inputs import Examples
from ssvm_dsl.compiler.labels.segments import span_ends
from ssvm_dsl.compiler.layout import Layout
from ssvm_dsl.compiler.rules import CircuitGrounder, GroundRule, TableGrounder
from ssvm_dsl.errors import ModelError
from ssvm_dsl.ir.ragged import members, owners, pointers, runs
from ssvm_dsl.ir.shapes import Shapes, first_of_each
from ssvm_dsl.lang.dims import Dim, Index, Read, conjuncts, indices_of
from ssvm_dsl.lang.outputs.labels import Label, Target
from ssvm_dsl.lang.patterns.join import Instances, World
from ssvm_dsl.lang.patterns.pattern import Pattern
from ssvm_dsl.lang.patterns.references import LabelAt
from ssvm_dsl.lang.rules.circuits import RuleCircuit
from ssvm_dsl.lang.rules.rule_patterns import FoundRule, RuleTruth
from ssvm_dsl.lang.rules.structures import RuleOfKind

#: Edge lists of some examples, one of each shape.
Lists = Sequence[NDArray[Any]]


@dataclass(frozen=True, eq=False)
class Scopes:
    """The factors of one template over all examples, stored once for each of their K shapes.

    Parameters
    ----------
    shapes : Shapes
        The scopes of m factors.
    axes : tuple of Dim
        Axes on which a factor has a position.
    sizes : dict of str to ndarray of int64, shape (K,)
        Axis sizes of each shape.
    place : ndarray of int64, shape (m,)
        Flat position of each factor on those axes.
    number : ndarray of int64, shape (m,)
        Number of each factor in its example's full list.
    found : Instances, optional
        The values of index variables, where the target is a pattern with some.
    turned : ndarray of bool, shape (m, r), optional
        Which variables of a factor stand at (i, j) as the converse of (j, i), where labels have converse classes.
    variant : ndarray of int64, shape (m,), optional
        Which of some tables each factor of a rule has, where these differ.
    variants : tuple of (tuple of int, ndarray of bool)
        These: the variables that there are, and where the rule is true of their joint states.
    """

    shapes: Shapes
    axes: tuple[Dim, ...]
    sizes: dict[str, I64]
    place: I64
    number: I64
    found: Instances | None = None
    turned: Bools | None = None
    variant: I64 | None = None
    variants: tuple[tuple[tuple[int, ...], Bools], ...] = ()

    def without(self, ignored: NDArray[np.bool_], var_ptr: I64) -> Scopes:
        """Return only the factors none of whose variables is ignored.

        Parameters
        ----------
        ignored : ndarray of bool, shape (V,)
        var_ptr : ndarray of int64, shape (B + 1,)
        """
        ends = zip(self.shapes.of.tolist(), var_ptr[:-1].tolist(), var_ptr[1:].tolist(), strict=True)
        of, chosen = first_of_each((k, ignored[lo:hi].tobytes()) for k, lo, hi in ends)
        return self._some(of, chosen, ~np.any(ignored[self.shapes.variables(chosen)], axis=1))

    def parts(self, target: Target) -> list[FactorPart]:
        """Return the factors of a target in parts: of the same variables turned, or of as many variables."""
        if self.turned is None and self.variant is None:
            return [FactorPart(self)]
        labels = target.members
        first = np.unique(self.shapes.of, return_index=True)[1]
        if self.variant is not None:
            return self._varied_parts(labels, first, self.variant)
        kinds, kind = np.unique(np.asarray(self.turned), axis=0, return_inverse=True)
        out = []
        for k, flags in enumerate(kinds.tolist()):
            part = self._some(self.shapes.of, first, kind.reshape(-1) == k)
            states = _written_states(labels, flags) if any(flags) else None
            out.append(FactorPart(part, states))
        return out

    def _varied_parts(self, labels: Sequence[Label], first: I64, variant: I64) -> list[FactorPart]:
        """Return the factors of a rule by the variables that they have."""
        every = tuple(range(len(labels)))
        out = []
        for there in dict.fromkeys(mine for mine, _ in self.variants) or [every]:
            chosen = [k for k, (mine, _) in enumerate(self.variants) if mine == there]
            part = self._some(self.shapes.of, first, np.isin(variant, chosen))
            cards = tuple(labels[k].n_states for k in there)
            true = np.stack([self.variants[k][1] for k in chosen] or [np.ones(prod(cards), dtype=bool)])
            scope = np.ascontiguousarray(part.shapes.scope[:, list(there)])
            shapes = Shapes(part.shapes.of, part.shapes.start, scope, part.shapes.first)
            rows = np.searchsorted(chosen, variant if part.variant is None else part.variant)
            out.append(FactorPart(replace(part, shapes=shapes, variant=rows, variants=()), true=true, cards=cards))
        return out

    def of_variant(self, k: int) -> Scopes:
        """Return the factors of a rule that have one of the tables."""
        first = np.unique(self.shapes.of, return_index=True)[1]
        return self._some(self.shapes.of, first, np.asarray(self.variant == k))

    def _some(self, of: I32, chosen: I64, wanted: Bools) -> Scopes:
        """Return some of the factors of one example of each new shape, whose old one that example has."""
        if wanted.all():
            return self
        old = self.shapes.of[chosen]
        kept = members(self.shapes.start, old)[wanted]
        owner = np.repeat(np.arange(len(chosen)), self.shapes.counts[chosen])
        start = pointers(np.bincount(owner[wanted], minlength=len(chosen)))
        shapes = Shapes(of, start, np.ascontiguousarray(self.shapes.scope[kept]), self.shapes.first)
        sizes = {name: size[old] for name, size in self.sizes.items()}
        found = None if self.found is None else self.found.chosen(kept)
        turned = None if self.turned is None else self.turned[kept]
        variant = None if self.variant is None else self.variant[kept]
        place, number = self.place[kept], self.number[kept]
        return Scopes(shapes, self.axes, sizes, place, number, found, turned, variant, self.variants)

    def position(self, dims: tuple[Dim, ...]) -> I64:
        """Return each factor's flat position on some of the axes; ``shape (m,)``."""
        if dims == self.axes:
            return self.place
        owner = owners(self.shapes.start)
        flat = np.zeros(len(owner), dtype=np.int64)
        for dim in dims:
            flat = flat * self.sizes[dim.name][owner] + self._coordinate(dim, owner)
        return flat

    def units(self, per: tuple[Dim | Index | Read, ...]) -> I64:
        """Return which copy of the weights each factor has: its flat position on axes, or at what indices say."""
        if self.found is None or all(isinstance(one, Dim) for one in per):
            return self.position(tuple(one for one in per if isinstance(one, Dim)))
        flat = np.zeros(len(self.found), dtype=np.int64)
        for one in per:
            assert not isinstance(one, Dim)
            at, known = self.found.position(one, one.axis)
            flat = flat * (one.axis.size or 1) + (at if known is None else np.where(known, at, 0))
        return flat

    def rows(self, places: tuple[Any, ...], dims: tuple[Dim, ...]) -> tuple[I64, Bools | None]:
        """Return (row of each factor at positions on axes, whether these exist; ``None`` where all do)."""
        assert self.found is not None
        return self.found.flat(places, dims)

    def _coordinate(self, dim: Dim, owner: I64) -> I64:
        stride = np.ones(self.shapes.n_shapes, dtype=np.int64)
        for axis in reversed(self.axes):
            if axis.name == dim.name:
                break
            stride = stride * self.sizes[axis.origin.name]
        return np.asarray((self.place // stride[owner]) % self.sizes[dim.name][owner])


@dataclass(frozen=True, eq=False)
class FactorPart:
    """Some of the factors of a template.

    Parameters
    ----------
    scopes : Scopes
    states : ndarray of int64, shape (prod(cards),), optional
        The joint state that is written for each joint state of the variables, some of which are turned.
    true : ndarray of bool, shape (n, prod(cards)), optional
        Where a rule is true, if factors have different tables: ``scopes.variant`` says which.
    cards : tuple of int
        States of their variables, where ``true`` says something of these.
    """

    scopes: Scopes
    states: I64 | None = None
    true: Bools | None = None
    cards: tuple[int, ...] = ()

    @property
    def varies(self) -> bool:
        """Whether the factors have different tables."""
        return self.true is not None and len(self.true) != 1

    def truth(self) -> Bools:
        """Return where the rule is true for each factor of the batch; ``shape (n, prod(cards))``."""
        assert self.true is not None
        assert self.scopes.variant is not None
        return np.asarray(self.true[self.scopes.shapes.spread(self.scopes.variant)])

    def form(self, basis: F64 | None) -> F64 | None:
        """Return the form that factors of this part have, where the template has a form; ``None`` for the identity."""
        if self.true is not None:
            return self.true.astype(np.float64)
        if self.states is None:
            return basis
        return np.asarray((np.eye(len(self.states)) if basis is None else basis)[:, self.states])


@dataclass(frozen=True, eq=False)
class _ListedFactors:
    """The factors of one template in some examples, listed example by example.

    Parameters
    ----------
    variables : ndarray of integers, shape (n, r)
        Scope of each factor, counted from the first variable of its example.
    counts : ndarray of int64
        Factors of each example.
    axes : tuple of Dim
    place : ndarray of int64, shape (n,), optional
        Without it factors are at all positions in order (at the only one without axes).
    number : ndarray of int64, shape (n,), optional
        Number of each factor in its example's full list; without it they are in order.
    """

    variables: NDArray[Any]
    counts: I64
    axes: tuple[Dim, ...]
    place: I64 | None = None
    number: I64 | None = None
    found: Instances | None = None
    turned: Bools | None = None
    variant: I64 | None = None
    variants: tuple[tuple[tuple[int, ...], Bools], ...] = ()


def factor_counts(target: Target, layout: Layout, examples: Examples) -> I64:
    """Return the number of factors of a target in each example; ``shape (B,)``."""
    if target.count_reads_inputs:
        return ground_scopes(target, layout, examples).shapes.counts
    return np.asarray(np.zeros(examples.n, np.int64) + target.count(examples.sizes))


def ground_scopes(target: Target, layout: Layout, examples: Examples) -> Scopes:
    """Return the scopes of a target over all examples."""
    if not target.count_reads_inputs:
        return _ground(target, layout, examples)
    if target not in layout.known_scopes:
        layout.known_scopes[target] = target, _ground(target, layout, examples)
    pattern: Target = layout.known_scopes[target][0]
    scopes: Scopes = layout.known_scopes[target][1]
    if pattern is target or scopes.found is None or not (isinstance(target, Pattern) and isinstance(pattern, Pattern)):
        return scopes
    columns = dict(scopes.found.columns)  # equal patterns may have indices of other names
    for old, new in zip(pattern.free, target.free, strict=True):
        if id(old) in columns:
            columns[id(new)] = columns[id(old)]
    return replace(scopes, found=Instances(scopes.found.world, scopes.found.owner, columns))


def _ground(target: Target, layout: Layout, examples: Examples) -> Scopes:
    if isinstance(target, RuleTruth) and not target.also_read:  # its circuit has been laid
        ground, of, few = lay_circuit(target.circuit, layout, examples)
        listed = _of_circuit(target, ground, few)
    else:
        of, few, world = few_examples(target, layout, examples)
        listed = _listed(target, few, world)
    sizes = few.sizes
    number = runs(np.zeros(few.n, np.int64), listed.counts) if listed.number is None else listed.number
    place = listed.place if listed.place is not None else number if listed.axes else np.zeros_like(number)
    scope = np.ascontiguousarray(listed.variables, dtype=np.int32)
    shapes = Shapes(of, pointers(listed.counts), scope, layout.var_ptr[:-1])
    more = listed.found, listed.turned, listed.variant, listed.variants
    return Scopes(shapes, listed.axes, sizes, place, number, *more)


def _listed(target: Target, layout: Layout, world: World) -> _ListedFactors:
    """Lay a target over examples."""
    if isinstance(target, Pattern):
        return _pattern(target, layout, world)
    if target.kind in ("agreement", "members"):
        inner = _listed(target.inner, layout, world)
        return _agreement(target, layout, inner) if target.arity == 1 else _members(target, layout, inner)
    return _LAYERS.get(target.kind, _brought)(target, layout)


def few_examples(
    of_what: Target | RuleCircuit | RuleOfKind, layout: Layout, examples: Examples
) -> tuple[I32, Layout, World]:
    """Return (shape of each example, layout of one example of each shape, what its instances follow from)."""
    of, chosen = layout.shapes_of(of_what, examples)
    raw: dict[str, Sequence[Any]] = {one.name: examples.raw[one.name] for one in of_what.inputs}
    if len(chosen) == layout.n:  # no two are alike
        return of, layout, World(layout.sizes, raw, layout.n)
    which = chosen.tolist()
    domains = {name: domain.chosen(chosen) for name, domain in layout.domains.items()}
    few = Layout(layout.declaration, len(which), {name: size[chosen] for name, size in layout.sizes.items()}, domains)
    raw = {name: [values[i] for i in which] for name, values in raw.items()}
    return of, few, World(few.sizes, raw, few.n, which)


def lay_circuit(circuit: RuleCircuit, layout: Layout, examples: Examples) -> tuple[GroundRule, I32, Layout]:
    """Return (rule over one example of each shape, shape of each example, their layout); variables by example."""
    known: tuple[GroundRule, I32, Layout] | None = layout.known_scopes.get(circuit)
    if known is None:
        of, few, world = few_examples(circuit, layout, examples)
        ground = CircuitGrounder(circuit, few.domains, world, few.start_inside).run()
        known = layout.known_scopes[circuit] = ground, of, few
    return known


def _pattern(target: Pattern, layout: Layout, world: World) -> _ListedFactors:
    """Lay the variables of a pattern at the instances of its index variables."""
    if isinstance(target, FoundRule):
        return _found_rule(target, layout, world)
    parts = [_instances(part, layout, world) for part in target.parts]
    places = [] if target.word is None else [
        one.flat(target.word.at[k], target.word.axes)[0] for k, (one, *_) in enumerate(parts) if target.word.axes
    ]
    instances, variables, turned = parts[0]
    place = places[0] if places else None
    if len(parts) > 1:
        shared = set.intersection(*(set(one.columns) for one, *_ in parts))
        owner = np.concatenate([one.owner for one, *_ in parts])
        order = np.argsort(owner, kind="stable")
        columns = {key: np.concatenate([one.columns[key] for one, *_ in parts])[order] for key in shared}
        instances = Instances(world, owner[order], columns)
        variables = np.concatenate([one for _, one, _ in parts])[order]
        place = np.concatenate(places)[order] if places else None
        flags = [np.zeros(rows.shape, dtype=bool) if one is None else one for _, rows, one in parts]
        turned = None if all(one is None for *_, one in parts) else np.concatenate(flags)[order]
    counts = np.bincount(instances.owner, minlength=layout.n)
    if target.word is not None:  # its features and weights are those of axes
        return _ListedFactors(variables, counts, target.word.axes, place, turned=turned)
    world.kept.clear()
    instances.kept.clear()
    return _ListedFactors(variables, counts, (), found=instances, turned=turned)


def _found_rule(target: FoundRule, layout: Layout, world: World) -> _ListedFactors:
    """Lay a rule of a factor: its auxiliary variables, or the variables of its tables."""
    if isinstance(target, RuleTruth):
        ground = CircuitGrounder(target.circuit, layout.domains, world, layout.start_inside).run()
        return _of_circuit(target, ground, layout)
    found, kinds = TableGrounder("", target.rule, layout.domains, world, layout.start_inside).run()
    variables = np.zeros((len(found), target.arity), dtype=np.int64)
    variant, variants = np.full(len(found), -1), tuple[tuple[tuple[int, ...], Bools], ...]()
    for one in (one for one in kinds if one.cards):  # nothing is scored where there is no variable
        variables[one.place] = one.variables[:, :1]  # in the place of those that do not exist another one
        variables[np.ix_(one.place, one.there)] = one.variables
        variant[one.place] = len(variants) + one.table
        variants = (*variants, *((tuple(one.there), true) for true in one.true))
    keep = _with_units(target, found, variant >= 0)
    found, variables, variant = found.chosen(keep), variables[keep], variant[keep]
    counts = np.bincount(found.owner, minlength=layout.n)
    return _ListedFactors(variables, counts, (), found=found, variant=variant, variants=variants)


def _of_circuit(target: RuleTruth, ground: GroundRule, layout: Layout) -> _ListedFactors:
    """Return the auxiliary variables that say whether a rule is true, as factors."""
    assert ground.top is not None
    keep = _with_units(target, ground.found, np.ones(len(ground.found), dtype=bool))
    found, variables = ground.found.chosen(keep), ground.top[0][keep][:, None]
    return _ListedFactors(variables, np.bincount(found.owner, minlength=layout.n), (), found=found)


def _with_units(target: FoundRule, found: Instances, keep: Bools) -> Bools:
    """Return which instances are left where ``per=`` reads a position."""
    for unit in target.units:
        known = found.position(unit, unit.axis)[1]
        keep = keep if known is None else keep & known
    return keep


def _instances(part: Pattern, layout: Layout, world: World) -> tuple[Instances, I32, Bools | None]:
    """Return (instances of a pattern that is no union, variables, which are turned): those whose variables all exist.

    Turned is a variable of converse classes at positions in decreasing order; ``None`` where none is.
    """
    instances = part.instances(world)
    columns = []
    for one in part.references:
        flat, _ = instances.flat(one.places, one.label.dims, look=not part.exists_everywhere)
        domain = layout.domains.get(one.label.name)
        columns.append(flat if domain is None else domain.numbers(one.label, instances.owner, flat))
    there = np.logical_and.reduce([column >= 0 for column in columns]) if layout.domains else None
    if there is not None and not there.all():
        _refuse_one_order(part, layout, instances, ~there)
        instances, columns = instances.chosen(there), [column[there] for column in columns]
    variables = np.empty((len(instances), len(columns)), dtype=np.int32)
    for k, (one, column) in enumerate(zip(part.references, columns, strict=True)):
        first = layout.start_inside(one.label)
        variables[:, k] = column + first[instances.owner] if first.any() else column
    turned = None
    if any(one.label.turns for one in part.references):
        none = np.zeros(len(instances), dtype=bool)
        turned = np.stack([_turned(instances, one) if one.label.turns else none for one in part.references], axis=1)
    return instances, variables, turned if turned is not None and turned.any() else None


def _turned(found: Instances, one: LabelAt) -> Bools:
    """Return where a variable stands at positions in decreasing order."""
    (i, _), (j, _) = (found.position(place, dim) for place, dim in zip(one.places, one.label.dims, strict=True))
    return np.asarray(i > j)


def _written_states(labels: Sequence[Label], flags: Sequence[bool]) -> I64:
    """Return the joint state that is written for each joint state of variables, some of which are turned."""
    states = np.arange(prod(one.n_states for one in labels)).reshape([one.n_states for one in labels])
    each = [one.converse if flag else range(one.n_states) for one, flag in zip(labels, flags, strict=True)]
    return np.asarray(states[np.ix_(*each)].ravel())


def _refuse_one_order(part: Pattern, layout: Layout, instances: Instances, missing: Bools) -> None:
    """Refuse a pattern that loses instances only because a relation has variables for one order of its positions.

    Raises
    ------
    ModelError
    """
    compared = [set(map(id, indices_of(one))) for one in conjuncts(part.condition)]
    for one in part.references if part.arity > 1 else ():
        label, domain = one.label, layout.domains.get(one.label.name)
        if domain is None or label.symmetric or len(label.dims) != 2:
            continue
        if label.dims[0].origin is not label.dims[1].origin:
            continue
        if any(set(map(id, indices_of(*one.places))) <= names for names in compared):
            continue
        (i, _), (j, _) = (instances.position(place, dim) for place, dim in zip(one.places, label.dims, strict=True))
        side = layout.sizes[label.dims[0].name][instances.owner]
        here = domain.numbers(label, instances.owner, i * side + j) < 0
        if (missing & here & (domain.numbers(label, instances.owner, j * side + i) >= 0)).any():
            p, q = one.places
            text = f"{part!r}: {one!r} does not exist in this order of its positions, {label.name}[j, i] does:"
            text += " declare the label with symmetric=True, or order them,"
            text += f" where={p!r} < {q!r} (for transitivity: Equivalence)"
            raise ModelError(layout.declaration.name, [(part.line, text)])


def _each(target: Target, layout: Layout) -> _ListedFactors:
    counts = layout.count(target.label)
    variables, domain = runs(layout.start_inside(target.label), counts), layout.domains.get(target.label.name)
    place = None if domain is None else domain.cell[members(domain.start, domain.of)]
    return _ListedFactors(variables[:, None], counts, target.label.dims, place)


def _chain(target: Target, layout: Layout) -> _ListedFactors:
    """Lay successive segments: two neighbouring positions, and whether a segment begins at the second."""
    counts = np.maximum(layout.count(target.label) - 1, 0)
    label, begin = (layout.start_inside(one) for one in (target.label, target.label.begins))
    first, begins = runs(label, counts), runs(begin + 1, counts)
    last = runs(np.ones(layout.n, dtype=np.int64), counts)
    return _ListedFactors(np.stack([first, first + 1, begins], axis=1), counts, target.label.dims, last)


def _starts(target: Target, layout: Layout) -> _ListedFactors:
    counts = layout.count(target.label)
    both = [runs(layout.start_inside(one), counts) for one in (target.label, target.label.begins)]
    return _ListedFactors(np.stack(both, axis=1), counts, target.label.dims)


def _spans(target: Target, layout: Layout) -> _ListedFactors:
    """Lay spans that end within the axis: of each start the shorter ones first."""
    longest = target.label.segments or 1
    start, end, ptr = span_ends(layout.count(target.label), longest)
    counts = np.diff(ptr)
    first = np.repeat(layout.start_inside(target.label.spans), counts)
    return _ListedFactors((first + start * longest + end - start - 1)[:, None], counts, ())


def _span(target: Target, layout: Layout) -> _ListedFactors:
    """Lay spans that end within the axis and are no variables (:class:`ssvm_dsl.ir.Group`), in the order of these."""
    sizes = layout.count(target.label)
    start, end, ptr = span_ends(sizes, target.label.segments or 1)
    counts = np.diff(ptr)
    firsts = layout.start_inside(target.label), layout.start_inside(target.label.begins), sizes
    label, begin, n = (np.repeat(one, counts) for one in firsts)
    columns = label + start, begin + start, begin + end - 1, begin + np.where(end < n, end, start)
    return _ListedFactors(np.stack(columns, axis=1), counts, ())


def _lengths(target: Target, layout: Layout) -> _ListedFactors:
    """Lay segments by class and length, one for each position that may begin one (:class:`ssvm_dsl.ir.Group`)."""
    counts = layout.count(target.label)
    label, begin = (runs(layout.start_inside(one), counts) for one in (target.label, target.label.begins))
    last = np.zeros(len(begin), dtype=np.int64)
    last[np.cumsum(counts)[counts > 0] - 1] = 1
    return _ListedFactors(np.stack([label, begin, begin + 1 - last], axis=1), counts, ())


def _brought(target: Target, layout: Layout) -> _ListedFactors:
    """Lay a kind of target from another package, which lists the scopes of an example itself."""
    sizes = np.stack([layout.sizes[dim.name] for dim in target.label.dims] or [np.ones(layout.n, np.int64)], axis=1)
    return _patterned(sizes, layout.start_inside(target.label)[:, None], target.scopes)


def _patterned(
    keys: I64, starts: I64, pattern: Callable[[tuple[int, ...]], NDArray[Any]], axes: tuple[Dim, ...] = ()
) -> _ListedFactors:
    """Lay a local pattern over each example; examples with equal keys share it."""
    kinds, kind_of = np.unique(keys, axis=0, return_inverse=True)
    kind_of = kind_of.ravel()
    locals_ = [pattern(tuple(key.tolist())) for key in kinds]
    counts = np.array([len(local) for local in locals_], dtype=np.int64)[kind_of]
    ptr = pointers(counts)
    variables = np.empty((int(ptr[-1]), locals_[0].shape[1]), dtype=np.int32)
    for k, local in enumerate(locals_):
        mine = np.flatnonzero(kind_of == k)
        listed = local[None] + starts[mine][:, None, :]
        variables[members(ptr, mine)] = listed.reshape(-1, local.shape[1])
    return _ListedFactors(variables, counts, axes)


def _agreement(target: Target, layout: Layout, inner: _ListedFactors) -> _ListedFactors:
    """Lay the auxiliary variables of other factors, where these have their positions."""
    variables = runs(layout.start_inside(target.label), inner.counts)
    return _ListedFactors(variables[:, None], inner.counts, inner.axes, inner.place)


def _members(target: Target, layout: Layout, inner: _ListedFactors) -> _ListedFactors:
    """Join the auxiliary variable of each factor with each variable of that."""
    r = target.inner.arity
    owner = np.repeat(runs(layout.start_inside(target.label), inner.counts), r)
    variables = np.stack([owner, inner.variables.ravel()], axis=1)
    number = runs(np.zeros(layout.n, np.int64), inner.counts)
    place = inner.place if inner.place is not None else number if inner.axes else np.zeros_like(number)
    return _ListedFactors(variables, inner.counts * r, inner.axes, np.repeat(place, r), np.repeat(number, r))


_LAYERS: dict[str, Callable[[Target, Layout], _ListedFactors]] = {
    "each": _each,
    "indicator": _each,
    "chain": _chain,
    "spans": _spans,
    "starts": _starts,
    "span": _span,
    "lengths": _lengths,
}
