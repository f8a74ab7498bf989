"""Programs with constraints for the tests, written literal by literal."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np

from ssvm_dsl.inference.rules import with_rules
from ssvm_dsl.ir import ConstraintGroup, Group, Program, Theta, pointers
from ssvm_dsl.registry import registry


def group_of(kind, examples, name="c", literal_meta=(), **meta):
    """A group from, for each example, a list of constraints: lists of (variable, state[, negated[, *literal meta]]).

    ``meta`` lists one value for each constraint of the batch.
    """
    constraints = [one for example in examples for one in example]
    literals = [(*literal[:2], len(literal) > 2 and literal[2], literal[3:]) for one in constraints for literal in one]
    types = enumerate((np.int32, np.int32, bool))
    columns = [np.array([literal[i] for literal in literals], dtype=kind) for i, kind in types]
    more = {key: np.array([literal[3][i] for literal in literals]) for i, key in enumerate(literal_meta)}
    return ConstraintGroup(
        kind, name, pointers(np.array(list(map(len, examples)))), pointers(np.array(list(map(len, constraints)), int)),
        *columns, {key: np.array(value) for key, value in meta.items()}, more,
    )  # fmt: skip


def unlinked(cards, *groups, allowed=None):
    """Examples of variables without factors: lists of numbers of states."""
    flat = np.array([card for one in cards for card in one], np.int32)
    return Program(pointers(np.array(list(map(len, cards)))), flat, (), groups, allowed=allowed).validate()


def labellings(program, example):
    """All labellings of an example."""
    card = program.card[program.var_ptr[example] : program.var_ptr[example + 1]]
    return itertools.product(*map(range, card.tolist()))


def random_constraints(rng, program, kind):
    """A group of constraints over random literals of a program, ``count`` or ``linear``."""
    lengths = np.diff(program.var_ptr)
    ptr = pointers(rng.integers(0, 3, program.n_examples))
    example = np.repeat(np.arange(program.n_examples), np.diff(ptr))
    sizes = np.array([rng.integers(0, 2 * lengths[i] + 1) for i in example], dtype=np.int64)
    owner = np.repeat(example, sizes)
    variable = np.array([rng.integers(0, lengths[i]) for i in owner], dtype=np.int32)
    state = rng.integers(0, program.card[program.var_ptr[owner] + variable]).astype(np.int32)
    negated, meta, more = rng.random(len(owner)) < 0.2, {}, {}
    half = sizes // 2
    if kind == "count":
        lower = rng.integers(-1, 1 + half)
        meta = {"lower": lower, "upper": np.where(rng.random(len(sizes)) < 0.2, 2**31 - 1, lower + rng.integers(0, 4))}
    else:
        unit = rng.choice([1.0, 0.1, np.pi])
        more = {"coefficient": unit * rng.integers(-3, 6, len(owner))}
        meta = {"lower": np.where(rng.random(len(sizes)) < 0.5, -np.inf, unit * rng.integers(-2, 3, len(sizes)))}
        meta["upper"] = np.where(rng.random(len(sizes)) < 0.2, np.inf, unit * (half + 2.0))
    return ConstraintGroup(kind, f"random {kind}", ptr, pointers(sizes), variable, state, negated, meta, more)


def with_pairs(program, theta, rng):
    """The problem with a table over some pairs of variables of each example, of their own scores."""
    by_cards = {}
    for i in range(program.n_examples):
        lo, hi = program.var_ptr[i : i + 2]
        for _ in range(int(hi - lo) // 2):
            a, b = np.sort(rng.choice(np.arange(lo, hi), 2, replace=False)).tolist()
            by_cards.setdefault((int(program.card[a]), int(program.card[b])), []).append((i, a, b))
    groups, tables = [], []
    for cards, found in by_cards.items():
        owner = np.array([i for i, _, _ in found])
        scope, rows = np.array([one[1:] for one in found], np.int32), np.arange(len(found), dtype=np.int32)
        ptr = pointers(np.bincount(owner, minlength=program.n_examples))
        groups.append(Group.of(f"pair {cards}", cards, scope, ptr, rows, len(found), program.var_ptr))
        tables.append(rng.normal(size=(len(found), cards[0] * cards[1])))
    mixed = replace(program, groups=tuple(groups)).validate()
    return with_rules(mixed, registry()), Theta.of(mixed, theta.node, tables, theta.const)
