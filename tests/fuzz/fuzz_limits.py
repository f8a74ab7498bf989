"""Promise: a call with a time limit ends in time, whatever the problem, the backend and the call.

Limits and problems are such that most calls are cut short.  What may be late here is generous, for machines that do
other things; ``make bench ARGS=limits`` measures it.
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from limit_problems import CALLS, backends, chain_edges, complete_edges, grid_edges, large, overrun

UNIT = "calls"
SHORT = 4
LIMIT = 120.0

#: Seconds that a call may be late: a stretch of work that nothing interrupts, on a machine that is busy.
LATE = 30.0


def trial(rng, scratch):
    """Ask one backend about a random problem."""
    shape, size = int(rng.integers(3)), int(rng.integers(5, 40))
    edges = (grid_edges, lambda n, _: complete_edges(n), lambda n, m: chain_edges(n * m))[shape](size, size)
    card = int(rng.integers(2, 12))
    problem = large("", edges, card, int(rng.integers(1, 5)), rng)
    names = backends()
    backend = names[int(rng.integers(len(names)))]
    call = CALLS[int(rng.integers(len(CALLS)))]
    seconds = float(rng.choice([0.05, 0.2, 0.5]))
    found = overrun(problem, backend, call, seconds, rng)
    assert found is None or found[0] <= LATE, f"{call} with {backend}, {seconds} s: {found}"
    return 1
