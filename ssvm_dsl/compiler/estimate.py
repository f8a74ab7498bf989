"""``estimate``: how large a grounded model will be, told before anything is allocated."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

import numpy as np

from ssvm_dsl.compiler.layout import Layout
from ssvm_dsl.compiler.validate import Examples, read_examples
from ssvm_dsl.lang.declaration import Declaration
from ssvm_dsl.lang.factors import Factor
from ssvm_dsl.lang.features import walk_sources
from ssvm_dsl.lang.inputs import Source
from ssvm_dsl.lang.model import Model
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
    table_bytes, feature_bytes : int
        Bytes of the score tables and of the feature rows (0 where shared with an earlier factor, and for
        features whose width is learnt).
    """

    name: str
    target: str
    n_factors: int
    n_weights: int | None
    n_tables: int
    table_bytes: int
    feature_bytes: int


@dataclass(frozen=True)
class Estimate:
    """Size of a grounded model; ``print`` it.

    Parameters
    ----------
    model : str
    n_examples, n_variables, n_states : int
        Examples, variables, and (variable, state) pairs.
    factors : tuple of FactorEstimate
    """

    model: str
    n_examples: int
    n_variables: int
    n_states: int
    factors: tuple[FactorEstimate, ...]

    @property
    def node_bytes(self) -> int:
        """Bytes of the unary scores."""
        return 8 * self.n_states

    @property
    def total_bytes(self) -> int:
        """Bytes of unary scores, tables and features together."""
        return self.node_bytes + sum(f.table_bytes + f.feature_bytes for f in self.factors)

    def __str__(self) -> str:
        lines = [
            f"{self.model}: {self.n_examples} examples, {self.n_variables} variables, "
            f"{self.n_states} unary scores ({bytes_text(self.node_bytes)})"
        ]
        width = max((len(f.name) for f in self.factors), default=0)
        for f in self.factors:
            weights = "?" if f.n_weights is None else str(f.n_weights)
            tables = f"{f.n_tables} tables ({bytes_text(f.table_bytes)})" if f.n_tables else "no tables"
            lines.append(
                f"  {f.name:{width}}  {f.target}: {f.n_factors} factors, {weights} weights, {tables}, "
                f"features {bytes_text(f.feature_bytes)}"
            )
        return "\n".join([*lines, f"  total: {bytes_text(self.total_bytes)}"])

    __repr__ = __str__


def estimate(model: type[Model] | Declaration, X: object) -> Estimate:
    """Return how many variables, factors and bytes a model needs on the examples ``X``.

    Only sizes are read; no score, table or feature row is allocated.

    Raises
    ------
    DataError
        Bad data, named with input and example.
    """
    declaration = model if isinstance(model, Declaration) else model.declaration
    examples = read_examples(declaration, X)
    layout = Layout.of(declaration, examples)
    seen: set[Source] = set()
    factors = tuple(_factor(factor, examples, seen) for factor in declaration.factors)
    counts = [int(layout.count(label).sum()) for label in declaration.labels]
    states = sum(n * label.n_states for n, label in zip(counts, declaration.labels, strict=True))
    return Estimate(declaration.name, examples.n, sum(counts), states, factors)


def _factor(factor: Factor, examples: Examples, seen: set[Source]) -> FactorEstimate:
    target, source = factor.target, factor.features
    n_factors = int(np.sum(np.zeros(examples.n, np.int64) + target.count(examples.sizes)))
    n_rows = 0 if source is None else n_factors if _by_factor(factor) else int(examples.size(source.dims).sum())
    n_configs = prod(target.cards)
    n_tables = 0
    if target.arity > 1:
        n_tables = factor.n_units if source is None else n_factors if factor.per or factor.joint else n_rows
    width = None if source is None else source.width
    shape = factor.weight_shape(width)
    n_weights = None if None in shape or factor.observed else prod(size for size in shape if size is not None)
    new = source is not None and source not in seen and not any(part.sparse for part in walk_sources(source))
    feature_bytes = 8 * n_rows * (width or 0) * (n_configs if factor.joint else 1) if new else 0
    if source is not None:
        seen.add(source)
    owned = 0 if factor.tie is not None else n_weights
    table_bytes = 8 * n_tables * n_configs
    return FactorEstimate(factor.name, repr(target), n_factors, owned, n_tables, table_bytes, feature_bytes)


def _by_factor(factor: Factor) -> bool:
    from ssvm_dsl.lang.features import row_target

    return factor.joint or (factor.features is not None and row_target(factor.features) is not None)
