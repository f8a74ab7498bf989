"""The conformance kit on bundled backends, on a few problems and by no clock: what the ordinary test run has time for.

Limits of time are tested by ``test_every_backend``, with a clock of ticks (:mod:`clocks`); the kit's checks of them and
of Ctrl-C wait for seconds of the machine's.  ``make fuzz ARGS=conformance`` runs the whole kit, on as many problems as
there is time for.
"""

from __future__ import annotations

from ssvm_dsl.plugin_api import BackendSpec
from ssvm_dsl.registry import registry
from ssvm_dsl.testing.backends.conformance import RULES, BackendKit

#: All checks but those that wait, or measure.
CHECKS = frozenset(rule.name for rule in RULES) - {"time limit", "cut short", "cost", "Ctrl-C"}


def keeps_its_promises(backend, n_problems=4, seed=0, options=None, only=CHECKS, without=()):
    """Run the kit on a name or a description and fail with its report unless all is well; return the report.

    ``without`` are checks of ``only`` that are left out.
    """
    spec = backend if isinstance(backend, BackendSpec) else registry().find(BackendSpec, backend)
    kit = BackendKit(spec, registry(), seed=seed, n_problems=n_problems, options=spec.resolve(options), quick=True)
    report = kit.run(frozenset(only) - frozenset(without))
    assert report.ok, str(report)
    return report
