"""CoNLL-2000 chunking with the features of CRFsuite's tutorial, one thread: our trainers beside CRFsuite.

Each learner runs in a process of its own; seconds are CPU seconds (the machine may be shared), kernels were compiled
before.  Loading is what a learner does with the lists of names before it trains.  ``SSVM_BENCH_LONG=1`` adds the
l-bfgs learners, which take up to a minute each.  Needs ``SSVM_DATA``.

CRFsuite runs with its defaults ``feature.possible_states=0`` and ``feature.possible_transitions=0``: weights for the
pairs that occur in the training data.  Ours run with weights for all pairs of an attribute and a tag, and for observed
ones.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from ssvm_dsl.datasets import CHUNK_TAGS, Conll2000, chunk_attributes, chunk_f1, load_conll2000

#: CRFsuite's algorithms with their parameters.  c2 = 1 is C = 0.5.
PEERS: dict[str, tuple[str, dict[str, Any]]] = {
    "CRFsuite averaged perceptron, 20 passes": ("averaged-perceptron", {"max_iterations": 20, "epsilon": 0.0}),
    "CRFsuite l-bfgs, c2 = 1": ("lbfgs", {"c1": 0.0, "c2": 1.0, "max_iterations": 150}),
}
OURS: dict[str, dict[str, Any]] = {
    "bcfw, C = 0.1, gap 20 %": {"C": 0.1, "tol": 0.2},
    "bcfw, C = 0.1, gap 1 %": {"C": 0.1, "tol": 0.01},
    "perceptron, averaged, 10 passes": {"risk": "perceptron", "trainer": "perceptron", "max_passes": 10},
    "subgradient, C = 0.1, 10 passes": {"C": 0.1, "trainer": "subgradient", "max_passes": 10},
    "lbfgs, log-loss, C = 0.5, 40 passes": {
        "C": 0.5, "risk": "log", "trainer": "lbfgs", "max_passes": 40, "trainer_options": {"memory": 4},
    },
}  # fmt: skip
LONG = ("CRFsuite l-bfgs, c2 = 1", "lbfgs, log-loss, C = 0.5, 40 passes")

#: Which pairs of an attribute and a tag have weights.
PAIRS = ("all", "observed")

Attributes = list[list[str]]


def peak() -> float:
    """Return the peak memory of this process in MB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3


def peer(name: str, data: Conll2000, X: list[Attributes], X_test: list[Attributes]) -> tuple[float, float, Any]:
    """Return (seconds of loading, seconds of training, predictions) of CRFsuite."""
    import pycrfsuite

    algorithm, parameters = PEERS[name]
    begin = time.process_time()
    trainer = pycrfsuite.Trainer(algorithm=algorithm, verbose=False)
    for x, sentence in zip(X, data.train, strict=True):
        trainer.append(x, sentence.chunks)
    loaded = time.process_time()
    trainer.set_params(parameters)
    with tempfile.TemporaryDirectory() as folder:
        path = str(Path(folder) / "model")
        trainer.train(path)
        trained = time.process_time()
        tagger = pycrfsuite.Tagger()
        tagger.open(path)
        found = [tagger.tag(x) for x in X_test]
        tagger.close()
    return loaded - begin, trained - loaded, found


def own(
    name: str, pairs: str, data: Conll2000, X: list[Attributes], X_test: list[Attributes]
) -> tuple[float, float, Any]:
    """Return the same of our trainer: loading is laying the model over the data, training the rest of ``fit``."""
    import warnings

    from ssvm_dsl import Attributes, Dim, Factor, Hamming, Label, Model, StructuredSVM, chain, ground

    class Chunks(Model):
        T = Dim()
        words = Attributes(T)
        y = Label(T, CHUNK_TAGS)
        emit = Factor(y, features=words, weights=pairs)
        trans = Factor(chain(y))
        loss = Hamming(y)

    warnings.simplefilter("ignore")
    Y = [sentence.chunks for sentence in data.train]
    svm = StructuredSVM(Chunks, n_threads=1, random_state=0, **OURS[name])
    svm.fit(X[:5], Y[:5])  # loads the compiled kernels
    begin = time.process_time()
    ground(Chunks, X, Y)
    loaded = time.process_time()
    svm.fit(X, Y)
    seconds = time.process_time() - loaded
    return loaded - begin, seconds - (loaded - begin), svm.predict(X_test)


def measure(name: str, pairs: str) -> dict[str, float]:
    """Run one learner in this process."""
    data = load_conll2000()
    X, X_test = ([chunk_attributes(s.words, s.pos) for s in part] for part in data)
    before = peak()
    load, train, found = peer(name, data, X, X_test) if name in PEERS else own(name, pairs, data, X, X_test)
    f1 = chunk_f1([sentence.chunks for sentence in data.test], found)
    return {"load": load, "train": train, "f1": f1, "peak": peak(), "data": before}


def main() -> None:
    """Run every learner in a process of its own."""
    from rich.console import Console
    from rich.table import Table

    console = Console(width=120)
    if not os.environ.get("SSVM_DATA"):
        console.print("needs SSVM_DATA")
        return
    shown = Table(title="CoNLL-2000, 8936 sentences, 335674 attributes, CPU s, one thread", title_justify="left")
    for column in ("learner", "weights", "loading", "training", "sum", "/ CRFsuite a.p.", "F1", "peak MB", "data MB"):
        shown.add_column(column)
    base = 0.0
    runs = [(name, "observed") for name in PEERS] + [(name, pairs) for name in OURS for pairs in PAIRS]
    for name, pairs in runs:
        if name in LONG and os.environ.get("SSVM_BENCH_LONG", "") in ("", "0"):
            continue
        command = [sys.executable, __file__, name, pairs]
        run = subprocess.run(command, capture_output=True, text=True, check=True)
        one = json.loads(run.stdout.splitlines()[-1])
        total = one["load"] + one["train"]
        base = base or total
        shown.add_row(
            name, pairs, f"{one['load']:.1f}", f"{one['train']:.1f}", f"{total:.1f}", f"{total / base:.2f}",
            f"{one['f1']:.4f}", f"{one['peak']:.0f}", f"{one['data']:.0f}",
        )  # fmt: skip
    console.print(shown)


if __name__ == "__main__":
    if len(sys.argv) > 1:
        sys.stdout.write(json.dumps(measure(*sys.argv[1:3])) + "\n")
    else:
        main()
