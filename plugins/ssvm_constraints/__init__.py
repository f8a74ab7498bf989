"""The bundled kinds of hard constraints: one kind per file; here are only their descriptions."""

from __future__ import annotations

from collections.abc import Iterable

from ssvm_dsl.plugin_api import ConstraintSpec, hookimpl

_KINDS = (
    ConstraintSpec(
        "count",
        "ssvm_constraints.count:Count",
        "lower <= number of true literals <= upper: AtMost, AtLeast, Exactly, AnyOf, Implies",
        parameters=("lower", "upper"),
    ),
    ConstraintSpec(
        "linear",
        "ssvm_constraints.linear:Linear",
        "lower <= sum of the coefficients of true literals <= upper",
        parameters=("lower", "upper"),
        literal_parameters=("coefficient",),
    ),
)


@hookimpl
def ssvm_constraints() -> Iterable[ConstraintSpec]:
    """Return the bundled kinds of constraints."""
    return _KINDS
