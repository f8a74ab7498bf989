"""Runs the conformance checks on a trainer: everything it claims, against a reference trainer and brute force."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection
from typing import Any

from ssvm_dsl.errors import NoBackendError, OptionError
from ssvm_dsl.plugin_api import TrainerSpec
from ssvm_dsl.registry import registry
from ssvm_dsl.testing.backends.conformance import MAX_FAILURES, TROUBLE, crash
from ssvm_dsl.testing.contract import TRAINER, require_constructor, require_methods
from ssvm_dsl.testing.report import Check, ConformanceReport, Failure
from ssvm_dsl.testing.trainers.cases import Case, cases_of
from ssvm_dsl.testing.trainers.checks import TRAINER_RULES, TrainerRule, TrainerTrial


def check_trainer(
    trainer: str | TrainerSpec,
    *,
    seed: int = 0,
    options: dict[str, Any] | None = None,
    risks: Collection[str] = (),
    only: Collection[str] = (),
    progress: Callable[[str], None] | None = None,
) -> ConformanceReport:
    """Check a trainer in everything it claims.

    Parameters
    ----------
    trainer : str or TrainerSpec
        A registered name, or a description that need not be registered.
    seed : int
        The same seed gives the same problems.
    options : dict, optional
        Options of the trainer.
    risks : collection of str, optional
        The risks to look at; by default the first of each form that the trainer minimises.
    only : collection of str, optional
        Names of checks, to look at some again; all by default.
    progress : callable, optional
        Told the name of each check before it runs.

    Raises
    ------
    PluginError, OptionError
        Unknown trainer; unknown option or check.  (What is wrong with the trainer is in the report.)
    """
    unknown = set(only) - {rule.name for rule in TRAINER_RULES}
    if unknown:
        names = ", ".join(rule.name for rule in TRAINER_RULES)
        raise OptionError(f"there is no check '{min(unknown)}'; the checks are: {names}")
    spec = trainer if isinstance(trainer, TrainerSpec) else registry().find(TrainerSpec, trainer)
    resolved, cases = spec.resolve(options), list(cases_of(spec.needs, seed, frozenset(risks)))
    report = ConformanceReport(spec.name, seed, len(cases), kind="trainer")
    if not _loads(spec, resolved, report):
        return report
    trials = _trials(spec, resolved, cases, report)
    for rule in TRAINER_RULES:
        if only and rule.name not in only:
            continue
        if not rule.claimed(spec):
            report.not_claimed.append(rule.name)
            continue
        if progress is not None:
            progress(rule.name)
        report.checks.append(_check(rule, trials))
    return report


def _loads(spec: TrainerSpec, options: dict[str, Any], report: ConformanceReport) -> bool:
    """Load and make the trainer; return whether that worked."""
    check = Check("loads", 1)
    report.checks.append(check)
    missing = spec.missing()
    if missing:
        check.failures.append(Failure("", f"needs {', '.join(missing)}, not installed; {spec.install_hint}"))
        return False
    try:
        factory, named = spec.load(), {**options, "random_state": 0}
        require_constructor(factory, named)
        require_methods(factory(**named), TRAINER)
    except TROUBLE as err:
        check.failures.append(Failure("", crash(err)))
    return check.ok


def _trials(
    spec: TrainerSpec, options: dict[str, Any], cases: list[Case], report: ConformanceReport
) -> list[TrainerTrial]:
    """Return the trainer before each case that installed backends can answer for."""
    trials, refusals = [], Counter[str]()
    for case in cases:
        try:
            case.problem(spec)
        except NoBackendError as err:
            refusals.update([str(err).splitlines()[0]])
            continue
        trials.append(TrainerTrial(spec, options, case, *case.optimum(spec.name)))
    report.refusals = dict(refusals)
    return trials


def _check(rule: TrainerRule, trials: list[TrainerTrial]) -> Check:
    """Run one check over all problems."""
    check = Check(rule.name)
    for trial in trials:
        if len(check.failures) < MAX_FAILURES:
            check.cases += 1
            try:
                rule.run(trial)
            except TROUBLE as err:
                check.failures.append(Failure(str(trial.case), crash(err)))
    return check
