"""Runs the conformance checks on a backend: everything it claims, against brute force.

Problems are the hand-made corner cases, random ones from small to large, and those of the kinds of constraints that the
backend handles, as far as its ``Caps`` cover them.  Whatever a backend does wrong, crashing included, ends up in the
report.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from ssvm_dsl.errors import OptionError, PluginError
from ssvm_dsl.ir import Caps, Guarantee, Need, Task, Theta
from ssvm_dsl.ir.analysis.properties import table_properties
from ssvm_dsl.lang.constraints.custom import CUSTOM, CUSTOM_EXACT
from ssvm_dsl.plugin_api import Backend, BackendSpec, ConstraintSpec, Verdict
from ssvm_dsl.registry import Registry
from ssvm_dsl.registry import registry as installed
from ssvm_dsl.testing.backends.checks import NotForThisProgram, Trial
from ssvm_dsl.testing.backends.judge import Complaint, Judge
from ssvm_dsl.testing.backends.rules import RULES, Rule
from ssvm_dsl.testing.constraints.problems import kind_problems
from ssvm_dsl.testing.contract import BACKEND, authors_line, require_constructor, require_methods
from ssvm_dsl.testing.corner_cases import catalogue
from ssvm_dsl.testing.custom_oracles import custom_problems
from ssvm_dsl.testing.problems import Problem, random_recipe, seeded
from ssvm_dsl.testing.report import Check, ConformanceReport, Failure

#: A check ends after this many failures.
MAX_FAILURES = 3

#: What broken backends may raise; ``SystemExit`` is not an ``Exception``.
TROUBLE = (Exception, SystemExit)


def check_backend(
    backend: str | BackendSpec,
    registry: Registry | None = None,
    *,
    n_problems: int = 40,
    seed: int = 0,
    options: dict[str, Any] | None = None,
    only: Collection[str] = (),
    progress: Callable[[str], None] | None = None,
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
    only : collection of str, optional
        Names of checks, to run some only; all by default.
    progress : callable, optional
        Told the name of each check before it runs.

    Returns
    -------
    ConformanceReport

    Raises
    ------
    PluginError, OptionError
        Unknown backend; unknown option or check.  (What is wrong with the backend is in the report.)
    """
    unknown = set(only) - {rule.name for rule in RULES}
    if unknown:
        names = ", ".join(rule.name for rule in RULES)
        raise OptionError(f"there is no check '{min(unknown)}'; the checks are: {names}")
    known = installed() if registry is None and isinstance(backend, str) else registry
    spec = backend if isinstance(backend, BackendSpec) else known.find(BackendSpec, backend)  # type: ignore[union-attr]
    run = _BackendExamination(spec, spec.resolve(options), ConformanceReport(spec.name, seed, n_problems))
    known = installed() if known is None else known
    if run.load():
        n = max(min(4, 1 + n_problems), n_problems // 8)  # of each kind of constraints
        constrained = [p for kind in _kinds(spec.caps, known) for p in run.of_kind(kind, n, known)]
        constrained += [p for kind in _custom_kinds(spec.caps) for p in custom_problems(kind, n, seed)]
        run.consider([*catalogue().values(), *_random(spec.caps, n_problems, seed), *constrained])
        for number, rule in enumerate(RULES):
            if not only or rule.name in only:
                if progress is not None:
                    progress(rule.name)
                run.rule(number, rule)
        run.uncovered()
    return run.report


def _kinds(caps: Caps, plugins: Registry) -> list[str]:
    """Return the registered kinds of constraints that a backend claims."""
    names = [spec.name for spec in plugins.specs(ConstraintSpec)]
    return [name for name in names if caps.every_constraint or name in caps.constraint_kinds]


def _custom_kinds(caps: Caps) -> list[str]:
    """Return the kinds of users' own structures that a backend claims."""
    return [name for name in (CUSTOM, CUSTOM_EXACT) if name in caps.constraint_kinds]


def _random(caps: Caps, n: int, seed: int) -> Iterable[Problem]:
    """Return random problems that the capabilities cover, from small to large."""
    rng = np.random.default_rng(seed)
    problems = [seeded(random_recipe(rng, caps), 1000 * seed + i) for i in range(n)]
    return sorted(problems, key=lambda problem: problem.n_labellings)


@dataclass(eq=False)
class _BackendExamination:
    """One backend on its way through the checks."""

    spec: BackendSpec
    options: dict[str, Any]
    report: ConformanceReport
    backend: Backend | None = None
    accepted: list[tuple[Judge, frozenset[Task]]] = field(default_factory=list)

    def load(self) -> bool:
        """Load the backend; return whether that worked."""
        check = Check("loads", 1)
        self.report.checks.append(check)
        missing = self.spec.missing()
        if missing:
            hint = f"; {self.spec.install_hint}" if self.spec.install_hint else ""
            check.failures.append(Failure("", f"needs {', '.join(missing)}, not installed{hint}"))
            return False
        try:
            factory = self.spec.load()
            require_constructor(factory, {})
            self.backend = factory()
            require_methods(self.backend, BACKEND)
        except TROUBLE as err:
            check.failures.append(Failure("", crash(err)))
        return check.ok

    def of_kind(self, kind: str, n: int, plugins: Registry) -> list[Problem]:
        """Return problems of a kind of constraints; one that makes none is named, and is not the backend's fault."""
        try:
            return list(kind_problems(kind, n, self.report.seed, plugins))
        except TROUBLE as err:
            at_fault = f"constraints '{kind}', whose plug-in makes no problems (ssvm plugins check {kind})"
            self.report.not_claimed.append(f"{at_fault}: {crash(err)}")
            return []

    def consider(self, problems: Iterable[Problem]) -> None:
        """Ask the backend which problems it takes, of those that its ``Caps`` cover."""
        check = Check("planning")
        self.report.checks.append(check)
        refusals: Counter[str] = Counter()
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
            self.accepted.append((Judge(problem, self.spec.caps), frozenset(tasks)))
        return bool(tasks)

    def _takes(self, problem: Problem, task: Task, check: Check, refusals: Counter[str]) -> bool:
        """Whether the backend takes a problem for a task; what is wrong with the verdict goes to the check."""
        known = table_properties(problem.program, problem.theta)
        need = Need.of(problem.program, frozenset({task}), Guarantee.HEURISTIC, properties=known)
        if self.spec.caps.refusals(need) or len(check.failures) >= MAX_FAILURES:
            return False
        check.cases += 1
        try:
            assert self.backend is not None
            verdict = self.backend.check(replace(need, options=dict(self.options)))
            _check_verdict(verdict)
        except TROUBLE as err:
            check.failures.append(Failure(problem.name, f"check({need})\n{crash(err)}"))
            return False
        refusals.update([] if verdict.ok else ["; ".join(verdict.reasons)])
        return verdict.ok

    def rule(self, number: int, rule: Rule) -> None:
        """Run one check over the problems it fits."""
        caps = self.spec.caps
        if not (rule.tasks & caps.tasks and rule.claimed(caps)):
            self.report.not_claimed.append(rule.name)
            return
        check = Check(rule.name)
        for index, (judge, accepted) in enumerate(self.accepted):
            tasks = rule.tasks & accepted
            enough = len(check.failures) >= MAX_FAILURES or (rule.once and index > 0)
            if tasks and rule.fits(judge.problem) and not enough:
                rng = np.random.default_rng([self.report.seed, number, index])
                self._case(rule, check, judge, tasks, rng)
        if rule.optional and not check.cases:
            self.report.not_claimed.append(rule.name)
        else:
            self.report.checks.append(check)

    def _case(self, rule: Rule, check: Check, judge: Judge, tasks: frozenset[Task], rng: np.random.Generator) -> None:
        assert self.backend is not None
        check.cases += 1
        try:
            rule.run(Trial(self.spec, self.backend, self.options, judge, tasks, rng))
        except NotForThisProgram:
            check.cases -= 1
        except TROUBLE as err:
            check.failures.append(Failure(judge.problem.name, crash(err)))

    def uncovered(self) -> None:
        """Add a check without cases for every claim that no problem of this kit tests."""
        for kind in sorted(self.spec.caps.constraint_kinds):
            self.report.checks.append(Check(f"constraint {kind}", self._n_of(kind)))

    def _n_of(self, kind: str) -> int:
        """Return how many problems with constraints of a kind are taken."""
        return sum(_has(judge.problem, kind) for judge, _ in self.accepted)


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


def _check_verdict(verdict: object) -> None:
    if not isinstance(verdict, Verdict):
        raise Complaint(f"expected a Verdict, got {type(verdict).__name__}")
    number = isinstance(verdict.cost, int | float | np.integer | np.floating)
    if verdict.ok and not (number and 0.0 <= verdict.cost < np.inf):
        raise Complaint(f"a problem that is taken has a cost of 0 or more, got {verdict.cost!r}")
    if not isinstance(verdict.reasons, tuple | list) or not all(isinstance(one, str) for one in verdict.reasons):
        raise Complaint(f"the reasons of a Verdict are a tuple of sentences, got {verdict.reasons!r}")
    if not verdict.ok and not verdict.reasons:
        raise Complaint("refuses without a reason")


def crash(err: BaseException) -> str:
    """Return what went wrong, in words."""
    told = isinstance(err, Complaint | PluginError)  # these say what was expected, and of whom
    return str(err) if told else f"it failed with {type(err).__name__}: {err}{authors_line(err)}"
