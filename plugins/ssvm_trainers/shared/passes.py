"""Passes of compiled kernels in chunks, when trainers of the dual certify, and checks of compiled oracles."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, cast

import numpy as np

from ssvm_dsl.errors import BackendFault, TrainingError
from ssvm_dsl.ir import F64, I64, SparseRows, Theta
from ssvm_dsl.plugin_api import PredictingProblem, StopRule, TrainProblem
from ssvm_trainers.shared.resumable import COUNTS, Stateful

# --------------------------------------------------------------------------------------------------------------------
# Passes of compiled kernels in chunks of examples, so that time limits and Ctrl-C need not wait for a pass to end.
#
# The chunks depend on sizes only, never on the clock: results do not depend on the machine.

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


class CertificationSchedule(Stateful):
    """Decides when a certificate is worth its cost, a pass of the oracle.

    A pass measures the gap of each example at the weights of its visit.  Their sum estimates the duality gap at the
    weights after the pass, from above as a rule; ``ratio`` is the certified gap over it, as measured last.
    """

    ratio: Annotated[float, COUNTS]

    def __init__(self) -> None:
        self.ratio = 0.6

    def asks(self, stop: StopRule, dual: float, estimate: float, passes: float) -> bool:
        """Return whether the gap is probably below the tolerance, or only one pass is left."""
        wanted = stop.tol * max(abs(dual + estimate), 1e-12)
        return self.ratio * estimate <= wanted or passes + 1.0 >= stop.max_passes

    def learn(self, certified: float, estimate: float) -> None:
        """Compare a certified gap with its estimate."""
        if estimate > 0.0:
            # bounded above: an estimate that is only rounding must not postpone the next certificate forever
            self.ratio = float(np.clip(certified / estimate, 1e-3, 10.0))


def count_calls(
    problem: TrainProblem, n_calls: int, begin: float, off: float, w: F64, examples: I64, predicted: bool = False,
    scale: float = 1.0,
) -> None:  # fmt: skip
    """Add calls of a compiled oracle since ``begin`` to the problem's; check the scores it reported.

    Where it had no answer, the backend is asked again by ``solve``, which explains the failure.

    Parameters
    ----------
    problem : TrainProblem
    n_calls : int
    begin : float
        On the clock of the problem.
    off : float
        Largest relative difference between a score and that of its labelling; ``nan`` where one is missing.
    w : ndarray of float64, shape (dim,)
        The weights of the last call are ``scale w``.
    examples : ndarray of int64
        The examples that the oracle was called for, in order.
    predicted : bool
        Whether the calls were for best labellings, not for most violated ones.

    Raises
    ------
    BackendFault
        The scores are not those of its labellings, or it had no answer although the backend has one.
    TrainingError
        The scores are not finite.
    """
    problem.n_oracle_calls += n_calls
    problem.oracle_seconds += problem.seconds() - begin
    if np.isnan(off) and _are_finite(problem.scores(scale * w, examples)):
        (cast(PredictingProblem, problem).predicted if predicted else problem.oracle)(scale * w, examples)
        raise BackendFault("compiled oracle", "has no answer where the backend's solve has one")
    if not np.isfinite(off):
        raise TrainingError("scores are no longer finite numbers: features or weights are too large")
    if not off <= 1e-6:
        raise BackendFault("compiled oracle", f"reported scores differ from those of its labellings by {off:.2g}")


def _are_finite(theta: Theta) -> bool:
    return bool(np.isfinite(theta.node).all() and not np.isnan(theta.pool).any() and (theta.pool < np.inf).all())
