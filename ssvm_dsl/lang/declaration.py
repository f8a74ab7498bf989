"""A model as plain data: named symbols in the order they were written, checked against each other.

Each symbol checks and prints itself (:class:`~ssvm_dsl.lang.symbols.Symbol`): a new kind
of constraint, feature or target needs no line here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations
from math import prod
from typing import Any, TypeVar

from ssvm_dsl.errors import ModelError, OptionError
from ssvm_dsl.lang.compact_segments import compact_label, compact_symbols
from ssvm_dsl.lang.constraints.forbidden import Forbid, RuledOut
from ssvm_dsl.lang.constraints.implied import implied_constraints
from ssvm_dsl.lang.constraints.logic import Constraint
from ssvm_dsl.lang.dims import Dim, IsOne, walk
from ssvm_dsl.lang.factors import Factor, Given
from ssvm_dsl.lang.features.sources import walk_sources
from ssvm_dsl.lang.functions import FunctionRef
from ssvm_dsl.lang.inputs import Attributes, Edges, ExampleInput, Input, Positions, Source
from ssvm_dsl.lang.losses.label_losses import Loss
from ssvm_dsl.lang.outputs.labels import Label, LabelPart, Latent, Target
from ssvm_dsl.lang.patterns.join import inputs_of
from ssvm_dsl.lang.patterns.pattern import Pattern
from ssvm_dsl.lang.rules.circuits import RuleCircuit
from ssvm_dsl.lang.rules.formulas import Formula, has_tables, inputs_read, numbers_of
from ssvm_dsl.lang.rules.rule_patterns import RuleTarget, RuleTruth, has_table
from ssvm_dsl.lang.rules.structures import RuleOfKind
from ssvm_dsl.lang.symbols import Symbol

S = TypeVar("S", bound=Symbol)
R = TypeVar("R")


@dataclass(frozen=True)
class Declaration:
    """The plain, immutable, hashable data behind a model class.

    Parameters
    ----------
    name : str
        Name of the model.
    symbols : tuple of Symbol
        Everything declared, in order, each with its name.
    compact : bool
        Whether spans of the label of segments are no variables (:mod:`ssvm_dsl.lang.compact_segments`).
    """

    name: str
    symbols: tuple[Symbol, ...]
    compact: bool = False

    def __getstate__(self) -> dict[str, Any]:
        """Return what was declared: copies and pickles work the rest out anew, and have nothing kept with them."""
        return {"name": self.name, "symbols": self.symbols, "compact": self.compact}

    def cached(self, make: Callable[[Declaration], R]) -> R:
        """Return what another part of the package keeps with this model: what it made when it was first asked for."""
        kept: R | None = self.__dict__.get(make.__qualname__)
        return self.__dict__.setdefault(make.__qualname__, make(self)) if kept is None else kept

    def of(self, kind: type[S]) -> tuple[S, ...]:
        """Return the symbols of a kind, in order."""
        return tuple(symbol for symbol in self.symbols if isinstance(symbol, kind))

    @cached_property
    def lowered(self) -> Declaration:
        """The declaration that programs are made of: without spans as variables where nothing needs them."""
        if self.compact or compact_label(self.symbols) is None:
            return self
        return Declaration(self.name, compact_symbols(self.symbols), compact=True)

    @cached_property
    def dims(self) -> tuple[Dim, ...]:
        """The axes."""
        return self.of(Dim)

    @cached_property
    def inputs(self) -> tuple[ExampleInput, ...]:
        """The inputs of an example; sizes of axes that only hidden variables have come last."""
        inputs = (one for one in self.symbols if isinstance(one, Input | Attributes | Edges | Positions))
        given = tuple(one for one in inputs if not (isinstance(one, Positions) and one.constant))
        axes = [*(one.sized_axes for one in given), *(label.dims for label in self.outputs)]
        known = {id(dim.origin) for dims in axes for dim in dims}
        hidden = {id(dim.origin) for label in self.latents for dim in label.dims} - known
        return *given, *(dim for dim in self.dims if dim.ragged and id(dim) in hidden)

    @cached_property
    def input_names(self) -> frozenset[str]:
        """Names of the inputs."""
        return frozenset(symbol.name for symbol in self.inputs)

    @cached_property
    def output_names(self) -> tuple[str, ...]:
        """Names of the labels that users know."""
        return tuple(label.name for label in self.outputs)

    @cached_property
    def sized_axes(self) -> frozenset[int]:
        """Identities of the axes whose sizes are read from inputs."""
        return frozenset(id(dim) for given in self.inputs for dim in given.sized_axes)

    @cached_property
    def derived_axes(self) -> tuple[tuple[str, str], ...]:
        """Names of the axes of labels that are as long as another one, each with the name of that."""
        axes = {dim.name: dim.origin.name for label in self.labels for dim in label.dims}
        return tuple((name, origin) for name, origin in axes.items() if name != origin)

    @cached_property
    def reads_sparse(self) -> bool:
        """Whether there are inputs of sparse features."""
        return any(isinstance(one, Attributes) or getattr(one, "sparse", False) for one in self.inputs)

    @cached_property
    def structural_inputs(self) -> tuple[str, ...]:
        """Names of the inputs whose content decides the structure: edges, and numbers of hard constraints."""
        named = [one.name for one in self.inputs if isinstance(one, Edges)]
        named += [one.name for constraint in self.constraints for one in constraint.inputs]
        named += [one.name for target in self.targets for one in target.inputs]
        named += [one.name for label in self.own_labels for one in label.domain_inputs]
        named += [one.name for formula in self.formulas for one in inputs_read(formula)]
        named += [one.name for rule in self.rules_of_kinds for one in rule.inputs]
        return tuple(dict.fromkeys(named))

    @cached_property
    def reads_content(self) -> bool:
        """Whether the content of inputs decides how many variables, factors or constraints there are."""
        reading: list[Any] = [one.inputs for one in self.targets if one.count_reads_inputs]
        reading += [one.inputs for one in self.circuits]
        reading += [one.inputs for one in self.rules_of_kinds]
        reading += [inputs_read(one) for one in self.formulas]
        reading += [label.domain_inputs for label in self.own_labels]
        return any(reading)

    @cached_property
    def flags(self) -> frozenset[str]:
        """Names of the inputs of zeros and ones that are conditions."""
        conditions = [target.condition for target in self.targets if isinstance(target, Pattern)]
        conditions += [label.condition for label in self.own_labels]
        formulas = [*self.formulas, *(rule.formula for rule in self.rules_of_kinds)]
        formulas += [target.rule for target in self.targets if isinstance(target, RuleTarget)]
        conditions += [number for formula in formulas for number in numbers_of(formula)]
        atoms = (one for condition in conditions for one in walk(condition) if isinstance(one, IsOne))
        return frozenset(one.number.source.name for one in atoms)

    @cached_property
    def scored_inputs(self) -> tuple[ExampleInput, ...]:
        """The inputs without those that only the loss reads, which are not needed to predict."""
        sources = self.sources
        asked = [*(one.asked_inputs for one in sources), *(one.asked_inputs for one in self.rules)]
        if self.loss is None or None in asked:  # some function takes all inputs
            return self.inputs
        read = {source.name for source in sources}.union(*(names for names in asked if names is not None))
        read |= {given.name for one in self.constraints for given in one.inputs}
        read |= {label.allowed.name for label in self.labels if label.allowed is not None}
        about: tuple[Factor | Given | Forbid, ...] = (*self.factors, *self.given, *self.rules)
        read |= {given.name for one in about for given in one.target.inputs}
        read |= {given.name for label in self.own_labels for given in label.domain_inputs}
        read |= {given.name for formula in self.formulas for given in inputs_read(formula)}
        read |= {given.name for rule in self.rules_of_kinds for given in rule.inputs}
        read |= {source.name for one in about for source in _units_read(one)}
        read |= {edges.name for one in self.constraints for edges in one.edge_lists}
        names = self.loss.asked_inputs
        asked_for = (one for one in self.inputs if names is None or one.name in names)
        judging: tuple[ExampleInput, ...] = (*self.loss.inputs, *self.loss.edge_lists, *asked_for)
        spare = [given for given in judging if given.name not in read]
        sized = {id(dim) for given in self.inputs if given not in spare for dim in given.sized_axes}
        axes = (*(one.dims for one in self.labels), *(one.axes for one in self.constraints))
        unsized = {id(dim) for dims in axes for dim in dims} - sized
        needless = [one for one in spare if not any(dim.ragged and id(dim) in unsized for dim in one.sized_axes)]
        return tuple(given for given in self.inputs if given not in needless)

    @cached_property
    def labels(self) -> tuple[Label, ...]:
        """All variables; labels of several parts are several of them, auxiliary ones of factors come last."""
        auxiliary = (one for factor in self.factors for one in factor.agreements)
        return (*self.own_labels, *auxiliary, *(one for circuit in self.circuits for one in circuit.auxiliary))

    @cached_property
    def own_labels(self) -> tuple[Label, ...]:
        """The variables without auxiliary ones of factors: labels, and what else belongs to them (``Label.parts``)."""
        return tuple(part for label in self.of(Label) for part in (label, *self.parts_of(label)))

    def parts_of(self, label: Label) -> tuple[LabelPart, ...]:
        """Return the auxiliary variables of a label."""
        return label.parts[:1] if self.compact and label.segments is not None else label.parts

    @cached_property
    def fixed_dims(self) -> tuple[Dim, ...]:
        """The axes of fixed size, those of parts of labels included."""
        axes = (*self.dims, *(dim for label in self.own_labels for dim in label.dims))
        return tuple({dim.name: dim for dim in axes if dim.size is not None}.values())

    @cached_property
    def outputs(self) -> tuple[Label, ...]:
        """The labels as users know them: those of Y and of predictions."""
        return tuple(label for label in self.of(Label) if not isinstance(label, Latent))

    @cached_property
    def latents(self) -> tuple[Latent, ...]:
        """The variables that are never observed."""
        return self.of(Latent)

    @cached_property
    def factors(self) -> tuple[Factor, ...]:
        """The factor templates."""
        return self.of(Factor)

    @cached_property
    def constraints(self) -> tuple[Constraint, ...]:
        """The hard constraints, then those that labels have by themselves."""
        declared = self.of(Constraint)
        return (*declared, *implied_constraints(declared, self.outputs, self.compact))

    @cached_property
    def given(self) -> tuple[Given, ...]:
        """The scores without weights."""
        return self.of(Given)

    @cached_property
    def rules(self) -> tuple[Forbid, ...]:
        """The rules on single states and joint states: what is forbidden, and formulas that have a table."""
        small = (RuledOut(one) for one in self.formulas if has_table(one))
        return (*self.of(Forbid), *small)

    @cached_property
    def formulas(self) -> tuple[Formula, ...]:
        """The hard formulas."""
        return self.of(Formula)

    @cached_property
    def rules_of_kinds(self) -> tuple[RuleOfKind, ...]:
        """Structures and sums over literals at positions."""
        return self.of(RuleOfKind)

    @cached_property
    def circuits(self) -> tuple[RuleCircuit, ...]:
        """The rules that have no table: hard ones, and those of factors and given scores."""
        hard = [RuleCircuit(one, hard=True) for one in self.formulas if not has_table(one) and not has_tables(one)]
        for circuit in hard:
            circuit.rename(circuit.rule.name)
        scored: tuple[Factor | Given, ...] = (*self.factors, *self.given)
        return (*hard, *(one.target.circuit for one in scored if isinstance(one.target, RuleTruth)))

    @cached_property
    def sources(self) -> tuple[Source, ...]:
        """The inputs and features that scores are computed from, with their sources."""
        scored: tuple[Factor | Given, ...] = (*self.factors, *self.given)
        return tuple(source for one in scored for source in walk_sources(one.features))

    @property
    def targets(self) -> Iterator[Target]:
        """The targets of everything that is declared."""
        implied = self.constraints[len(self.of(Constraint)) :]
        yield from (target for symbol in (*self.symbols, *implied) for target in symbol.targets)

    def apart(self, edges: Edges) -> list[tuple[tuple[int, ...], tuple[int, ...]]]:
        """Return the pairs of ends of an edge that are different positions: those of one label, if not all of them.

        Of pointers these are pairs of a position and what it points to.
        """
        along = [
            target for target in self.targets
            if isinstance(target, Pattern) and target.word is not None and target.word.args[1:] == (edges,)
        ]
        step = 2 if any(target.label.pointer for target in along) else 1
        pairs = list(combinations([tuple(range(k, k + step)) for k in range(0, edges.arity, step)], 2))
        if not edges.several or step > 1:
            return pairs
        members = [target.members for target in along]
        return [(a, b) for a, b in pairs if any(labels[a[0]] is labels[b[0]] for labels in members)]

    @cached_property
    def loss(self) -> Loss | None:
        """The loss, if one is declared."""
        losses = self.of(Loss)
        return losses[0] if losses else None

    def find(self, name: str) -> Symbol | None:
        """Return the symbol of that name, ``None`` when there is none."""
        return next((symbol for symbol in self.symbols if symbol.name == name), None)

    @cached_property
    def fitted(self) -> bool:
        """Whether some feature (or which weights there are) is learnt from the training data."""
        return any(source.learns for source in self.sources) or any(factor.observed for factor in self.factors)

    @cached_property
    def functions(self) -> tuple[FunctionRef, ...]:
        """The user functions the model calls."""
        calling: tuple[Symbol, ...] = (*self.sources, *self.constraints, *self.rules, *self.of(Loss)[:1])
        return tuple(ref for one in calling for ref in one.functions)

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


def _units_read(one: Factor | Given | Forbid) -> Iterator[Any]:
    """Yield the positions that say which copy of its weights a factor has."""
    for unit in () if isinstance(one.per, str) else one.per:
        yield from inputs_of(unit)


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
    mistakes = list(_own_mistakes(declaration))
    all_sound = not mistakes
    # A symbol with mistakes of its own holds stand-ins; what they would cause is not reported.
    sound = [symbol for symbol in symbols if not any(node.mistakes for node in symbol.made_of)]
    strange = list(_reference_mistakes(declaration, sound))
    mistakes += [*strange, *_mistakes_of(symbols, lambda one: one.clashes(declaration))]
    own = [symbol for symbol in sound if not _refers_to_strangers(declaration, symbol)]
    mistakes += _mistakes_of(own, lambda one: one.misfits(declaration))
    if all_sound and not strange:
        mistakes += _mistakes_of(symbols, lambda one: one.gaps(declaration))
    mistakes += _stray_mistakes(declaration, strays)
    if mistakes:
        raise ModelError(name, mistakes)
    return declaration


def _mistakes_of(symbols: Sequence[Symbol], ask: Callable[[Symbol], Iterator[str]]) -> Iterator[tuple[str, str]]:
    """Yield the mistakes of symbols, with their lines and names."""
    yield from ((symbol.line, f"{symbol.name}: {text}") for symbol in symbols for text in ask(symbol))


def _own_mistakes(declaration: Declaration) -> Iterator[tuple[str, str]]:
    """Yield the mistakes that constructors recorded, each once."""
    seen: set[int] = set()
    for symbol in declaration.symbols:
        for node in symbol.made_of:
            if id(node) not in seen:
                seen.add(id(node))
                for text in node.mistakes:
                    yield node.line, f"{symbol.name}: {text() if callable(text) else text}"


def _stray_mistakes(declaration: Declaration, strays: tuple[tuple[str, Target], ...]) -> Iterator[tuple[str, str]]:
    used = list(declaration.targets)
    for key, stray in strays:
        if not any(stray is target for target in used):
            for text in stray.mistakes:
                yield stray.line, f"{key}: {text() if callable(text) else text}"
            text = "" if stray.mistakes else f"; write {key} = Factor({stray!r})"
            yield stray.line, f"{key}: a bare pattern has no effect{text}"


def _reference_mistakes(declaration: Declaration, symbols: list[Symbol]) -> Iterator[tuple[str, str]]:
    """Yield references to symbols that are not part of the model."""
    for symbol in symbols:
        for what, part in _strangers(declaration, symbol):
            named = f"'{part.name}'" if part.name else f"an unnamed {type(part).__name__}"
            text = f"{what} {named} is not an attribute of this model; assign it first"
            if isinstance(part, Dim) and not part.name:
                text = f"its axis is a Dim that is no attribute of this model: give it a name there, e.g. T = {part!r}"
            if type(declaration.find(part.name)) is type(part):
                text = f"{what} {named} is the one declared at {part.line}, not this model's own {part.name}"
                text += f"; declare {symbol.name} with this model's"
            yield symbol.line, f"{symbol.name}: {text}"


def _strangers(declaration: Declaration, symbol: Symbol) -> list[tuple[str, Symbol]]:
    """Return (role, symbol) of references of a symbol that are not part of the model."""
    known = {id(one) for one in declaration.symbols}
    return [(what, part) for what, part in symbol.references() if id(part) not in known]


def _refers_to_strangers(declaration: Declaration, symbol: Symbol) -> bool:
    """Whether a symbol, or a label that it is about, refers to something that is not part of the model."""
    return any(_strangers(declaration, one) for one in (symbol, *symbol.about))


def declaration_of(model: object, name: str) -> Declaration:
    """Return the declaration of a model class, or of what is one.

    Raises
    ------
    OptionError
        It is something else; ``name`` is the function that was called with it.
    """
    declaration = model if isinstance(model, Declaration) else getattr(model, "declaration", None)
    if not isinstance(declaration, Declaration):
        raise OptionError(f"{name}: the model must be a Model class, got {model!r}")
    return declaration
