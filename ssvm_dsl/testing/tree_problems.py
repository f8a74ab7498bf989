"""Small problems of parse trees, for backends that take them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from ssvm_dsl.compiler.ground import ground
from ssvm_dsl.ir import Theta
from ssvm_dsl.lang.grammars.grammar import Grammar
from ssvm_dsl.lang.model import ModelBuilder
from ssvm_dsl.lang.outputs.targets import rules
from ssvm_dsl.testing.problems import Problem

#: The kind of constraints that labels of trees have.
DERIVABLE = "derivable"

#: Sentences of a problem, and the most words of one: all labellings are tried.
N_SENTENCES, MOST_WORDS = 3, 2


def tree_problem(seed: int) -> Problem:
    """Return sentences of up to two words with random scores, ties and masks; some have no tree."""
    rng, model = np.random.default_rng(seed), ModelBuilder("Trees")
    axis = model.dim("T")
    model.input("x", axis)
    grammar = Grammar([("S", "ab"), ("S", "ba"), ("S", "a")], "S", tags="ab")
    label = model.label("y", axis, grammar=grammar)
    if rng.random() < 0.7:
        model.factor("rule", rules(label))
    model.factor("leaf", label)
    sizes = rng.integers(0 if seed % 3 == 0 else 1, MOST_WORDS + 1, N_SENTENCES)
    program = ground(model.declaration(), [{"x": np.zeros(n)} for n in sizes.tolist()]).program
    whole = rng.random() < 0.5

    def drawn(size: int) -> np.ndarray:
        return rng.integers(-2, 3, size).astype(np.float64) if whole else rng.normal(size=size)

    tables = [drawn(one.n_tables * one.n_configs) for one in program.groups]
    if rng.random() < 0.4:
        program = replace(program, allowed=rng.random(program.n_states) < 0.9)
    theta = Theta.of(program, drawn(program.n_states), tables, drawn(N_SENTENCES))
    return Problem(f"tree_problem({seed})", program, theta)


def tree_problems(n: int, seed: int = 0) -> Iterator[Problem]:
    """Yield n problems of parse trees."""
    yield from (tree_problem(1000 * seed + number) for number in range(n))
