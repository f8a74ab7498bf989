"""Backends that are honest but imperfect: a heuristic, a bounding one, two that are interrupted, one that breaks."""

from __future__ import annotations

from contextlib import contextmanager
from types import SimpleNamespace

import numpy as np

from ctrl_c import pressed_within_llvm
from ssvm_dsl import register
from ssvm_dsl.ir import Caps, Guarantee, Solution, Task
from ssvm_dsl.kernels import njit
from ssvm_dsl.plugin_api import BackendSpec, hookimpl
from ssvm_dsl.registry import registry
from ssvm_dsl.testing.brute_force import BruteForce


@contextmanager
def registered(plugin, name="toys"):
    """Register a plug-in object, and forget it again afterwards."""
    try:
        register(plugin, name)
        yield
    finally:
        registry.cache_clear()


def plugged(**specs):
    """Register descriptions by hook, ``plugged(ssvm_backends=[spec])``; they are taken back after the test."""
    hooks = {name: hookimpl(lambda listed=listed: listed) for name, listed in specs.items()}
    for name, hook in hooks.items():
        hook.__name__ = name
    register(SimpleNamespace(**hooks), "stranger")


class Toys:
    """A plug-in object with all of them."""

    @hookimpl
    def ssvm_backends(self):
        tasks = frozenset({Task.MAP, Task.KBEST})
        for name, guarantee in [
            ("heuristic", Guarantee.HEURISTIC),
            ("bounding", Guarantee.BOUND),
            ("interrupted", Guarantee.EXACT),
            ("compiling", Guarantee.EXACT),
            ("broken", Guarantee.EXACT),
        ]:
            caps = Caps(tasks=tasks, guarantee=guarantee, max_arity=64)
            yield BackendSpec(f"toy-{name}", f"toy_backends:{name.title()}", caps=caps)


class Heuristic(BruteForce):
    """Misses the best labelling of two examples out of three, and gives no bound."""

    def open(self, program, options):
        return Wrapped(super().open(program, options), self)

    def answer(self, session, question):
        ranked = session.solve(question.replace(task=Task.KBEST, k=question.k + 1))
        ids, task = question.ids(session.program), question.task
        later = (ids % 3 != 0) & (ranked.score[question.k] > -np.inf)
        sizes = np.diff(session.program.var_ptr)[ids]
        labels = np.where(np.repeat(later, sizes), ranked.labels[1:], ranked.labels[:-1])
        score = np.where(later, ranked.score[1:], ranked.score[:-1])
        if task is Task.MAP:
            labels, score = labels[0], score[0]
        return Solution(labels, score, self.bound(ranked.score[0]), ranked.stop, ranked.primal)

    def bound(self, best):
        return np.full(len(best), np.nan)


class Bounding(Heuristic):
    """The same with a true upper bound."""

    def bound(self, best):
        return best + 0.01 + 0.02 * np.abs(best)


class Interrupted(BruteForce):
    """Exact; the user presses Ctrl-C during call number ``at``."""

    at, calls = 0, 0

    def open(self, program, options):
        return Wrapped(super().open(program, options), self)

    def answer(self, session, question):
        Interrupted.calls += 1
        if Interrupted.calls == Interrupted.at:
            raise KeyboardInterrupt
        return session.solve(question)


class Compiling(BruteForce):
    """Exact; in call number ``at`` a kernel is compiled, during which the user presses Ctrl-C."""

    at, calls = 0, 0

    def open(self, program, options):
        return Wrapped(super().open(program, options), self)

    def answer(self, session, question):
        Compiling.calls += 1
        if Compiling.calls == Compiling.at:
            with pressed_within_llvm():
                njit(cache=False)(lambda x: 0.5 * x)(1.0)
        return session.solve(question)


class Broken(BruteForce):
    """Fails on every call."""

    def open(self, program, options):
        return Wrapped(super().open(program, options), self)

    def answer(self, session, question):
        raise RuntimeError("the solver exploded")


class Wrapped:
    """A session that hands every question to its backend's ``answer``."""

    def __init__(self, session, backend):
        self.session, self.backend = session, backend

    def solve(self, question):
        return self.backend.answer(self.session, question)
