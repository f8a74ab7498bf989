"""Exact backends that take their time: each example costs ``SECONDS`` of sleep.

``slow`` honours limits and catches Ctrl-C itself, as those with long searches do; ``deaf`` knows nothing of limits;
``stuck`` answers ten times and then never again.
"""

from __future__ import annotations

import time
from dataclasses import replace

import numpy as np

from ssvm_dsl.ir import Caps, Guarantee, Limits, Primal, Solution, Stop, Task
from ssvm_dsl.plugin_api import BackendSpec, hookimpl
from ssvm_dsl.testing.brute_force import BruteForce

SECONDS = 0.02


class Plugin:
    """A plug-in object with both."""

    @hookimpl
    def ssvm_backends(self):
        caps = Caps(tasks=frozenset({Task.MAP}), guarantee=Guarantee.EXACT, max_arity=64)
        yield BackendSpec("slow", "slow_backends:Slow", caps=caps)
        yield BackendSpec("stuck", "slow_backends:Stuck", caps=caps)
        yield BackendSpec("deaf", "slow_backends:Deaf", caps=replace(caps, guarantee=Guarantee.HEURISTIC))


class Slow(BruteForce):
    """Stops at limits, and returns what it has at Ctrl-C."""

    def open(self, program, options):
        return Session(super().open(program, options))


class Deaf(BruteForce):
    """Stops when it is done."""

    def open(self, program, options):
        return Session(super().open(program, options), deaf=True)


class Stuck(BruteForce):
    """Does not come back from its eleventh question on."""

    def open(self, program, options):
        return StuckSession(super().open(program, options))


class StuckSession:
    """Counts the questions."""

    def __init__(self, session):
        self.session, self.asked = session, 0

    def solve(self, question):
        self.asked += 1
        while self.asked > 10:
            self.hang()
        return self.session.solve(question)

    def hang(self):
        time.sleep(60.0)


class Session:
    """Answers one example after the other; ``shown`` adds a bound to those that are late."""

    def __init__(self, session, deaf=False):
        self.session, self.deaf = session, deaf

    def solve(self, question):
        whole, seconds = self.session.solve(question.replace(limits=Limits())), question.limits.time
        end = np.inf if self.deaf or seconds is None else time.perf_counter() + seconds
        stop = np.full(len(whole.score), Stop.TIME, np.int8)
        try:
            for i in range(len(stop)):
                if time.perf_counter() + SECONDS > end:
                    break
                time.sleep(SECONDS)
                stop[i] = Stop.FINISHED
        except KeyboardInterrupt:
            stop[i:] = Stop.INTERRUPTED
        done = stop == Stop.FINISHED
        score = np.where(done, whole.score, -np.inf)
        bound = np.where(done, whole.bound, whole.score + 1.0)
        primal = np.where(done, whole.primal, Primal.NONE).astype(np.int8)
        return Solution(whole.labels, score, np.full(len(stop), np.nan) if self.deaf else bound, stop, primal)
