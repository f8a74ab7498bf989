"""Programs with constraints for the tests, written literal by literal."""

from __future__ import annotations

import itertools

import numpy as np

from ssvm_dsl.ir import ConstraintGroup, Program, pointers


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
