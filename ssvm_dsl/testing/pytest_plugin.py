"""Pytest plug-in for authors of plug-ins: the conformance kits as fixtures, such as ``backend_conformance``.

Pytest imports this module in every project where the package is installed, so it avoids slow imports.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Protocol

import pytest

if TYPE_CHECKING:
    from ssvm_dsl.plugin_api.specs import Spec
    from ssvm_dsl.testing.kit import ConformanceReport


class Conformance(Protocol):
    """Type of the fixtures: runs a kit, and fails the test with the whole report unless all is well."""

    def __call__(self, plugin: str | Spec, **settings: Any) -> ConformanceReport:
        """Run ``ssvm_dsl.testing.check_...`` on a plug-in, given by name or description."""


def _conformance(kind: str) -> Callable[[int], Conformance]:
    """Return the fixture that runs the kit of a kind of plug-ins."""

    def conformance(conformance_stream: int) -> Conformance:
        from ssvm_dsl import testing

        return _failing(getattr(testing, f"check_{kind}"), conformance_stream)

    conformance.__doc__ = f"""Return a function that checks a {kind}; a test fails with the report unless all is well.

    Examples
    --------
    >>> def test_mine({kind}_conformance):
    ...     {kind}_conformance("my-{kind}")
    """
    return pytest.fixture(conformance, name=f"{kind}_conformance")


backend_conformance = _conformance("backend")
trainer_conformance = _conformance("trainer")
constraint_conformance = _conformance("constraint")
bridge_conformance = _conformance("bridge")
loss_conformance = _conformance("loss")
executor_conformance = _conformance("executor")


@pytest.fixture(scope="session")
def conformance_stream(pytestconfig: pytest.Config) -> Iterator[int]:
    """Yield the descriptor of standard error as it is outside of tests: for what must be seen while a test hangs."""
    capture = pytestconfig.pluginmanager.getplugin("capturemanager")
    if capture is None:
        yield 2
        return
    with capture.global_and_fixture_disabled():
        stream = os.dup(2)
    yield stream
    os.close(stream)


def _failing(check: Callable[..., ConformanceReport], stream: int) -> Conformance:
    """Return a kit that fails the test unless all is well."""
    from ssvm_dsl.testing.watch import speaking_to

    def run(plugin: str | Spec, **settings: Any) -> ConformanceReport:
        with speaking_to(stream):
            report = check(plugin, **settings)
        if not report.ok:
            pytest.fail(str(report), pytrace=False)
        return report

    return run
