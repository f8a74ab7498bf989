"""The rules of the conformance kit: every check, its tasks, and when it applies."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ssvm_dsl.ir import Ability, Caps, Task, Warm
from ssvm_dsl.plugin_api import BackendSpec
from ssvm_dsl.testing.backends import ability_checks, checks
from ssvm_dsl.testing.backends.checks import BackendTrial
from ssvm_dsl.testing.backends.judge import LABELLING_TASKS, Judge
from ssvm_dsl.testing.kit import Rule
from ssvm_dsl.testing.problems import Problem

ALL_TASKS = frozenset(Task)


@dataclass(frozen=True)
class BackendRule(Rule[BackendSpec, BackendTrial]):
    """A check of backends and when it applies.

    Parameters
    ----------
    tasks : frozenset of Task
        The tasks it is about.
    fits : callable
        Whether a problem can test it.
    """

    tasks: frozenset[Task] = ALL_TASKS
    fits: Callable[[Problem], bool] = lambda problem: True


def _rule(
    name: str,
    run: Callable[[BackendTrial], None],
    tasks: frozenset[Task] = ALL_TASKS,
    claimed: Callable[[Caps], bool] = lambda caps: True,
    **when: Any,
) -> BackendRule:
    """Return a rule for backends that answer one of the tasks and whose ``Caps`` make the tested claim."""

    def applies(spec: BackendSpec) -> bool:
        return bool(tasks & spec.caps.tasks) and claimed(spec.caps)

    return BackendRule(name, run, applies, tasks=tasks, **when)


def _has_examples(problem: Problem) -> bool:
    return problem.program.n_examples > 0


def _free(problem: Problem) -> bool:
    return _has_examples(problem) and not problem.has_constraints


def _several(problem: Problem) -> bool:
    return problem.program.n_examples > 2 and problem.program.n_variables > 6


def _ability(name: str, run: Callable[[BackendTrial], None], task: Task, ability: Ability) -> BackendRule:
    """Return the rule for an ability and its task; most abilities have nothing to do with constraints."""
    fits = _has_examples if ability is Ability.COUNTS else _free
    return _rule(name, run, frozenset({task}), lambda caps: ability in caps.abilities, fits=fits)


RULES = (
    _rule("answer form", checks.aspect(lambda judge, question, solution: None), few=12),
    _rule("scores", checks.aspect(Judge.scores), few=12),
    _rule("map", checks.aspect(Judge.optimum), frozenset({Task.MAP})),
    _rule("map_clamped", checks.aspect(Judge.optimum), frozenset({Task.MAP_CLAMPED})),
    _rule("kbest", checks.kbest, frozenset({Task.KBEST}), few=6),
    _rule("marginals", checks.aspect(Judge.marginals), frozenset({Task.MARGINALS})),
    _rule("relaxed", checks.aspect(Judge.relaxed), frozenset({Task.RELAXED})),
    _rule("bounds", checks.aspect(Judge.bound), LABELLING_TASKS | {Task.RELAXED}, few=12),
    _rule("masks", checks.aspect(Judge.facts), ALL_TASKS - {Task.MAP_CLAMPED}, fits=lambda problem: problem.has_masks),
    _rule(
        "constraints",
        checks.everything,
        claimed=lambda caps: caps.every_constraint or bool(caps.constraint_kinds),
        fits=lambda problem: problem.has_constraints,
    ),
    _rule("clamps", checks.aspect(Judge.facts), frozenset({Task.MAP_CLAMPED})),
    _rule("forbidden scores", checks.everything, fits=lambda problem: problem.has_forbidden_scores),
    _rule("empty examples", checks.everything, fits=lambda problem: problem.has_empty_example),
    _rule("selected examples", checks.selected, fits=_has_examples, few=6),
    _rule("session reuse", checks.reused, few=6),
    _rule("inputs unchanged", checks.unchanged, fits=_has_examples, few=6),
    _rule("deterministic", checks.deterministic, claimed=lambda caps: caps.deterministic, few=6),
    _rule("threads", checks.threads, claimed=lambda caps: caps.thread_safe, fits=_has_examples, few=4),
    _rule(
        "interleaved threads",
        checks.interleaved,
        claimed=lambda caps: caps.thread_safe,
        fits=_several,
        optional=True,
        once=True,
    ),
    _rule("warm start", checks.warm, claimed=lambda caps: caps.warm is not Warm.NONE, few=6),
    _rule("limits", checks.limits, few=6),
    _rule("cost", checks.cost, optional=True, once=True),
    _rule("time limit", checks.time_limit, optional=True, once=True),
    _rule("cut short", checks.cut_short, optional=True, once=True),
    _rule("Ctrl-C", checks.ctrl_c, frozenset({Task.MAP}), optional=True, once=True),
    _rule("abilities", ability_checks.announced, claimed=lambda caps: bool(caps.abilities)),
    _ability("compiled oracle", ability_checks.compiled, Task.MAP, Ability.COMPILED),
    _ability("summed marginals", ability_checks.summed, Task.MARGINALS, Ability.SUMMED_MARGINALS),
    _ability("best by count", ability_checks.counted, Task.MAP, Ability.COUNTS),
    _ability("messages", ability_checks.messages, Task.MAP, Ability.MESSAGES),
    _rule(
        "messages under constraints",
        ability_checks.dual_bounds,
        frozenset({Task.MAP}),
        lambda caps: Ability.MESSAGES in caps.constrained_abilities,
        fits=lambda problem: _has_examples(problem) and problem.has_constraints,
        few=12,
    ),
    _rule("verifier", checks.verified, fits=_has_examples, few=6),
)
