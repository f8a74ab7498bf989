"""Problems for bridges: those that kinds of constraints make, alone and with additional factors."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ssvm_dsl.ir import Group, Program, Theta
from ssvm_dsl.ir.ragged import pointers
from ssvm_dsl.registry import Registry
from ssvm_dsl.testing.constraints.problems import kind_problem
from ssvm_dsl.testing.problems import Problem


def bridge_problem(kind: str, seed: int, plugins: Registry) -> Problem:
    """Return the problem that a kind makes of a seed; every second one also has random tables of two variables."""
    problem = kind_problem(kind, seed, plugins)
    return problem if seed % 2 == 0 else linked(problem, np.random.default_rng(seed))


def linked(problem: Problem, rng: np.random.Generator) -> Problem:
    """Return a problem with tables of random pairs of variables: trees, cycles and unconnected graphs."""
    program = problem.program
    pairs: dict[tuple[int, ...], list[tuple[int, int, int]]] = {}
    for i in range(program.n_examples):
        first, n = int(program.var_ptr[i]), int(program.var_ptr[i + 1] - program.var_ptr[i])
        for _ in range(rng.integers(0, n + 1) if n > 1 else 0):
            u, v = (first + rng.choice(n, 2, replace=False)).tolist()
            pairs.setdefault((int(program.card[u]), int(program.card[v])), []).append((i, u, v))
    groups, tables = list(program.groups), list(problem.theta.tables)
    for cards, pairs_of_cards in pairs.items():
        counts = np.bincount([i for i, _, _ in pairs_of_cards], minlength=program.n_examples)
        scope = np.array([(u, v) for _, u, v in pairs_of_cards], dtype=np.int32)
        rows = np.arange(len(pairs_of_cards), dtype=np.int32)
        name = f"pairs {cards[0]} {cards[1]}"
        groups.append(Group.of(name, cards, scope, pointers(counts), rows, len(pairs_of_cards), program.var_ptr))
        tables.append(rng.integers(-3, 4, (len(pairs_of_cards), cards[0] * cards[1])).astype(float))
    made: Program = replace(program, groups=tuple(groups)).validate()
    return Problem(f"linked {problem.name}", made, Theta.of(made, problem.theta.node, tables, problem.theta.const))
