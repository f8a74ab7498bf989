"""What forbidden transitions cost: CoNLL-2000 chunking with BIO masks beside the same model without.

Seconds are CPU seconds of one thread (the machine may be shared); kernels were compiled before, and the two models take
turns, three times each.  Both take the same number of passes.  Needs ``SSVM_DATA``.
"""

from __future__ import annotations

import os
import time
import warnings
from collections import defaultdict

import numpy as np
from rich.console import Console
from rich.table import Table

N_PASSES, N_ROUNDS = 10, 3


def main() -> None:
    """Train and predict with both models in turn."""
    console = Console(width=100)
    if not os.environ.get("SSVM_DATA"):
        console.print("needs SSVM_DATA")
        return
    from model_table import token_tagger
    from ssvm_dsl import BIO, Forbid, StructuredSVM, chain
    from ssvm_dsl.datasets import CHUNK_TAGS, chunk_attributes, chunk_f1, load_conll2000

    Free = token_tagger(CHUNK_TAGS, "observed")

    class Masked(Free):
        inside = Forbid(chain(Free.y), BIO(Free.y))
        begin = Forbid(Free.y.at(0), BIO(Free.y))

    warnings.simplefilter("ignore")
    train, test = load_conll2000()
    X, X_test = ([chunk_attributes(one.words, one.pos) for one in part] for part in (train, test))
    Y, Y_test = ([one.chunks for one in part] for part in (train, test))
    spent: dict[tuple[str, str], list[float]] = defaultdict(list)
    scores = {}
    for model in (Free, Masked):
        StructuredSVM(model, C=0.1, n_threads=1, max_passes=1, random_state=0).fit(X[:5], Y[:5]).predict(X_test[:5])
    for _ in range(N_ROUNDS):
        for model in (Free, Masked):
            svm = StructuredSVM(model, C=0.1, n_threads=1, tol=1e-9, max_passes=N_PASSES, random_state=0)
            begin = time.process_time()
            svm.fit(X, Y)
            fitted = time.process_time()
            found = svm.predict(X_test)
            told = time.process_time()
            for name, seconds in (("fit", fitted - begin), ("predict", told - fitted)):
                spent[model.__name__, name].append(seconds)
            scores[model.__name__] = chunk_f1(Y_test, found)
    table = Table(title=f"{len(X)} sentences, {N_PASSES} passes; medians of {N_ROUNDS}, CPU s", title_justify="left")
    for column in ("task", "without masks", "with masks", "ratio"):
        table.add_column(column)
    for task in ("fit", "predict"):
        free, masked = (float(np.median(spent[name, task])) for name in ("Free", "Masked"))
        table.add_row(task, f"{free:.2f}", f"{masked:.2f}", f"{masked / free:.2f}")
    table.add_row("F1 of phrases", f"{scores['Free']:.4f}", f"{scores['Masked']:.4f}", "")
    console.print(table)
