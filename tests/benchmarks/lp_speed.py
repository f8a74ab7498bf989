"""Linear and integer programs over local polytopes: solvers side by side, and what a warm start saves.

``cold`` solves from scratch with the structure at hand, ``new`` builds that too, ``warm`` starts from the basis of a
problem whose scores differ by noise of a hundredth of their size.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import combinations
from typing import Any

import numpy as np
from models import interleaved

from ssvm_backends.programs.ilp import ILP
from ssvm_backends.programs.lp import LP
from ssvm_dsl.ir import Group, Program, Question, Theta


def random_problem(n: int, card: int, edges: Any, seed: int = 0) -> tuple[Program, Theta]:
    """One pairwise example with standard normal scores."""
    scope = np.array(edges, dtype=np.int32)
    rows = np.arange(len(scope), dtype=np.int32)
    group = Group.of("edge", (card, card), scope, np.array([0, len(scope)]), rows, len(scope), np.array([0, n]))
    program = Program(np.array([0, n]), np.full(n, card, np.int32), (group,)).validate()
    return program, noisy(program, Theta.zeros(program), 1.0, seed)


def noisy(program: Program, theta: Theta, size: float, seed: int) -> Theta:
    """The same scores with noise."""
    rng, out = np.random.default_rng(seed), theta.copy()
    out.node[:] += size * rng.normal(size=out.node.size)
    out.pool[:] += size * rng.normal(size=out.pool.size)
    return out


def grid_edges(h: int, w: int) -> Any:
    """Neighbours in a grid."""
    at = np.arange(h * w).reshape(h, w)
    across, down = (at[:, :-1], at[:, 1:]), (at[:-1], at[1:])
    return np.concatenate([np.stack([a.ravel(), b.ravel()], axis=1) for a, b in (across, down)])


def lp_calls(program: Program, theta: Theta) -> dict[str, Callable[[], Any]]:
    """One call for each way of solving the relaxation."""
    near, calls = noisy(program, theta, 0.01, 1), {}
    for solver in ("glop", "highs", "pdlp"):
        session = LP().open(program, {"solver": solver, "rounding": "none"})
        calls[f"{solver} cold"] = lambda session=session: session.solve(Question(near))
        if solver != "highs":
            warm = session.solve(Question(theta)).warm
            calls[f"{solver} warm"] = lambda session=session, warm=warm: session.solve(Question(near, warm=warm))
    calls["glop new"] = lambda: LP().open(program, {"solver": "glop", "rounding": "none"}).solve(Question(near))
    return calls


def show(title: str, calls: dict[str, Callable[[], Any]], repeats: int) -> None:
    """Print times and bounds."""
    answers: dict[str, Any] = {}
    seconds = interleaved({name: lambda name=name: answers.update({name: calls[name]()}) for name in calls}, repeats)
    print(title)
    for name, solution in answers.items():
        bound, score = solution.bound[0], solution.score[0]
        print(f"  {name:12} {1e3 * seconds[name]:9.2f} ms   bound {bound:12.5f}   score {score:.5f}")
    for other in ("glop cold", "glop new", "highs cold") if "glop warm" in seconds else ():
        print(f"  glop warm is {seconds[other] / seconds['glop warm']:.1f} times as fast as {other}")


def main() -> None:
    """Run all comparisons."""
    small = random_problem(14, 2, list(combinations(range(14), 2)))
    show("complete graph, 14 variables of 2 states: relaxation", lp_calls(*small), 30)
    sessions = {
        "cp-sat": ILP().open(small[0], {"solver": "cp-sat", "num_workers": 1}),
        "highs milp": ILP().open(small[0], {"solver": "highs", "num_workers": 1}),
    }
    exact = {name: lambda session=session: session.solve(Question(small[1])) for name, session in sessions.items()}
    show("the same: best labelling", exact, 5)
    large = random_problem(900, 5, grid_edges(30, 30))
    show("grid of 30 x 30 variables of 5 states: relaxation", lp_calls(*large), 1)
