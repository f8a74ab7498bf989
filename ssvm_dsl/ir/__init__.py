"""The weight-free intermediate representation: flat arrays that every backend and trainer reads.

Packed, never padded; int32 indices, int64 pointers, float64 scores, C-contiguous.  Scores are maximised.
"""

from ssvm_dsl.array_types import F64, I8, I32, I64, U8, Bools
from ssvm_dsl.ir.analysis.energies import energy_origins, energy_ratio, expansion_factor
from ssvm_dsl.ir.analysis.local_polytope import labelling_marginals, n_marginals, polytope_equations
from ssvm_dsl.ir.analysis.segments import (
    LENGTHS,
    NEIGHBOURS,
    SPAN,
    STARTS,
    SUCCESSIVE,
    SegmentVariables,
    segment_links,
    segment_variables,
)
from ssvm_dsl.ir.analysis.tolerance import RELATIVE, ROUNDING, Terms, block_terms
from ssvm_dsl.ir.analysis.topology import Topology
from ssvm_dsl.ir.bounded_cache import BoundedCache
from ssvm_dsl.ir.constraints import (
    ConstraintGroup,
    ConstraintRules,
    CustomOracle,
    LabelRules,
    LinearRows,
    SideLimits,
    matching_limits,
)
from ssvm_dsl.ir.counts import CountFactors, CountTables
from ssvm_dsl.ir.features import NODE, Block, FeatureMap, ObservedPairs, SparseRows
from ssvm_dsl.ir.grammar_arrays import GrammarArrays
from ssvm_dsl.ir.graph_problem import GraphProblem
from ssvm_dsl.ir.loss import LossFactors, LossTerm
from ssvm_dsl.ir.need import Ability, Caps, Guarantee, Limits, Need, Task, Warm
from ssvm_dsl.ir.program import AUXILIARY, ONE_SPAN, SPANS, Group, Program
from ssvm_dsl.ir.question import Question
from ssvm_dsl.ir.ragged import (
    bounded_slices,
    first_largest,
    members,
    owners,
    pointers,
    positions,
    reduced,
    runs,
    slices,
)
from ssvm_dsl.ir.solution import (
    DualBound,
    Marginals,
    Messages,
    Prices,
    Primal,
    Solution,
    Stop,
    each_marginals,
    label_ptr,
)
from ssvm_dsl.ir.theta import Theta

__all__ = [
    "AUXILIARY",
    "F64",
    "I8",
    "I32",
    "I64",
    "LENGTHS",
    "NEIGHBOURS",
    "NODE",
    "ONE_SPAN",
    "RELATIVE",
    "ROUNDING",
    "SPAN",
    "SPANS",
    "STARTS",
    "SUCCESSIVE",
    "U8",
    "Ability",
    "Block",
    "Bools",
    "BoundedCache",
    "Caps",
    "ConstraintGroup",
    "ConstraintRules",
    "CountFactors",
    "CountTables",
    "CustomOracle",
    "DualBound",
    "FeatureMap",
    "GrammarArrays",
    "GraphProblem",
    "Group",
    "Guarantee",
    "LabelRules",
    "Limits",
    "LinearRows",
    "LossFactors",
    "LossTerm",
    "Marginals",
    "Messages",
    "Need",
    "ObservedPairs",
    "Prices",
    "Primal",
    "Program",
    "Question",
    "SegmentVariables",
    "SideLimits",
    "Solution",
    "SparseRows",
    "Stop",
    "Task",
    "Terms",
    "Theta",
    "Topology",
    "Warm",
    "block_terms",
    "bounded_slices",
    "each_marginals",
    "energy_origins",
    "energy_ratio",
    "expansion_factor",
    "first_largest",
    "label_ptr",
    "labelling_marginals",
    "matching_limits",
    "members",
    "n_marginals",
    "owners",
    "pointers",
    "polytope_equations",
    "positions",
    "reduced",
    "runs",
    "segment_links",
    "segment_variables",
    "slices",
]
