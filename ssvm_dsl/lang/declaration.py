"""A model as plain data: named symbols in the order they were written, checked against each other."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations
from math import prod
from typing import TypeVar

from ssvm_dsl.errors import ModelError
from ssvm_dsl.lang.constraints.custom import Custom
from ssvm_dsl.lang.constraints.forbidden import Forbid
from ssvm_dsl.lang.constraints.logic import Constraint
from ssvm_dsl.lang.constraints.pointers import ExactlyOneState, PointerStructure
from ssvm_dsl.lang.constraints.segments import Segmentation
from ssvm_dsl.lang.cost import Cost
from ssvm_dsl.lang.dims import Dim
from ssvm_dsl.lang.factors import Factor, feature_mistakes
from ssvm_dsl.lang.features import SPAN_ENDS, Feature, FunctionRef, JointFeature, walk_sources
from ssvm_dsl.lang.given import Given
from ssvm_dsl.lang.inputs import Attributes, Edges, Input, Source
from ssvm_dsl.lang.losses import Loss, ZeroOne
from ssvm_dsl.lang.outputs.labels import Label, LabelPart, Latent, Target
from ssvm_dsl.lang.symbols import Symbol

S = TypeVar("S", bound=Symbol)


@dataclass(frozen=True)
class Declaration:
    """The plain, immutable, hashable data behind a model class.

    Parameters
    ----------
    name : str
        Name of the model.
    symbols : tuple of Symbol
        Everything declared, in order, each with its name.
    """

    name: str
    symbols: tuple[Symbol, ...]

    def _of(self, kind: type[S]) -> tuple[S, ...]:
        return tuple(symbol for symbol in self.symbols if isinstance(symbol, kind))

    @cached_property
    def dims(self) -> tuple[Dim, ...]:
        """The axes."""
        return self._of(Dim)

    @cached_property
    def inputs(self) -> tuple[Input | Attributes | Edges, ...]:
        """What an example holds: arrays, attributes and edge lists."""
        return tuple(s for s in self.symbols if isinstance(s, Input | Attributes | Edges))

    @cached_property
    def scored_inputs(self) -> tuple[Input | Attributes | Edges, ...]:
        """The inputs without those that only the loss reads, which are not needed to predict."""
        sources = self.sources
        asked = [s.ref.arguments() for s in sources if isinstance(s, Feature | JointFeature)]
        if self.loss is None or None in asked:  # some function takes all inputs
            return self.inputs
        read = {source.name for source in sources}.union(*(names for names in asked if names is not None))
        read |= {given.name for one in self.constraints for given in one.inputs}
        read |= {label.allowed.name for label in self.labels if label.allowed is not None}
        about: tuple[Factor | Given | Forbid, ...] = (*self.factors, *self.given, *self.rules)
        read |= {one.target.edges.name for one in about if one.target.edges is not None}
        read |= {edges.name for one in self.constraints for edges in one.edge_lists}
        judging: tuple[Input | Edges, ...] = (*self.loss.inputs, *self.loss.edge_lists)
        spare = [given for given in judging if given.name not in read]
        told = {id(dim) for given in self.inputs if given not in spare for dim in axes_sized_by(given)}
        laid: tuple[Label | Constraint, ...] = (*self.labels, *self.constraints)
        asked_for = {id(dim) for one in laid for dim in _axes_of(one)} - told
        needless = [one for one in spare if not any(dim.ragged and id(dim) in asked_for for dim in axes_sized_by(one))]
        return tuple(given for given in self.inputs if given not in needless)

    @cached_property
    def labels(self) -> tuple[Label, ...]:
        """All variables; labels of several parts are several of them, auxiliary ones of factors come last."""
        auxiliary = (one for factor in self.factors for one in factor.agreements)
        return (*self.own_labels, *auxiliary)

    @cached_property
    def own_labels(self) -> tuple[Label, ...]:
        """The variables without auxiliary ones of factors: labels, and what else belongs to them (``Label.parts``)."""
        return tuple(part for label in self._of(Label) for part in (label, *label.parts))

    @cached_property
    def fixed_dims(self) -> tuple[Dim, ...]:
        """The axes of fixed size, those of parts of labels included."""
        axes = (*self.dims, *(dim for label in self.own_labels for dim in label.dims))
        return tuple({dim.name: dim for dim in axes if dim.size is not None}.values())

    @cached_property
    def outputs(self) -> tuple[Label, ...]:
        """The labels as users know them: what there is in Y, and what predictions show."""
        return tuple(label for label in self._of(Label) if not isinstance(label, Latent))

    @cached_property
    def latents(self) -> tuple[Latent, ...]:
        """The variables that are never observed."""
        return self._of(Latent)

    @cached_property
    def factors(self) -> tuple[Factor, ...]:
        """The factor templates."""
        return self._of(Factor)

    @cached_property
    def constraints(self) -> tuple[Constraint, ...]:
        """The hard constraints, one for each pointer label without a declared structure, one for labels of segments."""
        declared = self._of(Constraint)
        shaped = {id(one.pointers) for one in declared if isinstance(one, PointerStructure)}
        bare = (label for label in self.outputs if label.pointer and id(label) not in shaped)
        segmented = (label for label in self.outputs if label.segments is not None)
        return (*declared, *map(ExactlyOneState, bare), *map(Segmentation, segmented))

    @cached_property
    def given(self) -> tuple[Given, ...]:
        """The scores without weights."""
        return self._of(Given)

    @cached_property
    def rules(self) -> tuple[Forbid, ...]:
        """What is said to be ruled out."""
        return self._of(Forbid)

    @cached_property
    def sources(self) -> tuple[Source, ...]:
        """The inputs and features that scores are computed from, and what these are computed from."""
        scored: tuple[Factor | Given, ...] = (*self.factors, *self.given)
        return tuple(source for one in scored for source in walk_sources(one.features))

    @property
    def targets(self) -> Iterator[Target]:
        """The targets of everything that is declared."""
        about: tuple[Factor | Given | Forbid, ...] = (*self.factors, *self.given, *self.rules)
        yield from (one.target for one in about)
        yield from (literal.target for one in self.constraints for literal in one.literals)
        yield from (term.target for loss in self._of(Loss) for _, term in loss.terms if isinstance(term, Cost))

    def apart(self, edges: Edges) -> list[tuple[int, int]]:
        """Return the pairs of ends of an edge that are different positions: those of one label, if not all of them."""
        pairs = list(combinations(range(edges.arity), 2))
        if not edges.several:
            return pairs
        members = [target.members for target in self.targets if target.edges is not None and target.edges == edges]
        return [(a, b) for a, b in pairs if any(labels[a] is labels[b] for labels in members)]

    @cached_property
    def loss(self) -> Loss | None:
        """The loss, if one is declared."""
        found = self._of(Loss)
        return found[0] if found else None

    def find(self, name: str) -> Symbol | None:
        """Return the symbol of that name, ``None`` when there is none."""
        return next((symbol for symbol in self.symbols if symbol.name == name), None)

    @cached_property
    def fitted(self) -> bool:
        """Whether some feature (or which weights there are) is learnt from the training data."""
        from ssvm_dsl.lang.features import PLiF, Standardized, Whitened
        from ssvm_dsl.lang.kernel_features import KernelMap

        learns = (Attributes, Standardized, Whitened, KernelMap)
        learnt = any(isinstance(s, learns) or (isinstance(s, PLiF) and not s.knots) for s in self.sources)
        return learnt or any(factor.observed for factor in self.factors)

    @cached_property
    def functions(self) -> tuple[FunctionRef, ...]:
        """The user functions the model calls."""
        refs = tuple(s.ref for s in self.sources if isinstance(s, Feature | JointFeature))
        refs += tuple(one.ref for one in self.constraints if isinstance(one, Custom))
        return refs if self.loss is None else refs + self.loss.functions

    def n_weights(self) -> int | None:
        """Return the number of weights; ``None`` when it is only known after fitting."""
        total = 0
        for factor in self.factors:
            if factor.tie is None:
                width = 1 if factor.features is None else factor.features.width
                if width is None or factor.observed:
                    return None
                shape = factor.weight_shape(width)
                total += prod(size for size in shape if size is not None)
        return total


def declare(name: str, symbols: tuple[Symbol, ...], strays: tuple[tuple[str, Target], ...] = ()) -> Declaration:
    """Check symbols against each other and return the declaration.

    Parameters
    ----------
    name : str
        Name of the model.
    symbols : tuple of Symbol
        Named symbols in order.
    strays : tuple of (name, Target)
        Targets that were assigned to names; one that no factor uses is a mistake (a forgotten ``Factor``).

    Raises
    ------
    ModelError
        Every mistake found, each with its line.
    """
    declaration = Declaration(name, symbols)
    found = list(_own_mistakes(declaration))
    all_sound = not found
    # A symbol with mistakes of its own holds stand-ins; what they would cause is not reported.
    sound = [symbol for symbol in symbols if not any(node.mistakes for node in _nodes(symbol))]
    strange = list(_reference_mistakes(declaration, sound))
    found += [*strange, *_loss_mistakes(declaration)]
    own = [symbol for symbol in sound if not _refers_to_strangers(declaration, symbol)]
    found += _feature_mistakes(declaration, own)
    if all_sound and not strange:
        found += [*_axis_mistakes(declaration), *_tie_mistakes(declaration)]
    found += [*_stray_mistakes(declaration, strays), *_pointer_mistakes(declaration)]
    if found:
        raise ModelError(name, found)
    return declaration


def _pointer_mistakes(declaration: Declaration) -> Iterator[tuple[str, str]]:
    """Yield second structures of the same pointers, and inputs of pairs of positions that no pointers are between."""
    between = {tuple(map(id, label.dims)) for label in declaration.outputs if label.pointer}
    for given in declaration._of(Input):
        paired = [dim for dim in given.dims if dim.origin is not dim]
        if paired and not any((id(dim.origin), id(dim)) in between for dim in paired):
            text = "the same Dim is used twice; make a second Dim(), or a pointer label: Label(T, over=T)"
            yield given.where, f"{given.name}: Input: {text}"
    seen: dict[int, str] = {}
    for one in declaration._of(PointerStructure):
        first = seen.setdefault(id(one.pointers), one.name)
        if first != one.name:
            yield one.where, f"{one.name}: {one.pointers.name} is a {first} already; pointers have one structure"


def _nodes(symbol: Symbol) -> tuple[Symbol, ...]:
    """Return a symbol and the features it is computed from."""
    if isinstance(symbol, Factor | Given):
        return (symbol, *walk_sources(symbol.features))
    return tuple(walk_sources(symbol)) if isinstance(symbol, Source) else (symbol,)


def _own_mistakes(declaration: Declaration) -> Iterator[tuple[str, str]]:
    """Yield what the constructors noticed, each once."""
    seen: set[int] = set()
    for symbol in declaration.symbols:
        for node in _nodes(symbol):
            if id(node) not in seen:
                seen.add(id(node))
                for text in node.mistakes:
                    yield node.where, f"{symbol.name}: {text() if callable(text) else text}"


def _stray_mistakes(declaration: Declaration, strays: tuple[tuple[str, Target], ...]) -> Iterator[tuple[str, str]]:
    used = list(declaration.targets)
    for key, stray in strays:
        if not any(stray is target for target in used):
            for text in stray.mistakes:
                yield stray.where, f"{key}: {text() if callable(text) else text}"
            text = "" if stray.mistakes else f"; write {key} = Factor({stray!r})"
            yield stray.where, f"{key}: a bare pattern has no effect{text}"


def _reference_mistakes(declaration: Declaration, symbols: list[Symbol]) -> Iterator[tuple[str, str]]:
    """Yield references to symbols that are not part of the model."""
    for symbol in symbols:
        for what, part in _strangers(declaration, symbol):
            named = f"'{part.name}'" if part.name else f"an unnamed {type(part).__name__}"
            text = f"{what} {named} is not an attribute of this model; assign it first"
            if isinstance(part, Dim) and not part.name:
                text = f"its axis is a Dim that is no attribute of this model: give it a name there, e.g. T = {part!r}"
            if type(declaration.find(part.name)) is type(part):
                text = f"{what} {named} is the one declared at {part.where}, not this model's own {part.name}"
                text += f"; declare {symbol.name} with this model's"
            yield symbol.where, f"{symbol.name}: {text}"


def _strangers(declaration: Declaration, symbol: Symbol) -> list[tuple[str, Symbol]]:
    """Return (role, symbol) of what a symbol refers to that is not part of the model."""
    known = {id(one) for one in declaration.symbols}
    return [(what, part) for what, part in _parts(symbol) if id(part) not in known]


def _refers_to_strangers(declaration: Declaration, symbol: Symbol) -> bool:
    """Whether a symbol, or a label that it is about, refers to something that is not part of the model."""
    labels = symbol.target.labels if isinstance(symbol, Factor | Given | Forbid) else ()
    labels = symbol.labels if isinstance(symbol, Constraint) else labels
    return any(_strangers(declaration, one) for one in (symbol, *labels))


def _feature_mistakes(declaration: Declaration, symbols: list[Symbol]) -> Iterator[tuple[str, str]]:
    """Yield features that do not fit their target, and function parameters that name no input."""
    inputs = {symbol.name for symbol in declaration.inputs}
    for symbol in symbols:
        if isinstance(symbol, Label) and symbol.allowed is not None:
            yield from ((symbol.where, f"{symbol.name}: {text}") for text in _mask_mistakes(symbol, symbol.allowed))
        if not isinstance(symbol, Factor | Given):
            continue
        for text in feature_mistakes(symbol):
            yield symbol.where, f"{symbol.name}: {text}"
        for source in walk_sources(symbol.features):
            if isinstance(source, Feature | JointFeature):
                asked = set(source.ref.arguments() or ())
                unknown = asked - inputs
                if isinstance(source, Feature) and source.target is not None and source.target.kind == "spans":
                    unknown -= {*SPAN_ENDS}
                    for name in inputs.intersection(SPAN_ENDS):
                        text = "is where spans are; give the input of this name another one"
                        yield source.where, f"{symbol.name}: in a function of spans the parameter '{name}' {text}"
                if unknown:
                    yield (
                        source.where,
                        (
                            f"{symbol.name}: {source.ref.path} asks for {', '.join(sorted(unknown))}; the inputs are "
                            f"{', '.join(sorted(inputs)) or 'none'} (parameters are matched by name)"
                        ),
                    )


def _mask_mistakes(label: Label, mask: Input) -> Iterator[str]:
    """Yield why an input is no mask of a label."""
    same = len(mask.dims) == len(label.dims) and all(a is b for a, b in zip(mask.dims, label.dims, strict=True))
    if mask.sparse or not same or mask.width != label.n_states:
        axes = "".join(f"{dim.name}, " for dim in label.dims)
        yield f"allowed: expected an Input({axes}{label.n_states}), a number for each class, got {mask!r}"


def _declared(label: Label) -> Label:
    """Return the label that was declared: the one that a part of it belongs to."""
    return label.of if isinstance(label, LabelPart) else label


def _parts(symbol: Symbol) -> Iterator[tuple[str, Symbol]]:
    """Yield (role, symbol) for everything a symbol refers to."""
    if isinstance(symbol, Label | Input | Attributes):
        yield from (("the axis", dim.origin) for dim in symbol.dims)
        if isinstance(symbol, Label) and symbol.allowed is not None:
            yield "the input", symbol.allowed
    elif isinstance(symbol, Edges):
        yield from (("the axis", dim) for dim in (symbol.dim, *dict.fromkeys(symbol.ends)))
    elif isinstance(symbol, Constraint):
        yield from (("the label", _declared(label)) for label in symbol.labels)
        yield from (("the input", given) for given in symbol.inputs)
        yield from (("the axis", dim.origin) for dim in symbol.axes)
        yield from (("the edge list", edges) for edges in symbol.edge_lists)
    elif isinstance(symbol, Loss):
        yield from (("the label", label) for label in symbol.labels)
        yield from (("the input", given) for given in symbol.inputs)
        yield from (("the edge list", edges) for edges in symbol.edge_lists)
    elif isinstance(symbol, Factor | Given | Forbid):
        yield from (("the label", _declared(label)) for label in symbol.target.labels)
        if symbol.target.edges is not None:
            yield "the edge list", symbol.target.edges
        if isinstance(symbol, Factor) and symbol.tie is not None:
            yield "the factor", symbol.tie
        for source in () if isinstance(symbol, Forbid) else walk_sources(symbol.features):
            if isinstance(source, Input | Attributes):  # which tells of its own axes
                yield "the input", source
            else:
                yield from (("the axis", dim.origin) for dim in source.dims)


def _axes_of(one: Label | Constraint) -> tuple[Dim, ...]:
    """Return the axes that a label or a constraint is laid over."""
    return one.dims if isinstance(one, Label) else one.axes


def axes_sized_by(given: Input | Attributes | Edges) -> tuple[Dim, ...]:
    """Return the axes whose sizes an input tells."""
    return (given.dim,) if isinstance(given, Edges) else given.dims


def _axis_mistakes(declaration: Declaration) -> Iterator[tuple[str, str]]:
    """Yield ragged axes of labels whose size no input tells."""
    told = {id(dim) for given in declaration.inputs for dim in axes_sized_by(given)}
    if not declaration.inputs:
        return
    for label in declaration.labels:
        for dim in label.dims:
            if dim.ragged and not {id(dim), id(dim.origin)} & told:
                yield (
                    label.where,
                    (
                        f"{label.name}: no input has the ragged axis {dim.name}, so its size is unknown when "
                        f"predicting; give an Input this axis or fix it: {dim.name} = Dim(n)"
                    ),
                )


def _tie_mistakes(declaration: Declaration) -> Iterator[tuple[str, str]]:
    for factor in declaration.factors:
        if factor.tie is None:
            continue
        mine = factor.weight_shape(None if factor.features is None else factor.features.width)
        other = factor.tie
        theirs = other.weight_shape(None if other.features is None else other.features.width)
        if other.tie is not None:
            yield factor.where, f"{factor.name}: tie to {other.tie.name}, which owns the weights of {other.name}"
        elif mine != theirs:
            yield factor.where, f"{factor.name}: its weights {mine} cannot be tied to {other.name} with {theirs}"


def _loss_mistakes(declaration: Declaration) -> Iterator[tuple[str, str]]:
    losses = declaration._of(Loss)
    for extra in losses[1:]:
        yield extra.where, f"{extra.name}: a model has one loss, {losses[0].name} is already one; add them: a + b"
    for factor in declaration.factors:
        hidden = [label.name for label in factor.target.labels if isinstance(label, Latent)]
        if hidden and factor.observed:
            text = f"weights='observed': {hidden[0]} is latent, so that nothing is seen together with it"
            yield factor.where, f"{factor.name}: {text}"
    for loss in losses:
        for label in loss.labels:
            if isinstance(label, Latent):
                yield loss.where, f"{loss.name}: {label.name} is latent; a loss compares labels that are known"
        for _, term in loss.terms:
            if (
                isinstance(term, ZeroOne)
                and not loss.mistakes
                and {label.name for label in term.labels} != {label.name for label in declaration.outputs}
            ):
                names = ", ".join(label.name for label in declaration.outputs)
                yield loss.where, f"{loss.name}: ZeroOne looks at the whole output; name every label: ZeroOne({names})"
