"""Passes of compiled kernels in chunks of examples, so that time limits and Ctrl-C need not wait for a pass to end.

The chunks depend on sizes only, never on the clock: results do not depend on the machine.
"""

from __future__ import annotations

from collections.abc import Iterator

from ssvm_dsl.ir import I64, SparseRows
from ssvm_dsl.plugin_api import TrainProblem

#: Multiply-adds between two checks of the clock: some 40 ms of an exact pass, 6 ms of a cached one.
CHUNK = 2.5e7


def chunks(problem: TrainProblem, ids: I64, cost: float, ahead: float = 0.0) -> Iterator[I64]:
    """Yield examples in chunks, checking the clock in between.

    Parameters
    ----------
    problem : TrainProblem
    ids : ndarray of int64
    cost : float
        Multiply-adds for an average example.
    ahead : float
        Seconds to keep for what comes after them.
    """
    size = max(1, int(CHUNK / max(cost, 1.0)))
    for lo in range(0, len(ids), size):
        problem.pause(ahead)
        yield ids[lo : lo + size]


def visit_cost(problem: TrainProblem) -> float:
    """Return the multiply-adds of scoring and decoding an average example, roughly."""
    program, total = problem.parameters.program, 0.0
    for group in program.groups:
        total += group.n_factors * float(group.n_configs)
    for fmap in problem.parameters.maps:
        if isinstance(fmap.features, SparseRows):
            total += float(len(fmap.features.data)) * fmap.n_basis
        elif fmap.features is not None:
            total += float(fmap.n_factors) * fmap.features.shape[1] * fmap.n_basis
    return 2.0 * (total + program.n_states) / max(problem.n, 1)
