"""The conformance kit on bundled backends, on a few problems and by no clock: what the ordinary test run has time for.

Limits of time are tested in each backend's own file, by a clock of ticks (:mod:`clocks`); the kit's check of them waits
for seconds of the machine's.  ``make fuzz ARGS=conformance`` runs the whole kit, on as many problems as there is time
for.
"""

from __future__ import annotations

from itertools import islice

from ssvm_dsl.plugin_api import BackendSpec
from ssvm_dsl.registry import registry
from ssvm_dsl.testing.backends.conformance import BackendKit
from ssvm_dsl.testing.backends.rules import RULES

#: All checks but the one that waits.
CHECKS = frozenset(rule.name for rule in RULES) - {"time limit"}

#: Checks that ask the same again, in another way, each from 2 to 8 times: here they take every fourth problem.
AGAIN = {
    "selected examples", "session reuse", "inputs unchanged", "deterministic", "threads", "warm start", "verifier",
    "answer form", "limits",
}  # fmt: skip


class QuickKit(BackendKit):
    """The kit, with fewer problems for the checks that ask most."""

    def trials(self, number, rule):
        """Yield the backend before each problem of a rule, or before every fourth."""
        step = 4 if rule.name in AGAIN and len(self.accepted) > 12 else 1
        return islice(super().trials(number, rule), number % step, None, step)


def keeps_its_promises(backend, n_problems=4, seed=0, options=None, only=CHECKS):
    """Run the kit on a name or a description and fail with its report unless all is well; return the report."""
    spec = backend if isinstance(backend, BackendSpec) else registry().find(BackendSpec, backend)
    kit = QuickKit(spec, registry(), seed=seed, n_problems=n_problems, options=spec.resolve(options))
    report = kit.run(only)
    assert report.ok, str(report)
    return report
