"""The bundled kinds of hard constraints: one kind per file; here are only their descriptions."""

from __future__ import annotations

from collections.abc import Iterable

from ssvm_dsl.plugin_api import ConstraintSpec, hookimpl

_KINDS = (
    ConstraintSpec(
        "count",
        "ssvm_constraints.sums:Count",
        "lower <= number of true literals <= upper: AtMost, AtLeast, Exactly, AnyOf, Implies",
        parameters=("lower", "upper"),
    ),
    ConstraintSpec(
        "linear",
        "ssvm_constraints.sums:LinearKind",
        "lower <= sum of the coefficients of true literals <= upper",
        parameters=("lower", "upper"),
        literal_parameters=("coefficient",),
    ),
    ConstraintSpec(
        "matching",
        "ssvm_constraints.matching:MatchingKind",
        "every row and column has a number of true literals within its limits: Matching, AllDifferent",
        parameters=("n_rows", "n_cols", "row_least", "row_most", "col_least", "col_most"),
        literal_parameters=("row", "col"),
    ),
    ConstraintSpec(
        "transport",
        "ssvm_constraints.matching:TransportKind",
        "every row and column has a number of true literals within limits of its own: Matching with inputs",
        parameters=("n_rows", "n_cols"),
        literal_parameters=("row", "col", "row_least", "row_most", "col_least", "col_most"),
    ),
    ConstraintSpec(
        "arborescence",
        "ssvm_constraints.trees:ArborescenceKind",
        "true literals are the arcs of a directed tree over tokens 1..n with the root 0",
        parameters=("n", "single_root"),
        literal_parameters=("head", "dependent"),
    ),
    ConstraintSpec(
        "projective-tree",
        "ssvm_constraints.trees:ProjectiveTreeKind",
        "true literals are the arcs of a directed tree over tokens 1..n with the root 0, none of which cross",
        parameters=("n", "single_root"),
        literal_parameters=("head", "dependent"),
    ),
    ConstraintSpec(
        "segmentation",
        "ssvm_constraints.segmentation:SegmentationKind",
        "true literals describe a division of positions into segments with classes: Label(T, states, segments=8)",
        parameters=("n", "n_classes", "longest"),
        literal_parameters=("start", "stop", "class"),
    ),
    ConstraintSpec(
        "segment-begins",
        "ssvm_constraints.segmentation:SegmentBeginsKind",
        "the last n literals say where segments begin: at the first position, and none is too long",
        parameters=("n", "n_classes", "longest"),
        any_literals=False,
    ),
    ConstraintSpec(
        "runs",
        "ssvm_constraints.runs:RunsKind",
        "successive true literals of a class form runs that are neither too short nor too long: Duration(y)",
        parameters=("n", "cut"),
        literal_parameters=("position", "class", "least", "most"),
    ),
    ConstraintSpec(
        "path",
        "ssvm_constraints.routes:PathKind",
        "true literals are the arcs of one simple path from source to target",
        parameters=("n_nodes", "source", "target"),
        literal_parameters=("tail", "head"),
    ),
    ConstraintSpec(
        "circuit",
        "ssvm_constraints.routes:CircuitKind",
        "true literals are the arcs of one simple directed circuit (through all nodes, if all_nodes)",
        parameters=("n_nodes", "all_nodes"),
        literal_parameters=("tail", "head"),
    ),
    ConstraintSpec(
        "equivalence",
        "ssvm_constraints.relations.relation:EquivalenceKind",
        "pairs of items are true within the clusters of a clustering, and false between them: Equivalence(y)",
        parameters=("n_items",),
        literal_parameters=("first", "second"),
    ),
    ConstraintSpec(
        "linear-order",
        "ssvm_constraints.relations.relation:LinearOrderKind",
        "pairs of items are true where the first comes before the second in a linear order: LinearOrder(y)",
        parameters=("n_items",),
        literal_parameters=("first", "second"),
    ),
    ConstraintSpec(
        "transitive",
        "ssvm_constraints.relations.relation:TransitiveKind",
        "where true pairs lead from one item to another, their own pair is true: Transitive(y)",
        parameters=("n_items",),
        literal_parameters=("first", "second"),
    ),
    ConstraintSpec(
        "acyclic",
        "ssvm_constraints.relations.relation:AcyclicKind",
        "true pairs of items do not lead in a circle: Acyclic(y)",
        parameters=("n_items",),
        literal_parameters=("first", "second"),
    ),
)


@hookimpl
def ssvm_constraints() -> Iterable[ConstraintSpec]:
    """Return the bundled kinds of constraints."""
    return _KINDS
