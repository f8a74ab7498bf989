"""The conformance kit on bundled backends, on a few problems and by no clock: what the ordinary test run has time for.

Limits of time are tested in each backend's own file, by a clock of ticks (:mod:`clocks`); the kit's check of them waits
for seconds of the machine's.  ``make fuzz ARGS=conformance`` runs the whole kit, on as many problems as there is time
for.
"""

from __future__ import annotations

from ssvm_dsl.testing import check_backend
from ssvm_dsl.testing.backends.rules import RULES

#: All checks but the one that waits.
CHECKS = frozenset(rule.name for rule in RULES) - {"time limit"}


def keeps_its_promises(backend, n_problems=4, **settings):
    """Run the kit and fail with its report unless all is well; return the report."""
    report = check_backend(backend, n_problems=n_problems, **{"only": CHECKS} | settings)
    assert report.ok, str(report)
    return report
