"""The weight-free intermediate representation: flat arrays that every backend and trainer reads.

Packed, never padded; int32 indices, int64 pointers, float64 scores, C-contiguous.  Scores are maximised.
"""

from ssvm_dsl.ir import compile_cache
from ssvm_dsl.ir.counts import CountTables
from ssvm_dsl.ir.features import Block, FeatureMap, ObservedPairs, SparseRows
from ssvm_dsl.ir.loss import LossTerm
from ssvm_dsl.ir.messages import Messages
from ssvm_dsl.ir.need import Caps, Guarantee, Limits, Need, Task, Topology, Warm
from ssvm_dsl.ir.parameters import ParameterMap
from ssvm_dsl.ir.program import ConstraintGroup, Group, Program
from ssvm_dsl.ir.solution import Marginals, Primal, Solution, Stop
from ssvm_dsl.ir.theta import Theta

__all__ = [
    "Block",
    "Caps",
    "ConstraintGroup",
    "CountTables",
    "FeatureMap",
    "Group",
    "Guarantee",
    "Limits",
    "LossTerm",
    "Marginals",
    "Messages",
    "Need",
    "ObservedPairs",
    "ParameterMap",
    "Primal",
    "Program",
    "Solution",
    "SparseRows",
    "Stop",
    "Task",
    "Theta",
    "Topology",
    "Warm",
]

compile_cache.prepare()  # before the first compiled function of the package is defined
