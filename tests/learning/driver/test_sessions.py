"""Fits at once, in other processes, from other weights, with numbers of NumPy, and on examples that are too short."""

from __future__ import annotations

import multiprocessing
import sys
import threading
import types
import warnings
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from sklearn.base import clone
from threadpoolctl import OpenBLASController, threadpool_info, threadpool_limits

from ssvm_dsl import Dim, Factor, Hamming, Input, Label, Model, StructuredSVM, chain
from ssvm_dsl.inference import threads as inference_threads
from ssvm_dsl.inference.threads import one_blas_thread

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


class Far(Model):
    T = Dim()
    x = Input(T, 2)
    y = Label(T, 3)
    emit = Factor(y, features=x)
    trans = Factor(chain(y))
    far = Factor(chain(y, order=2))
    loss = Hamming(y)


RNG = np.random.default_rng(0)
X = [RNG.normal(size=(t, 2)) for t in (2, 1, 2, 0)]
Y = [RNG.integers(3, size=len(x)) for x in X]


def blas():
    return sorted((one["filepath"], one["num_threads"]) for one in threadpool_info() if one["user_api"] == "blas")


def test_calls_that_overlap_put_back_the_threads_of_blas_once_the_last_has_ended():
    with threadpool_limits(limits=2, user_api="blas"):
        before, first, second = blas(), one_blas_thread(), one_blas_thread()
        first.__enter__()
        second.__enter__()
        first.__exit__(None, None, None)
        assert {n for _, n in blas()} == {1}
        second.__exit__(None, None, None)
        assert blas() == before


def test_a_number_of_threads_that_another_thread_sets_within_a_call_is_left_alone():
    let_go = getattr(OpenBLASController, "clear_controlling_thread", lambda: None)
    with threadpool_limits(limits=3, user_api="blas"), ThreadPoolExecutor(1) as other:
        let_go()  # as if the numbers had always been these
        limits = other.submit(threadpool_limits, limits=2, user_api="blas").result()
        held, within = blas(), one_blas_thread()
        within.__enter__()
        assert {n for _, n in blas()} == {1}
        other.submit(limits.restore_original_limits).result()
        before = blas()
        within.__exit__(None, None, None)
        assert blas() == before
        assert ({n for _, n in held}, {n for _, n in before}) == ({2}, {3})


def test_fits_in_threads_are_those_made_one_after_the_other():
    def fit():
        return StructuredSVM(Far, trainer="lp-dual-qp", random_state=0, n_threads=2).fit(X, Y).coef_.tobytes()

    expected, found, before = fit(), [], blas()
    running = [threading.Thread(target=lambda: found.append(fit())) for _ in range(3)]
    for one in running:
        one.start()
    for one in running:
        one.join()
    assert found == [expected] * 3
    assert blas() == before


@pytest.mark.parametrize("trainer", ["lp-dual-qp", "extragradient", "smo", "bcfw"])
@pytest.mark.parametrize("risk", ["margin", "relaxed"])
def test_examples_too_short_for_a_factor(trainer, risk):
    """No example has three variables in a row, so that the group of ``far`` is empty."""
    if (trainer, risk) == ("smo", "relaxed"):
        pytest.skip("smo does not minimise it")
    backend = "auto" if risk == "margin" else "lp"
    svm = StructuredSVM(Far, risk=risk, trainer=trainer, backend=backend, max_passes=300, random_state=0).fit(X, Y)
    assert svm.report_.converged
    assert not svm.weights_["far"].any()


@pytest.mark.parametrize("trainer", ["eg", "extragradient", "smo", "subgradient"])
def test_a_warm_start_never_returns_worse_weights(trainer):
    svm = StructuredSVM(Far, trainer="bcfw", warm_start=True, random_state=0, tol=1e-6).fit(X[:3], Y[:3])
    best = svm.report_.primal
    svm.set_params(trainer=trainer, max_passes=2, tol=0.0).fit(X[:3], Y[:3])
    assert svm.report_.primal <= best * (1 + 1e-12)


@pytest.mark.parametrize(
    "given",
    [
        {"random_state": np.int64(3)},
        {"C": np.float32(2.0)},
        {"power": np.int64(2)},
        {"trainer_options": {"batch_size": np.int64(2), "step_size": np.float32(0.5)}},
    ],
    ids=str,
)
def test_numbers_of_numpy_are_numbers(given, tmp_path):
    plain = {k: {o: n.item() for o, n in v.items()} if isinstance(v, dict) else v.item() for k, v in given.items()}
    found = []
    settings = {"trainer": "subgradient", "random_state": 0, "max_passes": 3, "tol": 0.0}
    for numbers in (given, plain):
        made = StructuredSVM(Far, **settings | numbers)
        stream = clone(made).partial_fit(X, Y).partial_fit(X[:2], Y[:2])
        stream.save(tmp_path / "stream.ssvm")
        going = StructuredSVM.load(tmp_path / "stream.ssvm").partial_fit(X, Y)
        made.set_params(checkpoint=str(tmp_path / "fit.ckpt"), checkpoint_seconds=0.0).fit(X, Y)
        found.append((going.coef_.tobytes(), made.set_params(max_passes=6).fit(X, Y).coef_.tobytes()))
        (tmp_path / "fit.ckpt").unlink(missing_ok=True)
    assert found[0] == found[1]


def learnt_there(pipe, svm):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        pipe.send((svm.best_score(X).tobytes(), svm.fit(X, Y).coef_.tobytes()))


def test_a_spawned_process_predicts_and_learns_the_same():
    svm = StructuredSVM(Far, trainer="lp-dual-qp", random_state=0).fit(X, Y)
    mine, theirs = multiprocessing.get_context("spawn").Pipe(duplex=False)
    process = multiprocessing.get_context("spawn").Process(target=learnt_there, args=(theirs, svm))
    process.start()
    theirs.close()
    scores, coef = mine.recv()
    process.join()
    assert (scores, coef) == (svm.best_score(X).tobytes(), svm.coef_.tobytes())


def test_the_last_of_two_threads_puts_back_the_threads_of_blas_while_the_first_lives_on():
    """In threadpoolctl the thread that has set a limit keeps all others from changing it, as long as it lives."""
    let_go = getattr(OpenBLASController, "clear_controlling_thread", lambda: None)
    with ThreadPoolExecutor(1) as here, ThreadPoolExecutor(1) as there, threadpool_limits(limits=2, user_api="blas"):
        let_go()  # as if the numbers had always been these
        before, first, second = blas(), one_blas_thread(), one_blas_thread()
        for thread, call in ((here, first.__enter__), (there, second.__enter__)):
            thread.submit(call).result()
        here.submit(first.__exit__, None, None, None).result()
        assert before
        assert {n for _, n in blas()} == {1}
        there.submit(second.__exit__, None, None, None).result()
        assert blas() == before


class Library:
    """A BLAS library as threadpoolctl shows it."""

    def __init__(self, threading_layer="pthreads"):
        self.num_threads, self.threading_layer = 4, threading_layer

    def get_num_threads(self):
        return self.num_threads

    def set_num_threads(self, n):
        self.num_threads = n


def test_libraries_loaded_after_the_first_call_keep_to_one_thread_as_well(monkeypatch):
    there = [Library(), Library("openmp")]

    class Controller:
        lib_controllers = property(lambda self: list(there))

        def select(self, user_api):
            return self

    monkeypatch.setattr(inference_threads, "ThreadpoolController", Controller)
    inference_threads._libraries.cache_clear()
    for name in ("first", "second"):
        with one_blas_thread():
            assert {one.num_threads for one in there} == {1}
        assert {one.num_threads for one in there} == {4}
        there.append(Library())
        monkeypatch.setitem(sys.modules, f"a_module_with_the_{name}_library", types.ModuleType("any"))
    monkeypatch.undo()
    inference_threads._libraries.cache_clear()
