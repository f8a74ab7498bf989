"""Time limits and Ctrl-C: whole calls end in time, with true bounds, whatever a backend was doing."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
import warnings
from pathlib import Path

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

import slow_backends
from small import Case, Word
from ssvm_dsl import StructuredSVM
from ssvm_dsl.deadline import Deadline
from ssvm_dsl.errors import OptionError, TimeLimitWarning
from ssvm_dsl.learning.driver import interrupts
from ssvm_dsl.loading import LoadingTime, loading, loading_time
from toy_backends import registered

DATA = Case(Word, n=8, C=2.0).make(0)
BEST, _ = DATA.optimum()


@pytest.fixture(autouse=True)
def slow(monkeypatch):
    monkeypatch.setattr(interrupts, "_ended", [-np.inf])
    with registered(slow_backends.Plugin()):
        yield


def fit(seconds=None, backend="slow", **options):
    options = {"C": 2.0, "tol": 0.0, "max_passes": 1e9, "random_state": 0, "n_threads": 1} | options
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return StructuredSVM(Word, max_seconds=seconds, backend=backend, **options).fit(DATA.X, DATA.Y)


@pytest.mark.parametrize("trainer", ["bcfw", "subgradient", "n-slack", "bundle"])
def test_a_fit_ends_in_time_with_a_true_certificate(trainer):
    """A pass takes 0.16 s here, and may be cut short anywhere; without a limit the fit would take years."""
    fit(0.05, trainer=trainer)  # imports
    svm = fit(0.6, trainer=trainer)
    report, truth = svm.report_, DATA.objective(DATA.flat(svm.weights_))
    assert report.reason in ("seconds", "bounds")  # some learn all that the slow backend's bounds leave, and end
    assert report.dual <= BEST + 1e-7
    assert report.primal >= truth - 1e-9
    assert report.primal >= report.dual


@pytest.mark.parametrize("trainer", ["bcfw", "smo"])
def test_weights_of_a_first_pass_that_time_ends_are_kept_with_true_bounds(trainer):
    """Half a pass fits: the objective is not known, only that it is below a bound."""
    svm = fit(0.09, trainer=trainer)
    assert DATA.objective(DATA.flat(svm.weights_)) - 1e-9 <= svm.report_.primal < np.inf
    assert 0.0 <= svm.report_.dual <= BEST + 1e-7
    assert not svm.report_.converged


def test_a_backend_that_knows_no_limits_is_noticed_afterwards():
    svm = fit(0.1, backend="deaf")
    assert svm.report_.reason == "seconds"
    assert svm.report_.n_oracle_calls <= 3 * 8


def test_ctrl_c_gets_out_of_a_backend_that_hangs(monkeypatch):
    """It is not asked again for a certificate; a signal stands for the key."""
    before = signal.signal(signal.SIGALRM, signal.default_int_handler)

    def press(session):
        signal.setitimer(signal.ITIMER_REAL, 1.5)  # a backend that is quicker would be asked again
        time.sleep(600.0)

    monkeypatch.setattr(slow_backends.StuckSession, "hang", press)
    try:
        svm = StructuredSVM(Word, backend="stuck", trainer="subgradient", tol=0.0, n_threads=1, max_passes=1e9)
        with pytest.warns(ConvergenceWarning, match="interrupt"):
            svm.fit(DATA.X, DATA.Y)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        signal.signal(signal.SIGALRM, before)
    report = svm.report_
    assert report.reason == "interrupt"
    assert report.n_late == 8  # nobody was asked again: what is known of the losses bounds the objective
    assert DATA.objective(DATA.flat(svm.weights_)) <= report.primal + 1e-9
    assert report.dual <= DATA.optimum()[0] + 1e-7


def test_what_compiles_is_not_counted():
    meter = LoadingTime()
    meter.begin()
    meter.begin()  # the compiler calls itself
    meter.end()
    time.sleep(0.02)
    assert meter.seconds >= 0.02  # what is under way counts
    meter.end()
    total = meter.seconds
    time.sleep(0.02)
    assert meter.seconds == total


def test_the_clock_stands_still_while_numba_compiles():
    from numba import njit

    before = time.perf_counter()
    deadline = Deadline(100.0)
    njit(lambda x: x + 1.0)(1.0)
    wall = time.perf_counter() - before
    assert 0.0 < deadline.loaded <= wall
    assert deadline.spent <= time.perf_counter() - before - deadline.loaded
    assert loading_time().seconds >= deadline.loaded


def test_predictions_in_time_are_labellings_with_bounds():
    svm = fit(0.3)
    exact = svm.set_params(backend="chain").predict(DATA.X)
    svm.set_params(backend="slow")
    labels, scores, bounds = svm.predict(DATA.X, return_bounds=True)
    assert all((mine == theirs).all() for mine, theirs in zip(labels, exact, strict=True))
    assert bounds == pytest.approx(scores)
    with pytest.warns(TimeLimitWarning, match="raise time_limit"):
        labels, scores, more = svm.predict(DATA.X, time_limit=0.05, return_bounds=True)
    assert [len(one) for one in labels] == [len(one) for one in exact]
    assert (scores <= bounds + 1e-9).all()
    assert (more >= bounds - 1e-9).all()
    for ask in (svm.best_score, svm.predict):
        assert len(ask(DATA.X, time_limit=60.0)) == 8
    with pytest.raises(OptionError, match="time_limit"):
        svm.predict(DATA.X, time_limit=0)


def test_answers_that_are_late_but_there_are_counted(monkeypatch):
    svm, solve = fit(0.3), slow_backends.Session.solve

    def late(self, question):
        answer = solve(self, question)
        answer.stop[:3], answer.bound[:3] = 2, answer.bound[:3] + 0.5
        return answer

    monkeypatch.setattr(slow_backends.Session, "solve", late)
    with pytest.warns(TimeLimitWarning, match=r"3 of 8 labellings .*0\.5\).*return_bounds"):
        svm.predict(DATA.X, time_limit=60.0)


PROGRAM = """
import signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)  # a process in the background ignores Ctrl-C
sys.path.insert(0, {folder!r})
import numpy as np, slow_backends
from ssvm_dsl import Dim, Factor, Hamming, Input, Label, Model, StructuredSVM, register

class Word(Model):
    T = Dim()
    x = Input(T, 2)
    y = Label(T, "abc")
    emit = Factor(y, features=x)
    loss = Hamming(y)

register(slow_backends.Plugin(), "slow")
X, Y = list(np.random.default_rng(0).normal(size=(8, 3, 2))), [list("abc")] * 8
said = []
def ready(event):
    said.append(event)
    if len(said) == 1:
        print("ready", flush=True)
svm = StructuredSVM(Word, tol=0.0, max_passes=1e9, max_seconds=60, backend="slow", random_state=0,
                    trainer="subgradient", callbacks=[ready], n_threads=1)
{call}
"""

SEARCH = """
from sklearn.model_selection import GridSearchCV
try:
    GridSearchCV(svm, {"C": [0.1, 1.0, 10.0]}, cv=2, error_score=0.0).fit(X, Y)
except KeyboardInterrupt:
    print("search ended", len(said) > 0, flush=True)
"""

LOOP = """
ends = []
try:
    for C in (0.1, 1.0, 10.0):
        said.clear()
        svm.set_params(C=C).fit(X, Y)
        ends.append(svm.report_.reason)
except KeyboardInterrupt:
    print("loop ended", ends, svm.report_.reason, flush=True)
"""


@pytest.mark.parametrize(
    ("call", "presses", "told"),
    [(SEARCH, 1, "search ended True"), (LOOP, 2, "loop ended ['interrupt'] interrupt")],
    ids=["search", "loop"],
)
def test_ctrl_c_from_outside(call, presses, told):
    text = PROGRAM.format(folder=str(Path(slow_backends.__file__).parent), call=call)
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen([sys.executable, "-c", text], text=True, **pipes) as run:
        try:
            for _ in range(presses):
                assert run.stdout.readline().strip() == "ready"
                time.sleep(0.1)
                run.send_signal(signal.SIGINT)
            out, err = run.communicate(timeout=300)
        finally:
            run.kill()
    assert out.strip() == told, err
    assert run.returncode == 0
    assert ("interrupted after" in err) == (call != SEARCH)


def test_the_clock_stands_still_while_a_library_is_imported(monkeypatch):
    now = [0.0]
    for name in ("ssvm_dsl.deadline", "ssvm_dsl.loading"):
        monkeypatch.setattr(sys.modules[name], "perf_counter", lambda: now[0])
    deadline = Deadline(100.0)
    now[0] += 2.0
    with loading():
        now[0] += 5.0
    now[0] += 1.0
    # Both are differences of sums that go on through the whole process, so that they are rounded by what came before.
    assert deadline.loaded == pytest.approx(5.0)
    assert deadline.spent == pytest.approx(3.0)
