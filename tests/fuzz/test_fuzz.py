"""Every fuzzer makes a few trials in the ordinary test run; ``make fuzz`` makes millions."""

from __future__ import annotations

import os

import harness
import pytest

SEED = int(os.environ.get("SSVM_TEST_SEED", "0"))


@pytest.mark.parametrize("name", harness.names())
def test_promises_hold_on_random_input(name):
    runner = harness.Runner(name, SEED, most=harness.load(name).SHORT)
    while not runner.finished:
        runner.poll(1.0)
    assert not runner.failures, "\n".join(map(str, runner.failures))
    assert runner.tried > 0
