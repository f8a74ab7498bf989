"""``Structure``: what follows from the shapes of a batch, kept so that a batch of the same shapes does not repeat it.

Scopes, groups, hard constraints, the numbering of the variables, and whatever inference prepares for them follow from
the sizes of the axes, and from what edges and numbers of constraints that come with the examples hold: these are the
key.  Features, masks, given scores and clamps belong to the call.  Masks decide what backends prepare, so that a
structure has a program for each of those that it has met.

A cache belongs to one estimator: what its features learnt decides how wide the weights are.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from threading import Lock
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ssvm_dsl.array_types import F64, I32, I64
from ssvm_dsl.compiler.constants import ground_constants
from ssvm_dsl.compiler.feature_maps import GroundedFactors, feature_rows, part_features
from ssvm_dsl.compiler.features.encode import Encoder, Fitted
from ssvm_dsl.compiler.footprint import Footprint, footprint
from ssvm_dsl.compiler.inputs.met_shapes import MetShapes
from ssvm_dsl.compiler.inputs.validate import Examples, read_examples, stack_dense
from ssvm_dsl.compiler.labels.domains import content_key
from ssvm_dsl.compiler.layout import Layout
from ssvm_dsl.compiler.scopes import Scopes, ground_scopes
from ssvm_dsl.ir.bounded_cache import BoundedCache
from ssvm_dsl.ir.features import NODE, Block, FeatureMap, SlicedRows, SparseRows
from ssvm_dsl.lang.declaration import Declaration
from ssvm_dsl.lang.factors import Factor
from ssvm_dsl.lang.inputs import At, Attributes, Input
from ssvm_dsl.lang.outputs.labels import Target
from ssvm_dsl.lang.patterns.pattern import Pattern
from ssvm_dsl.memory import SMALL
from ssvm_dsl.scores.constants import Constants
from ssvm_dsl.scores.parameter_map import ParameterMap

Features = F64 | SparseRows | SlicedRows

#: What a cache holds at most: structures, and bytes of all of them with what is prepared for them.
MOST, BYTES = 1024, 64_000_000

#: Programs of one structure that differ in their masks.
MASKS = 8

#: Bytes of a structure beside its arrays: Python objects.
OBJECTS = 20_000

#: Arrays of a structure are worked out into so many: orders, pointers, a backend's own form.
COPIES = 4


@dataclass(eq=False)
class KeptProgram:
    """A program that is kept, and what was prepared for it.

    Parameters
    ----------
    parameters : ParameterMap
        Of the program, without features.
    settled : bool
        Whether all that is asked of a backend follows from the structure: signs of features and given tables can
        decide it, too.
    structure : Structure
        The program is one of its.
    opened : dict
        Data kept by inference, by its keys.
    """

    parameters: ParameterMap
    settled: bool
    structure: Structure
    opened: dict[Hashable, Any] = field(default_factory=dict)

    def reserve(self, n_bytes: float) -> bool:
        """Count the bytes of an entry of ``opened``; return whether it fits."""
        cache = self.structure.cache
        return cache is not None and cache.charge(self.structure, n_bytes)


class Structure:
    """What follows from the shapes of a batch.

    Parameters
    ----------
    declaration : Declaration
    layout : Layout
    factors : GroundedFactors
        The factor templates.
    parameters : ParameterMap
        The map of the first batch.
    needed : float
        Bytes that grounding takes.
    """

    def __init__(
        self, declaration: Declaration, layout: Layout, factors: GroundedFactors, parameters: ParameterMap,
        needed: float,
    ) -> None:  # fmt: skip
        self.layout, self.needed = layout, needed
        self.cache: StructureCache | None = None
        sparse = any(isinstance(one, Input) and one.sparse for one in declaration.inputs)
        self.as_small = needed < SMALL and not sparse  # whatever the numbers of other examples are
        self._declaration = declaration
        listed = zip(factors.factors, factors.scopes, factors.parts, strict=True)
        plain = [None if part.varies else _plain_input(factor, one) for factor, one, part in listed]
        self._maps = [one.with_features(None) for one in parameters.maps]
        for one in self._maps:
            one.share_places()
        shapes = [None if one.features is None else one.features.shape for one in parameters.maps]
        self._parts = list(
            zip(factors.factors, plain, self._maps, shapes, factors.scopes, factors.parts, strict=True)
        )
        self._groups, self._shared = factors.groups, factors.shared
        self._same_constants = not _varies(declaration)
        self._settled = self._same_constants and not any(map(_signs_matter, parameters.maps))
        self._scopes: dict[Target, Scopes] = {}
        self._constants: Constants | None = None
        self._unmasked: KeptProgram | None = None  # by what comes with examples, where nothing can come
        self._programs: dict[bytes | None, KeptProgram] = {}
        self._first = self.program_of(parameters)
        self.n_bytes = float(OBJECTS) + COPIES * sum(one.nbytes for one in _arrays(parameters))

    def parameters(
        self, examples: Examples, encoder: Encoder, truth: I32 | None, clamp: I64 | None
    ) -> tuple[ParameterMap, KeptProgram] | None:
        """Return the parameter map of other examples of the same shapes, and its program with what is kept of it.

        ``None`` where features have other rows than the shapes say: the examples are grounded as if nothing was known.

        Parameters
        ----------
        examples : Examples
        encoder : Encoder
            Of these examples.
        truth : ndarray of int32, shape (V,), optional
            True states that rules are held against.
        clamp : ndarray of int64, optional
            States, counted over all variables, that given labels rule out.
        """
        maps = self._filled(encoder)
        if maps is None:
            return None
        free = truth is None and clamp is None
        if free and self._unmasked is not None:
            return self._unmasked.parameters.refilled(maps, self._constants), self._unmasked

        def scopes_of(target: Target) -> Scopes:
            if isinstance(target, Pattern):  # the layout keeps them
                return ground_scopes(target, self.layout, examples)
            if target not in self._scopes:
                self._scopes[target] = ground_scopes(target, self.layout, examples)
            return self._scopes[target]

        grounded = ground_constants(
            self._declaration, self.layout, examples, encoder, None, scopes_of, list(self._groups), dict(self._shared),
            truth, clamp,
        )  # fmt: skip
        constants = grounded.constants(len(self._groups))
        first = self._first.parameters
        program = replace(first.program, groups=tuple(grounded.groups), allowed=grounded.allowed)
        kept = self.program_of(replace(first, program=program, constants=constants))
        if free and self._same_constants:
            self._constants, self._unmasked = constants, kept
        return kept.parameters.refilled(maps, constants), kept

    def _filled(self, encoder: Encoder) -> list[FeatureMap] | None:
        """Return the feature maps with the rows of other examples; ``None`` where their numbers differ."""
        maps, stacked, examples = [], dict[str, F64 | SparseRows](), encoder.examples
        for factor, plain, fmap, shape, scopes, part in self._parts:
            if shape is None:
                maps.append(fmap)
                continue
            values: Features | None
            if plain is None:
                rows = feature_rows(factor, encoder, scopes)
                values = part_features(factor, part, rows)
            else:
                values = stacked.get(plain.name)
                if values is None:
                    if isinstance(plain, Attributes):
                        values = encoder.attributes(plain)
                    else:
                        values = stack_dense(plain, examples.raw[plain.name], examples.size(plain.dims))
                    stacked[plain.name] = values
            if values is None or values.shape != shape:
                return None
            maps.append(fmap.with_features(values))
        return maps

    def program_of(self, parameters: ParameterMap) -> KeptProgram:
        """Return the cached data of a program: of the first one with the same mask."""
        allowed = parameters.program.allowed
        key = None if allowed is None else np.packbits(allowed).tobytes()
        kept = self._programs.get(key)
        if kept is None:
            if len(self._programs) >= MASKS:
                self._programs.clear()
            bare = replace(parameters, maps=tuple(self._maps), constants=None)
            bare.__dict__["_bare"] = parameters._bare
            kept = self._programs[key] = KeptProgram(bare, self._settled, self)
        return kept


def _plain_input(factor: Factor, scopes: Scopes) -> Input | Attributes | None:
    """Return the dense input whose numbers, or the attributes which, are the features of a factor, if they are."""
    source = factor.features
    if isinstance(source, At) and source.column is None and scopes.rows(source.places, source.source.dims)[1] is None:
        source = source.source
    plain = isinstance(source, Attributes) or (isinstance(source, Input) and not source.sparse)
    return source if plain and not factor.agreements else None  # type: ignore[return-value]


def _varies(declaration: Declaration) -> bool:
    """Whether masks or given scores come with the examples."""
    masked = any(label.allowed is not None for label in declaration.labels)
    computed = any(rule.ref is not None for rule in declaration.rules)
    return masked or computed or any(given.features is not None for given in declaration.given)


def _signs_matter(fmap: FeatureMap) -> bool:
    """Whether properties of the tables depend on features: where weights cannot be negative, or features are joint."""
    return fmap.group != NODE and fmap.features is not None and (fmap.joint or fmap.block.lower_bound >= 0.0)


def _arrays(parameters: ParameterMap) -> Iterator[NDArray[Any]]:
    """Yield the arrays of a structure."""
    program = parameters.program
    yield from (program.var_ptr, program.card, program.state_ptr)
    if program.allowed is not None:
        yield program.allowed
    for fmap in parameters.maps:
        yield from (fmap.shapes.of, fmap.shapes.scope, fmap.shapes.first)
        if fmap.rows is not None:
            yield fmap.rows
    for factors in program.groups:
        yield from (factors.shapes.scope, factors.rows, factors.table_base)
    for group in program.constraints:
        yield from group.arrays()


class StructureCache:
    """The structures that an estimator has met, those met last; safe to use from several threads.

    Copies and pickles of it are empty.
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self._known: OrderedDict[Hashable, Structure] = OrderedDict()
        self.n_bytes = 0.0
        self._declaration: Declaration | None = None
        self._fitted: Fitted | None = None
        self._met: MetShapes | None = None
        self._each: BoundedCache[Hashable, Footprint] = BoundedCache(MOST * OBJECTS)
        self._equal: tuple[object, object] = None, None

    def __reduce__(self) -> tuple[type[StructureCache], tuple[()]]:
        return StructureCache, ()

    def __len__(self) -> int:
        return len(self._known)

    def of(self, declaration: Declaration, fitted: Fitted) -> StructureCache:
        """Return the cache for a model and its fitted features; entries of others are dropped."""
        with self._lock:
            same = self._fitted is fitted or (self._fitted == {} and not fitted)
            if self._declaration is not declaration or not same:
                self._known.clear()
                self._each.clear()
                self._declaration, self._fitted, self.n_bytes = declaration, fitted, 0.0
                self._met = MetShapes(declaration)
        return self

    def read(
        self, declaration: Declaration, X: object, judged: bool, columns: Mapping[str, list[str]]
    ) -> tuple[Examples, Hashable]:
        """Return (checked examples, key of their structure); shapes met before are not checked again.

        ``columns`` are those of data frames, by the name of the input.
        """
        met = self._met
        read = None if met is None or met.declaration is not declaration else met.find(X, judged)
        if read is None:
            examples = read_examples(declaration, X, judged, columns)
            read = examples, structure_key(declaration, examples, judged)
            if met is not None and met.declaration is declaration:
                met.note(X, judged, *read)
        return read

    def again(self, declaration: Declaration, X: object, fitted: Fitted) -> tuple[Examples, Structure] | None:
        """Return (examples, structure) of unlabelled examples that need no check but those of their features.

        ``None`` unless a structure that takes little memory is kept of shapes that were met with the same model.
        """
        if self._declaration is not declaration or self._fitted is not fitted:
            return None
        met = None if self._met is None else self._met.find(X, False)
        known = None if met is None else self.find(met[1])
        return (met[0], known) if met is not None and known is not None and known.as_small else None

    def same_blocks(self, blocks: tuple[Block, ...], fitted: tuple[Block, ...]) -> bool:
        """Return whether the weights of a structure have the blocks that were fitted; both are compared once."""
        if self._equal[0] is blocks and self._equal[1] is fitted:
            return True
        same = blocks == fitted
        if same:
            self._equal = blocks, fitted
        return same

    def learns_nothing(self, declaration: Declaration) -> bool:
        """Whether features of a model are known to learn nothing from examples."""
        with self._lock:
            return self._declaration is declaration and self._fitted == {}

    def needed_at_most(self, declaration: Declaration, examples: Examples, judged: bool) -> float:
        """Return the bytes that grounding takes at most: for each example those of one that is the largest in all axes.

        ``inf`` where rows of features differ in size, or what inputs hold decides what there is.
        """
        if declaration.reads_content or any(isinstance(one, Input) and one.sparse for one in declaration.inputs):
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

    def find(self, key: Hashable) -> Structure | None:
        """Return the structure of a key, ``None`` where it is not known."""
        with self._lock:
            structure = self._known.get(key)
            if structure is not None:
                self._known.move_to_end(key)
            return structure

    def keep(self, key: Hashable, structure: Structure, parameters: ParameterMap) -> KeptProgram | None:
        """Keep a structure that was met now; return what is kept of its program, ``None`` where it is too large.

        Those used longest ago are dropped.
        """
        with self._lock:
            if structure.n_bytes > BYTES / 4:
                return None
            structure.cache = self
            replaced = self._known.pop(key, None)
            self.n_bytes += structure.n_bytes - (0.0 if replaced is None else replaced.n_bytes)
            self._known[key] = structure
            self._make_room()
        return structure.program_of(parameters)

    def charge(self, structure: Structure, n_bytes: float) -> bool:
        """Count what is prepared for a structure; return whether it may be kept."""
        with self._lock:
            if structure.n_bytes + n_bytes > BYTES / 4:
                return False
            structure.n_bytes += n_bytes
            if any(one is structure for one in self._known.values()):
                self.n_bytes += n_bytes
                self._make_room()
            return True

    def _make_room(self) -> None:
        while len(self._known) > MOST or self.n_bytes > BYTES:
            self.n_bytes -= self._known.popitem(last=False)[1].n_bytes


def structure_key(declaration: Declaration, examples: Examples, judged: bool) -> Hashable:
    """Return the key of the structure of a batch: equal keys have equal structures.

    Parameters
    ----------
    declaration : Declaration
    examples : Examples
    judged : bool
        Whether labels, and inputs that only the loss reads, are there as well.
    """
    sizes = tuple([one.tobytes() for one in examples.sizes.values()])
    named = declaration.structural_inputs
    content = tuple([_content(examples.raw[name]) for name in named if name in examples.raw]) if named else ()
    return judged, examples.n, sizes, content


def _content(arrays: Sequence[Any]) -> tuple[Hashable, ...]:
    return tuple(map(content_key, arrays))
