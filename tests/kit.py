"""The conformance kit on bundled backends, on a few problems and by no clock: what the ordinary test run has time for.

Limits of time are tested in each backend's own file, by a clock of ticks (:mod:`clocks`); the kit's check of them waits
for seconds of the machine's.  ``make fuzz ARGS=conformance`` runs the whole kit, on as many problems as there is time
for.
"""

from __future__ import annotations

from ssvm_dsl.plugin_api import BackendSpec
from ssvm_dsl.registry import registry
from ssvm_dsl.testing.backends.conformance import BackendKit
from ssvm_dsl.testing.backends.rules import RULES

#: All checks but the one that waits.
CHECKS = frozenset(rule.name for rule in RULES) - {"time limit"}

#: Checks that ask the same again, in another way, each from 2 to 8 times: here they take every fourth problem, or
#: every eighth.
AGAIN = {
    "selected examples", "session reuse", "inputs unchanged", "deterministic", "threads", "warm start", "verifier",
    "answer form", "limits",
}  # fmt: skip

#: Checks of what is asked for others, too, and of the dearest question: of many problems they take every third.
SHARED = {"scores", "bounds", "kbest"}

#: From so many problems on they are several, and many.
SEVERAL, MANY = 13, 25


class QuickKit(BackendKit):
    """The kit, with fewer problems for the checks that ask most."""

    def trials(self, number, rule):
        """Return the backend before each problem of a rule, or before some of them."""
        n, trials = len(self.accepted), list(super().trials(number, rule))
        step = (8 if n >= MANY else 4 if n >= SEVERAL else 1) if rule.name in AGAIN else 1
        step = 3 if rule.name in SHARED and n >= MANY else step
        return iter(trials[number % min(step, max(len(trials), 1)) :: step])


def keeps_its_promises(backend, n_problems=4, seed=0, options=None, only=CHECKS):
    """Run the kit on a name or a description and fail with its report unless all is well; return the report."""
    spec = backend if isinstance(backend, BackendSpec) else registry().find(BackendSpec, backend)
    kit = QuickKit(spec, registry(), seed=seed, n_problems=n_problems, options=spec.resolve(options))
    report = kit.run(only)
    assert report.ok, str(report)
    return report
