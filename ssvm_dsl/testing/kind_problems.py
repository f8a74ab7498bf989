"""Problems that kinds of constraints make for their own tests, with their rules filled in."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from ssvm_dsl.array_types import F64, I32
from ssvm_dsl.errors import PluginError
from ssvm_dsl.inference.rules import with_rules
from ssvm_dsl.ir import Program, Theta
from ssvm_dsl.ir.constraints import ConstraintGroup, CustomOracle
from ssvm_dsl.ir.ragged import members, pointers
from ssvm_dsl.plugin_api import ConstraintKind, ConstraintSpec
from ssvm_dsl.plugin_api.hosting.rules import CustomRules
from ssvm_dsl.registry import Registry, registry
from ssvm_dsl.testing.problems import Problem

#: Labellings of an example at most: all of them are tried.
MOST_LABELLINGS = 2**12

#: One of so many problems has other literals than the kind made, and one more constraints.
VARIED = 3


def kind_problem(kind: str, seed: int, plugins: Registry | None = None) -> Problem:
    """Return the problem that a kind of constraints makes from a seed; by default the kind is an installed one.

    Of every third seed the literals are varied (:func:`varied`), and of every third one the constraints of another
    problem are added (:func:`joined`), unless the kind takes some literals only.

    Raises
    ------
    PluginError
        It is malformed, has no constraint of the kind, or is too large.
    """
    known = registry() if plugins is None else plugins
    spec = known.find(ConstraintSpec, kind)
    made: ConstraintKind = known.load(spec)()
    name = f"kind_problem({kind!r}, {seed})"
    program, theta = _pair(made.problem(np.random.default_rng(seed)))
    if not any(group.kind == kind for group in program.constraints):
        raise PluginError(f"{name} has no group of this kind")
    for example in range(program.n_examples):
        if program.n_labellings(example) > MOST_LABELLINGS:
            raise PluginError(f"{name}, example {example}, has more than {MOST_LABELLINGS} labellings")
    program = program.validate()
    if spec.any_literals and seed % VARIED == 1:
        program = joined(program, made.problem(np.random.default_rng((seed, 1)))[0], kind)
    elif spec.any_literals and seed % VARIED == 2:
        program = varied(program, kind, np.random.default_rng(seed))
    return Problem(name, with_rules(program, known), _of_program(theta, program))


def varied(program: Program, kind: str, rng: np.random.Generator) -> Program:
    """Return a program whose constraints of a kind have some literals negated, in other places, or more than once.

    Some constraints are there a second time, with other literals negated.
    """
    groups = []
    for group in program.constraints:
        if group.kind == kind:
            place = np.arange(len(group.variable))
            for mine in map(group.literals, range(group.n_constraints)):
                place[mine] = rng.permutation(place[mine])
                if rng.random() < 0.5 and mine.stop > mine.start:
                    place[mine.start] = place[mine.stop - 1]
            every = np.arange(group.n_constraints)
            again = np.sort(np.append(every, every[rng.random(len(every)) < 0.3]))
            own = np.concatenate([place[:0], *(np.arange(len(place))[group.literals(k)] for k in again.tolist())])
            where, counts = place[own], np.bincount(group.example_of[again], minlength=len(group.ptr) - 1)
            group = replace(
                group,
                ptr=pointers(counts),
                literal_ptr=pointers(np.diff(group.literal_ptr)[again]),
                variable=group.variable[where],
                state=group.state[where],
                negated=group.negated[where] ^ (rng.random(len(where)) < 0.3),
                meta={name: value[again] for name, value in group.meta.items()},
                literal_meta={name: value[own] for name, value in group.literal_meta.items()},
            )
        groups.append(group)
    return replace(program, constraints=tuple(groups)).validate()


def joined(program: Program, other: Program, kind: str) -> Program:
    """Return a program whose examples have constraints of another one, too, if that has the same variables.

    Then an example has constraints of a kind that differ in their parameters.
    """
    mine, more = ([one for one in each.constraints if one.kind == kind] for each in (program, other))
    alike = np.array_equal(program.var_ptr, other.var_ptr) and np.array_equal(program.card, other.card)
    if not (alike and len(mine) == len(more) == 1) or mine[0].shared:
        return program
    both = mine[0], more[0]
    example = np.concatenate([one.example_of for one in both])
    order = np.argsort(example, kind="stable")
    lengths = np.concatenate([np.diff(one.literal_ptr) for one in both])
    literals = members(pointers(lengths), order)
    group = replace(
        mine[0],
        ptr=pointers(np.bincount(example, minlength=program.n_examples)),
        literal_ptr=pointers(lengths[order]),
        variable=np.concatenate([one.variable for one in both])[literals],
        state=np.concatenate([one.state for one in both])[literals],
        negated=np.concatenate([one.negated for one in both])[literals],
        meta={name: np.concatenate([one.meta[name] for one in both])[order] for name in mine[0].meta},
        literal_meta={
            name: np.concatenate([one.literal_meta[name] for one in both])[literals] for name in mine[0].literal_meta
        },
    )
    return replace(program, constraints=tuple(group if one is mine[0] else one for one in program.constraints))


def _pair(returned: Any) -> tuple[Program, Theta]:
    """Return the pair that ``problem()`` returned; refuse anything but a program and its scores."""
    if not isinstance(returned, tuple):
        raise PluginError(f"problem() returned {_kind(returned)}, expected a pair: a Program and a Theta")
    kinds = [_kind(one) for one in returned]
    if len(returned) != 2 or not isinstance(returned[0], Program) or not isinstance(returned[1], Theta):
        text = f"problem() returned ({', '.join(kinds)}), expected (Program, Theta)"
        raise PluginError(f"{text}; Theta.zeros(program) makes scores to fill in")
    return returned


def _of_program(theta: Theta, program: Program) -> Theta:
    """Return scores; refuse those of another program."""
    right = Theta.zeros(program)
    names = ["node", *(f"tables of group '{group.name}'" for group in program.groups), "const"]
    mine, expected = [theta.node, *theta.tables, theta.const], [right.node, *right.tables, right.const]
    if len(mine) != len(expected):
        raise PluginError(f"problem() returned scores with {len(theta.tables)} tables, expected {len(right.tables)}")
    for name, one, other in zip(names, mine, expected, strict=True):
        if not isinstance(one, np.ndarray) or one.shape != other.shape or one.dtype != other.dtype:
            came = f"{one.dtype}, shape {one.shape}" if isinstance(one, np.ndarray) else _kind(one)
            raise PluginError(f"problem() returned {name} of {came}, expected {other.dtype}, shape {other.shape}")
    return theta


def _kind(value: Any) -> str:
    """Return the type of a value, in a word."""
    return "None" if value is None else type(value).__name__


def kind_problems(kind: str, n: int, seed: int = 0, plugins: Registry | None = None) -> Iterator[Problem]:
    """Yield n problems of a kind."""
    for number in range(n):
        yield kind_problem(kind, 1000 * seed + number, plugins)


# -- problems of users' own structures, ``Custom(y, oracle=...)`` ----------------------------------------------------


class FewMoved:
    """At most ``most`` variables differ from their first state: a structure for the kit.

    Parameters
    ----------
    most : int
    """

    exact = True

    def __init__(self, most: int) -> None:
        self.most = most

    def feasible(self, labels: I32) -> bool:
        """Return whether few enough variables have moved."""
        return int((labels != 0).sum()) <= self.most

    def best(self, scores: F64) -> I32 | None:
        """Return the best states: variables move where the first state is forbidden, and where moving gains most."""
        away = scores[:, 1:].argmax(axis=1)
        with np.errstate(invalid="ignore"):
            gain = np.where(scores[:, 0] == -np.inf, np.inf, scores[:, 1:].max(axis=1) - scores[:, 0])
        moved = np.argsort(-gain, kind="stable")[: self.most]
        moved = moved[gain[moved] > 0.0]
        if (gain == np.inf).sum() > self.most:
            return None
        out = np.zeros(len(scores), dtype=np.int32)
        out[moved] = 1 + away[moved]
        return out


def custom_problems(kind: str, n: int, seed: int = 0) -> Iterator[Problem]:
    """Yield small problems with the kit's structure in most examples, and an additional variable in some."""
    for number in range(n):
        rng = np.random.default_rng([seed, number])
        sizes, spare = rng.integers(0, 4, 4), rng.integers(0, 2, 4)
        there = rng.random(4) < 0.8
        n_states, most = int(rng.integers(2, 4)), int(rng.integers(0, 3))
        var_ptr, card = pointers(sizes + spare), np.full(int((sizes + spare).sum()), n_states, dtype=np.int32)
        lists = [np.tile(np.arange(size, dtype=np.int32), n_states) for size in sizes[there]]
        states = [np.repeat(np.arange(n_states, dtype=np.int32), size) for size in sizes[there]]
        group = ConstraintGroup(
            kind, "few moved", pointers(there.astype(np.int64)), pointers(sizes[there] * n_states),
            np.concatenate([np.zeros(0, np.int32), *lists]), np.concatenate([np.zeros(0, np.int32), *states]),
            np.zeros(int(sizes[there].sum()) * n_states, dtype=bool), {"size_0": sizes[there].astype(np.int64)},
        )  # fmt: skip
        name = "ssvm_dsl.testing.kind_problems:FewMoved"
        oracle = CustomOracle(name, FewMoved, (("most", most),), (0,), n_states, True)
        group = replace(group, oracle=oracle, rules=CustomRules(oracle))
        allowed = rng.random(int(card.sum())) < 0.85 if rng.random() < 0.5 else None
        program = Program(var_ptr, card, (), (group,), allowed=allowed).validate()
        scores = rng.integers(-3, 4, program.n_states) if rng.random() < 0.5 else rng.normal(size=program.n_states)
        theta = Theta.of(program, scores.astype(float))
        yield Problem(f"custom_problems({kind!r}, seed={seed})[{number}]", program, theta)
