"""Pytest plug-in for authors of plug-ins: the conformance kits as fixtures, such as ``backend_conformance``.

Pytest imports this module in every project where the package is installed, so it imports nothing heavy.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

import pytest

if TYPE_CHECKING:
    from ssvm_dsl.plugin_api import BackendSpec, BridgeSpec, ConstraintSpec, TrainerSpec
    from ssvm_dsl.testing.report import ConformanceReport


class BackendConformance(Protocol):
    """Type of the fixture ``backend_conformance``."""

    def __call__(self, backend: str | BackendSpec, **settings: Any) -> ConformanceReport:
        """Run :func:`ssvm_dsl.testing.check_backend`; fail the test with the report unless all is well."""


class TrainerConformance(Protocol):
    """Type of the fixture ``trainer_conformance``."""

    def __call__(self, trainer: str | TrainerSpec, **settings: Any) -> ConformanceReport:
        """Run :func:`ssvm_dsl.testing.check_trainer`; fail the test unless all is well."""


class ConstraintConformance(Protocol):
    """Type of the fixture ``constraint_conformance``."""

    def __call__(self, kind: str | ConstraintSpec, **settings: Any) -> ConformanceReport:
        """Run :func:`ssvm_dsl.testing.check_constraint`; fail the test unless all is well."""


class BridgeConformance(Protocol):
    """Type of the fixture ``bridge_conformance``."""

    def __call__(self, bridge: str | BridgeSpec, **settings: Any) -> ConformanceReport:
        """Run :func:`ssvm_dsl.testing.check_bridge`; fail the test unless all is well."""


@pytest.fixture
def backend_conformance() -> BackendConformance:
    """Return a function that checks a backend and fails the test with the whole report unless all is well.

    Examples
    --------
    >>> def test_my_solver(backend_conformance):
    ...     backend_conformance("my-solver", n_problems=100)
    """
    from ssvm_dsl.testing.backends.conformance import check_backend

    def check(backend: str | BackendSpec, **settings: Any) -> ConformanceReport:
        return _passed(check_backend(backend, **settings))

    return check


@pytest.fixture
def trainer_conformance() -> TrainerConformance:
    """Return a function that checks a trainer and fails the test with the whole report unless all is well.

    Examples
    --------
    >>> def test_my_trainer(trainer_conformance):
    ...     trainer_conformance("my-trainer", options={"rate": 0.5})
    """
    from ssvm_dsl.testing.trainers.conformance import check_trainer

    def check(trainer: str | TrainerSpec, **settings: Any) -> ConformanceReport:
        return _passed(check_trainer(trainer, **settings))

    return check


@pytest.fixture
def constraint_conformance() -> ConstraintConformance:
    """Return a function that checks a kind of constraints and fails the test unless all is well.

    Examples
    --------
    >>> def test_my_kind(constraint_conformance):
    ...     constraint_conformance("my-kind", n_problems=50)
    """
    from ssvm_dsl.testing.constraints.conformance import check_constraint

    def check(kind: str | ConstraintSpec, **settings: Any) -> ConformanceReport:
        return _passed(check_constraint(kind, **settings))

    return check


@pytest.fixture
def bridge_conformance() -> BridgeConformance:
    """Return a function that checks a bridge and fails the test unless all is well.

    Examples
    --------
    >>> def test_my_bridge(bridge_conformance):
    ...     bridge_conformance("my-bridge", n_problems=50)
    """
    from ssvm_dsl.testing.bridges.conformance import check_bridge

    def check(bridge: str | BridgeSpec, **settings: Any) -> ConformanceReport:
        return _passed(check_bridge(bridge, **settings))

    return check


def _passed(report: ConformanceReport) -> ConformanceReport:
    if not report.ok:
        pytest.fail(str(report), pytrace=False)
    return report
