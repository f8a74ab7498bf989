"""The rules of the conformance kit: every check, what it is about, and when it applies."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ssvm_dsl.ir import Ability, Caps, Task, Warm
from ssvm_dsl.testing.backends import ability_checks, checks
from ssvm_dsl.testing.backends.checks import Trial
from ssvm_dsl.testing.backends.judge import LABELLING_TASKS, Judge
from ssvm_dsl.testing.problems import Problem

ALL_TASKS = frozenset(Task)


@dataclass(frozen=True)
class Rule:
    """A check and when it applies.

    Parameters
    ----------
    name : str
    run : callable
        Raises when a trial goes wrong.
    tasks : frozenset of Task
        The tasks it is about.
    claimed : callable
        Whether a backend of given ``Caps`` claims what it tests (besides the tasks).
    fits : callable
        Whether a problem can test it.
    optional : bool
        Whether no case at all is fine.
    once : bool
        Whether one trial is enough: the check makes a problem of its own.
    """

    name: str
    run: Callable[[Trial], None]
    tasks: frozenset[Task] = ALL_TASKS
    claimed: Callable[[Caps], bool] = lambda caps: True
    fits: Callable[[Problem], bool] = lambda problem: True
    optional: bool = False
    once: bool = False


def _has_examples(problem: Problem) -> bool:
    return problem.program.n_examples > 0


def _free(problem: Problem) -> bool:
    return _has_examples(problem) and not problem.has_constraints


def _ability(name: str, run: Callable[[Trial], None], task: Task, ability: Ability) -> Rule:
    """Return the rule for an ability, about a task that it goes with; most have nothing to do with constraints."""
    fits = _has_examples if ability is Ability.COUNTS else _free
    return Rule(name, run, frozenset({task}), lambda caps: ability in caps.abilities, fits)


RULES = (
    Rule("answer form", checks.aspect(lambda judge, question, solution: None)),
    Rule("scores", checks.aspect(Judge.scores)),
    Rule("map", checks.aspect(Judge.optimum), frozenset({Task.MAP})),
    Rule("map_clamped", checks.aspect(Judge.optimum), frozenset({Task.MAP_CLAMPED})),
    Rule("kbest", checks.kbest, frozenset({Task.KBEST})),
    Rule("marginals", checks.aspect(Judge.marginals), frozenset({Task.MARGINALS})),
    Rule("relaxed", checks.aspect(Judge.relaxed), frozenset({Task.RELAXED})),
    Rule("bounds", checks.aspect(Judge.bound), LABELLING_TASKS | {Task.RELAXED}),
    Rule("masks", checks.aspect(Judge.facts), ALL_TASKS - {Task.MAP_CLAMPED}, fits=lambda problem: problem.has_masks),
    Rule(
        "constraints",
        checks.everything,
        claimed=lambda caps: caps.every_constraint or bool(caps.constraint_kinds),
        fits=lambda problem: problem.has_constraints,
    ),
    Rule("clamps", checks.aspect(Judge.facts), frozenset({Task.MAP_CLAMPED})),
    Rule("forbidden scores", checks.everything, fits=lambda problem: problem.has_forbidden_scores),
    Rule("empty examples", checks.everything, fits=lambda problem: problem.has_empty_example),
    Rule("selected examples", checks.selected, fits=_has_examples),
    Rule("session reuse", checks.reused),
    Rule("inputs unchanged", checks.unchanged, fits=_has_examples),
    Rule("deterministic", checks.deterministic, claimed=lambda caps: caps.deterministic),
    Rule("threads", checks.threads, claimed=lambda caps: caps.thread_safe, fits=_has_examples),
    Rule("warm start", checks.warm, claimed=lambda caps: caps.warm is not Warm.NONE),
    Rule("limits", checks.limits),
    Rule("time limit", checks.time_limit, optional=True, once=True),
    Rule("abilities", ability_checks.announced, claimed=lambda caps: bool(caps.abilities)),
    _ability("compiled oracle", ability_checks.compiled, Task.MAP, Ability.COMPILED),
    _ability("summed marginals", ability_checks.summed, Task.MARGINALS, Ability.SUMMED_MARGINALS),
    _ability("best by count", ability_checks.counted, Task.MAP, Ability.COUNTS),
    _ability("messages", ability_checks.messages, Task.MAP, Ability.MESSAGES),
    Rule("verifier", checks.verified, fits=_has_examples),
)
