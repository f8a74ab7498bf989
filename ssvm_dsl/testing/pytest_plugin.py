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
    from ssvm_dsl.testing.report import ConformanceReport


class Conformance(Protocol):
    """Type of the fixtures: runs a kit, and fails the test with the whole report unless all is well."""

    def __call__(self, plugin: str | Spec, **settings: Any) -> ConformanceReport:
        """Run ``ssvm_dsl.testing.check_...`` on a plug-in, given by name or description."""


@pytest.fixture
def backend_conformance(conformance_stream: int) -> Conformance:
    """Return a function that checks a backend and fails the test with the whole report unless all is well.

    Examples
    --------
    >>> def test_my_solver(backend_conformance):
    ...     backend_conformance("my-solver", n_problems=100)
    """
    from ssvm_dsl.testing import check_backend

    return _failing(check_backend, conformance_stream)


@pytest.fixture
def trainer_conformance(conformance_stream: int) -> Conformance:
    """Return a function that checks a trainer and fails the test with the whole report unless all is well.

    Examples
    --------
    >>> def test_my_trainer(trainer_conformance):
    ...     trainer_conformance("my-trainer", options={"rate": 0.5})
    """
    from ssvm_dsl.testing import check_trainer

    return _failing(check_trainer, conformance_stream)


@pytest.fixture
def constraint_conformance(conformance_stream: int) -> Conformance:
    """Return a function that checks a kind of constraints and fails the test unless all is well.

    Examples
    --------
    >>> def test_my_kind(constraint_conformance):
    ...     constraint_conformance("my-kind", n_problems=50)
    """
    from ssvm_dsl.testing import check_constraint

    return _failing(check_constraint, conformance_stream)


@pytest.fixture
def bridge_conformance(conformance_stream: int) -> Conformance:
    """Return a function that checks a bridge and fails the test unless all is well.

    Examples
    --------
    >>> def test_my_bridge(bridge_conformance):
    ...     bridge_conformance("my-bridge", n_problems=50)
    """
    from ssvm_dsl.testing import check_bridge

    return _failing(check_bridge, conformance_stream)


@pytest.fixture
def loss_conformance(conformance_stream: int) -> Conformance:
    """Return a function that checks a loss and fails the test unless all is well.

    Examples
    --------
    >>> def test_my_loss(loss_conformance):
    ...     loss_conformance("my-loss", options={"power": 2})
    """
    from ssvm_dsl.testing import check_loss

    return _failing(check_loss, conformance_stream)


@pytest.fixture
def executor_conformance(conformance_stream: int) -> Conformance:
    """Return a function that checks an executor and fails the test unless all is well.

    Examples
    --------
    >>> def test_my_executor(executor_conformance):
    ...     executor_conformance("my-executor", options={"workers": 2})
    """
    from ssvm_dsl.testing import check_executor

    return _failing(check_executor, conformance_stream)


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
