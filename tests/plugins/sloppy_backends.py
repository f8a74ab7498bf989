"""Backends of authors who forgot, mistyped or misread one thing: what the kit says must be in their terms."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ssvm_dsl.ir import Caps, Guarantee, Task, Topology
from ssvm_dsl.plugin_api import BackendSpec, ExampleAnswer, ExampleSession, Verdict
from ssvm_dsl.testing.brute_force import BruteForce


def spec_of(backend, *tasks):
    caps = Caps(tasks=frozenset(tasks or {Task.MAP}), topology=Topology.LOOPY, guarantee=Guarantee.EXACT, max_arity=4)
    return BackendSpec(backend.__name__, f"{__name__}:{backend.__name__}", caps=caps)


class Right:
    """Brute force; the others get one thing wrong."""

    def check(self, need):
        return Verdict(True, cost=need.max_labellings)

    def open(self, program, options):
        return Wrapped(BruteForce().open(program, options), self.change)

    def change(self, solution):
        return solution


class Wrapped:
    def __init__(self, inner, change):
        self.inner, self.change = inner, change

    def solve(self, question):
        return self.change(self.inner.solve(question))


class CheckReturnsNone(Right):
    def check(self, need):
        return None


class CheckReturnsTrue(Right):
    def check(self, need):
        return True


class CheckWithoutNeed(Right):
    def check(self):
        return Verdict(True)


class CheckTextCost(Right):
    def check(self, need):
        return Verdict(True, cost="cheap")


class CheckTextReasons(Right):
    def check(self, need):
        return Verdict(False, reasons=None)


class NoCheck:
    def open(self, program, options):
        return BruteForce().open(program, options)


class NoOpen:
    def check(self, need):
        return Verdict(True)


class OpenWithoutOptions(Right):
    def open(self, program):
        return BruteForce().open(program, {})


class OpenReturnsNone(Right):
    def open(self, program, options):
        return None


class OpenRaises(Right):
    def open(self, program, options):
        raise KeyError("graph")


class OpenReturnsFunction(Right):
    def open(self, program, options):
        return lambda question: None


class ConstructorWants(Right):
    def __init__(self, solver):
        self.solver = solver


class SolveWithoutQuestion(Right):
    def open(self, program, options):
        class Session:
            def solve(self):
                return None

        return Session()


class SolveOldSignature(Right):
    def open(self, program, options):
        class Session:
            def solve(self, theta, examples, task):
                return None

        return Session()


#: What is returned in place of the answer.
CHANGES = {
    "ReturnsNone": lambda found: None,
    "ReturnsLabels": lambda found: found.labels,
    "ReturnsTuple": lambda found: (found.labels, found.score),
    "ListLabels": lambda found: replace(found, labels=found.labels.tolist()),
    "LongLabels": lambda found: replace(found, labels=found.labels.astype(np.int64)),
    "FloatLabels": lambda found: replace(found, labels=found.labels.astype(float)),
    "ShortLabels": lambda found: replace(found, labels=found.labels[:-1]),
    "ScalarScore": lambda found: replace(found, score=float(found.score.sum())),
    "NoBound": lambda found: replace(found, bound=None),
    "StopAsText": lambda found: replace(found, stop="finished"),
    "MatrixLabels": lambda found: replace(found, labels=found.labels[None, :]),
    "UnknownStates": lambda found: replace(found, labels=found.labels + np.int32(50)),
    "NoMarginals": lambda found: replace(found, marginals=None),
    "ListMarginals": lambda found: replace(found, marginals=[0.5, 0.5]),
    "KBestFlat": lambda found: replace(found, labels=found.labels[0], score=found.score[0]),
}
for _name, _change in CHANGES.items():
    globals()[_name] = type(_name, (Right,), {"change": staticmethod(_change)})


class AnswerNone(Right):
    def open(self, program, options):
        class Session(ExampleSession):
            def answer(self, example, clock, warm):
                return None

        return Session(program)


class AnswerList(Right):
    def open(self, program, options):
        class Session(ExampleSession):
            def answer(self, example, clock, warm):
                return [0] * len(example.node)

        return Session(program)


class AnswerShort(Right):
    def open(self, program, options):
        class Session(ExampleSession):
            def answer(self, example, clock, warm):
                return ExampleAnswer.exact([0], 0.0)

        return Session(program)


class AnswerArguments(Right):
    def open(self, program, options):
        class Session(ExampleSession):
            def answer(self, example):
                return ExampleAnswer.exact([0] * len(example.node), 0.0)

        return Session(program)


class AnswerMissing(Right):
    def open(self, program, options):
        class Session(ExampleSession):
            pass

        return Session(program)


