"""Small random problems of runs for the conformance kit."""

from __future__ import annotations

import numpy as np

from ssvm_constraints.small_structure import Drawn, chosen_places, structure_problem
from ssvm_dsl.ir import F64, I64, Bools, ConstraintGroup, Group, Program, Theta, pointers

#: No bound.
MOST = 99

#: Positions and classes of a chain: few labellings.
SIZES = ((0, 2), (1, 3), (2, 3), (3, 3), (4, 2), (4, 3), (5, 2), (5, 3))

NAMES = ("position", "class", "least", "most")


def run_problem(rng: np.random.Generator) -> tuple[Program, Theta]:
    """Return chains as models with ``Duration(y)`` have them, or literals of all forms over separate variables."""
    return chain_problem(rng) if rng.random() < 0.7 else _scattered(rng)


def _scattered(rng: np.random.Generator) -> tuple[Program, Theta]:
    def draw() -> Drawn:
        n, k = int(rng.integers(0, 6)), int(rng.integers(1, 3))
        bounds = [_bounds(rng) for _ in range(k)]
        places = chosen_places(rng, [(t, b, *bounds[b]) for b in range(k) for t in range(n)], 4)
        return Drawn(np.unique(places, axis=0), (n, bool(rng.random() < 0.3)))

    return structure_problem(rng, "runs", draw, NAMES, {"n": np.int64, "cut": np.bool_})


def _bounds(rng: np.random.Generator) -> tuple[int, int]:
    """Return (least, most) positions of runs."""
    least = int(rng.integers(1, 4))
    return least, MOST if rng.random() < 0.5 else int(rng.integers(least, 5))


def chain_problem(rng: np.random.Generator, sizes: tuple[tuple[int, int], ...] = SIZES) -> tuple[Program, Theta]:
    """Return chains of labels whose classes, or some of them, last so long.

    Parameters
    ----------
    rng : Generator
    sizes : tuple of (int, int)
        Positions and classes to choose from.
    """
    k = int(rng.integers(2, 4))
    fitting = [n for n, classes in sizes if classes == k]
    n = rng.choice(fitting, 3).astype(np.int64)
    var_ptr = pointers(n)
    bounded = rng.permutation(k)[: int(rng.integers(1, k + 1))]
    bounds, cut = np.array([_bounds(rng) for _ in bounded]), rng.random(3) < 0.3
    if rng.random() < 0.2:  # too long for short chains
        bounded, bounds, cut = np.arange(k), np.tile([4, MOST], (k, 1)), np.zeros(3, dtype=bool)
    group = _constraints(n, bounded, bounds, cut, rng.permutation(3)[: int(rng.integers(2, 4))])
    allowed = rng.random(int(n.sum()) * k) < 0.95 if rng.random() < 0.3 else None
    card = np.full(int(n.sum()), k, dtype=np.int32)
    groups: tuple[Group, ...] = ()
    if rng.random() < 0.7:
        pairs = [np.arange(1, size) + at for size, at in zip(n.tolist(), var_ptr.tolist(), strict=False)]
        scope = np.concatenate([np.stack([t - 1, t], axis=1) for t in pairs]).astype(np.int32)
        ptr, rows = pointers(np.maximum(n - 1, 0)), np.zeros(len(scope), dtype=np.int32)
        groups = (Group.of("neighbours", (k, k), scope, ptr, rows, 1, var_ptr),)
    program = Program(var_ptr, card, groups, (group,), allowed=allowed).validate()
    whole = rng.random() < 0.5

    def draw(*shape: int) -> F64:
        return rng.integers(-2, 3, shape).astype(float) if whole else rng.normal(size=shape)

    tables = [draw(one.n_tables, one.n_configs) for one in program.groups]
    return program, Theta.of(program, draw(program.n_states), tables, draw(3))


def _constraints(n: I64, bounded: I64, bounds: I64, cut: Bools, there: I64) -> ConstraintGroup:
    """Return the constraint of each of the examples ``there``."""
    there = np.sort(there)
    counts, m = n[there] * len(bounded), len(there)
    position = np.concatenate([np.zeros(0, np.int64), *(np.tile(np.arange(size), len(bounded)) for size in n[there])])
    kind = np.concatenate([np.zeros(0, np.int64), *(np.repeat(np.arange(len(bounded)), size) for size in n[there])])
    numbers = (position, bounded[kind], bounds[kind, 0], bounds[kind, 1])
    return ConstraintGroup(
        "runs", "runs of the kit", pointers(np.isin(np.arange(len(n)), there).astype(np.int64)), pointers(counts),
        position.astype(np.int32), bounded[kind].astype(np.int32), np.zeros(len(kind), dtype=bool),
        {"n": n[there], "cut": cut[:m]},
        {name: value.astype(np.int32) for name, value in zip(NAMES, numbers, strict=True)},
    )  # fmt: skip
