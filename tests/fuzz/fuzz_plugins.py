"""Hostile plug-ins: an error that names the plug-in, or a right answer; the host is as before afterwards.

A backend, loss, listener or description does one thing wrong, at a random place and time: it raises anything, returns
anything, writes to what it is given, keeps what it returned and changes it later, changes what belongs to the whole
process, or lies in numbers that can be checked.  Lies that cannot be (a consistent answer that is not the best one) are
not drawn.
"""

from __future__ import annotations

import os
import signal
import sys
import warnings
from contextlib import redirect_stderr, redirect_stdout
from functools import cache
from io import StringIO
from types import ModuleType

import numpy as np

from model_table import tagger
from ssvm_dsl import CustomLoss, StructuredSVM
from ssvm_dsl.errors import SsvmError
from ssvm_dsl.ir import Caps, Guarantee, Marginals, Solution, Task, Topology
from ssvm_dsl.plugin_api import BackendSpec, LossSpec, Option, Verdict, hookimpl
from ssvm_dsl.registry import PluginInfo, registry
from ssvm_dsl.testing.brute_force import BruteForce

UNIT = "plug-ins"
SHORT = 10
LIMIT = 60.0


#: What is learnt.
Word = tagger(2, 3)


class Priced(Word):
    """The same with a loss of a plug-in."""

    loss = CustomLoss("hostile", Word.y)


_RNG = np.random.default_rng(0)
X = [_RNG.normal(size=(n, 2)) for n in (3, 2, 1, 3)]
Y = [_RNG.integers(0, 3, len(x)) for x in X]

CAPS = Caps(
    tasks=frozenset({Task.MAP, Task.KBEST, Task.MARGINALS}), topology=Topology.LOOPY, max_arity=4,
    guarantee=Guarantee.EXACT,
)  # fmt: skip


class Odd(BaseException):
    """Not an ``Exception``."""


class Unprintable(Exception):
    """Fails when it is printed."""

    def __str__(self):
        raise RuntimeError


ERRORS = (SystemExit(7), GeneratorExit(), Odd(), Unprintable(), RuntimeError("a\nb"), MemoryError(), RecursionError(),
          StopIteration(), KeyError("x"), AssertionError())  # fmt: skip

JUNK = (None, 3, "text", [], {}, object(), np.zeros(3), (1, 2), float("nan"), Solution, lambda *a, **k: 1)


def throw(error):
    """Raise an error."""
    raise error


def wreck(rng, array):
    """Return an array that is wrong in a random way."""
    kind = rng.integers(8)
    if kind == 0:
        return array.astype(rng.choice(["int64", "float32", "object", "complex128", "U3"]))
    if kind == 1:
        return array[..., :-1]
    if kind == 2:
        return array.tolist()
    if kind == 3:
        return np.ma.array(array)
    if kind == 4:
        return array[None, None]
    if kind == 5:
        return np.concatenate([array, array], axis=-1)
    return JUNK[rng.integers(len(JUNK))] if kind == 6 else None


def lie(rng, solution, task):
    """Change the numbers of an answer so that they are wrong in a way that can be checked."""
    n = rng.integers(solution.bound.size) if solution.bound.size else 0
    if task is Task.MARGINALS:
        mu, kind = solution.marginals, rng.integers(4)
        if kind == 0:
            solution.log_partition[n] = rng.choice([np.nan, np.inf, -1e3])
        elif kind == 1:
            mu.node[rng.integers(mu.node.size)] += rng.choice([0.5, np.nan, -1.0])
        elif kind == 2 and mu.tables[0].size:
            mu.tables[0][0, 0] += rng.choice([0.5, np.nan, -1.0])
        else:
            solution.marginals = Marginals(mu.node, mu.tables[:-1])
        return
    score = solution.score if solution.score.ndim == 1 else solution.score[0]
    kind = rng.integers(6)
    if kind == 0:
        solution.labels.flat[rng.integers(solution.labels.size)] += rng.choice([-5, 5, 100])
    elif kind == 1:
        score[n] += rng.choice([-1.0, 1.0, np.nan, np.inf])
    elif kind == 2:
        solution.bound[n] += rng.choice([-1.0, 1.0, np.nan, np.inf, -np.inf])
    elif kind == 3:
        solution.primal[n] = rng.choice([1, 2, 3, 4, 99, -1])
    elif kind == 4:
        solution.stop[n] = rng.choice([2, 4, 99, -1])
    else:
        score[n], solution.bound[n], solution.primal[n] = -np.inf, -np.inf, 3


def disturb(rng):
    """Change what belongs to the whole process."""
    kind = rng.integers(4)
    if kind == 0:
        np.seterr(all="raise")
    elif kind == 1:
        os.chdir("/")
    elif kind == 2:
        warnings.resetwarnings()
    else:
        signal.signal(signal.SIGINT, signal.SIG_IGN)


def surroundings():
    """What a plug-in is to leave alone."""
    return np.geterr(), os.getcwd(), list(warnings.filters), signal.getsignal(signal.SIGINT)


class Hostile:
    """A backend that is honest until a call of a drawn number to a drawn method."""

    def __init__(self, rng, scratch):
        self.rng = rng
        self.place = str(rng.choice(["check", "open", "solve", "solve", "solve", "solve", "offer"]))
        self.how = str(rng.choice(["raise", "junk", "lie", "wreck", "write", "keep", "print", "disturb"]))
        self.when, self.calls, self.struck, self.kept = int(rng.integers(0, 3)), 0, False, []

    def __repr__(self):
        return f"{self.place}: {self.how}, call {self.when}"

    def strikes(self, place):
        """Whether this call goes wrong."""
        if place != self.place:
            return False
        self.calls += 1
        harmless = place == "solve" and self.how in ("print", "keep", "disturb")
        self.struck |= self.calls > self.when and not harmless
        return self.calls > self.when

    def misbehave(self):
        """Raise or return junk, where that is what it does at other places than answers."""
        if self.how == "raise":
            raise ERRORS[self.rng.integers(len(ERRORS))]
        return JUNK[self.rng.integers(len(JUNK))]

    def check(self, need):
        if self.strikes("check"):
            return self.misbehave()
        return Verdict(True, cost=1.0)

    def open(self, program, options):
        if self.strikes("open"):
            return self.misbehave()
        return HostileSession(self, program)


class HostileSession:
    """A session of it."""

    def __init__(self, backend, program):
        self.backend, self.program, self.inner = backend, program, BruteForce().open(program, {})

    @property
    def compiled(self):
        return (lambda: self.backend.misbehave()) if self.backend.strikes("offer") else None

    @property
    def expect(self):
        return (lambda *args: self.backend.misbehave()) if self.backend.strikes("offer") else None

    def solve(self, question):
        backend, theta, task = self.backend, question.theta, question.task
        if not backend.strikes("solve"):
            return self.inner.solve(question)
        rng, how = backend.rng, backend.how
        if how in ("raise", "junk"):
            return backend.misbehave()
        if how == "write":
            arrays = [theta.node, theta.pool, theta.const, self.program.card, self.program.var_ptr]
            arrays += [self.program.groups[0].scope, question.examples]
            arrays[rng.integers(len(arrays))][...] = 0
        solution = self.inner.solve(question)
        if how == "disturb":
            disturb(rng)
        elif how == "print":
            print("hostile", file=sys.stdout)
        elif how == "keep":
            for old in backend.kept:
                old.labels[...], old.score[...], old.bound[...] = 9, 1e9, -1e9
            backend.kept.append(solution)
        elif how == "lie":
            lie(rng, solution, task)
        elif how == "wreck":
            names = ["score", "bound", "stop", "primal", *(["labels"] if solution.labels.size else ["log_partition"])]
            name = str(rng.choice(names))
            setattr(solution, name, wreck(rng, getattr(solution, name)))
        return solution


def hostile_loss(rng):
    """Return a loss function that goes wrong, or is Hamming's."""

    def prices(truth, n_states, ptr):
        out = (np.arange(n_states) != truth[:, None]).astype(float)
        kind = rng.integers(8)
        if kind == 0:
            throw(ERRORS[rng.integers(len(ERRORS))])
        if kind == 1:
            return JUNK[rng.integers(len(JUNK))]
        if kind == 2:
            truth[:] = 0
        if kind == 3:
            ptr[:] = 0
        if kind == 4:
            return wreck(rng, out)
        if kind == 5 and out.size:
            out.flat[rng.integers(out.size)] = rng.choice([np.nan, np.inf, -1.0, -np.inf])
        return out

    return prices


def hostile_spec(rng):
    """Return a description with one field of a wrong type or value."""
    given = {"name": "hostile", "factory": "hostile_plugin:make", "caps": CAPS}
    name = str(rng.choice(["name", "factory", "summary", "api_version", "requires", "install_hint", "options", "caps"]))
    values = [*JUNK, "", "a b", "x\ny", -1, ("..",), (3,), (Option("a", 1, "", (2,)),), Caps(tasks=["map"])]
    return BackendSpec(**given | {name: values[rng.integers(len(values))]})


def ask(task, model, backend):
    """Use a backend in one way; return numbers that are the same for every exact one."""
    options = {"backend": backend, "random_state": 0, "n_threads": 1, "C": 1.0, "max_passes": 40, "tol": 1e-6}
    if task == "log":
        report = StructuredSVM(model, risk="log", trainer="lbfgs", **options).fit(X, Y).report_
        return [report.primal]
    if task == "fit":
        return [StructuredSVM(model, trainer="n-slack", **options).fit(X, Y).report_.primal]
    svm = _fitted(model).set_params(backend=backend)
    if task == "predict":
        return svm.best_score(X).tolist()
    if task == "kbest":
        return [score for ranked in svm.predict_kbest(X, 3) for _, score in ranked]
    return np.concatenate([np.ravel(one) for one in svm.predict_marginals(X)]).tolist()


@cache
def _weights(model):
    return StructuredSVM(model, trainer="n-slack", random_state=0, max_passes=5, n_threads=1).fit(X, Y)


def _fitted(model):
    made = _weights(model)
    again = StructuredSVM(model, random_state=0, n_threads=1)
    again.fitted_ = made.fitted_
    return again


@cache
def expected(task):
    """Return what a bundled backend says."""
    return ask(task, Word, "chain")


def plugin_of(rng, scratch):
    """Return (what goes wrong, module of the plug-in, tasks, model, backend)."""
    module = ModuleType("hostile_plugin")
    kind = str(rng.choice(["backend", "backend", "backend", "loss", "listener", "spec"]))
    if kind == "backend":
        backend = Hostile(rng, scratch)
        module.make = lambda: backend
        spec = BackendSpec("hostile", "hostile_plugin:make", caps=CAPS)
        module.ssvm_backends = hookimpl(lambda: [spec])
        module.ssvm_backends.__name__ = "ssvm_backends"
        return kind, backend, module, str(rng.choice(["fit", "log", "predict", "kbest", "marginals"])), Word, "hostile"
    if kind == "loss":
        module.prices = hostile_loss(rng)
        module.ssvm_losses = hookimpl(lambda: [LossSpec("hostile", "hostile_plugin:prices", packed=True)])
        return kind, "loss", module, "fit", Priced, "chain"
    if kind == "listener":
        error = ERRORS[rng.integers(len(ERRORS))]
        module.ssvm_training_event = hookimpl(
            lambda event: (event.extra.clear(), throw(error) if event.iteration > 1 else None)[1]
        )
        return kind, error, module, "fit", Word, "chain"
    spec = hostile_spec(rng)
    module.make = lambda: Hostile(np.random.default_rng(0), scratch)
    module.ssvm_backends = hookimpl(lambda: [spec])
    return kind, spec, module, "fit", Word, "auto"


def trial(rng, scratch):
    """Register a hostile plug-in, use it, and see that everything else is as before."""
    kind, what, module, task, model, backend = plugin_of(rng, scratch)
    info, known = PluginInfo("hostile-plug", "registered in this process", bundled=False, allowed=False), registry()
    before, problems = expected(task), len(known.problems)
    sys.modules["hostile_plugin"] = module
    kept = [[x.copy() for x in X], [y.copy() for y in Y]]
    try:
        with warnings.catch_warnings(), redirect_stdout(StringIO()), redirect_stderr(StringIO()):
            warnings.simplefilter("ignore")
            known.register(module, info)
            around = surroundings()
            try:
                found = ask(task, model, backend)
            except SsvmError as err:
                text = f"{kind} {what!r}, {task}: {type(err).__name__}: {err}"
                if "hostile" not in str(err):
                    raise AssertionError(f"no plug-in is named: {text}") from err
                if not getattr(what, "struck", True):
                    raise AssertionError(f"it has done nothing wrong: {text}") from err
            except BaseException as err:
                raise AssertionError(f"{kind} {what!r}, {task}: {type(err).__name__} reaches the user") from err
            else:
                same = np.allclose(found, before, rtol=1e-5, atol=1e-7, equal_nan=False)
                assert same, f"{kind} {what!r}, {task}: {found} in place of {before}"
            assert surroundings() == around, f"{kind} {what!r}, {task}: left the process changed"
    finally:
        known.forget(info)
        del known.problems[problems:], sys.modules["hostile_plugin"]
    unharmed = all(np.array_equal(a, b) for a, b in zip([*X, *Y], [*kept[0], *kept[1]], strict=True))
    assert unharmed, f"{kind} {what!r}: the user's data are changed"
    assert ask(task, Word, "chain") == before, f"{kind} {what!r}: the host answers differently afterwards"
    return 1
