"""Speed on the OCR letters: training to a proven gap, one pass beside CRFsuite, decoding, threads, growth, memory."""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from models import OCR, NormalizedOCR, interleaved, split_b
from rich.console import Console
from rich.table import Table
from threadpoolctl import threadpool_limits

from ssvm_dsl import StructuredSVM, ground
from ssvm_dsl.datasets import Split
from ssvm_dsl.inference.planning.planner import plan
from ssvm_dsl.inference.session import open_plan
from ssvm_dsl.inference.threads import Threads
from ssvm_dsl.ir import Theta
from ssvm_dsl.learning.objective import RegularizedRisk
from ssvm_dsl.learning.risks.hinges.margin import MarginProblem
from ssvm_dsl.plugin_api import StopRule, program_need
from ssvm_trainers.online.subgradient import Descent, Subgradient
from ssvm_trainers.planes.bcfw import BCFW

CONSOLE = Console(width=110)


def table(title: str, *columns: str) -> Table:
    """Return an empty table."""
    made = Table(title=title, title_justify="left")
    for column in columns:
        made.add_column(column)
    return made


def margin_problem(data: Split, n_threads: int = 1) -> MarginProblem:
    """Return the OCR training problem, C = 0.1, unnormalised Hamming loss."""
    grounded = ground(OCR, data.X_train, data.Y_train)
    n, parameters = grounded.n_examples, grounded.parameters
    objective = RegularizedRisk(10.0 / n, n, np.ones(n), np.ones(parameters.dim), parameters.lower_bound)
    session = open_plan(plan(program_need(grounded.program)), grounded.program, outwards=False)  # as fits do
    assert grounded.loss is not None
    return MarginProblem(parameters, grounded.loss, objective, session, Threads(n_threads))


def training(data: Split) -> None:
    """Time to a proven relative gap."""
    columns = ("objective", "relative gap", "passes", "seconds", "primal", "test letter error")
    shown = table("bcfw on 6173 words, one thread", *columns)
    cases = ("C = 0.1, Hamming", OCR, {"C": 0.1}), ("lam = 0.01, normalised", NormalizedOCR, {"lam": 0.01})
    for name, model, kw in cases:
        for tol in (1e-2, 1e-3):
            svm = StructuredSVM(model, tol=tol, random_state=0, n_threads=1, **kw).fit(data.X_train, data.Y_train)
            wrong = np.concatenate([a != b for a, b in zip(svm.predict(data.X_test), data.Y_test, strict=True)])
            report = svm.report_
            shown.add_row(
                name, f"{report.relative_gap:.1e}", f"{report.n_passes:.1f}", f"{report.seconds:.2f}",
                f"{report.primal:.6g}", f"{wrong.mean():.4f}",
            )  # fmt: skip
    CONSOLE.print(shown)


def one_pass(data: Split) -> None:
    """One exact pass (scores, loss-augmented Viterbi, update) beside an averaged-perceptron pass of CRFsuite."""
    import pycrfsuite

    problem = margin_problem(data)
    names = [str(p) for p in range(128)]
    crf = pycrfsuite.Trainer(algorithm="averaged-perceptron", verbose=False)
    for x, y in zip(data.X_train, data.Y_train, strict=True):
        crf.append([[names[p] for p in np.flatnonzero(row)] for row in x], list(y))
    passes = 10

    def crfsuite() -> None:
        crf.set_params({"max_iterations": passes, "epsilon": 0.0})
        with tempfile.TemporaryDirectory() as folder:
            crf.train(str(Path(folder) / "model"))

    def subgradient() -> None:
        run = Descent(Subgradient(random_state=0), problem.dim)
        for _ in range(passes):
            run.one_pass(problem)

    def bcfw() -> None:
        steps = BCFW(sampling="uniform", max_cached_passes=0, random_state=0).steps(problem, StopRule(0.0))
        for _ in range(passes):
            next(steps)

    best = interleaved({"CRFsuite averaged perceptron": crfsuite, "subgradient": subgradient, "bcfw, exact": bcfw}, 3)
    shown = table("one pass over 6173 words, one thread", "method", "ms", "ratio to CRFsuite", "target")
    base = best["CRFsuite averaged perceptron"]
    for name, seconds in best.items():
        shown.add_row(name, f"{1e3 * seconds / passes:.1f}", f"{seconds / base:.2f}", "<= 1.0")
    CONSOLE.print(shown)


def decoding(data: Split) -> None:
    """Batch decoding of all words beside its own matrix product and bare kernel."""
    from ssvm_backends.trees.max_product import viterbi

    X = [*data.X_train, *data.X_test]
    svm = StructuredSVM(OCR, C=0.1, tol=0.5, n_threads=1).fit(data.X_train[:500], data.Y_train[:500])
    grounded = ground(OCR, X)
    program, parameters = grounded.program, grounded.parameters
    session = open_plan(plan(program_need(program)), program)
    raw, theta = session.inner, Theta.zeros(program)
    features, node = parameters.maps[0].features, theta.node.reshape(-1, 26)
    weights, ids = np.ascontiguousarray(svm.weights_["emit"]), np.arange(program.n_examples)
    labels, score = np.zeros(program.n_variables, np.int32), np.zeros(program.n_examples)
    parameters.fill_shared(svm.coef_, theta)

    def bare() -> None:
        np.matmul(features, weights.T, out=node)
        viterbi(raw.chains, theta.pool, theta.node, ids, program.var_ptr, labels, score)

    arrays = [np.asarray(x, dtype=float) for x in X]
    with threadpool_limits(1, user_api="blas"):
        asked = {"BLAS + bare kernel": bare, "svm.predict(X)": lambda: svm.predict(arrays)}
        best = interleaved(asked, 60, time.process_time)
    title = f"decoding {len(X)} words, processor time of one thread, from a list of arrays to class names"
    shown = table(title, "what", "ms", "ratio", "target")
    for name, seconds in best.items():
        shown.add_row(name, f"{1e3 * seconds:.1f}", f"{seconds / best['BLAS + bare kernel']:.2f}", "<= 1.5")
    CONSOLE.print(shown)


def threads(data: Split) -> None:
    """Batch oracles on one and two threads."""
    one, two = margin_problem(data, 1), margin_problem(data, 2)
    w = 0.1 * np.random.default_rng(0).standard_normal(one.dim)
    with threadpool_limits(1, user_api="blas"):
        best = interleaved({"1 thread": lambda: one.oracle(w), "2 threads": lambda: two.oracle(w)}, 15)
    shown = table("batch oracle on 6173 words", "threads", "ms", "speed-up", "target")
    for name, seconds in best.items():
        shown.add_row(name, f"{1e3 * seconds:.1f}", f"{best['1 thread'] / seconds:.2f}", ">= 1.6")
    CONSOLE.print(shown)


def growth(data: Split) -> None:
    """Processor time of training over the number of words, at equal passes; the shortest of three, taken in turn."""
    shown = table("bcfw, 10 uniform passes, one thread", "words", "CPU s", "over x1", "target")
    sizes = (1500, 3000, 6000)
    best = dict.fromkeys(sizes, float("inf"))
    for _ in range(3):
        for n in sizes:
            svm = StructuredSVM(
                OCR, C=0.1, tol=0.0, max_passes=10, n_threads=1, random_state=0,
                trainer_options={"sampling": "uniform", "max_cached_passes": 5},
            )  # fmt: skip
            begin = time.process_time()
            svm.fit(data.X_train[:n], data.Y_train[:n])
            best[n] = min(best[n], time.process_time() - begin)
    for n, seconds in best.items():
        shown.add_row(str(n), f"{seconds:.2f}", f"{seconds / best[sizes[0]]:.2f}", f"{n / sizes[0]:.0f}")
    CONSOLE.print(shown)


def memory() -> None:
    """Peak memory of a process that trains on 6173 words; ``ru_maxrss`` would begin at that of this process."""
    code = (
        "from models import OCR, split_b; from ssvm_dsl import StructuredSVM; d = split_b();"
        "StructuredSVM(OCR, C=0.1, random_state=0).fit(d.X_train, d.Y_train);"
        "print(int(open('/proc/self/status').read().split('VmHWM:')[1].split()[0]) * 1.024e-3)"
    )
    command = [sys.executable, "-c", code]
    run = subprocess.run(command, cwd=Path(__file__).parent, capture_output=True, text=True, check=True)
    peak = float(run.stdout)
    CONSOLE.print(f"peak memory of training on 6173 words to relative gap 1e-3: {peak:.0f} MB (target < 400)\n")


def main() -> None:
    """Run all."""
    import warnings

    warnings.simplefilter("ignore")
    data = split_b()
    training(data)
    one_pass(data)
    decoding(data)
    threads(data)
    growth(data)
    memory()
