"""From marginals to labellings.

Marginals that solve a linear program over the local polytope need not be a labelling even where one is as good: with
ties a solver may end anywhere between the best ones.  Here a labelling is read off one variable after the other, from a
first one outwards along factors: each takes the state of the largest marginal given the states taken so far.  On
forests every state taken that way, and every pair of them, has a positive marginal, so that the labelling solves the
program, too (complementary slackness); on graphs with cycles it may or may not, which its score tells.
"""

from __future__ import annotations

import numpy as np

from ssvm_dsl.array_types import I32
from ssvm_dsl.ir.program import Program
from ssvm_dsl.ir.ragged import pointers
from ssvm_dsl.ir.solution import Marginals


def rounded(program: Program, marginals: Marginals) -> I32:
    """Return a labelling near the marginals of all examples; ``shape (V,)``.

    Hard constraints are ignored.  Time is linear in the size of the tables, memory a copy of them.
    """
    from ssvm_dsl.kernels.flat import FactorLists
    from ssvm_dsl.kernels.marginals import round_marginals

    groups = program.groups
    arity = np.repeat([group.arity for group in groups], [group.n_factors for group in groups]).astype(np.int64)
    width = np.repeat([group.n_configs for group in groups], [group.n_factors for group in groups]).astype(np.int64)
    scope = np.concatenate([np.zeros(0, np.int32), *(group.shapes.variables().ravel() for group in groups)])
    tables = np.concatenate([np.zeros(0), *(table.ravel() for table in marginals.tables)])
    factor = np.repeat(np.arange(len(arity)), arity)[np.argsort(scope, kind="stable")]
    degree = np.bincount(scope, minlength=program.n_variables)
    labels = np.full(program.n_variables, -1, dtype=np.int32)
    lists = FactorLists(
        program.card, program.state_ptr, pointers(arity), scope, pointers(width), pointers(degree), factor
    )
    round_marginals(lists, marginals.node, tables, labels)
    return labels
