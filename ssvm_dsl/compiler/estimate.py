"""``estimate``: how large a grounded model will be, and how much memory grounding takes, before anything is allocated.

The sums follow :mod:`ssvm_dsl.compiler.ground` stage by stage; each stage's work space is counted where it is largest.
n is the number of factors of a template over all examples, m that of its distinct shapes, which is what scopes and
indices are stored for; r the number of variables of each, R and P the rows and columns of its features.  Numbers of
factors are 8 bytes where they are computed, 4 where they are kept.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from math import comb, prod

import numpy as np

from ssvm_dsl.array_types import I64
from ssvm_dsl.calls import checked_call
from ssvm_dsl.compiler.constraints import circuit_size, constraint_sizes
from ssvm_dsl.compiler.features.attributes import tokens_of
from ssvm_dsl.compiler.inputs import Examples, read_examples
from ssvm_dsl.compiler.layout import Layout
from ssvm_dsl.compiler.losses.loss import PART_STATES
from ssvm_dsl.compiler.scopes import factor_counts
from ssvm_dsl.lang.constraints.forbidden import Forbid
from ssvm_dsl.lang.declaration import Declaration, declaration_of
from ssvm_dsl.lang.factors import Factor, Given
from ssvm_dsl.lang.features import sources as lang
from ssvm_dsl.lang.inputs import At, Attributes, Edges, Input, Source
from ssvm_dsl.lang.losses.cost import Cost
from ssvm_dsl.lang.losses.label_losses import WeighedLoss
from ssvm_dsl.lang.model import Model
from ssvm_dsl.lang.outputs.labels import Target
from ssvm_dsl.lang.patterns.pattern import Pattern
from ssvm_dsl.units import bytes_text


@dataclass(frozen=True)
class FactorEstimate:
    """Size of one factor template over a batch.

    Parameters
    ----------
    name, target : str
    n_factors : int
        Factors over all examples.
    n_weights : int or None
        Weights; ``None`` when learnt from data.
    n_tables : int
        Table rows stored (0 for unary factors, whose scores are node scores).
    table_bytes, feature_bytes, structure_bytes : int
        Bytes of the score tables, of the feature rows (0 where shared with an earlier factor), and of scopes and
        indices.
    """

    name: str
    target: str
    n_factors: int
    n_weights: int | None
    n_tables: int
    table_bytes: int
    feature_bytes: int
    structure_bytes: int


@dataclass(frozen=True)
class ConstraintEstimate:
    """Size of one hard constraint over a batch.

    Parameters
    ----------
    name, text : str
        Its name and its text.
    n_constraints, n_literals, n_bytes : int
    """

    name: str
    text: str
    n_constraints: int
    n_literals: int
    n_bytes: int


@dataclass(frozen=True)
class Estimate:
    """Size of a grounded model; ``print`` it.

    Parameters
    ----------
    model : str
    n_examples, n_variables, n_states : int
        Examples, variables, and (variable, state) pairs.
    factors : tuple of FactorEstimate
    ground_bytes : int
        What laying the model over the examples leaves: structure, features, loss.
    peak_bytes : int
        The most it holds on the way.
    constraints : tuple of ConstraintEstimate
    """

    model: str
    n_examples: int
    n_variables: int
    n_states: int
    factors: tuple[FactorEstimate, ...]
    ground_bytes: int
    peak_bytes: int
    constraints: tuple[ConstraintEstimate, ...] = ()

    @property
    def node_bytes(self) -> int:
        """Bytes of the unary scores."""
        return 8 * self.n_states

    @property
    def score_bytes(self) -> int:
        """Bytes of unary scores and tables."""
        return self.node_bytes + sum(f.table_bytes for f in self.factors)

    @property
    def total_bytes(self) -> int:
        """Memory that the grounded model with its scores takes at its peak."""
        return max(self.peak_bytes, self.ground_bytes + self.score_bytes)

    def __str__(self) -> str:
        lines = [
            f"{self.model}: {self.n_examples} examples, {self.n_variables} variables, "
            f"{self.n_states} unary scores ({bytes_text(self.node_bytes)})"
        ]
        names = [f.name for f in self.factors] + [one.name for one in self.constraints]
        width = max(map(len, names), default=0)
        for f in self.factors:
            weights = "?" if f.n_weights is None else str(f.n_weights)
            tables = f"{f.n_tables} tables ({bytes_text(f.table_bytes)})" if f.n_tables else "no tables"
            lines.append(
                f"  {f.name:{width}}  {f.target}: {f.n_factors} factors, {weights} weights, {tables}, "
                f"features {bytes_text(f.feature_bytes)}, structure {bytes_text(f.structure_bytes)}"
            )
        for one in self.constraints:
            counts = f"{one.n_constraints} constraints of {one.n_literals} literals"
            lines.append(f"  {one.name:{width}}  {one.text}: {counts}, {bytes_text(one.n_bytes)}")
        text = f"  laid out: {bytes_text(self.ground_bytes)} (on the way {bytes_text(self.peak_bytes)})"
        lines.append(f"{text}, scores {bytes_text(self.score_bytes)}")
        return "\n".join([*lines, f"  total: {bytes_text(self.total_bytes)}"])

    __repr__ = __str__


@checked_call
def estimate(model: type[Model] | Declaration, X: object) -> Estimate:
    """Return how many variables, factors and bytes a model needs on the examples ``X``, when it is trained on them.

    Only sizes are read; no score, table or feature row is allocated.  What the backend and the trainer add is in the
    plan of ``ssvm explain``.

    Raises
    ------
    DataError
        Bad data, named with input and example.
    """
    declared = declaration_of(model, "estimate")
    declaration = declared.lowered
    examples = read_examples(declaration, X)
    layout = Layout.of(declaration, examples)
    made = footprint(declaration, examples, layout, judged=True)
    targets = [repr(factor.target) for factor in declared.factors]
    factors = tuple(map(_factor_estimate, declaration.factors, targets, made.factors))
    kept, peak = int(made.kept), int(made.peak)
    constraints = tuple(
        ConstraintEstimate(one.name, repr(one), *constraint_sizes(one, layout)) for one in declaration.constraints
    )
    return Estimate(declaration.name, examples.n, made.n_variables, made.n_states, factors, kept, peak, constraints)


def _factor_estimate(factor: Factor, target: str, size: FactorSize) -> FactorEstimate:
    shape = factor.weight_shape(size.width)
    n_weights = None if None in shape or factor.observed else prod(one for one in shape if one is not None)
    owned = 0 if factor.tie is not None else n_weights
    tables = 8 * size.n_tables * size.n_configs
    return FactorEstimate(
        factor.name, target, size.n_factors, owned, size.n_tables, tables, size.feature_bytes,
        size.structure_bytes,
    )  # fmt: skip


#: Bytes for each attribute: while names are numbered, and in the rows that stay.
ATTRIBUTE_WORK, ATTRIBUTE_KEPT = 14, 12


#: Bytes for each example of the arrays that its edges, and its sparse rows, are read into: rows of CSR matrices stay.
EDGES_READ, SPARSE_READ, CSR_READ = 250, 750, 240

#: Bytes for each example while those of equal shapes are found.
FOUND = 80


@dataclass(eq=False)
class Meter:
    """Counts bytes that stay, and the most there are at once."""

    kept: float = 0.0
    peak: float = 0.0

    def keep(self, n_bytes: float, work: float = 0.0) -> None:
        """Count a permanent array, made with additional work space."""
        self.kept += n_bytes
        self.peak = max(self.peak, self.kept + work)

    def pass_by(self, n_bytes: float) -> None:
        """Count something that does not stay."""
        self.peak = max(self.peak, self.kept + n_bytes)


@dataclass(frozen=True)
class FactorSize:
    """Sizes of one factor template over a batch.

    Parameters
    ----------
    n_factors, n_rows : int
    n_tables : int
        Table rows (0 for unary factors).
    n_configs : int
        Joint states of a factor.
    width : int or None
        Columns of its features; ``None`` when they are learnt.
    structure_bytes, feature_bytes : int
        What stays of scopes and indices, and of feature rows that no earlier factor has.
    """

    n_factors: int
    n_rows: int
    n_tables: int
    n_configs: int
    width: int | None
    structure_bytes: int
    feature_bytes: int


@dataclass(frozen=True, eq=False)
class Footprint:
    """Memory of a grounded model.

    Parameters
    ----------
    n_variables, n_states : int
    factors : tuple of FactorSize
    kept : float
        Bytes that grounding leaves.
    peak : float
        The most it holds on the way.
    scores : float
        Bytes of unary scores and tables, which whoever answers questions makes next.
    weights : float
        Bytes of the weights, as far as their number is known.
    """

    n_variables: int
    n_states: int
    factors: tuple[FactorSize, ...]
    kept: float
    peak: float
    scores: float
    weights: float

    @property
    def needed(self) -> float:
        """The least memory that any use of the grounded model takes."""
        return max(self.peak, self.kept + self.scores + self.weights)


@dataclass(eq=False)
class _Sizes:
    """The scopes from which sizes of factors are counted."""

    examples: Examples
    layout: Layout
    with_attributes: bool
    meter: Meter
    rows: dict[Source, float] = field(default_factory=dict)
    used: set[Source] = field(default_factory=set)


def footprint(
    declaration: Declaration, examples: Examples, layout: Layout, judged: bool, with_attributes: bool = True
) -> Footprint:
    """Return the memory that grounding a model takes.

    Parameters
    ----------
    declaration : Declaration
    examples : Examples
    layout : Layout
    judged : bool
        Whether there are labels, and a loss is made of them.
    with_attributes : bool
        Whether to count attributes one by one; without, their rows are left out.
    """
    read = _read_bytes(declaration, examples, judged)
    meter = Meter(read, read)
    counts = [int(layout.count(label).sum()) for label in declaration.labels]
    v = sum(counts)
    s = sum(n * label.n_states for n, label in zip(counts, declaration.labels, strict=True))
    n_axes = max(len(label.dims) for label in declaration.labels)
    if judged:
        meter.keep(4 * v, work=13 * v + 8 * v * (n_axes > 0))  # states; masks, flat labels
    sizes = _Sizes(examples, layout, with_attributes, meter)
    factors = tuple(
        _joined([_factor(factor, part.target, sizes, kept=True) for part in factor.parts])
        for factor in declaration.factors
    )
    others = [_factor(given, given.target, sizes) for given in declaration.given]
    others += [_factor(rule, rule.target, sizes) for rule in declaration.rules]
    if declaration.rules or any(label.allowed is not None for label in declaration.labels):
        meter.keep(s)
    if declaration.given:
        meter.keep(8 * s)
    dense = [kept for source, kept in sizes.rows.items() if source in sizes.used and not source.sparse]
    twice = sum(dense) if len(dense) > 1 else 0.0  # one array of all, while the single ones are still there
    meter.keep(twice)
    meter.keep(4 * v + 8 * examples.n * (1 + len(declaration.labels)))
    for one in declaration.constraints:
        _, literals, n_bytes = constraint_sizes(one, layout)
        meter.keep(n_bytes, work=36.0 * literals)
    for circuit in declaration.circuits:
        kept, n_literals = circuit_size(circuit, layout, examples)
        meter.keep(kept, work=36.0 * n_literals)
    if judged and declaration.loss is not None:
        most = max(n * label.n_states for n, label in zip(counts, declaration.labels, strict=True))
        weighed = [term for _, term in declaration.loss.terms if isinstance(term, WeighedLoss)]
        divided = any(term.normalize or term.node_weights is not None for term in weighed)
        prices = (16 if len(declaration.labels) == 1 else 32) * min(most, PART_STATES)
        meter.keep(8 * s, work=prices + (36 if divided else 12) * v)
    scores = 8.0 * (s + sum(f.n_tables * f.n_configs for f in (*factors, *others)))
    scores += sum(_priced(term, sizes) for term in _joint_costs(declaration) if judged)
    weights = 8.0 * sum(_n_weights(f, size.width) for f, size in zip(declaration.factors, factors, strict=True))
    passing = read + twice + sum(kept for source, kept in sizes.rows.items() if source not in sizes.used)
    return Footprint(v, s, factors, meter.kept - passing, meter.peak, scores, weights)


def _joint_costs(declaration: Declaration) -> list[Cost]:
    """Return the terms of the loss that price joint states."""
    terms = () if declaration.loss is None else declaration.loss.terms
    return [term for _, term in terms if isinstance(term, Cost) and term.of_factors]


def _priced(term: Cost, sizes: _Sizes) -> float:
    """Count the factors of a loss of joint states; return the bytes of their tables in training."""
    if term.target.of_single_spans:  # of true ones
        n = float(sizes.layout.count(term.label).sum())
        sizes.meter.keep(44 * n, work=80 * n)
        return 8.0 * n * term.label.n_states
    size = _factor(Factor(term.target), term.target, sizes)
    sizes.meter.keep(12 * size.n_factors + 8 * size.n_configs**2, work=16 * size.n_factors)
    return 8.0 * size.n_factors * size.n_configs


def _read_bytes(declaration: Declaration, examples: Examples, judged: bool) -> float:
    """Return the bytes of arrays made by reading the examples: edges and sparse rows."""
    total = 0.0
    for symbol in declaration.inputs if judged else declaration.scored_inputs:
        if isinstance(symbol, Edges):
            total += 8.0 * symbol.arity * float(examples.size((symbol.dim,)).sum()) + EDGES_READ * examples.n
        elif isinstance(symbol, Input) and symbol.sparse:
            n_rows = sum(len(rows.ptr) for rows in examples.raw[symbol.name])
            total += 8.0 * n_rows + (CSR_READ if symbol.name in examples.shared else SPARSE_READ) * examples.n
    return total


def _n_weights(factor: Factor, width: int | None) -> int:
    """Return the weights that a factor owns, 0 where that is not known before learning."""
    shape = factor.weight_shape(width)
    if factor.tie is not None or factor.observed or None in shape:
        return 0
    return prod(size for size in shape if size is not None)


def _joined(parts: list[FactorSize]) -> FactorSize:
    """Return the sizes of a template: those of its only part, or of what its auxiliary variables need together."""
    first, *others = parts
    if not others:
        return first
    return replace(
        first,
        n_tables=sum(one.n_tables for one in parts),
        n_configs=others[0].n_configs,  # auxiliary variables alone have no tables
        structure_bytes=sum(one.structure_bytes for one in parts),
        feature_bytes=sum(one.feature_bytes for one in parts),
    )


def _factor(factor: Factor | Given | Forbid, target: Target, sizes: _Sizes, kept: bool = False) -> FactorSize:
    """Return the sizes of one part of a template: of its own factors, or of those of its auxiliary variables.

    ``kept`` says whether positions and numbers of factors are kept with the shape (:mod:`ssvm_dsl.compiler.prepared`).
    """
    source, examples, meter = factor.features, sizes.examples, sizes.meter
    counts = factor_counts(target, sizes.layout, examples)
    n, r, n_configs = int(counts.sum()), len(target.table_cards), prod(target.table_cards)
    r = 4 if target.of_single_spans else r
    by_factor = factor.joint or lang.is_indexed(source) or (source is not None and lang.row_target(source) is not None)
    n_own = n if target is factor.target else int(factor_counts(factor.target, sizes.layout, examples).sum())
    n_rows = 0 if source is None else n_own if by_factor else int(examples.size(source.dims).sum())
    _, chosen = sizes.layout.shapes_of(target, examples)
    few, m = counts[chosen], int(counts[chosen].sum())
    keys = FOUND * examples.n + 8.0 * m * sum(getattr(one, "arity", 1) for one in target.inputs)
    scopes = (4 * r + 16) * m + 4 * examples.n
    meter.pass_by(max(keys, 4 * examples.n + _lay_bytes(target, few, m, r)))
    feature_bytes = 0
    if source is not None and not lang.has_sliced(source):
        _source(source, sizes, n_rows, n_configs if factor.joint else 1, work=scopes)
        feature_bytes = 0 if source in sizes.used else int(sizes.rows[source])
        sizes.used.add(source)
    same = by_factor or (source is not None and n == n_rows)  # factor f uses row f (nearly always, then)
    row = 4 * m + 8 * examples.n if source is not None and not same else 0
    unit = 4 * m if factor.per else 0
    if source is not None:
        placed = row > 0 and not by_factor and bool(source.dims)
        meter.pass_by(scopes + 25 * m + 16 * examples.n + 40 * m * placed)
    own_table = 4 * m * (r > 1 and not (unit and source is None) and not row)
    structure = 4 * r * m + row + unit + own_table + 20 * examples.n + 8 * examples.n * (r > 1)
    places = (16 + 8 * (len(target.free) if isinstance(target, Pattern) else 0)) * m if kept else 0
    meter.keep(structure + places, work=12 * m + max(scopes - 4 * r * m - places, 0))
    n_tables = 0
    if r > 1:
        n_tables = factor.n_units if source is None else n if factor.per or factor.joint else n_rows
    width = None if source is None else source.width
    return FactorSize(n, n_rows, n_tables, n_configs, width, structure, feature_bytes)


def _lay_bytes(target: Target, counts: I64, n: int, r: int) -> float:
    """Return the most bytes that :func:`~ssvm_dsl.compiler.scopes.ground_scopes` holds, one example a shape."""
    if isinstance(target, Pattern):
        return (24.0 * r + 24.0 * (len(target.free) + 1)) * n
    if target.of_single_spans:
        return 120.0 * n
    return (36.0 if target.arity == 1 and not target.of_spans else 72.0) * n


def _source(source: Source, sizes: _Sizes, n_rows: int, n_configs: int, work: float) -> None:
    """Count the memory of the rows of a feature source; a source that several factors share counts once."""
    if source not in sizes.rows:
        kept, made_with = _row_bytes(source, sizes, n_rows, n_configs)
        sizes.rows[source] = kept
        sizes.meter.keep(kept, work=made_with + work)


def _row_bytes(source: Source, sizes: _Sizes, n_rows: int, n_configs: int) -> tuple[float, float]:
    """Return (bytes of the rows of a source, bytes of temporary arrays)."""
    examples = sizes.examples
    if isinstance(source, Attributes | lang.Hashed):
        (inner,) = source.sources or (source,)
        assert isinstance(inner, Attributes)
        n = _n_attributes(inner, examples) if sizes.with_attributes else 0
        return float(ATTRIBUTE_KEPT * n + 8 * n_rows), float(ATTRIBUTE_WORK * n + 16 * n_rows)
    if isinstance(source, Input) and source.sparse:
        stored = sum(len(rows.indices) for rows in examples.raw[source.name])
        return 12.0 * stored + 8 * n_rows, 24.0 * stored + 24 * n_rows
    for part in source.sources:
        by_factor = lang.row_target(part) is not None or (not isinstance(source, At) and lang.is_indexed(part))
        _source(part, sizes, n_rows if by_factor else int(examples.size(part.dims).sum()), 1, work=0.0)
    if isinstance(source, lang.Polynomial) and source.sparse:
        raw, degree = examples.raw[source.source.name], source.degree
        lengths, times = np.unique(np.concatenate([np.diff(rows.ptr) for rows in raw]), return_counts=True)
        stored = sum(n * (comb(k + degree, degree) - 1) for k, n in zip(lengths.tolist(), times.tolist(), strict=True))
        return 12.0 * stored + 8 * n_rows, 24.0 * stored + 24 * n_rows
    if source.sparse or source.width is None:  # stacked from parts, in CSR form
        stacked = sum((1.0 if part.sparse else 1.5) * sizes.rows[part] for part in source.sources)
        return stacked, stacked
    kept = 8.0 * n_rows * source.width * n_configs
    copies = 1.0 if isinstance(source, lang.OfFactors | lang.JointFeature | lang.Transform | lang.Concat) else 0.0
    given = 0.0
    if isinstance(source, Input) and (first := examples.raw[source.name][0]).dtype != np.float64:
        given = float(first.itemsize * n_rows * source.width)
    return kept, copies * kept + given


def _n_attributes(source: Attributes, examples: Examples) -> int:
    """Return the number of attributes of all positions."""
    tokens = tokens_of(source, examples.raw[source.name])
    return sum(len(token) for token in tokens if hasattr(token, "__len__"))
