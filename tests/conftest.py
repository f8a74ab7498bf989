"""What all tests share: the folder of real data, and the rule that CI never skips a test for want of it."""

from __future__ import annotations

import os
from collections.abc import Generator
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def data_dir() -> Path:
    """The folder of real data; tests that need it are skipped without SSVM_DATA (fail with SSVM_REQUIRE_DATA=1)."""
    folder = os.environ.get("SSVM_DATA")
    if not folder:
        pytest.skip("SSVM_DATA is not set")
    path = Path(folder)
    assert path.is_dir(), f"SSVM_DATA={folder} is not a folder"
    return path


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """With SSVM_REQUIRE_DATA=1, count a data test that was skipped, for whatever reason, as failed."""
    report = yield
    needs_data = "data_dir" in getattr(item, "fixturenames", ()) or item.get_closest_marker("data") is not None
    if report.skipped and needs_data and os.environ.get("SSVM_REQUIRE_DATA", "") not in ("", "0"):
        reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else report.longrepr
        report.outcome = "failed"
        report.longrepr = f"SSVM_REQUIRE_DATA is set, but this data test was skipped: {reason}"
    return report
