"""CoNLL-2000 chunking by segments, trained for the F1 of each sentence beside losses that add up over segments.

The model is that of ``segments``: types of phrases, up to eight tokens each.  Three losses: positions of a wrong class
or beginning, wrong segments, and 1 - F1 of the segments that are not "O".  For each of them C is chosen among four
powers of 10 by the mean F1 of sentences on a third of the sentences to train on, then all are trained on; ``bcfw``, one
thread, to a relative gap of 0.01 or 100 passes.  F1 of a sentence without phrases, in truth and answer,
is 1.  ``SSVM_BENCH_SENTENCES`` (default: 900) trains on others.  Needs ``SSVM_DATA``.
"""

from __future__ import annotations

import os
import time
import warnings
from typing import Any

import numpy as np
from ocr_speed import CONSOLE, table
from segment_speed import LONGEST, Segments, WholeSegments

from ssvm_dsl import CountLoss, StructuredSVM, spans
from ssvm_dsl.datasets import chunk_attributes, chunk_f1, chunk_segments, chunk_tags, load_conll2000


class ByF1(Segments):
    loss = CountLoss(spans(Segments.y), "f1", outside="O")


#: What is trained, by name.
LOSSES: dict[str, Any] = {
    "Hamming(y)": Segments,
    "Cost(spans(y), 'wrong')": WholeSegments,
    "CountLoss(spans(y), 'f1')": ByF1,
}

#: The values of C to choose from.
VALUES = (0.01, 0.1, 1.0, 10.0)


def mean_f1(truth: list[Any], found: list[Any]) -> float:
    """Return the mean F1 of sentences."""
    return float(np.mean([chunk_f1([a], [b]) for a, b in zip(truth, found, strict=True)]))


def fitted(model: Any, C: float, sentences: list[Any]) -> StructuredSVM:
    """Return an estimator trained on some sentences."""
    svm = StructuredSVM(model, C=C, tol=0.01, max_passes=100, random_state=0, n_threads=1)
    return svm.fit(*read(sentences))


def read(sentences: list[Any]) -> tuple[list[Any], list[Any]]:
    """Return attributes and segments."""
    X = [chunk_attributes(one.words, one.pos) for one in sentences]
    return X, [chunk_segments(one.chunks, LONGEST) for one in sentences]


def main() -> None:
    """Choose C, train, and score."""
    if not os.environ.get("SSVM_DATA"):
        CONSOLE.print("chunking needs SSVM_DATA")
        return
    warnings.simplefilter("ignore")
    data = load_conll2000()
    n = int(os.environ.get("SSVM_BENCH_SENTENCES", "900"))
    train, held = data.train[: n - n // 3], data.train[n - n // 3 : n]
    columns = ("loss", "C", "gap", "passes", "CPU s", "F1", "mean F1 of sentences", "segments found")
    shown = table(f"CoNLL-2000 chunking by segments, {n} sentences to train on, {len(data.test)} to test", *columns)
    for name, model in LOSSES.items():
        scores = []
        for C in VALUES:
            svm = fitted(model, C, train)
            tags = [chunk_tags(one) for one in svm.predict(read(held)[0])]
            scores.append(mean_f1([one.chunks for one in held], tags))
            CONSOLE.print(f"{name}, C = {C:g}: mean F1 {scores[-1]:.4f} of held-out sentences")
        C = VALUES[int(np.argmax(scores))]
        begin = time.process_time()
        svm = fitted(model, C, train + held)
        took, report = time.process_time() - begin, svm.report_
        found = svm.predict(read(data.test)[0])
        tags, truth = [chunk_tags(one) for one in found], [one.chunks for one in data.test]
        count = sum(kind != "O" for one in found for _, _, kind in one)
        shown.add_row(
            name, f"{C:g}", f"{report.relative_gap:.1%}", f"{report.n_passes:.0f}", f"{took:.0f}",
            f"{chunk_f1(truth, tags):.4f}", f"{mean_f1(truth, tags):.4f}", f"{count}",
        )  # fmt: skip
    CONSOLE.print(shown)
