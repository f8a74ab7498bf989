"""The conformance kit of backends: everything a backend claims, against brute force.

Problems are the hand-made corner cases, random ones from small to large, and those of the kinds of constraints that the
backend handles, as far as its ``Caps`` cover them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Unpack

import numpy as np

from ssvm_dsl.ir import Ability, Caps, Guarantee, Question, Solution, Task, Theta, Warm
from ssvm_dsl.lang.constraints.structures import CUSTOM, CUSTOM_EXACT
from ssvm_dsl.plugin_api import BackendSpec, ConstraintSpec, Verdict
from ssvm_dsl.registry import Registry
from ssvm_dsl.registry import registry as installed
from ssvm_dsl.requirements.programs import program_need
from ssvm_dsl.requirements.properties import table_properties
from ssvm_dsl.testing.backends import checks
from ssvm_dsl.testing.backends.checks import BackendTrial
from ssvm_dsl.testing.backends.judge import LABELLING_TASKS, Judge
from ssvm_dsl.testing.kind_problems import custom_problems, kind_problems
from ssvm_dsl.testing.kit import TROUBLE, Check, Complaint, ConformanceReport, HowToRun, Kit, Rule, attempt, crash, full
from ssvm_dsl.testing.problems import Problem, catalogue, random_recipe, seeded
from ssvm_dsl.testing.tree_problems import DERIVABLE, tree_problems

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
    _rule("abilities", checks.check_methods, claimed=lambda caps: bool(caps.abilities)),
    _ability("compiled oracle", checks.check_compiled_oracle, Task.MAP, Ability.COMPILED),
    _ability("summed marginals", checks.check_weighted_sums, Task.MARGINALS, Ability.SUMMED_MARGINALS),
    _ability("best by count", checks.check_best_by_count, Task.MAP, Ability.COUNTS),
    _ability("messages", checks.check_messages, Task.MAP, Ability.MESSAGES),
    _rule(
        "messages under constraints",
        checks.check_dual_bounds,
        frozenset({Task.MAP}),
        lambda caps: Ability.MESSAGES in caps.constrained_abilities,
        fits=lambda problem: _has_examples(problem) and problem.has_constraints,
        few=12,
    ),
    _rule("verifier", checks.verified, fits=_has_examples, few=6),
)


#: Random problems of the quick form.
QUICK_PROBLEMS = 4


def check_backend(
    backend: str | BackendSpec,
    registry: Registry | None = None,
    *,
    n_problems: int = 40,
    seed: int = 0,
    options: dict[str, Any] | None = None,
    quick: bool = False,
    **how: Unpack[HowToRun],
) -> ConformanceReport:
    """Check a backend against brute force in everything it claims.

    Parameters
    ----------
    backend : str or BackendSpec
        A registered name, or a description that need not be registered.
    registry : Registry, optional
        Where to look the name up; the installed plug-ins by default.
    n_problems : int
        Number of random problems, besides the corner cases.
    seed : int
        The same seed gives the same problems.
    options : dict, optional
        Options to open the backend with.
    **how
        Which checks run, and how: :class:`~ssvm_dsl.testing.kit.HowToRun`.
    quick : bool
        A shorter form, for slow solvers and for tests that run often: at most :data:`QUICK_PROBLEMS` random problems,
        the smallest of four times as many, and of checks that ask the same again only a few cases.

    Returns
    -------
    ConformanceReport

    Raises
    ------
    PluginError, OptionError
        Unknown backend; unknown option or check.  (Faults of the backend are in the report.)
    """
    known = installed() if registry is None else registry
    spec = backend if isinstance(backend, BackendSpec) else known.find(BackendSpec, backend)
    n_problems = min(n_problems, QUICK_PROBLEMS) if quick else n_problems
    kit = BackendKit(spec, known, seed=seed, n_problems=n_problems, options=spec.resolve(options), quick=quick)
    return kit.run(**how)


class BackendKit(Kit[BackendSpec, BackendRule, BackendTrial]):
    """The kit of backends; a case is a problem with the tasks that the backend takes it for."""

    kind, rules = "backend", RULES
    methods: ClassVar = {"check": ("need",), "open": ("program", "options")}

    def always(self) -> list[str]:
        """Return the names of checks that are not among the rules."""
        return ["loads", "planning", *(f"constraint {kind}" for kind in sorted(self.spec.caps.constraint_kinds))]

    def prepare(self) -> None:
        """Ask the backend which problems it takes, of those that its ``Caps`` cover."""
        self.accepted: list[tuple[Judge, frozenset[Task], dict[Task, tuple[Question, Solution]]]] = []
        n_problems, seed, caps = self.report.n_problems, self.report.seed, self.spec.caps
        n = max(min(4, 1 + n_problems), n_problems // 8)  # of each kind of constraints
        problems = [*catalogue().values(), *_random(caps, n_problems, seed, self.quick)]
        problems += [p for kind in self._kinds() for p in self._of_kind(kind, n)]
        problems += [p for kind in _custom_kinds(caps) for p in custom_problems(kind, n, seed)]
        problems += tree_problems(n, seed) if DERIVABLE in caps.constraint_kinds else ()
        self._consider(problems)

    def _kinds(self) -> list[str]:
        """Return the registered kinds of constraints that the backend claims."""
        caps, names = self.spec.caps, [spec.name for spec in self.plugins.specs(ConstraintSpec)]
        return [name for name in names if caps.every_constraint or name in caps.constraint_kinds]

    def _of_kind(self, kind: str, n: int) -> list[Problem]:
        """Return problems of a kind of constraints; a kind that makes none is no fault of the backend."""
        try:
            return list(kind_problems(kind, n, self.report.seed, self.plugins))
        except TROUBLE as err:
            at_fault = f"constraints '{kind}', whose plug-in makes no problems (ssvm plugins check {kind})"
            self.report.not_claimed.append(f"{at_fault}: {crash(err)}")
            return []

    def _consider(self, problems: Iterable[Problem]) -> None:
        """Keep the problems that the backend takes, and count the reasons for which it refuses others."""
        check, refusals = self.check("planning"), Counter[str]()
        refused = [problem for problem in problems if not self._accept(problem, check, refusals)]
        for kind in sorted(self.spec.caps.constraint_kinds):
            if not self._n_of(kind):  # it may take some constraints of the kind only
                for one in (single for problem in refused if _has(problem, kind) for single in singles(problem)):
                    self._accept(one, check, Counter())
        self.report.refusals = dict(refusals)

    def _accept(self, problem: Problem, check: Check, refusals: Counter[str]) -> bool:
        """Keep a problem if the backend takes it for some task; return whether it does."""
        tasks = [task for task in sorted(self.spec.caps.tasks) if self._takes(problem, task, check, refusals)]
        if tasks:
            self.accepted.append((Judge(problem, self.spec.caps), frozenset(tasks), {}))
        return bool(tasks)

    def _takes(self, problem: Problem, task: Task, check: Check, refusals: Counter[str]) -> bool:
        """Whether the backend takes a problem for a task; a faulty verdict is added to the check."""
        known = table_properties(problem.program, problem.theta)
        need = program_need(problem.program, frozenset({task}), Guarantee.HEURISTIC, properties=known)
        if self.spec.caps.refusals(need) or full(check):
            return False
        verdict = None
        with attempt(check, problem.name):
            try:
                verdict = _checked(self.made.check(replace(need, options=self.options.copy())))
            except TROUBLE as err:
                raise Complaint(f"check({need})\n{crash(err)}") from err
        if verdict is None:
            return False
        refusals.update([] if verdict.ok else ["; ".join(verdict.reasons)])
        return verdict.ok

    def trials(self, number: int, rule: BackendRule) -> Iterator[BackendTrial]:
        """Yield the backend before each problem that it takes for a task of the rule."""
        for index, (judge, accepted, answers) in enumerate(self.accepted):
            tasks = rule.tasks & accepted
            if tasks and rule.fits(judge.problem):
                rng = np.random.default_rng([self.report.seed, number, index])
                yield BackendTrial(self.spec, self.made, self.options, judge, tasks, rng, answers)

    def finish(self) -> None:
        """Add a check without cases for every claim that no problem of this kit tests."""
        for kind in sorted(self.spec.caps.constraint_kinds):
            self.check(f"constraint {kind}").cases = self._n_of(kind)

    def _n_of(self, kind: str) -> int:
        """Return how many problems with constraints of a kind are taken."""
        return sum(_has(judge.problem, kind) for judge, *_ in self.accepted)


def _custom_kinds(caps: Caps) -> list[str]:
    """Return the kinds of users' own structures that a backend claims."""
    return [name for name in (CUSTOM, CUSTOM_EXACT) if name in caps.constraint_kinds]


def _random(caps: Caps, n: int, seed: int, small: bool) -> Iterable[Problem]:
    """Return random problems that the capabilities cover, smallest first; ``small``: those of four times as many."""
    rng = np.random.default_rng(seed)
    problems = [seeded(random_recipe(rng, caps), 1000 * seed + i) for i in range(4 * n if small else n)]
    return sorted(problems, key=lambda problem: problem.n_labellings)[:n]


def _has(problem: Problem, kind: str) -> bool:
    """Return whether a problem has constraints of a kind."""
    return any(group.kind == kind and group.n_constraints for group in problem.program.constraints)


def singles(problem: Problem) -> Iterator[Problem]:
    """Yield each example of a problem by itself, where there are several."""
    program, theta = problem.program, problem.theta
    for i in range(program.n_examples if program.n_examples > 1 else 0):
        first, last = program.state_ptr[program.var_ptr[i : i + 2]]
        scores = Theta(theta.node[first:last].copy(), theta.pool, theta.tables, theta.const[i : i + 1].copy())
        yield Problem(f"{problem.name}, example {i}", program.example(i), scores)


def _checked(verdict: object) -> Verdict:
    """Return a verdict; refuse any other object."""
    if not isinstance(verdict, Verdict):
        raise Complaint(f"expected a Verdict, got {type(verdict).__name__}")
    number = isinstance(verdict.cost, int | float | np.integer | np.floating)
    if verdict.ok and not (number and 0.0 <= verdict.cost < np.inf):
        raise Complaint(f"a problem that is taken has a cost of 0 or more, got {verdict.cost!r}")
    if not isinstance(verdict.reasons, tuple | list) or not all(isinstance(one, str) for one in verdict.reasons):
        raise Complaint(f"the reasons of a Verdict must be a tuple of sentences, got {verdict.reasons!r}")
    if not verdict.ok and not verdict.reasons:
        raise Complaint("refuses without a reason")
    return verdict
