"""The two OCR protocols of Ratliff, Bagnell, Zinkevich (2007), section 7.1, over all ten folds.

Published: incremental subgradient, steps 1/(2 sqrt t), lambda = 1/(200 N), unnormalised Hamming loss; letter error
0.20 (one fold trains, nine test) and 0.13 (the reverse); 17 s for the ten folds on a processor of 2007.

The published errors need one weight per letter besides those of the pixels (a bias); without it the best errors of
any regularisation are 0.21 and 0.13.  Examples are visited in a new random order in each pass.
"""

from __future__ import annotations

import time
import warnings

import numpy as np
from models import BiasedOCR
from rich.console import Console
from rich.table import Table

from ssvm_dsl import StructuredSVM
from ssvm_dsl.datasets import load_letters

PUBLISHED = {"one": 0.20, "rest": 0.13}
PASSES = 20
OPTIONS = {"order": "stochastic", "schedule": "1/sqrt(t)", "step_size": 0.5}


def ratliff_svm(n: int) -> StructuredSVM:
    """Return the published learner for n words."""
    return StructuredSVM(
        BiasedOCR, lam=1 / (200 * n), trainer="subgradient", trainer_options=OPTIONS, max_passes=PASSES,
        tol=0.0, random_state=0, n_threads=1,
    )  # fmt: skip


def main() -> None:
    """Print letter and word errors and seconds of both protocols beside the published ones."""
    warnings.simplefilter("ignore")
    shown = Table(title=f"OCR, ten folds, {PASSES} passes, one thread", title_justify="left")
    for column in ("trained on", "letter error", "word error", "published", "bcfw, C = 0.3", "seconds, 10 folds"):
        shown.add_column(column)
    for train, name in (("one", "1 fold"), ("rest", "9 folds")):
        wrong, wrong_words, ours, seconds = [], [], [], 0.0
        for fold in range(10):
            X, Y, X_test, Y_test = load_letters(fold=fold, train=train)
            begin = time.perf_counter()
            svm = ratliff_svm(len(X)).fit(X, Y)
            seconds += time.perf_counter() - begin
            words = [a != b for a, b in zip(svm.predict(X_test), Y_test, strict=True)]
            wrong.append(np.concatenate(words).mean())
            wrong_words.append(np.mean([word.any() for word in words]))
            best = StructuredSVM(BiasedOCR, C=0.3, tol=1e-2, random_state=0, n_threads=1).fit(X, Y)
            ours.append(1 - best.score(X_test, Y_test))
        shown.add_row(
            name, f"{np.mean(wrong):.4f} +- {np.std(wrong):.4f}", f"{np.mean(wrong_words):.3f}",
            f"{PUBLISHED[train]:.2f}", f"{np.mean(ours):.4f}", f"{seconds:.1f}",
        )  # fmt: skip
    Console(width=110).print(shown)


if __name__ == "__main__":
    main()
