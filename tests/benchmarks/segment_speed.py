"""CoNLL-2000 chunking by segments beside tokens, and how ``semi-markov`` grows with length; one thread.

Tokens have BIO tags (23 of them) on a chain.  Segments have the types of phrases (and "O" for tokens in none), up to
eight tokens each; the same attributes score the type of each position, and once more the first one of each segment.
All are trained by ``bcfw`` to the same relative gap, each in a process of its own: tokens by their Hamming loss,
segments by each of their two losses.  Seconds are CPU seconds (the machine may be shared), kernels were compiled
before.  ``SSVM_BENCH_SENTENCES`` (default: all 8936) trains on fewer.
Needs ``SSVM_DATA``; the growth does not.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
import warnings
from typing import Any

import numpy as np
from chunking_speed import peak
from ocr_speed import CONSOLE, table

from ssvm_backends.structures.segmentations.semi_markov import SemiMarkov
from ssvm_dsl import (
    Attributes,
    Cost,
    Dim,
    Factor,
    Hamming,
    Input,
    Label,
    Model,
    SpanLength,
    StructuredSVM,
    chain,
    ground,
    spans,
    starts,
)
from ssvm_dsl.datasets import (
    CHUNK_TAGS,
    chunk_attributes,
    chunk_f1,
    chunk_segments,
    chunk_tags,
    load_conll2000,
)
from ssvm_dsl.ir import Question, Task

#: Tokens of a segment at most; 73 of 106978 phrases to train on are longer, and cut.
LONGEST = 8

#: Types of segments.
TYPES = ("O", *dict.fromkeys(tag[2:] for tag in CHUNK_TAGS if tag != "O"))

#: Training, for all.
OPTIONS: dict[str, Any] = {"C": 0.1, "tol": 0.01, "random_state": 0, "n_threads": 1}


class Tokens(Model):
    T = Dim()
    words = Attributes(T)
    y = Label(T, CHUNK_TAGS)
    emit = Factor(y, features=words)
    trans = Factor(chain(y))
    loss = Hamming(y)


class Segments(Model):
    T = Dim()
    words = Attributes(T)
    y = Label(T, TYPES, segments=LONGEST)
    emit = Factor(y, features=words)
    first = Factor(starts(y), features=words)
    trans = Factor(chain(y))
    long = Factor(spans(y), features=SpanLength(spans(y)))
    loss = Hamming(y)


class WholeSegments(Segments):
    loss = Cost(spans(Segments.y), "wrong")


class Lengths(Model):
    T = Dim()
    x = Input(T, 12)
    y = Label(T, 12, segments=LONGEST)
    emit = Factor(y, features=x)
    trans = Factor(chain(y))
    long = Factor(spans(y), features=SpanLength(spans(y)))
    loss = Hamming(y)


#: What is trained, by name.
MODELS = {
    "tokens": Tokens,
    "segments, wrong classes and beginnings": Segments,
    "segments, wrong segments": WholeSegments,
}


def measure(name: str) -> dict[str, float]:
    """Train one model in this process."""
    warnings.simplefilter("ignore")
    data = load_conll2000()
    train = data.train[: int(os.environ.get("SSVM_BENCH_SENTENCES", "0")) or None]
    X, X_test = ([chunk_attributes(s.words, s.pos) for s in part] for part in (train, data.test))
    Y = [s.chunks if name == "tokens" else chunk_segments(s.chunks, LONGEST) for s in train]
    svm = StructuredSVM(MODELS[name], **OPTIONS)
    svm.fit(X[:5], Y[:5]).predict(X[:5])  # loads the compiled kernels
    begin = time.process_time()
    svm.fit(X, Y)
    trained = time.process_time()
    found = svm.predict(X_test)
    done = time.process_time()
    tags = found if name == "tokens" else [chunk_tags(one) for one in found]
    f1 = chunk_f1([sentence.chunks for sentence in data.test], tags)
    report = svm.report_
    return {
        "sentences": len(train), "train": trained - begin, "predict": done - trained, "f1": f1, "peak": peak(),
        "weights": report.n_weights, "gap": report.relative_gap, "calls": report.n_oracle_calls,
    }  # fmt: skip


def phrases() -> None:
    """Train the models."""
    if not os.environ.get("SSVM_DATA"):
        CONSOLE.print("chunking needs SSVM_DATA")
        return
    columns = ("model", "sentences", "weights", "gap", "oracle calls", "training", "prediction", "F1", "peak MB")
    shown = table("CoNLL-2000 chunking, CPU s, one thread", *columns)
    for name in MODELS:
        run = subprocess.run([sys.executable, __file__, name], capture_output=True, text=True, check=True)
        one = json.loads(run.stdout.splitlines()[-1])
        shown.add_row(
            name, f"{one['sentences']}", f"{one['weights']}", f"{one['gap']:.1%}", f"{one['calls']}",
            f"{one['train']:.1f}", f"{one['predict']:.1f}", f"{one['f1']:.4f}", f"{one['peak']:.0f}",
        )  # fmt: skip
    CONSOLE.print(shown)


def growth() -> None:
    """Answer for sequences of growing length, as many positions each time."""
    columns = ("length", "best, us", "10 best, us", "marginals, us")
    shown = table("semi-markov: 12 classes, segments of up to 8, CPU us for each position", *columns)
    rng, total = np.random.default_rng(0), 6400
    questions = ({"task": Task.MAP}, {"task": Task.KBEST, "k": 10}, {"task": Task.MARGINALS})
    for length in (25, 100, 400, 1600, 6400):
        grounded = ground(Lengths, [rng.normal(size=(length, 12)) for _ in range(total // length)])
        theta = grounded.parameters.scores(rng.normal(size=grounded.parameters.dim))
        session = SemiMarkov().open(grounded.program, {})  # without checks of answers
        took = []
        for question in questions:
            asked = Question(theta, **question)
            session.solve(asked)
            runs = []
            for _ in range(5):
                begin = time.process_time()
                session.solve(asked)
                runs.append(time.process_time() - begin)
            took.append(1e6 * min(runs) / total)
        shown.add_row(f"{length}", *(f"{one:.2f}" for one in took))
    CONSOLE.print(shown)


def main() -> None:
    """Measure growth, then train."""
    growth()
    phrases()


if __name__ == "__main__":
    if len(sys.argv) > 1:
        sys.stdout.write(json.dumps(measure(sys.argv[1])) + "\n")
    else:
        main()
