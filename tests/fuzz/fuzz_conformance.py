"""Promise: the conformance kit finds nothing wrong with a bundled backend, whichever problems it draws.

A trial is one check of the kit on one backend, on the corner cases and some random problems: what the ordinary test run
asks of a backend, on other problems each time, and the check of time limits by the machine's clock as well.
"""

from __future__ import annotations

from ssvm_dsl.plugin_api import BackendSpec
from ssvm_dsl.registry import registry
from ssvm_dsl.testing import check_backend
from ssvm_dsl.testing.backends.conformance import RULES

UNIT = "cases"
SHORT = 1
LIMIT = 300.0

#: Random problems of a trial.
N_PROBLEMS = 20


def trial(rng, scratch):
    """Run one check on one backend."""
    known = registry()
    specs = [spec for spec in known.specs(BackendSpec) if known.owner(spec).bundled and not spec.missing()]
    spec = specs[rng.integers(len(specs))]
    rules = [rule for rule in RULES if rule.claimed(spec)]
    rule = rules[rng.integers(len(rules))]
    report = check_backend(spec, n_problems=N_PROBLEMS, seed=int(rng.integers(2**31)), only=[rule.name])
    assert report.ok, str(report)
    return sum(check.cases for check in report.checks)
