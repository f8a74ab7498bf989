"""Iglesias Garcia (2013), sections 4.1 and 4.2: two-state sequences, a structured SVM beside hidden Markov models.

The model of the learners is a chain with piecewise-linear functions of each feature, and weights for the first and the
last state.  The thesis multiplies the norm with the regularisation: ``reg/2 |w|^2 + sum_i risk_i``, so that our
C is its inverse.  Knots of the functions are ten quantiles of the training data; their number is not in the thesis.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ssvm_dsl.array_types import F64
from ssvm_dsl.datasets.sequences import GaussianHMM, make_blocks, make_gaussian_hmm
from ssvm_dsl.lang.constraints.forbidden import Forbid
from ssvm_dsl.lang.dims import Dim
from ssvm_dsl.lang.factors import Factor
from ssvm_dsl.lang.features import PLiF, Quantiles
from ssvm_dsl.lang.inputs import Input
from ssvm_dsl.lang.losses import Hamming
from ssvm_dsl.lang.model import Model
from ssvm_dsl.lang.outputs.labels import Label
from ssvm_dsl.lang.outputs.targets import chain
from ssvm_dsl.learning.estimators.svm import StructuredSVM
from ssvm_dsl.learning.hmm import MaximumLikelihoodHMM
from ssvm_dsl.learning.tuning.grid import grid_scores
from ssvm_dsl.reproduce.experiment import Experiment, Findings, Progress, Row, Steps, Table, claim, compare

#: Features of an observation, sequences in the training set (as many are in the test set), and their length.
N_FEATURES, N_TRAIN, LENGTH = 10, 100, 250

#: Regularisations of the tables: the factor of the norm.
REGULARISATIONS = (500.0, 50.0, 5.0, 0.5, 0.05, 0.005)

#: Table 4.1: one accuracy for the first five regularisations; Table 4.2: that of each model.
TABLE_41, TABLE_42 = 99.648, {"true HMM": 99.632, "ML-HMM": 99.628, "HM-SVM": 99.632}

#: Distortions of Table 4.3, its best accuracies, those of Table 4.5, and how far ours may be away.
DISTORTIONS = (0.0, 0.1, 0.2, 0.3, 0.4)
TABLE_43 = (96.188, 94.976, 90.548, 85.856, 69.932)
TABLE_45 = {"HM-SVM": (97.232, 95.220, 92.396, 85.132, 70.888), "ML-HMM": (93.376, 94.816, 90.232, 80.740, 60.960)}
WITHIN = (1.5, 1.5, 1.5, 1.5, 5.0)

#: Table 4.4: seconds of training at no distortion.
TABLE_44 = (106.5, 186.466, 325.17, 486.42, 648.83, 674.23)

#: Features that are nothing but noise in section 4.2, "a few" of ten.
N_NOISE = 3


class TwoStates(Model):
    """A chain of two states with piecewise-linear functions of each feature."""

    T = Dim()
    x = Input(T, N_FEATURES)
    y = Label(T, 2)
    emit = Factor(y, features=PLiF(x, Quantiles(10)))
    trans = Factor(chain(y))
    start = Factor(y.at(0))
    stop = Factor(y.at(-1))
    loss = Hamming(y)


class NegativeEnds(TwoStates):
    """The same, with sequences that begin and end in the negative state."""

    first = Forbid(TwoStates.y.at(0), [1])
    last = Forbid(TwoStates.y.at(-1), [1])


class Gaussian(Model):
    """The chain that a Gaussian hidden Markov model is: features are the observations and their squares."""

    T = Dim()
    x = Input(T, 2 * N_FEATURES)
    y = Label(T, 2)
    emit = Factor(y, features=x)
    prior = Factor(y)
    trans = Factor(chain(y))
    start = Factor(y.at(0))
    loss = Hamming(y)


class GaussianNegativeEnds(Gaussian):
    """The same, with sequences that begin and end in the negative state."""

    first = Forbid(Gaussian.y.at(0), [1])
    last = Forbid(Gaussian.y.at(-1), [1])


def hm_svm(passes: float = 200) -> StructuredSVM:
    """Return the structured SVM of the tables, but for C."""
    return StructuredSVM(TwoStates, tol=1e-2, max_passes=passes, random_state=0, n_threads=1)


def true_hmm(model: type[Model], hmm: GaussianHMM) -> StructuredSVM:
    """Return a model whose given weights are the logarithms of the probabilities that made the data."""
    emit, prior = hmm.emission_weights()
    weights = {"emit": emit, "prior": prior, "trans": np.log(hmm.transitions), "start": np.log(hmm.start)}
    return StructuredSVM.from_weights(model, weights, n_threads=1)


def with_squares(X: Sequence[F64]) -> list[F64]:
    """Return observations beside their squares."""
    return [np.concatenate([x, x**2], axis=1) for x in X]


def chosen_svm(
    X: Sequence[Any], Y: Sequence[Any], regularisations: Sequence[float], name: str, steps: Steps
) -> tuple[StructuredSVM, F64, F64]:
    """Return the fit with the best regularisation; accuracies in % and seconds by regularisation, of five folds."""
    grid = {"C": [1.0 / one for one in regularisations]}

    def tell(parameters: Mapping[str, Any], fold: int) -> None:
        steps(f"{name}, regularisation {1.0 / parameters['C']:g}, fold {fold}")

    found = grid_scores(hm_svm(), grid, X, Y, listener=tell)
    best = hm_svm().set_params(**found.best).fit(X, Y)
    return best, 100.0 * found.scores.mean(axis=1), found.seconds.mean(axis=1)


# -- section 4.1 -----------------------------------------------------------------------------------------------


def run_hmm(quick: bool, progress: Progress) -> Findings:
    """Run Tables 4.1 and 4.2; quick: 20 sequences to train on instead of 100, two regularisations."""
    n, regularisations = (20, REGULARISATIONS[1:3]) if quick else (N_TRAIN, REGULARISATIONS[:5])
    steps = Steps(progress, 5 * len(regularisations) + 1)
    X, Y, hmm = make_gaussian_hmm(2 * n, LENGTH, N_FEATURES)
    (X, X_test), (Y, Y_test) = (X[:n], X[n:]), (Y[:n], Y[n:])
    svm, accuracy, _ = chosen_svm(X, Y, regularisations, "HM-SVM", steps)
    steps("hidden Markov models")
    counted = MaximumLikelihoodHMM(TwoStates, n_threads=1).fit(X, Y)
    squares = with_squares(X_test)
    free = {
        "true HMM": true_hmm(Gaussian, hmm).score(squares, Y_test),
        "ML-HMM": counted.score(X_test, Y_test),
        "HM-SVM": svm.score(X_test, Y_test),
    }
    forced = {"true HMM": true_hmm(GaussianNegativeEnds, hmm).score(squares, Y_test)}
    for name, weights in (("ML-HMM", counted.weights_), ("HM-SVM", svm.weights_)):
        given = {key: weights[key] for key in weights}
        ends = StructuredSVM.from_weights(NegativeEnds, given, fitted_on=X, n_threads=1)
        forced[name] = ends.score(X_test, Y_test)
    rows = [
        compare(f"CV accuracy in %, regularisation {one:g}", TABLE_41, float(found), 0.3)
        for one, found in zip(regularisations, accuracy, strict=True)
    ]
    for title, scores in (("", free), (", ends forced to be negative", forced)):
        for name, published in TABLE_42.items():
            rows.append(compare(f"test accuracy in %, {name}{title}", published, 100.0 * scores[name], 0.3))
    gap = abs(free["HM-SVM"] - free["true HMM"]) * 100.0
    rows.append(claim("HM-SVM is as good as the true HMM", "yes", f"{gap:.3f} % apart", gap <= 0.3, "0.3 %"))
    return Findings(rows, HMM_NOTES, arrays={"accuracy": accuracy})


HMM_NOTES = (
    "Of data as described (means +1 and -1, variances drawn from [0, 1], ten features) all learners get all positions "
    "right, the true model among them: there is nothing to get wrong.  The published 99.63 and 99.65 % are 92 and 88 "
    "wrong positions in 100 sequences, for each learner and regularisation alike: nearly one a sequence.",
    "That is what comes of a state model whose sequences must begin and end in the negative state, while about half of "
    "the ends are positive: the rows with ends forced to be negative take the same weights and rule out positive ends "
    "in prediction.  The thesis does not say that its decoder does so; it is our explanation of its numbers.",
)


# -- section 4.2 -----------------------------------------------------------------------------------------------


def run_blocks(quick: bool, progress: Progress) -> Findings:
    """Run Tables 4.3 to 4.5; quick: 20 sequences to train on instead of 100, two regularisations and distortions."""
    n = 20 if quick else N_TRAIN
    regularisations = REGULARISATIONS[1:3] if quick else REGULARISATIONS
    levels = (0, 4) if quick else range(len(DISTORTIONS))
    steps = Steps(progress, 5 * len(regularisations) * len(levels))
    cv, test = np.zeros((len(levels), len(regularisations))), {"HM-SVM": {}, "ML-HMM": {}}  # type: ignore[var-annotated]
    rows: list[Row] = []
    for k, level in enumerate(levels):
        X, Y = make_blocks(2 * n, LENGTH, N_FEATURES, distortion=DISTORTIONS[level], n_noise_features=N_NOISE)
        (X, X_test), (Y, Y_test) = (X[:n], X[n:]), (Y[:n], Y[n:])
        svm, cv[k], seconds = chosen_svm(X, Y, regularisations, f"distortion {DISTORTIONS[level]:.0%}", steps)
        counted = MaximumLikelihoodHMM(TwoStates, n_threads=1).fit(X, Y)
        test["HM-SVM"][level] = 100.0 * svm.score(X_test, Y_test)
        test["ML-HMM"][level] = 100.0 * counted.score(X_test, Y_test)
        if level == 0:
            rows += training_times(regularisations, seconds)
    for k, level in enumerate(levels):
        what = f"best CV accuracy in %, distortion {DISTORTIONS[level]:.0%}"
        rows.append(compare(what, TABLE_43[level], float(cv[k].max()), WITHIN[level], "{:.1f}"))
    for name, published in TABLE_45.items():
        for level in levels:
            what = f"test accuracy in %, {name}, distortion {DISTORTIONS[level]:.0%}"
            rows.append(compare(what, published[level], test[name][level], WITHIN[level], "{:.1f}"))
    gained = [test["HM-SVM"][level] - test["ML-HMM"][level] for level in levels]
    shown = ", ".join(f"{one:+.1f}" for one in gained)
    holds = gained[-1] > 2.0 and gained[-1] > gained[0]
    rows.append(claim("HM-SVM ahead of ML-HMM, by distortion", "+3.9 .. +9.9", shown, holds, "ahead at 40 %"))
    table = Table(
        "CV accuracy in % by regularisation (Table 4.3)", ("distortion", *(f"{one:g}" for one in regularisations)),
        [(f"{DISTORTIONS[level]:.0%}", *(f"{one:.1f}" for one in cv[k])) for k, level in enumerate(levels)],
    )  # fmt: skip
    arrays = {"cv": cv, "distortions": np.array([DISTORTIONS[level] for level in levels]),
              "regularisations": np.array(regularisations)}  # fmt: skip
    return Findings(rows, BLOCK_NOTES, (table,), arrays)


def training_times(regularisations: Sequence[float], seconds: F64) -> list[Row]:
    """Return the rows of Table 4.4: training takes longer the less is regularised."""
    published = " -> ".join(f"{TABLE_44[REGULARISATIONS.index(one)]:.0f}" for one in regularisations)
    ours = " -> ".join(f"{one:.2g}" for one in seconds)
    holds = bool(seconds[-1] > seconds[0])
    return [claim("seconds of training, less and less regularised", published, ours, holds, "rises")]


BLOCK_NOTES = (
    "The thesis gives neither the numbers and lengths of blocks nor how many features are replaced by noise; here 1 to "
    "5 blocks of 10 to 100 positions and three features of noise, which of 2 to 5 fit its HM-SVM best.  "
    "Sequences are drawn anew, so that tables are compared within 1.5 % (5 % at 40 % distortion).",
    "The published ML-HMM is worse without distortion (93.4 %) than with 10 % (94.8 %), which no property of the data "
    "explains; ours is counted with one added to each count and falls steadily.",
)


def draw_blocks(arrays: Mapping[str, Any], figure: Any) -> None:
    """Draw Figure 4.3: level curves of the accuracy over distortion and regularisation."""
    axis = figure.subplots()
    level = np.log10(arrays["regularisations"])
    drawn = axis.contourf(100 * arrays["distortions"], level, arrays["cv"].T, levels=12, cmap="viridis")
    figure.colorbar(drawn, ax=axis, label="cross-validation accuracy in %")
    axis.set(xlabel="distorted labels in %", ylabel="log10 of the regularisation")


PAPER = "Iglesias Garcia: Structured Prediction of Network Data (thesis, 2013)"

EXPERIMENTS = (
    Experiment(
        "hmm", "hmm", PAPER, "Tables 4.1, 4.2", "Gaussian HMM: true model, counted one, structured SVM", run_hmm,
    ),
    Experiment(
        "blocks", "blocks", PAPER, "Tables 4.3, 4.4, 4.5, Figure 4.3", "blocks of +1 with distorted features",
        run_blocks, draw_blocks, (6.0, 4.5),
    ),
)  # fmt: skip
