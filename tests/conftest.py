"""What all tests share: the folder of real data, which CI never skips a test for want of, and seeded draws."""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Generator
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, settings
from hypothesis.internal.conjecture import providers

# Every run draws the same problems, whatever the machine's speed; SSVM_TEST_SEED=1, 2, ... explores others.
SEED = int(os.environ.get("SSVM_TEST_SEED", "0"))
settings.register_profile("same", derandomize=SEED == 0, deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("same")

# The processors are taken: tests run in as many processes.
os.environ["SSVM_COMPILE_AHEAD"] = "off"


@pytest.fixture(scope="session")
def data_dir() -> Path:
    """The folder of real data; tests that need it are skipped without SSVM_DATA (fail with SSVM_REQUIRE_DATA=1)."""
    folder = os.environ.get("SSVM_DATA")
    if not folder:
        pytest.skip("SSVM_DATA is not set")
    path = Path(folder)
    assert path.is_dir(), f"SSVM_DATA={folder} is not a folder"
    return path


@pytest.fixture(scope="session", autouse=True)
def same_draws() -> Generator[None, None, None]:
    """Let fits without random_state draw the same numbers in every run (others with SSVM_TEST_SEED=1, 2, ...)."""
    made = np.random.default_rng
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(np.random, "default_rng", lambda seed=None: made(SEED if seed is None else seed))
        # hypothesis also draws constants of the modules that happen to be loaded: what a test draws would depend on
        # the tests before it.
        patch.setattr(providers, "_get_local_constants", lambda: providers._local_constants, raising=False)
        yield


def pytest_collection_finish() -> None:
    """Keep the collector from looking at thousands of tests again and again while kernels are compiled (4 %)."""
    gc.collect()
    gc.freeze()


@pytest.fixture(autouse=True)
def same_path() -> Generator[None, None, None]:
    """Take back what a test adds to ``sys.path``, such as the folder of a user's file: later processes inherit it."""
    before = list(sys.path)
    yield
    sys.path[:] = before


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
