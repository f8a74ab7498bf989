"""``estimate``: how large a grounded model will be, computed before anything is allocated."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from ssvm_dsl.calls import checked_call
from ssvm_dsl.compiler.constraints import constraint_sizes
from ssvm_dsl.compiler.footprint import FactorSize, footprint
from ssvm_dsl.compiler.inputs import read_examples
from ssvm_dsl.compiler.layout import Layout
from ssvm_dsl.lang.declaration import Declaration, declaration_of
from ssvm_dsl.lang.factors import Factor
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
    factors = tuple(map(_factor, declaration.factors, targets, made.factors))
    kept, peak = int(made.kept), int(made.peak)
    constraints = tuple(
        ConstraintEstimate(one.name, repr(one), *constraint_sizes(one, layout)) for one in declaration.constraints
    )
    return Estimate(declaration.name, examples.n, made.n_variables, made.n_states, factors, kept, peak, constraints)


def _factor(factor: Factor, target: str, size: FactorSize) -> FactorEstimate:
    shape = factor.weight_shape(size.width)
    n_weights = None if None in shape or factor.observed else prod(one for one in shape if one is not None)
    owned = 0 if factor.tie is not None else n_weights
    tables = 8 * size.n_tables * size.n_configs
    return FactorEstimate(
        factor.name, target, size.n_factors, owned, size.n_tables, tables, size.feature_bytes,
        size.structure_bytes,
    )  # fmt: skip
