"""HiGHS's branch and bound, through ``scipy.optimize.milp``, on local polytopes: an alternative to CP-SAT.

Only the variables' columns are declared integer: with those whole, rows and non-negativity make the factors' whole.
Losses are divided by the largest one.  HiGHS closes its gap up to an absolute 1e-6 and lets rows and whole numbers be
off by as much; the losses are therefore scaled up first, and the bound gets twice these tolerances added.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ssvm_backends.programs.local_polytope import Priced, first_incumbent
from ssvm_backends.programs.session import ProgramAnswer, first_answer
from ssvm_dsl.ir import Stop
from ssvm_dsl.plugin_api import CallOutcome, Clock, call_in_process

#: Size of the largest loss as HiGHS sees it.
SCALE = 1e4

#: HiGHS's absolute tolerances, in its own units.
TOLERANCE = 1e-6


#: Seconds for each entry of the rows in which HiGHS does not check the clock.
LATE_SECONDS = 1e-5


def highs_milp(priced: Priced, clock: Clock, warm: Any) -> ProgramAnswer:
    """Return the best labelling found, or the one it starts from, if that is better.

    HiGHS itself takes no labels; they close columns.  It checks the clock too rarely on large examples: 50 000 columns
    with a limit of 1 s were seen to take 3 s; as much is kept back.  It cannot be asked to stop: it works in another
    process, which is killed at the limit and at Ctrl-C; what it had found is lost then (``stats["lost_calls"]``).
    """
    from scipy.optimize import Bounds, LinearConstraint

    polytope, (labels, losses) = priced.polytope, first_incumbent(priced, warm)
    closed = losses == np.inf
    largest = float(np.max(losses, where=~closed, initial=0.0)) or 1.0
    unit = largest / SCALE
    options: dict[str, Any] = {"mip_rel_gap": 0.0}
    if clock.end < np.inf:
        late = LATE_SECONDS * polytope.nnz
        clock.afford(late)
        options["time_limit"] = max(0.0, clock.left - late)
    if clock.limits.iterations is not None:
        options["node_limit"] = clock.limits.iterations
    side, n = polytope.side, polytope.n_columns
    most = np.concatenate([np.where(closed, 0.0, 1.0), side.most])
    cost = np.concatenate([np.where(closed, 0.0, losses / unit), np.zeros(side.n_auxiliary)])
    program = {
        "integrality": np.concatenate([np.arange(n) < polytope.state_ptr[-1], side.whole]),
        "bounds": Bounds(np.concatenate([np.zeros(n), side.least]), most),
        "constraints": LinearConstraint(*polytope.all_rows),
        "options": options,
    }
    ended: CallOutcome[Any] = call_in_process("scipy.optimize:milp", (cost,), program, clock)
    result = ended.value
    if result is None:
        return first_answer(priced, labels, ended.stop, lost_calls=1)
    if result.status == 2:
        return ProgramAnswer(bound=-np.inf)
    stop = Stop.FINISHED
    if result.status != 0:
        stop = Stop.TIME if clock.limits.iterations is None or clock.over else Stop.ITERATIONS
    lost = 0.0 if result.mip_dual_bound is None else max(0.0, float(result.mip_dual_bound))
    bound = min(priced.bound(), priced.top - (lost - 2 * TOLERANCE) * unit + priced.rounding(lost * unit))
    score = priced.score_of(labels)
    if result.x is not None:
        better = polytope.labels_of(np.asarray(result.x, dtype=np.float64))
        if priced.score_of(better) >= score:
            labels, score = better, priced.score_of(better)
    if score == -np.inf:
        return ProgramAnswer(bound=bound, stop=stop if result.x is None else Stop.ITERATIONS)
    return ProgramAnswer(
        labels, score, max(bound, score), stop, warm=labels, stats={"nodes": int(result.mip_node_count or 0)}
    )
