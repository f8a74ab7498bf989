"""The kit's check of limits on one large example, by a clock on which only a backend's work takes time."""

from __future__ import annotations

import numpy as np
import pytest

from ssvm_dsl.errors import OutOfTime
from ssvm_dsl.ir import Caps, Guarantee, Solution, Topology
from ssvm_dsl.plugin_api import Verdict
from ssvm_dsl.testing.backends import limits
from ssvm_dsl.testing.backends.limits import SIZES, check_large_example
from ssvm_dsl.testing.kit import Complaint

CAPS = Caps(topology=Topology.LOOPY, guarantee=Guarantee.HEURISTIC)


class Timed:
    """A backend and the clock: seconds for each variable to open, to prepare an answer and to search for one.

    Only the search looks at the clock; ``compiling``: seconds of the first answers to come, one after the other.
    """

    def __init__(self, opening=0.0, preparing=0.0, searching=0.0, compiling=(), most=10**9, raises=False):
        self.opening, self.preparing, self.searching, self.compiling = opening, preparing, searching, list(compiling)
        self.most, self.raises, self.now = most, raises, 0.0

    def check(self, need):
        return Verdict(need.n_variables <= self.most)

    def open(self, program, options):
        self.program = program
        self.now += self.opening * program.n_variables
        return self

    def solve(self, question):
        n, limit = self.program.n_variables, question.limits.time
        self.now += self.preparing * n + (self.compiling.pop(0) if self.compiling else 0.0)
        self.now += self.searching * n if limit is None else min(limit, self.searching * n)
        if self.raises and limit is not None:
            raise OutOfTime("no time")
        return Solution.exact(np.zeros(n, np.int32), np.full(1, np.nan))


@pytest.fixture
def check(monkeypatch):
    def run(backend, caps=CAPS):
        monkeypatch.setattr(limits, "process_time", lambda: backend.now)
        return check_large_example(backend, caps, {})

    return run


def test_a_backend_whose_search_looks_at_the_clock_passes(check):
    assert check(Timed(searching=1.0))
    assert check(Timed(searching=1.0, raises=True))


@pytest.mark.parametrize("what", ["opening", "preparing"])
def test_what_is_prepared_without_a_look_at_the_clock_is_found(check, what):
    with pytest.raises(Complaint, match=f"one example of {SIZES[-1]} variables"):
        check(Timed(**{what: 1e-3}))
    assert check(Timed(**{what: 1e-5}))


def test_compiling_is_not_held_against_a_backend(check):
    assert check(Timed(compiling=[9.0, 9.0, 9.0]))
    with pytest.raises(Complaint):
        check(Timed(compiling=[9.0] * 9))


def test_a_backend_is_asked_about_what_it_takes(check):
    assert not check(Timed(most=8))
    assert check(Timed(preparing=1e-3, most=SIZES[1]))  # it takes none that are large
