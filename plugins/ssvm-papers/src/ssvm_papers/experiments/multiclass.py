"""Schmidt (2009), section 3, and Iglesias Garcia (2013), section 2.1.4: many classes, by binary classifiers or at once.

Three ways to make a classifier of many classes from binary ones, all of scikit-learn, around ours: one class against
the rest, one against each other one, and error-correcting output codes (Dietterich and Bakiri 1995; random codes with
twice as many bits as classes).  Beside them stand the formulations with one optimisation problem: Weston and Watkins,
with a slack for each wrong class; Crammer and Singer, with one slack; and the log-loss.  Letters come in words: the
structured model that sees them together is shown, too.

C is chosen for each method by a third of the training rows, and the seconds are those of the fit that follows.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.datasets import load_digits
from sklearn.multiclass import OneVsOneClassifier, OneVsRestClassifier, OutputCodeClassifier
from sklearn.preprocessing import MinMaxScaler

from ssvm_dsl.datasets import load_letters
from ssvm_dsl.ir import F64
from ssvm_dsl.models import ChainTagger, Classifier
from ssvm_papers.results.experiment import Experiment, Findings, Progress, Steps, Table
from ssvm_papers.results.statements import Answers, Statement

#: Values of C that are tried.
GRID = (0.001, 0.01, 0.1, 1.0)

#: Bits of a code for each class.
CODE_SIZE = 2.0


def classifier(risk: str = "margin") -> Classifier:
    """Return a linear classifier, of two classes or more, certified to one percent."""
    return Classifier(risk=risk, tol=0.01, random_state=0, n_threads=1)


#: By name: what is fitted, and how many binary classifiers it has for k classes.
METHODS: Mapping[str, tuple[Callable[[], Any], Callable[[int], int]]] = {
    "one-vs-rest": (lambda: OneVsRestClassifier(classifier()), lambda k: k),
    "one-vs-one": (lambda: OneVsOneClassifier(classifier()), lambda k: k * (k - 1) // 2),
    "output-codes": (
        lambda: OutputCodeClassifier(classifier(), code_size=CODE_SIZE, random_state=0), lambda k: int(CODE_SIZE * k),
    ),
    "weston-watkins": (lambda: classifier("weston-watkins"), lambda k: 0),
    "crammer-singer": (classifier, lambda k: 0),
    "log-loss": (lambda: classifier("log"), lambda k: 0),
}  # fmt: skip


@dataclass(frozen=True, eq=False)
class LabelledRows:
    """Rows to learn from and to test on; ``words`` are the numbers of rows in each sequence, if there are sequences."""

    X: F64
    y: NDArray[Any]
    X_test: F64
    y_test: NDArray[Any]
    words: Sequence[int] = ()
    words_test: Sequence[int] = ()


def digits(n: int) -> LabelledRows:
    """Return handwritten digits of scikit-learn, n to learn from, in one random order."""
    bunch = load_digits()
    order = np.random.default_rng(0).permutation(len(bunch.target))
    X, y = MinMaxScaler().fit_transform(bunch.data[order]), bunch.target[order]
    return LabelledRows(X[:n], y[:n], X[n:], y[n:])


def letters(n: int) -> LabelledRows:
    """Return the letters of the first n words of the first fold, and those of 1000 words of the others to test on."""
    X, Y, X_test, Y_test = load_letters(0, "one")
    parts = (X[:n], Y[:n], X_test[:1000], Y_test[:1000])
    flat = [np.concatenate(part) for part in parts]
    sizes = [[len(one) for one in part] for part in (parts[0], parts[2])]
    return LabelledRows(flat[0].astype(float), flat[1], flat[2].astype(float), flat[3], *sizes)


#: By name, how rows are read, and how many sequences or rows there are to learn from: in a quick run, in others.
DATA: Mapping[str, tuple[Callable[[int], LabelledRows], int, int]] = {
    "digits": (digits, 200, 1200), "letters": (letters, 30, 300),
}  # fmt: skip

STATEMENTS = tuple(
    Statement(f"{data}-{name}", f"{data}: % right on test rows, {name}", form="{:.1f}")
    for data in DATA
    for name in (*METHODS, *(("words",) if data == "letters" else ()))
)


def held_out(rows: LabelledRows) -> int:
    """Return how many rows are learnt from while C is chosen: two thirds, whole words."""
    if not rows.words:
        return 2 * len(rows.y) // 3
    return int(np.cumsum(rows.words)[2 * len(rows.words) // 3 - 1])


def with_C(method: Any, C: float) -> Any:
    """Return an unfitted copy with the C of the classifiers in it."""
    name = "estimator__C" if "estimator__C" in method.get_params() else "C"
    return clone(method).set_params(**{name: C})


def fitted(method: Any, X: Any, y: Any, m: int) -> tuple[float, Any, float]:
    """Return the best C by the examples from number m, the fit to all examples, and its processor seconds."""
    C = max(GRID, key=lambda one: with_C(method, one).fit(X[:m], y[:m]).score(X[m:], y[m:]))
    begin = time.process_time()
    model = with_C(method, C).fit(X, y)
    return C, model, time.process_time() - begin


def in_words(rows: NDArray[Any], sizes: Sequence[int]) -> list[Any]:
    """Return rows by word."""
    return np.split(rows, np.cumsum(sizes)[:-1])


def words_accuracy(rows: LabelledRows) -> tuple[float, float, float]:
    """Return (C, share of right letters, processor seconds) of the chain, which sees words."""
    X, Y = in_words(rows.X, rows.words), in_words(rows.y, rows.words)
    tagger = ChainTagger(tol=0.01, random_state=0, n_threads=1, risk="margin")
    C, model, seconds = fitted(tagger, X, Y, 2 * len(rows.words) // 3)
    return C, model.score(in_words(rows.X_test, rows.words_test), in_words(rows.y_test, rows.words_test)), seconds


def run(quick: bool, progress: Progress) -> Findings:
    """Compare all methods; quick: 200 digits and 30 words to learn from."""
    steps, answers, table = Steps(progress, 2 * len(METHODS) + 1), Answers(STATEMENTS), []
    right: dict[str, list[float]] = {}
    for data, (read, few, many) in DATA.items():
        rows = read(few if quick else many)
        n_classes, m = len(np.unique(rows.y)), held_out(rows)
        right[data] = []
        for name, (make, n_binary) in METHODS.items():
            steps(f"{data}, {name}")
            C, model, seconds = fitted(make(), rows.X, rows.y, m)
            share = 100.0 * float(model.score(rows.X_test, rows.y_test))
            answers.draws(f"{data}-{name}", share)
            right[data].append(share)
            table.append((data, name, str(n_binary(n_classes) or 1), f"{C:g}", f"{share:.1f}", f"{seconds:.1f}"))
        if rows.words:
            steps(f"{data}, whole words")
            C, share, seconds = words_accuracy(rows)
            answers.draws(f"{data}-words", 100.0 * share)
            table.append((data, "chain, whole words", "1", f"{C:g}", f"{100.0 * share:.1f}", f"{seconds:.1f}"))
    columns = ("data", "method", "problems", "C", "% right", "processor seconds")
    shown = Table("Accuracy on test rows, and time of the fit", columns, table)
    return Findings(answers.rows, NOTES, (shown,), {data: np.array(several) for data, several in right.items()})


NOTES = (
    "The texts name these ways and measure none. Digits are those of scikit-learn, 1200 to learn from and 597 to test "
    "on; letters are those of 300 OCR words of fold 0 to learn from, and of 1000 words of the others to test on. All "
    "classifiers are linear with a bias, certified to a relative gap of 1 %. C is chosen for each method among "
    f"{', '.join(f'{one:g}' for one in GRID)}.",
    "One-vs-one has a vector of weights for each pair of classes, so that it separates more than the others can. It "
    "trains as many binary problems, on few rows each.",
)


def draw(arrays: Mapping[str, Any], figure: Any) -> None:
    """Draw bars of the accuracies, a panel for each data."""
    for axis, data in zip(figure.subplots(1, len(DATA)), DATA, strict=True):
        axis.barh(list(METHODS), arrays[data], color="steelblue")
        axis.set(xlabel="% right on test rows", title=data, xlim=(min(arrays[data]) - 5.0, 100.0))
        axis.invert_yaxis()


PAPER = "Schmidt: A Note on Structural Extensions of SVMs (2009)"

EXPERIMENTS = (
    Experiment(
        "multiclass", "multiclass", PAPER, "section 3; Iglesias Garcia, 2.1.4",
        "many classes by binary classifiers, and by one problem", run, STATEMENTS, draw, (9.0, 4.0),
    ),
)  # fmt: skip
