"""Whoever asks a session, BLAS has one thread while the backend works, and what it had before afterwards."""

from __future__ import annotations

import numpy as np
from threadpoolctl import threadpool_info, threadpool_limits

from ssvm_dsl.inference.planning.planner import plan
from ssvm_dsl.inference.session import open_plan
from ssvm_dsl.ir import Caps, Guarantee, Program, Question, Task, Theta
from ssvm_dsl.plugin_api import BackendSpec, hookimpl, program_need
from ssvm_dsl.testing.brute_force import BruteForce
from toy_backends import Wrapped, registered

SEEN: list[set[int]] = []


def threads() -> set[int]:
    return {one["num_threads"] for one in threadpool_info() if one["user_api"] == "blas"}


class Watching(BruteForce):
    """Writes down how many threads BLAS has when it is asked."""

    def open(self, program, options):
        SEEN.append(threads())
        return Wrapped(super().open(program, options), self)

    def answer(self, session, question):
        SEEN.append(threads())
        return session.solve(question)


class Plugin:
    @hookimpl
    def ssvm_backends(self):
        caps = Caps(tasks=frozenset({Task.MAP}), guarantee=Guarantee.EXACT, max_arity=64)
        yield BackendSpec("watching", "test_blas_guard:Watching", caps=caps)


def test_a_raw_session_keeps_blas_to_one_thread():
    program = Program(np.array([0, 2]), np.array([2, 2], dtype=np.int32))
    SEEN.clear()
    with registered(Plugin(), "watching"), threadpool_limits(limits=2, user_api="blas"):
        before = threads()
        session = open_plan(plan(program_need(program), "watching"), program)
        session.solve(Question(Theta.zeros(program)))
        assert threads() == before
    assert len(SEEN) == 2
    assert all(one == {1} for one in SEEN)
