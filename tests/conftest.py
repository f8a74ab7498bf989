"""What all tests share: the folder of real data, which CI never skips a test for want of, and seeded draws."""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Generator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, settings
from hypothesis.internal.conjecture import providers

# Every run draws the same problems, whatever the machine's speed; SSVM_TEST_SEED=1, 2, ... explores others.
SEED = int(os.environ.get("SSVM_TEST_SEED", "0"))
JITTER = int(os.environ.get("SSVM_TEST_JITTER", "0"))
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
def nothing_left_behind() -> Generator[None, None, None]:
    """Fail if tests leave files in the root of the project.

    Scripts that run in this process find no arguments: they would take pytest's for names of files to write.
    """
    root = Path(__file__).parents[1]
    before = {path.name for path in root.iterdir()}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", ["pytest"])
        yield
    left = sorted(path.name for path in root.iterdir() if path.name not in before and not path.name.startswith("."))
    assert not left, f"tests left files in {root}: {left}"


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


@pytest.fixture(scope="session", autouse=True)
def other_last_digits() -> Generator[None, None, None]:
    """With SSVM_TEST_JITTER=1, 2, ..., change the last digit of all features at random, as another processor might.

    What a sensitive test asserts or a page prints must hold all the same.
    """
    if JITTER == 0:
        yield
        return
    from ssvm_dsl.compiler.prepared import Weighted

    filled = Weighted.with_features

    def jittered(values: np.ndarray) -> np.ndarray:
        """Multiply by 1 - eps, 1 or 1 + eps; the same number has the same factor wherever it stands."""
        bits = np.ascontiguousarray(values).view(np.uint64) * np.uint64(2 * JITTER + 1) * np.uint64(0x9E3779B97F4A7C15)
        return values * (1.0 + np.finfo(float).eps * ((bits >> np.uint64(40)) % np.uint64(3) - 1.0))

    def with_features(self: Weighted, features: Sequence[Any], pairs: Mapping[int, Any]) -> list[Any]:
        """Fill the maps with features of other last digits; those that are made in slices stay."""
        made = []
        for one in features:
            if isinstance(one, np.ndarray):
                made.append(jittered(one))
            else:
                made.append(replace(one, data=jittered(one.data)) if hasattr(one, "data") else one)
        return filled(self, made, pairs)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Weighted, "with_features", with_features)
        yield


def pytest_collection_finish() -> None:
    """Keep the collector from looking at thousands of tests, and at what compilers leave, again and again."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(200_000, 50, 100)  # with Python's own numbers it looks after each kernel, for 0.05 s


@pytest.fixture(autouse=True)
def same_path(tmp_path_factory: pytest.TempPathFactory) -> Generator[None, None, None]:
    """Take back what a test adds to ``sys.path``, such as the folder of a user's file, and modules of its own files.

    Later processes inherit the path; a file of the same name in a later test would get another name.
    """
    before, known = list(sys.path), set(sys.modules)
    yield
    sys.path[:] = before
    for name in set(sys.modules) - known:
        if Path(getattr(sys.modules[name], "__file__", None) or "/").is_relative_to(tmp_path_factory.getbasetemp()):
            del sys.modules[name]


@pytest.fixture(autouse=True)
def same_plugins() -> Generator[None, None, None]:
    """Take back the plug-ins that a test registers: the next test in this process must not meet them."""
    from ssvm_dsl.registry import registry

    known = registry()
    before = list(known.plugins)
    yield
    for info in [one for one in known.plugins if one not in before]:
        known.forget(info)


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
