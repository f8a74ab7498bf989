"""Fits that are repeated, continued, copied, sent elsewhere or run at once: the same numbers, and never worse ones."""

from __future__ import annotations

import copy
import os
import pickle
import subprocess
import sys
import threading
import warnings
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from fuzz_optima import refused, suits, table
from random_models import draw, draw_data
from sklearn.base import clone
from threadpoolctl import threadpool_info

from optima import Reference
from small import Data
from ssvm_dsl import StructuredSVM
from ssvm_dsl.errors import DataError, NoBackendError, OptionError, SsvmError, TrainingError
from ssvm_dsl.inference import batch

UNIT, SHORT, LIMIT = "comparisons", 2, 240.0

#: Numbers of threads that results do not depend on.
THREADS = (1, 2, 3, 8, 64)

#: Trainers that learn from streams.
STREAMS = ("subgradient", "perceptron")


def trial(rng: np.random.Generator, scratch: Path) -> int:
    """Draw a model, data and an estimator, and treat them in one of the ways below."""
    data = draw(rng, n=int(rng.integers(3, 9)))
    chosen = [one for one in table() if one.oracle != "heuristic" and suits(data, one.risk)]
    one = chosen[rng.integers(len(chosen))]
    seed = (0, 7, np.int64(3), 2**70)[rng.integers(4)]
    made = StructuredSVM(data.model, risk=one.risk, trainer=one.trainer, random_state=seed, **data.settings)
    made.set_params(max_passes=int(rng.choice([1, 4, 15])), tol=float(rng.choice([0.1, 1e-4])))
    ways = [threads, threads, warm, warm, validation, streams, copies, at_once]
    way = elsewhere if rng.random() < 0.04 else ways[rng.integers(len(ways))]
    try:
        with warnings.catch_warnings(), small_parts():
            warnings.simplefilter("ignore")
            return way(made, data, rng)
    except (NoBackendError, TrainingError) as err:
        if not refused(str(err)):
            raise
        return 0


@contextmanager
def small_parts() -> Any:
    """Make batches fall into many parts, as those of large data do."""
    before, batch.PART_STATES = batch.PART_STATES, 5
    try:
        yield
    finally:
        batch.PART_STATES = before


def numbers(made: StructuredSVM, X: list[Any]) -> tuple[Any, ...]:
    """Return what is to be the same, bit for bit."""
    report = made.report_
    told = (report.primal, report.dual, report.gap, report.n_passes, report.n_oracle_calls, report.reason)
    return made.coef_.tobytes(), np.array(told[:4]).tobytes(), told[4:], made.best_score(X).tobytes()


def threads(made: StructuredSVM, data: Data, rng: np.random.Generator) -> int:
    """Nothing depends on the number of threads."""
    found = {n: numbers(made.set_params(n_threads=n).fit(data.X, data.Y, data.weight), data.X) for n in THREADS}
    assert len(set(found.values())) == 1, {n: one[1:3] for n, one in found.items()}
    return len(THREADS) - 1


def warm(made: StructuredSVM, data: Data, rng: np.random.Generator) -> int:
    """A fit that goes on from weights never returns worse ones; it refuses those of another model."""
    made.set_params(warm_start=True).fit(data.X, data.Y, data.weight)
    for _ in range(3):
        before = data.flat(made.weights_)
        if rng.random() < 0.5:
            data = replace(data, C=float(10.0 ** rng.uniform(-2, 2)))
        if rng.random() < 0.3:
            keep = np.sort(rng.permutation(len(data.X))[: rng.integers(1, len(data.X) + 1)])
            data = part(data, keep)
        if not any(np.size(y) for one in data.labels for y in one.values()):
            return 0
        made.set_params(C=data.C).fit(data.X, data.Y, data.weight)
        exact = made.plan_.backend in ("chain", "tree", "junction-tree", "brute-force") and made.risk != "slack"
        if made.trainer != "perceptron" and exact:
            reference = Reference(data, made.risk)
            start, end = reference.objective(before)[0], reference.objective(data.flat(made.weights_))[0]
            assert end <= start * (1 + 1e-9) + 1e-12, (made.trainer, made.risk, start, end, str(made.report_))
    other = draw(rng, kind="single" if data.kind != "single" else "set")
    w = made.coef_.copy()
    try:
        made.set_params(model=other.model, regularization=None).fit(other.X, other.Y)
    except SsvmError as err:
        if "warm_start" not in str(err) and suits(other, made.risk):
            raise
    else:
        raise AssertionError("a warm start from the weights of another model")
    assert (made.coef_ == w).all()
    return 4


def part(data: Data, keep: Any) -> Data:
    """Return some of the examples; at least one of them counts."""
    weight = None if data.weight is None else data.weight[keep]
    weight = weight if weight is None or weight.any() else None
    chosen = {name: [getattr(data, name)[i] for i in keep] for name in ("X", "Y", "inputs", "labels", "ignored")}
    return replace(data, weight=weight, **chosen)


def validation(made: StructuredSVM, data: Data, rng: np.random.Generator) -> int:
    """The weights with the best score that was seen are returned, and the score is theirs."""
    X, Y, _, _ = draw_data(rng, data.model, data.kind, 5)
    made.set_params(patience=int(rng.integers(1, 4)), tol=0.0)
    made.fit(data.X, data.Y, data.weight, validation=(X, Y))
    scores, report = made.report_.validation_scores, made.report_
    if not scores:
        assert np.isnan(report.validation_score)
        return 1
    assert made.score(X, Y) == report.validation_score == max(scores.values()), (made.score(X, Y), scores)
    if report.reason == "validation":
        last = list(scores.values())
        assert max(last[-made.patience :]) <= max(last[: -made.patience], default=-np.inf), (scores, made.patience)
    assert not report.primal < report.dual
    return 2


def streams(made: StructuredSVM, data: Data, rng: np.random.Generator) -> int:
    """A stream is the same after copies, with any number of threads, and after batches that were refused."""
    made.set_params(trainer=str(rng.choice(STREAMS)), risk="margin", n_threads=1)
    other, at = clone(made).set_params(n_threads=3), 0
    sizes = [int(k) for k in rng.integers(1, 4, size=4)]
    every = data.X * 4, data.Y * 4
    for size in sizes:
        X, Y = every[0][at : at + size], every[1][at : at + size]
        if not sum(np.size(np.asarray(one, dtype=object)) for one in Y):
            continue
        other = pickle.loads(pickle.dumps(other)) if rng.random() < 0.5 else copy.deepcopy(other)
        made.partial_fit(X, Y)
        for wrong in (([], []), (X, [*Y, Y[0]]), (X, None), (None, Y)):
            try:
                other.partial_fit(*wrong)
            except (DataError, OptionError):
                continue
            raise AssertionError(f"partial_fit took {wrong}")
        other.partial_fit(X, Y)
        assert numbers(made, data.X) == numbers(other, data.X)
        assert made.report_.reason == "stream"
        assert not made.report_.converged
        at += size
    return len(sizes)


def copies(made: StructuredSVM, data: Data, rng: np.random.Generator) -> int:
    """Copies answer as the original does, and a clone learns the same."""
    made.set_params(n_threads=1).fit(data.X, data.Y, data.weight)
    expected = numbers(made, data.X)
    for again in (pickle.loads(pickle.dumps(made)), copy.deepcopy(made), copy.copy(made)):
        assert numbers(again, data.X) == expected
        assert str(again.report_) == str(made.report_)
        assert again.get_params().keys() == made.get_params().keys()
    fresh = clone(made)
    assert not hasattr(fresh, "coef_")
    assert numbers(fresh.fit(data.X, data.Y, data.weight), data.X) == expected
    assert numbers(made.fit(data.X, data.Y, data.weight), data.X) == expected  # nothing is left of the first fit
    return 5


def at_once(made: StructuredSVM, data: Data, rng: np.random.Generator) -> int:
    """Fits and predictions in threads of their own do not disturb each other, or the process."""
    expected = numbers(made.fit(data.X, data.Y, data.weight), data.X)
    before = sorted((one["filepath"], one["num_threads"]) for one in threadpool_info())
    found: list[Any] = []

    def fit() -> None:
        found.append(numbers(clone(made).fit(data.X, data.Y, data.weight), data.X))

    def predict() -> None:
        found.append((*expected[:3], made.best_score(data.X).tobytes()))

    running = [threading.Thread(target=target) for target in (fit, predict, fit, predict)]
    for one in running:
        one.start()
    for one in running:
        one.join()
    assert found == [expected] * 4
    assert sorted((one["filepath"], one["num_threads"]) for one in threadpool_info()) == before
    return 4


def elsewhere(made: StructuredSVM, data: Data, rng: np.random.Generator) -> int:
    """Another process, begun anew or forked from this one, learns and predicts the same."""
    expected = numbers(made.fit(data.X, data.Y, data.weight), data.X)
    sent = pickle.dumps((made, data.X, data.Y, data.weight))
    for answered in (_anew(sent), _forked(sent)):
        predicted, learnt = pickle.loads(answered)
        assert predicted == expected
        assert learnt == expected
    return 4


def answers(sent: bytes) -> bytes:
    """Predict with an estimator and fit a clone of it; return what came out."""
    with warnings.catch_warnings(), small_parts():
        warnings.simplefilter("ignore")
        made, X, Y, weight = pickle.loads(sent)
        return pickle.dumps((numbers(made, X), numbers(clone(made).fit(X, Y, weight), X)))


def _anew(sent: bytes) -> bytes:
    """Return the answers of a new process."""
    there = "import sys; sys.path[:0] = sys.argv[1:]; import fuzz_sessions as f; i, o = sys.stdin, sys.stdout"
    code = f"{there}; o.buffer.write(f.answers(i.buffer.read()))"
    folders = [str(Path(__file__).parent), str(Path(__file__).parent.parent)]
    done = subprocess.run([sys.executable, "-c", code, *folders], input=sent, capture_output=True, check=False)
    assert not done.returncode, done.stderr.decode()
    return done.stdout


def _forked(sent: bytes) -> bytes:
    """Return the answers of a process that begins with all that this one has loaded and opened."""
    out, into = os.pipe()
    child = os.fork()
    if not child:
        try:
            os.close(out)
            with os.fdopen(into, "wb") as pipe:
                pipe.write(answers(sent))
        finally:
            os._exit(0)
    os.close(into)
    with os.fdopen(out, "rb") as pipe:
        told = pipe.read()
    os.waitpid(child, 0)
    return told
