"""The drop-in ``CRF`` beside CRFsuite: training, predicting, one sentence, memory; each side in a process of its own.

Attributes are those of sklearn-crfsuite's tutorial on names (19 a token, texts and truths in a dict), c1 = c2 = 0.1,
100 iterations.  *names* is a generated corpus with the sizes of the Dutch sentences of CoNLL-2002 (9 labels); *chunks*
are the sentences of CoNLL-2000 (22 labels), where ``SSVM_DATA`` names the data.  CRFsuite is called through
python-crfsuite as sklearn-crfsuite does it.  Seconds are those of the processor, compiling apart; memory is the peak of
the process (``ru_maxrss``) above what it took with the data, after a fit of a few sentences.  Single sentences are
timed when their lengths are new to the estimator, and again when they are not.

``SSVM_BENCH_LONG=1`` adds the generated corpus twenty times, the words renamed each time.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

#: Parameters of the fits.
C1, C2, ITERATIONS = 0.1, 0.1, 100

#: Sentences to train on and to predict; single ones are taken from the latter.
N_TRAIN, N_TEST, N_SINGLE = 6000, 2000, 300

Token = tuple[str, str]
Sentences = tuple[list[list[Token]], list[list[str]]]

KINDS = ("PER", "LOC", "ORG", "MISC")
PARTS = ("Art", "N", "V", "Prep", "Adj", "Punc", "Conj", "Pron", "Adv", "Num")

#: What the syllables of generated words begin with, their vowels, and what words end with.
ONSETS = ("b", "d", "g", "k", "l", "m", "n", "p", "r", "s", "t", "v", "w", "st", "br", "kl", "sch")
VOWELS = ("a", "e", "i", "o", "u", "aa", "ee", "ie", "oe", "ui")
ENDS = ("n", "r", "t", "s", "k", "l", "nd", "st")


def names(n: int, seed: int, copy: int = 0) -> Sentences:
    """Return generated sentences of words with parts of speech, and the tags of names in them."""
    rng = np.random.default_rng(seed)

    def word(number: int) -> str:
        """Return the word of a number, the same for all seeds; frequent ones are short."""
        draw = np.random.default_rng(number)
        size = 1 + int(draw.integers(0, 1 + min(number.bit_length() // 4, 4)))
        parts = [ONSETS[draw.integers(len(ONSETS))] + VOWELS[draw.integers(len(VOWELS))] for _ in range(size)]
        return "".join(parts) + ENDS[draw.integers(len(ENDS))]

    known: dict[int, str] = {}

    def spelt(number: int) -> str:
        if number not in known:
            known[number] = word(number)
        return known[number]

    renamed = f"{copy}" if copy else ""
    starts, kinds = [0.72, 0.12, 0.08, 0.05, 0.03], np.arange(5)
    X, Y = [], []
    for _ in range(n):
        length = max(2, int(rng.gamma(1.6, 8.0)))
        tokens: list[Token] = []
        tags: list[str] = []
        while len(tokens) < length:
            kind = int(rng.choice(kinds, p=starts)) if rng.random() < 0.4 else 0
            if not kind:
                number = int(rng.zipf(1.18)) % 400_000
                tokens.append((spelt(number) + renamed, PARTS[number % 10]))
                if rng.random() < 0.05 or not len(tokens) - 1:
                    tokens[-1] = tokens[-1][0].title(), tokens[-1][1]
                tags.append("O")
                continue
            for place in range(1 + int(rng.geometric(0.65) > 1) + int(rng.random() < 0.1)):
                # lists of names of one kind overlap those of the others
                number = (int(rng.zipf(1.22)) * 5 + (kind if rng.random() < 0.85 else int(rng.integers(5)))) % 400_000
                tokens.append((spelt(number + 1_000_000).title() + renamed, "N"))
                tags.append(f"{'I' if place else 'B'}-{KINDS[kind - 1]}")
        X.append(tokens)
        Y.append(tags)
    return X, Y


def chunks(n: int, part: int) -> Sentences:
    """Return sentences of CoNLL-2000 with their chunk tags."""
    from ssvm_dsl.datasets import load_conll2000

    found = load_conll2000()[part][:n]
    return [list(zip(one.words, one.pos, strict=True)) for one in found], [one.chunks for one in found]


def attributes(sentence: list[Token], i: int) -> dict[str, Any]:
    """Return the attributes of a token as in the tutorial of sklearn-crfsuite."""
    word, pos = sentence[i]
    out: dict[str, Any] = {
        "bias": 1.0, "word.lower()": word.lower(), "word[-3:]": word[-3:], "word[-2:]": word[-2:],
        "word.isupper()": word.isupper(), "word.istitle()": word.istitle(), "word.isdigit()": word.isdigit(),
        "postag": pos, "postag[:2]": pos[:2],
    }  # fmt: skip
    for step, end in ((-1, "BOS"), (1, "EOS")):
        if not 0 <= i + step < len(sentence):
            out[end] = True
            continue
        word, pos = sentence[i + step]
        out |= {
            f"{step:+d}:word.lower()": word.lower(), f"{step:+d}:word.istitle()": word.istitle(),
            f"{step:+d}:word.isupper()": word.isupper(), f"{step:+d}:postag": pos, f"{step:+d}:postag[:2]": pos[:2],
        }  # fmt: skip
    return out


def tokens_of(sentences: list[list[Token]]) -> list[list[dict[str, Any]]]:
    """Return the attributes of all sentences."""
    return [[attributes(one, i) for i in range(len(one))] for one in sentences]


def corpus(name: str, n: int) -> tuple[Any, Any, Any, Any]:
    """Return (X, Y, X_test, Y_test)."""
    if name == "chunks":
        train, test = chunks(n, 0), chunks(N_TEST, 1)
    else:
        train, test = names(min(n, N_TRAIN), 0), names(N_TEST, 1)
        for copy in range(1, n // N_TRAIN):
            more = names(N_TRAIN, 0, copy)
            train = train[0] + more[0], train[1] + more[1]
    return tokens_of(train[0]), train[1], tokens_of(test[0]), test[1]


class Peer:
    """CRFsuite, called as sklearn-crfsuite calls it."""

    def fit(self, X: Any, Y: Any) -> None:
        """Train."""
        import pycrfsuite

        trainer = pycrfsuite.Trainer(algorithm="lbfgs", verbose=False)
        trainer.set_params({"c1": C1, "c2": C2, "max_iterations": ITERATIONS})
        for x, y in zip(X, Y, strict=True):
            trainer.append(x, y)
        self._folder = tempfile.TemporaryDirectory()
        path = str(Path(self._folder.name) / "model")
        trainer.train(path)
        last = trainer.logparser.last_iteration
        self.objective, self.n_passes = last["loss"], last["num"]
        self.tagger = pycrfsuite.Tagger()
        self.tagger.open(path)

    def predict(self, X: Any) -> Any:
        """Return the tags of sentences."""
        return [self.tagger.tag(x) for x in X]


class Own:
    """The drop-in."""

    def fit(self, X: Any, Y: Any) -> None:
        """Train."""
        from ssvm_dsl.models.crfsuite import CRF

        self.crf = CRF("lbfgs", c1=C1, c2=C2, max_iterations=ITERATIONS).fit(X, Y)
        self.objective, self.n_passes = self.crf.report_.primal * 2.0 * C2, self.crf.report_.n_passes
        self.report = self.crf.report_

    def predict(self, X: Any) -> Any:
        """Return the tags of sentences."""
        return self.crf.predict(X)


def peak() -> float:
    """Return the peak memory of this process in MB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3


def seconds(call: Callable[[], object]) -> float:
    """Return the processor seconds of a call."""
    begin = time.process_time()
    call()
    return time.process_time() - begin


def measure(side: str, name: str, n: int) -> dict[str, float]:
    """Run one side in this process."""
    from ssvm_dsl.datasets import chunk_f1

    warnings.simplefilter("ignore")
    X, Y, X_test, Y_test = corpus(name, n)
    few = Peer() if side == "CRFsuite" else Own()
    few.fit(X[:30], Y[:30])  # loads the compiled kernels
    few.predict(X_test[:3])
    few.predict(X_test[:1])
    before = peak()
    learner = type(few)()
    trained = seconds(lambda: learner.fit(X, Y))
    after = peak()
    new = seconds(lambda: [learner.predict([x]) for x in X_test[:N_SINGLE]]) / N_SINGLE
    found: list[Any] = []
    predicted = min(seconds(lambda: found.append(learner.predict(X_test))) for _ in range(3))
    one = min(seconds(lambda: [learner.predict([x]) for x in X_test[:N_SINGLE]]) for _ in range(3)) / N_SINGLE
    return {
        "training": trained, "predicting": predicted, "new": 1e3 * new, "one": 1e3 * one,
        "memory": after - before, "peak": after, "passes": learner.n_passes,
        "objective": learner.objective, "f1": chunk_f1(Y_test, found[0]),
    }  # fmt: skip


COLUMNS = {
    "training": "training, s", "predicting": f"predicting {N_TEST}, s", "new": "one, at first, ms",
    "one": "one, ms", "memory": "memory, MB", "peak": "peak, MB", "passes": "iterations",
    "objective": "objective", "f1": "F1",
}  # fmt: skip


def main() -> None:
    """Run both sides on each corpus."""
    from rich.console import Console
    from rich.table import Table

    console, runs = Console(width=150), [("names", N_TRAIN)]
    if os.environ.get("SSVM_DATA"):
        runs.append(("chunks", N_TRAIN))
    if os.environ.get("SSVM_BENCH_LONG", "") not in ("", "0"):
        runs.append(("names", 20 * N_TRAIN))
    for name, n in runs:
        shown = Table(title=f"{name}, {n} sentences, c1 = c2 = {C1}, {ITERATIONS} iterations", title_justify="left")
        for column in ("side", *COLUMNS.values()):
            shown.add_column(column)
        found = []
        for side in ("CRFsuite", "CRF"):
            command = [sys.executable, __file__, side, name, str(n)]
            run = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True, env=os.environ | ONE_THREAD)
            found.append(json.loads(run.stdout.splitlines()[-1]))
            shown.add_row(side, *(f"{found[-1][key]:.4g}" for key in COLUMNS))
        for peer, own in pairwise(found):
            shown.add_row("ratio", *(f"{own[key] / peer[key]:.2f}" for key in COLUMNS))
        console.print(shown)


#: Threads of the linear algebra would be counted as time of the processor.
ONE_THREAD = {"OPENBLAS_NUM_THREADS": "1"}

if __name__ == "__main__":
    if len(sys.argv) > 1:
        sys.stdout.write(json.dumps(measure(sys.argv[1], sys.argv[2], int(sys.argv[3]))) + "\n")
    else:
        main()
