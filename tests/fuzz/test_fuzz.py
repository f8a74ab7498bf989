"""Every fuzzer makes a few trials in the ordinary test run; ``make fuzz`` makes millions."""

from __future__ import annotations

import multiprocessing
import os

import harness
import pytest

SEED = int(os.environ.get("SSVM_TEST_SEED", "0"))


@pytest.fixture(scope="module")
def shorts():
    """Wait for what a fuzzer has found: all make their trials in one process, which is loaded once."""
    context, found = multiprocessing.get_context("spawn"), {}
    ours, theirs = context.Pipe(duplex=False)
    process = context.Process(target=harness.shorts, args=(SEED, theirs), daemon=True)
    process.start()
    theirs.close()

    def wait(name):
        limit = harness.load(name).LIMIT
        while name not in found:
            assert ours.poll(2.0 * limit + 60.0), f"{name} hangs"
            try:
                done, *told = ours.recv()
            except EOFError:
                process.join()
                pytest.fail(f"the process died with exit status {process.exitcode}")
            found[done] = told
        return found[name]

    yield wait
    ours.close()
    process.kill()
    process.join()


@pytest.mark.parametrize("name", harness.names())
def test_promises_hold_on_random_input(name, shorts):
    tried, failures = shorts(name)
    assert not failures, "\n".join(failures)
    assert tried > 0


def test_a_fuzzer_in_a_process_of_its_own():
    runner = harness.Runner("language", SEED, most=2)
    while not runner.finished:
        runner.poll(1.0)
    assert not runner.failures, "\n".join(map(str, runner.failures))
    assert (runner.trials, runner.left) == (2, 0)
    assert runner.tried > 0
