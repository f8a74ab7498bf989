"""``PreparedShape``: what a model computes once for all examples of one shape; the model keeps it.

The key of a shape is the sizes of the axes, with the contents of edges and of constraints' numbers where these come
with the examples.  The key determines the variables, the factors, the hard constraints, and what inference prepares
for them.  Fits, predictions, scores, streams and the rounds of latent variables use the same :class:`PreparedShape`.

What a fit learns determines the widths of features, and so the blocks of weights: a shape has one record of
:class:`Weighted` maps for each combination of widths.  Masks determine what backends prepare: there is a
:class:`PreparedProgram` for each mask.
Features, given scores, clamps, vocabularies and observed pairs belong to the call, or to the fit.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from hashlib import blake2b
from threading import Lock
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ssvm_dsl.array_types import I8, I32, I64, Bools
from ssvm_dsl.compiler.agreements import roles
from ssvm_dsl.compiler.constants import ground_constants
from ssvm_dsl.compiler.constraints import free_variables, lower_constraints
from ssvm_dsl.compiler.estimate import Footprint, footprint
from ssvm_dsl.compiler.feature_maps import (
    Features,
    GroundedFactors,
    PlacedFactors,
    features_of,
    ground_factors,
    place_factors,
)
from ssvm_dsl.compiler.features.encode import Encoder, LearntFeatures
from ssvm_dsl.compiler.inputs import Examples, read_examples
from ssvm_dsl.compiler.labels.domains import content_key
from ssvm_dsl.compiler.labels.structures import declared_words, joined_words
from ssvm_dsl.compiler.layout import Layout
from ssvm_dsl.compiler.scopes import Scopes, ground_scopes
from ssvm_dsl.ir.bounded_cache import BoundedCache
from ssvm_dsl.ir.constraints import ConstraintGroup
from ssvm_dsl.ir.features import NODE, Block, FeatureMap, ObservedPairs, pool_features
from ssvm_dsl.ir.program import Program
from ssvm_dsl.ir.ragged import pointers
from ssvm_dsl.lang.declaration import Declaration
from ssvm_dsl.lang.inputs import Attributes, ExampleInput, Input
from ssvm_dsl.lang.outputs.labels import Target
from ssvm_dsl.scores.constants import Constants
from ssvm_dsl.scores.parameter_map import ParameterMap

#: What a model keeps at most: shapes, and bytes of all of them with what is prepared for them.
MOST, BYTES = 1024, 64_000_000

#: Widths of features of one shape, and programs of these that differ in their masks.
WIDTHS, MASKS = 8, 8

#: Targets of one shape whose scopes are kept.
SCOPES = 64

#: Bytes of a shape, or of its maps for some widths, beside arrays: Python objects.
OBJECTS = 20_000

#: Arrays of a shape are worked out into so many: tables, orders, pointers, a backend's own form.
COPIES = 4

#: Examples beyond which reading them all is as quick as looking their shapes up.
FEW = 8


class PreparedShape:
    """What a model needs for examples of one shape.

    Parameters
    ----------
    shapes : ShapeCache
        Those that the model has met.
    key : hashable
        What the shape is.
    layout : Layout

    Attributes
    ----------
    small : set of bool
        Whether grounding without (False) and with labels (True) is known to take little memory, whatever the numbers of
        other examples are.
    factors, constraints, role
        What :meth:`ground` makes.
    """

    factors: list[PlacedFactors]
    constraints: tuple[ConstraintGroup, ...]
    role: I8 | None

    def __init__(self, shapes: ShapeCache, key: Hashable, layout: Layout) -> None:
        self.declaration, self.shapes, self.key, self.layout = shapes.declaration, shapes, key, layout
        self.small: set[bool] = set()
        self.is_grounded, self.n_bytes = False, float(OBJECTS + sum(sizes.nbytes for sizes in layout.sizes.values()))
        self._lock = Lock()
        self._scopes: dict[int, tuple[Target, Scopes]] = {}
        self._weighted: dict[Hashable, Weighted] = {}

    def ground(self, examples: Examples) -> None:
        """Ground factors and constraints on examples of the shape, where that has not been done."""
        with self._lock:
            if self.is_grounded:
                return
            self.factors = place_factors(self.declaration, self.layout, examples)
            self.constraints = lower_constraints(self.declaration, self.layout, examples)
            self.role = roles(self.layout)
            self._scopes = {id(one.term.target): (one.term.target, one.scopes) for one in self.factors}
            self.is_grounded = True
        if not self.shapes.charge(self, COPIES * sum(one.nbytes for one in self._arrays())):
            self.shapes.drop(self)

    def _arrays(self) -> Iterator[NDArray[Any]]:
        """Yield the arrays that the size follows from."""
        yield from (self.layout.var_ptr, self.layout.card, self.layout.card)
        for one in self.factors:
            shapes = one.part.scopes.shapes
            yield from (shapes.of, shapes.scope, shapes.first, one.part.scopes.number, shapes.first)
        for group in self.constraints:
            yield from group.arrays()

    def scopes(self, target: Target, examples: Examples) -> Scopes:
        """Return the scopes of a target over examples of the shape."""
        known = self._scopes.get(id(target))
        if known is None:
            if len(self._scopes) >= SCOPES:  # targets that were made for one question
                self._scopes = {id(one.term.target): (one.term.target, one.scopes) for one in self.factors}
            known = self._scopes[id(target)] = target, ground_scopes(target, self.layout, examples)
        return known[1]

    def parameters(
        self, encoder: Encoder, seen: I32 | None = None, truth: I32 | None = None, clamp: I64 | None = None,
        ignored: Bools | None = None,
    ) -> tuple[ParameterMap, PreparedProgram | None]:  # fmt: skip
        """Return the parameter map of examples of the shape, and what is kept of its program.

        Parameters
        ----------
        encoder : Encoder
            Of the examples.
        seen : ndarray of int32, shape (V,), optional
            True states, negative if unknown, that observed pairs are learnt from.
        truth : ndarray of int32, shape (V,), optional
            The same, where rules are held against them.
        clamp : ndarray of int64, optional
            States, counted over all variables, that given labels rule out.
        ignored : ndarray of bool, shape (V,), optional
            Variables that are left out, with their factors; nothing is kept then.
        """
        if not self.is_grounded:
            self.ground(encoder.examples)
        placed = self.factors if ignored is None else [one.without(ignored, self.layout) for one in self.factors]
        features, pairs, widths = features_of(placed, encoder, seen)
        weighted = self._weighted.get(widths) if ignored is None else None
        if weighted is None:
            weighted = Weighted(self, ground_factors(placed, encoder, features, pairs))
            if ignored is None:
                if len(self._weighted) >= WIDTHS:
                    self._weighted.clear()
                self._weighted[widths] = weighted
        maps = weighted.with_features(features, pairs)
        if weighted.free is not None and clamp is None and (truth is None or not self.shapes.has_rules):
            return weighted.free.parameters.refilled(maps, weighted.constants), weighted.free

        scopes_of = partial(self.scopes, examples=encoder.examples)
        of_factors = list(weighted.groups), dict(weighted.shared)
        grounded = ground_constants(self.layout, encoder, scopes_of, *of_factors, ignored, truth, clamp)
        allowed, constants = grounded.allowed, grounded.constants(len(weighted.groups))
        if ignored is not None:
            resting = ignored & ~free_variables(self.constraints, self.layout) if self.constraints else ignored
            allowed = _allowed(self.layout, resting, allowed)
        kept = weighted.program_of(allowed)
        if kept is None or ignored is not None:
            program = Program(
                self.layout.var_ptr, self.layout.card, tuple(grounded.groups), self.constraints, weighted.blocks,
                allowed, self.role,
            )  # fmt: skip
            made = ParameterMap(program, tuple(maps), weighted.blocks, constants, *self.shapes.words)
            if ignored is not None:
                return made, None
            kept = weighted.keep(made)
        if clamp is None and not self.shapes.varies:
            weighted.constants, weighted.free = constants, kept
        return kept.parameters.refilled(maps, constants), kept


def _has_rules(declaration: Declaration) -> bool:
    """Whether anything rules labellings out, or scores them without weights."""
    said = (declaration.rules, declaration.circuits, declaration.formulas, declaration.rules_of_kinds)
    masked = any(label.allowed is not None for label in declaration.labels)
    return masked or declaration.compact or bool(declaration.given) or any(map(bool, said))


def _varies(declaration: Declaration) -> bool:
    """Whether masks or given scores come with the examples."""
    masked = any(label.allowed is not None for label in declaration.labels)
    computed = any(rule.ref is not None for rule in declaration.rules)
    return masked or computed or any(given.features is not None for given in declaration.given)


def _signs_matter(fmap: FeatureMap) -> bool:
    """Whether properties of the tables depend on features: where weights cannot be negative, or features are joint."""
    return fmap.group != NODE and fmap.features is not None and (fmap.joint or fmap.block.lower_bound >= 0.0)


def _allowed(layout: Layout, ignored: Bools, left: Bools | None) -> Bools:
    """Return the mask of states that are left: ignored variables rest in state 0 (those of constraints are free)."""
    allowed = np.repeat(~ignored, layout.card)
    if left is not None:
        allowed &= left
    allowed[pointers(layout.card)[:-1][ignored]] = True
    return allowed


class Weighted:
    """The maps of a shape for some widths of features, and the programs that differ in their masks.

    Parameters
    ----------
    prepared : PreparedShape
    factors : GroundedFactors
        The factor templates, with features of these widths.

    Attributes
    ----------
    maps : list of FeatureMap
        Without features.
    free : PreparedProgram, optional
        The program, and ``constants`` the scores without weights, where these follow from the shape alone.
    """

    def __init__(self, prepared: PreparedShape, factors: GroundedFactors) -> None:
        self.prepared, self.groups, self.shared = prepared, factors.groups, factors.shared
        self.blocks = prepared.shapes.met_blocks(factors.blocks)
        self.maps = [one.with_features(None) for one in factors.maps]
        for one in self.maps:
            one.share_places()
        self._settled = not prepared.shapes.varies and not any(map(_signs_matter, factors.maps))
        self._pools = sum(isinstance(one.features, np.ndarray) for one in factors.maps) > 1
        self._programs: dict[bytes | None, PreparedProgram] = {}
        self.free: PreparedProgram | None = None
        self.constants: Constants | None = None

    def with_features(self, features: Sequence[Features], pairs: Mapping[int, ObservedPairs]) -> list[FeatureMap]:
        """Return the maps with features, and with the pairs that have weights, by place.

        Dense features are moved into one array, so that compiled kernels reach them all.
        """
        maps: list[FeatureMap] = []
        for bare, rows in zip(self.maps, features, strict=True):
            maps.append(bare if rows is None else bare.with_features(rows, pairs.get(len(maps))))
        return pool_features(maps) if self._pools else maps

    def program_of(self, allowed: Bools | None) -> PreparedProgram | None:
        """Return what is kept of the program with a mask; ``None`` where it was not met."""
        return self._programs.get(None if allowed is None else np.packbits(allowed).tobytes())

    def keep(self, parameters: ParameterMap) -> PreparedProgram:
        """Keep the program of a parameter map that was made now."""
        allowed = parameters.program.allowed
        if len(self._programs) >= MASKS:
            self._programs.clear()
        kept = PreparedProgram(parameters.refilled(self.maps, None), self._settled, self)
        self._programs[None if allowed is None else np.packbits(allowed).tobytes()] = kept
        return kept


@dataclass(eq=False)
class PreparedProgram:
    """The program of a shape with some mask, and what was prepared for it.

    Parameters
    ----------
    parameters : ParameterMap
        Of the program, without features.
    settled : bool
        Whether all that is asked of a backend follows from the shape: signs of features and given tables can decide
        it, too.
    weighted : Weighted
        The program is one of its.
    opened : dict
        Plans and sessions that inference keeps, by its keys.
    """

    parameters: ParameterMap
    settled: bool
    weighted: Weighted
    opened: dict[Hashable, Any] = field(default_factory=dict)

    def reserve(self, n_bytes: float) -> bool:
        """Count the bytes of an entry of ``opened``; return whether it fits."""
        prepared = self.weighted.prepared
        return prepared.shapes.charge(prepared, n_bytes)

    def masked(self, parameters: ParameterMap) -> PreparedProgram:
        """Return what is kept of the same program with another mask, that of these parameters."""
        kept = self.weighted.program_of(parameters.program.allowed)
        return self.weighted.keep(parameters) if kept is None else kept


class ShapeCache:
    """The shapes that a model has met, those met last; safe to use from several threads.

    What :func:`~ssvm_dsl.compiler.inputs.read_examples` refuses of dense inputs follows from the names, kinds
    and shapes of the arrays, of attributes from the lengths of lists; so do the sizes of axes.  For a few examples of
    arrays and lists that were met before, looking these up is all that is left of validation.  The numbers and the
    attributes themselves are checked where they are stacked.

    Parameters
    ----------
    declaration : Declaration
    """

    def __init__(self, declaration: Declaration) -> None:
        self._blocks = dict[tuple[Block, ...], tuple[Block, ...]]()
        self.declaration, self.n_bytes = declaration, 0.0
        self.words = declared_words(declaration), joined_words(declaration)
        self.has_rules, self.varies = _has_rules(declaration), _varies(declaration)
        self._lock = Lock()
        self._known: OrderedDict[Hashable, PreparedShape] = OrderedDict()
        self._each: BoundedCache[Hashable, Footprint] = BoundedCache(MOST * OBJECTS)
        self.reads_sparse = any(isinstance(one, Input) and one.sparse for one in declaration.inputs)
        self._read: dict[Hashable, tuple[dict[str, I64], Hashable]] = {}
        self._names: dict[bool, tuple[str, ...] | None] = {}
        for judged in (False, True):
            inputs = declaration.inputs if judged else declaration.scored_inputs
            simple = all(map(_is_simple, inputs)) and not declaration.structural_inputs
            self._names[judged] = tuple([one.name for one in inputs]) if simple else None
        # how deep the lists of attributes are; arrays: 0
        self._depth = {one.name: len(one.dims) if isinstance(one, Attributes) else 0 for one in declaration.inputs}

    def __len__(self) -> int:
        return len(self._known)

    def read(
        self, X: object, judged: bool, fitted: LearntFeatures | None
    ) -> tuple[Examples, PreparedShape]:
        """Return checked examples, and what a model needs for their shape.

        Parameters
        ----------
        X : list of examples
            As users pass them.
        judged : bool
            Whether inputs that only the loss reads are there as well.
        fitted : LearntFeatures, optional
            What a fit has learnt: the columns of data frames, among others.

        Raises
        ------
        DataError
            Names the input, the example, the expected value and the given one.
        """
        quick, raw = self._quick_key(X, judged)
        met = None if quick is None else self._read.get(quick)
        if met is not None:
            sizes, key = met
            examples = Examples(len(X), sizes, raw)  # type: ignore[arg-type]
        else:
            examples = read_examples(self.declaration, X, judged, fitted if isinstance(fitted, Mapping) else {})
            sizes, key = examples.sizes, self.key(examples)
            if quick is not None:
                if len(self._read) >= MOST:
                    self._read.clear()
                self._read[quick] = sizes, key
        return examples, self._find(key, examples)

    def of(self, examples: Examples) -> PreparedShape:
        """Return what a model needs for the shape of some examples, of whose inputs the structural ones are read."""
        prepared = self._find(self.key(examples), examples)
        prepared.ground(examples)
        return prepared

    def _find(self, key: Hashable, examples: Examples) -> PreparedShape:
        """Return what is known of a shape; the number of variables alone where it was not met."""
        with self._lock:
            prepared = self._known.get(key)
            if prepared is not None:
                self._known.move_to_end(key)
                return prepared
        prepared = PreparedShape(self, key, Layout.of(self.declaration, examples))
        with self._lock:
            if key not in self._known and prepared.n_bytes <= BYTES / 4:
                self._known[key], self.n_bytes = prepared, self.n_bytes + prepared.n_bytes
                self._make_room()
            return self._known.get(key, prepared)

    def _quick_key(self, X: object, judged: bool) -> tuple[Hashable | None, dict[str, list[Any]]]:
        """Return (what the checks look at, values by input); ``None`` where they look at more, as of lists or edges."""
        names, values = self._names[judged], dict[str, list[Any]]()
        if names is None or type(X) is not list or not 0 < len(X) <= FEW:
            return None, values
        key: list[Hashable] = [judged]
        for one in X:
            if type(one) is dict:
                key.append(tuple(one))
            for name in names:
                value = one.get(name) if type(one) is dict else one
                if not self._depth[name] and type(value) is np.ndarray:
                    key += value.dtype, value.shape
                elif self._depth[name] == 1 and type(value) is list:
                    key += list, len(value)
                elif self._depth[name] == 2 and type(value) is list and all(type(row) is list for row in value):
                    key += (list, *map(len, value))
                else:
                    return None, values
                values.setdefault(name, []).append(value)
        return tuple(key), values

    def key(self, examples: Examples) -> Hashable:
        """Return the key of a shape: equal keys have equal structures."""
        key: list[Hashable] = [examples.n]
        for name, sizes in sorted(examples.sizes.items()):
            key += name, sizes.tobytes()
        for name in self.declaration.structural_inputs:
            if name in examples.raw:
                key += name, _digest(examples.raw[name])
        return tuple(key)

    def drop(self, prepared: PreparedShape) -> None:
        """Keep a shape that is too large no longer."""
        with self._lock:
            if self._known.get(prepared.key) is prepared:
                self.n_bytes -= self._known.pop(prepared.key).n_bytes

    def charge(self, prepared: PreparedShape, n_bytes: float) -> bool:
        """Count what is prepared for a shape; return whether it may be kept."""
        with self._lock:
            if prepared.n_bytes + n_bytes > BYTES / 4:
                return False
            prepared.n_bytes += n_bytes
            if self._known.get(prepared.key) is prepared:
                self.n_bytes += n_bytes
                self._make_room()
            return True

    def met_blocks(self, blocks: tuple[Block, ...]) -> tuple[Block, ...]:
        """Return blocks of weights: equal ones are one object, which is quick to compare."""
        if len(self._blocks) >= MOST:
            self._blocks.clear()
        return self._blocks.setdefault(blocks, blocks)

    def _make_room(self) -> None:
        while len(self._known) > MOST or self.n_bytes > BYTES:
            self.n_bytes -= self._known.popitem(last=False)[1].n_bytes

    def needed_at_most(self, examples: Examples, judged: bool) -> float:
        """Return the bytes that grounding takes at most: for each example those of one that is the largest in all axes.

        ``inf`` where rows of features differ in size, or what inputs hold decides what there is.
        """
        declaration = self.declaration
        if declaration.reads_content or self.reads_sparse:
            return np.inf
        largest = {name: int(sizes.max(initial=0)) for name, sizes in examples.sizes.items()}
        key = judged, *largest.values()
        each = self._each.get(key)
        if each is None:
            sizes = {name: np.array([size], dtype=np.int64) for name, size in largest.items()}
            one = Examples(1, sizes, {name: given[:1] for name, given in examples.raw.items()})
            each = footprint(declaration, one, Layout.of(declaration, one), judged, with_attributes=False)
            self._each.put(key, each, OBJECTS)
        return examples.n * max(each.peak, each.kept + each.scores) + each.weights


def _digest(values: Sequence[Any]) -> bytes:
    """Return a digest of what an input holds: lists of edges would take as much memory as what is laid over them."""
    content = blake2b(digest_size=32)
    for key in map(content_key, values):
        for part in key:
            text = part if isinstance(part, bytes) else repr(part).encode()
            content.update(b"%d:" % len(text))
            content.update(text)
    return content.digest()


def _is_simple(symbol: ExampleInput) -> bool:
    """Whether all that is checked of an input is the shape of an array, or the lengths of lists of attributes."""
    if isinstance(symbol, Attributes):
        return len(symbol.dims) > 0  # the attributes of the only position look like an example with names of inputs
    return isinstance(symbol, Input) and not symbol.sparse


class StructureCache:
    """Holds nothing: older pickles of estimators name it, whose models keep what shapes need now."""
