"""``make bench ARGS=limits``: how far calls run past their time limits, on problems that are too large for them.

Compiling is not counted.  Each case is repeated when it is late, and the least overrun counts: other programs on the
machine make calls late, too.  ``SSVM_LIMITS_QUICK=1`` takes four problems and limits of 0.2 and 1 s.  Single
predictions that were far late once come first (:mod:`limit_rows`); ``SSVM_LIMITS_ROWS=1`` takes them alone.
"""

from __future__ import annotations

import os

import limit_rows
import numpy as np

from limit_problems import CALLS, backends, chain_edges, complete_edges, grid_edges, large, overrun

#: Overruns that count as none: a share of the limit, or seconds.
SHARE, SECONDS = 0.25, 0.2

#: How often a late case is tried again.
AGAIN = 2


def problems(quick):
    """Return the problems."""
    rng, found = np.random.default_rng(0), []
    for size, card, n in ((24, 4, 2), (40, 2, 4), (60, 8, 1), (100, 3, 2), (12, 30, 2), (200, 2, 1), (30, 21, 3)):
        found.append((f"grid {size}x{size}, {card} states", grid_edges(size, size), card, n))
    for size, card, n in ((30, 4, 5), (53, 2, 20), (100, 2, 10), (159, 2, 3), (60, 10, 2), (20, 50, 2), (200, 3, 1)):
        found.append((f"complete {size}, {card} states", complete_edges(size), card, n))
    for size, card, n in ((1000, 200, 2), (100, 1000, 1), (20000, 30, 2), (50, 26, 500), (5000, 100, 3), (10, 500, 20)):
        found.append((f"chain {size}, {card} states", chain_edges(size), card, n))
    return [large(name, edges, card, n, rng) for name, edges, card, n in (found[::5] if quick else found)]


def main():
    """Print single predictions, then the worst overruns."""
    limit_rows.main()
    if os.environ.get("SSVM_LIMITS_ROWS"):
        return
    quick, late, rng = bool(os.environ.get("SSVM_LIMITS_QUICK")), [], np.random.default_rng(1)
    worst, n_cases = dict.fromkeys(CALLS, (-np.inf, "")), 0
    for problem in problems(quick):
        for backend in backends():
            for call in CALLS:
                for seconds in (0.2, 1.0) if quick else (0.2, 1.0, 5.0):
                    found = overrun(problem, backend, call, seconds, rng)
                    for _ in range(AGAIN):
                        if found is not None and found[0] > max(SHARE * seconds, SECONDS):
                            found = min(found, overrun(problem, backend, call, seconds, rng))
                    if found is None:
                        continue
                    n_cases += 1
                    text = f"{problem.name}, {backend}, {seconds:g} s: {found[0]:+.2f} s ({found[1]})"
                    worst[call] = max(worst[call], (found[0], text))
                    if found[0] > max(SHARE * seconds, SECONDS):
                        late.append(f"{call}: {text}")
                        print("late", late[-1], flush=True)
    for call, (_, text) in worst.items():
        print(f"worst {call:8} {text}")
    print(f"{n_cases} cases, {len(late)} late by more than a quarter of the limit and 0.2 s")
