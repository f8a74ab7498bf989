"""Promise: the conformance kit finds nothing wrong with a bundled backend or trainer, whichever problems it draws.

A trial is one check of the kit on one of them: what the ordinary test run asks, on other problems and risks each time,
and the check of time limits by the machine's clock as well.
"""

from __future__ import annotations

from ssvm_dsl.plugin_api import BackendSpec, TrainerSpec
from ssvm_dsl.registry import registry
from ssvm_dsl.testing import check_backend, check_trainer
from ssvm_dsl.testing.backends.conformance import RULES
from ssvm_dsl.testing.trainers import TRAINER_RULES

UNIT = "cases"
SHORT = 1
LIMIT = 300.0

#: Random problems of a trial.
N_PROBLEMS = 20


def trial(rng, scratch):
    """Run one check on one backend or trainer."""
    known = registry()
    trainers = rng.random() < 0.3
    kind, rules = (TrainerSpec, TRAINER_RULES) if trainers else (BackendSpec, RULES)
    specs = [spec for spec in known.specs(kind) if known.owner(spec).bundled and not spec.missing()]
    spec = specs[rng.integers(len(specs))]
    rules = [rule for rule in rules if rule.claimed(spec)]
    rule, seed = rules[rng.integers(len(rules))], int(rng.integers(2**31))
    if trainers:
        report = check_trainer(spec, seed=seed, only=[rule.name])
    else:
        report = check_backend(spec, n_problems=N_PROBLEMS, seed=seed, only=[rule.name])
    assert report.ok, str(report)
    return sum(check.cases for check in report.checks)
