"""Ratliff, Bagnell and Zinkevich (2007), section 7.1 and Figure 1: handwritten words, ten folds.

Incremental subgradient steps ``1/(2 sqrt t)``, ``lambda = 1/(200 N)``; the loss is the number of wrong letters.  Two
protocols: one fold trains and nine test (published letter error 0.20), and the reverse (0.13).  Figure 1 compares the
structured margin with the perceptron and the unstructured margin, whose loss is 1 for every wrong word (footnote 8).

The published errors need one weight per letter besides those of the pixels (a bias); without it the best errors of any
regularisation are 0.21 and 0.13.  Examples are visited in a new random order in each pass.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any, Literal

import numpy as np

from ssvm_dsl import Dim, Factor, Hamming, Input, Label, Model, StructuredSVM, chain
from ssvm_dsl.datasets import N_FOLDS, Split, load_letters
from ssvm_dsl.ir import F64
from ssvm_papers.results.experiment import Experiment, Findings, Progress, Steps
from ssvm_papers.results.statements import Answers, Rising, Statement, near

#: Methods of Figure 1, best first: name, risk.
METHODS = (("structured margin", "margin"), ("unstructured margin", "hm"), ("perceptron", "perceptron"))

#: Errors along a curve, in the order of the arrays.
ERRORS = ("letters, training", "words, training", "letters, test", "words, test")

#: The protocols, and their published letter errors; seconds are for ten folds on a processor of 2007.
TRAINED = {"one": "1 fold trains", "rest": "9 folds train"}
PUBLISHED = {"one": 0.20, "rest": 0.13}
SECONDS = {"one": "17 s", "rest": "-"}


def protocol_statements(train: Literal["one", "rest"]) -> tuple[Statement, ...]:
    """Return the statements of a protocol."""
    name = TRAINED[train]
    return (
        near(f"{train}-letters", f"letter error, {name}", PUBLISHED[train], 0.01),
        Statement(f"{train}-words", f"word error, {name}"),
        Statement(f"{train}-bcfw", f"letter error of bcfw, C = 0.3, {name}"),
        Statement(
            f"{train}-seconds", f"training, all folds, {name}", SECONDS[train],
            why="" if SECONDS[train] == "-" else "seconds of a processor of 2007",
        ),
    )  # fmt: skip


STATEMENTS = (
    *protocol_statements("one"),
    *protocol_statements("rest"),
    *(
        Statement(f"order-{name}s", f"{name} error on test words, last pass: structured, unstructured, perceptron",
                  "structured < unstructured < perceptron", Rising())
        for name in ("letter", "word")
    ),
)  # fmt: skip


class PublishedOCR(Model):
    """A word: T letter images -> T letters; a weight for each letter, whatever its pixels."""

    T = Dim()
    x = Input(T, 128)
    y = Label(T, "abcdefghijklmnopqrstuvwxyz")
    emit = Factor(y, features=x)
    prior = Factor(y)
    trans = Factor(chain(y))
    loss = Hamming(y)


def run(quick: bool, progress: Progress) -> Findings:
    """Run both protocols and the three methods of Figure 1; quick: two folds and five passes."""
    folds, passes = (range(2), 5) if quick else (range(N_FOLDS), 20)
    steps = Steps(progress, 5 * len(folds))
    curves = np.zeros((len(METHODS), len(ERRORS), len(folds), passes))
    for m, (name, risk) in enumerate(METHODS):
        for k, fold in enumerate(folds):
            steps(f"{name}, fold {fold}")
            curves[m, :, k] = learning_curve(load_letters(fold, "one"), risk, passes)
    answers = Answers(STATEMENTS)
    protocol(answers, "one", folds, passes, steps)
    protocol(answers, "rest", folds, passes, steps)
    orders(answers, curves)
    note = (
        "The errors of both protocols are those of the average of the weights, each times its number.  Those of the "
        "figure and of the orders are of the newest weights, as in the paper."
    )
    return Findings(answers.rows, (note,), arrays={"curves": curves})


def published_learner(n: int, risk: str = "margin", **options: Any) -> StructuredSVM:
    """Return the published learner for n words: steps 1/(2 sqrt t), lambda = 1/(200 n)."""
    steps = {"order": "stochastic", "schedule": "1/sqrt(t)", "step_size": 0.5, **options}
    return StructuredSVM(
        PublishedOCR, lam=1.0 / (200 * n), risk=risk, trainer="subgradient", trainer_options=steps, tol=0.0,
        random_state=0, n_threads=1,
    )  # fmt: skip


def learning_curve(split: Split, risk: str, passes: int) -> F64:
    """Return the errors of the newest weights after each pass, shape (4, passes), in the order of ``ERRORS``."""
    X, Y, X_test, Y_test = split
    svm = published_learner(len(X), risk, averaging="none", best_iterate=False)
    errors = np.zeros((len(ERRORS), passes))
    for k in range(passes):
        svm.partial_fit(X, Y)  # one pass, continuing from the last one
        errors[:, k] = *letter_and_word_error(svm, X, Y), *letter_and_word_error(svm, X_test, Y_test)
    return errors


def letter_and_word_error(svm: StructuredSVM, X: Sequence[Any], Y: Sequence[Any]) -> tuple[float, float]:
    """Return the shares of wrong letters and of words with a wrong letter."""
    wrong = [predicted != truth for predicted, truth in zip(svm.predict(X), Y, strict=True)]
    return float(np.concatenate(wrong).mean()), float(np.mean([word.any() for word in wrong]))


def protocol(answers: Answers, train: Literal["one", "rest"], folds: Sequence[int], passes: int, steps: Steps) -> None:
    """Report errors and seconds of the published learner, and errors near the optimum."""
    name = TRAINED[train]
    errors, best, seconds = [], [], 0.0
    for fold in folds:
        steps(f"{name}, fold {fold}")
        X, Y, X_test, Y_test = load_letters(fold, train)
        published_learner(2).fit(X[:2], Y[:2])  # compiles
        begin = time.process_time()
        svm = published_learner(len(X)).set_params(max_passes=passes).fit(X, Y)
        seconds += time.process_time() - begin
        errors.append(letter_and_word_error(svm, X_test, Y_test))
        optimal = StructuredSVM(PublishedOCR, C=0.3, tol=1e-2, random_state=0, n_threads=1).fit(X, Y)
        best.append(1.0 - optimal.score(X_test, Y_test))
    letters, words = np.transpose(errors)
    answers.draws(f"{train}-letters", letters)
    answers.draws(f"{train}-words", words)
    answers.draws(f"{train}-bcfw", best)
    answers.text(f"{train}-seconds", f"{seconds:.1f} s of a processor, {len(folds)} folds", seconds)


def orders(answers: Answers, curves: F64) -> None:
    """Report whether the three methods are in the published order on the test words."""
    for name, k in (("letter", 2), ("word", 3)):
        last = curves[:, k].mean(axis=1)[:, -1]
        ours = ", ".join(f"{method} {last[m]:.3f}" for m, (method, _) in enumerate(METHODS))
        answers.numbers(f"order-{name}s", *last, text=ours)


def draw(arrays: Mapping[str, Any], figure: Any) -> None:
    """Draw Figure 1: letter error (left), word error (right); test (upper, solid) and training (dashed) over passes."""
    curves = arrays["curves"].mean(axis=2)
    axes = figure.subplots(1, 2)
    for axis, what, below, above in ((axes[0], "letters", 0, 2), (axes[1], "words", 1, 3)):
        for (name, _), color, errors in zip(METHODS, ("green", "red", "blue"), curves, strict=True):
            passes = np.arange(1, errors.shape[1] + 1)
            axis.plot(passes, errors[above], color=color, label=name)
            axis.plot(passes, errors[below], color=color, linestyle="--")
        axis.set(xlabel="passes", ylabel=f"share of wrong {what}")
    axes[0].legend(title="solid: test, dashed: training", fontsize="small")


PAPER = "Ratliff, Bagnell, Zinkevich: (Online) Subgradient Methods for Structured Prediction (2007)"

EXPERIMENTS = (
    Experiment(
        "ocr", "ocr", PAPER, "section 7.1, Figure 1", "handwritten words: letter and word errors of three risks", run,
        STATEMENTS, draw,
    ),
)  # fmt: skip
