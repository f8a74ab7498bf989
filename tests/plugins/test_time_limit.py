"""The kit's check of time limits, by a clock on which only a backend's work takes time."""

from __future__ import annotations

import numpy as np
import pytest

from ssvm_dsl.ir import Caps, Solution, Stop, Task, Topology
from ssvm_dsl.plugin_api import Verdict
from ssvm_dsl.testing.backends import limits
from ssvm_dsl.testing.backends.limits import LEAST, MOST_COPIES, N_EXAMPLES, check_time_limit
from ssvm_dsl.testing.kit import Complaint

CAPS = Caps(topology=Topology.CHAIN)


class Timed:
    """A backend and the clock: each example takes ``each`` seconds; ``n`` lists the sizes of batches.

    ``keeps``: whether it stops at limits; ``tells``: whether it says so, after the limit, for what it has; ``slowed``:
    by how much other programs slow down the next calls; ``most``: examples that it accepts; ``reading``: seconds for
    each example before the search, which then has no time left.
    """

    def __init__(self, each, keeps=True, tells=True, slowed=(), most=10**9, reading=0.0):
        self.each, self.keeps, self.tells, self.slowed, self.most = each, keeps, tells, list(slowed), most
        self.reading, self.now, self.n = reading, 0.0, []

    def check(self, need):
        return Verdict(need.n_examples <= self.most)

    def open(self, program, options):
        self.program = program
        return self

    def solve(self, question):
        n = self.program.n_examples
        self.n.append(n)
        reads = self.reading * n
        takes = self.each * n * (self.slowed.pop(0) if self.slowed else 1.0) + reads
        late = question.limits.time is not None and takes > question.limits.time
        self.now += max(reads, question.limits.time) + self.each if late and self.keeps else takes
        stop = np.full(n, Stop.TIME if late and self.tells else Stop.FINISHED, np.int8)
        found = Solution.exact(np.zeros(self.program.n_variables, np.int32), np.zeros(n))
        found.stop = stop
        if late and self.reading:
            found.score[:], found.bound[:] = -np.inf, np.nan
        return found


@pytest.fixture
def check(monkeypatch):
    def run(backend):
        monkeypatch.setattr(limits, "perf_counter", lambda: backend.now)
        return check_time_limit(backend, CAPS, {}, Task.MAP)

    return run


@pytest.mark.parametrize("each", [1e-2, 1e-3, 1e-4, 1e-5])
def test_batches_grow_until_the_clock_tells_something(check, each):
    with pytest.raises(Complaint, match=r"none of them with Stop\.TIME"):
        check(one := Timed(each, keeps=False, tells=False))
    assert one.n[-1] * each >= LEAST
    assert one.n[-1] * each < 5 * LEAST or one.n[-1] == N_EXAMPLES
    assert check(one := Timed(each))
    assert one.n[-1] * each >= LEAST


def test_a_backend_that_is_too_quick_for_any_clock_passes(check):
    assert check(one := Timed(1e-9, keeps=False, tells=False))
    assert one.n[-1] == N_EXAMPLES * MOST_COPIES


def test_a_backend_that_refuses_batches_is_not_timed(check):
    assert not check(Timed(1e-3, most=1))
    assert check(Timed(1e-9, most=N_EXAMPLES))  # it takes the smallest, and no larger one


def test_a_backend_that_looks_at_the_clock_when_all_is_done_is_found(check):
    with pytest.raises(Complaint, match=f"^{N_EXAMPLES * MOST_COPIES} examples take"):
        check(Timed(1e-3, keeps=False))


def test_reading_a_batch_is_not_held_against_a_backend_whose_search_is_short(check):
    assert check(Timed(1e-5, reading=1e-4))


def test_a_machine_that_is_busy_meanwhile_accuses_nobody_and_excuses_nobody(check):
    assert check(Timed(1e-2, slowed=[1, 1, 1, 9, 9, 9]))
    assert check(Timed(1e-2, slowed=[4, 4, 4, 1, 1, 1]))
    for unlucky in ([3, 3, 3], [9, 4, 4, 1, 1], [1, 1, 1, 2, 2, 2, 2], [5, 1.5, 1.4, 1]):
        with pytest.raises(Complaint):
            check(Timed(1e-2, keeps=False, tells=False, slowed=unlucky))
