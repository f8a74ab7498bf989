"""What one prediction costs: processor time and Python functions called for a single example, warm, by step.

Each problem is fitted on a few random examples, which is all that its structure needs.  *bare* is the same work without
the host: the backend's own session, opened before, on scores that are filled by one call (behind a bridge, on the
program that the bridge leads to).  CRFsuite's tagger is beside the word and the sentence where ``python-crfsuite`` is
installed.  Times are those of the processor (the machine may be shared), the least of several rounds.
"""

from __future__ import annotations

import cProfile
import pstats
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from model_table import complete_labels, matching, rooted_heads, tagger, token_tagger
from ssvm_dsl import (
    AtMost,
    Dim,
    Factor,
    Hamming,
    Input,
    Label,
    Model,
    ProjectiveTree,
    StructuredSVM,
    chain,
)

#: Rounds of calls, and the seconds that each takes at least.
ROUNDS, SECONDS = 5, 0.1

LETTERS = "abcdefghijklmnopqrstuvwxyz"
TAGS = [f"tag{k}" for k in range(23)]

#: Steps of a prediction by the functions they consist of: (end of the file name, function).
STEPS = {
    "validation": (("compiler/prepared.py", "read"),),
    "features": (("compiler/prepared.py", "_filled"),),
    "scores": (("scores/parameter_map.py", "fill_shared"), ("scores/parameter_map.py", "fill_examples")),
    "backend": (),
    "check": (("verification/verify.py", "__call__"),),
    "names": (("compiler/layout.py", "decode"),),
}


Word = tagger(128, LETTERS)
Sentence = token_tagger(tuple(TAGS))
SixLabels = complete_labels(6, 294, 2)
Align = matching(8)
Heads = rooted_heads(8, single_root=True)


class Projective(Heads):
    tree = ProjectiveTree(Heads.head, single_root=True)


class Budget(Model):
    T = Dim()
    x = Input(T, 8)
    y = Label(T, 3)
    emit = Factor(y, features=x)
    trans = Factor(chain(y, order=2))
    few = AtMost(3, y.is_(1))
    loss = Hamming(y)


@dataclass(frozen=True)
class Case:
    """A fitted model and the example to be answered."""

    name: str
    svm: StructuredSVM
    example: Any
    peer: Callable[[], object] | None = None


def fitted(model: type[Model], X: list[Any], Y: list[Any], **options: Any) -> StructuredSVM:
    """Return an estimator with some weights."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return StructuredSVM(model, max_passes=2, n_threads=1, random_state=0, **options).fit(X, Y)


def cases() -> list[Case]:
    """Return the problems of the table."""
    rng = np.random.default_rng(0)
    words = [rng.normal(size=(n, 128)) for n in (8, 5, 11)]
    spelt = [[LETTERS[k] for k in rng.integers(26, size=len(x))] for x in words]
    lines = [[[f"w[{o}]={rng.integers(400)}" for o in range(18)] for _ in range(n)] for n in (20, 9, 14)]
    tags = [[TAGS[k] for k in rng.integers(23, size=len(one))] for one in lines]
    scenes, known = [rng.normal(size=294) for _ in range(6)], [rng.integers(2, size=6) for _ in range(6)]
    pairs = [rng.normal(size=(25, 25, 8)) for _ in range(3)]
    heads = [{"x": rng.normal(size=(20, 20, 8)), "r": rng.normal(size=(20, 8))} for _ in range(3)]
    path = np.arange(20) - 1
    counted = [rng.normal(size=(12, 8)) for _ in range(3)]
    few = [np.arange(12) // 5 * 2 % 3 for _ in counted]
    return [
        Case("word, 8 letters", fitted(Word, words, spelt), words[0], crfsuite_tagger(words, spelt)),
        Case("sentence, 20 tokens", fitted(Sentence, lines, tags), lines[0], crfsuite_tagger(lines, tags)),
        Case("6 labels, all pairs", fitted(SixLabels, scenes, known), scenes[0]),
        Case("matching, 25 x 25", fitted(Align, pairs, [np.eye(25, dtype=int)] * 3), pairs[0]),
        Case("tree, 20 tokens", fitted(Heads, heads, [path] * 3), heads[0]),
        Case("projective, 20 tokens", fitted(Projective, heads, [path] * 3), heads[0]),
        Case("chain behind a bridge", fitted(Budget, counted, few), counted[0]),
    ]


def crfsuite_tagger(X: list[Any], Y: list[Any]) -> Callable[[], object] | None:
    """Return a call of CRFsuite's tagger on the first example; ``None`` where it is not installed."""
    try:
        import pycrfsuite
    except ImportError:
        return None

    def items(x: Any) -> Any:
        if isinstance(x, list):
            return x
        return [{str(k): float(v) for k, v in enumerate(row)} for row in x]

    trainer = pycrfsuite.Trainer("averaged-perceptron", {"max_iterations": 2}, verbose=False)
    for x, y in zip(X, Y, strict=True):
        trainer.append(items(x), y)
    with tempfile.TemporaryDirectory() as folder:
        path = str(Path(folder) / "model")
        trainer.train(path)
        found = pycrfsuite.Tagger()
        found.open(path)
    given = pycrfsuite.ItemSequence(items(X[0]))
    return lambda: found.tag(given)


def bare(case: Case) -> Callable[[], object]:
    """Return the same prediction without the host: scores, and the backend's session on them."""
    from ssvm_dsl.compiler import ground
    from ssvm_dsl.inference.planning.planner import need_of, plan_program
    from ssvm_dsl.inference.session import open_plan
    from ssvm_dsl.ir import Guarantee, Question, Task, Theta
    from ssvm_dsl.plugin_api.specs import BackendSpec
    from ssvm_dsl.registry import registry

    svm = case.svm
    parameters = ground(svm.model, [case.example], fitted=svm.fitted_.learnt, whole=True).parameters
    plan = plan_program(parameters.program, need_of(parameters, frozenset({Task.MAP}), Guarantee.EXACT))
    known, theta = registry(), Theta.zeros(parameters.program)
    if plan.bridges:
        session = open_plan(plan, parameters.program, known, outwards=False)
    else:
        session = known.load(known.find(BackendSpec, plan.backend))().open(parameters.program, dict(plan.options))

    def call() -> object:
        parameters.fill_shared(svm.coef_, theta)
        parameters.fill_examples(svm.coef_, theta)
        return session.solve(Question(theta))

    return call


def milliseconds(call: Callable[[], object]) -> float:
    """Return the least processor time of a call."""
    call()
    times = []
    for _ in range(ROUNDS):
        begin, n = time.process_time(), 0
        while time.process_time() - begin < SECONDS:
            call()
            n += 1
        times.append((time.process_time() - begin) / n)
    return 1e3 * min(times)


def functions(call: Callable[[], object]) -> int:
    """Return how many Python functions a call calls."""
    n = 0

    def count(frame: object, event: str, arg: object) -> None:
        nonlocal n
        n += event == "call"

    call()
    sys.setprofile(count)
    try:
        call()
    finally:
        sys.setprofile(None)
    return n


def layers(call: Callable[[], object]) -> int:
    """Return how many session objects of the host a call passes on its way to the backend."""
    passed: set[int] = set()

    def note(frame: Any, event: str, arg: object) -> None:
        if event == "call" and frame.f_code.co_name == "solve":
            owner = frame.f_locals.get("self")
            if type(owner).__module__.startswith("ssvm_dsl.inference"):
                passed.add(id(owner))

    call()
    sys.setprofile(note)
    try:
        call()
    finally:
        sys.setprofile(None)
    return len(passed)


def shares(call: Callable[[], object]) -> dict[str, float]:
    """Return which share of the time each step takes, under a profiler (which makes Python look dearer)."""
    profile = cProfile.Profile(time.process_time)
    call()
    profile.enable()
    for _ in range(100):
        call()
    profile.disable()
    stats: dict[Any, Any] = pstats.Stats(profile).stats  # type: ignore[attr-defined]
    total = sum(row[2] for row in stats.values())
    found = {}
    for step, names in STEPS.items():
        rows = [row for (file, _, name), row in stats.items() for end, of in names if name == of and file.endswith(end)]
        if step == "backend":
            rows = [row for (file, _, name), row in stats.items() if name == "solve" and "/plugins/" in file]
        found[step] = sum(row[3] for row in rows) / total
    return found


def main() -> None:
    """Print a row for each problem."""
    from rich.console import Console
    from rich.table import Table

    table = Table(title="one example predicted, warm, one thread", title_justify="left")
    heads = "example", "backend", "ms", "functions", "layers", "bare ms", "ratio", "CRFsuite ms"
    for column in (*heads, *STEPS, "rest"):
        table.add_column(column)
    for case in cases():

        def call(case: Case = case) -> object:
            return case.svm.predict([case.example])

        ms, alone = milliseconds(call), milliseconds(bare(case))
        peer = "" if case.peer is None else f"{milliseconds(case.peer):.3f}"
        found = shares(call)
        found["rest"] = 1.0 - sum(found.values())
        parts = [f"{share:.0%}" for share in found.values()]
        title = case.svm.plan_.title
        table.add_row(
            case.name, title, f"{ms:.3f}", str(functions(call)), str(layers(call)), f"{alone:.3f}", f"{ms / alone:.1f}",
            peer, *parts,
        )  # fmt: skip
    Console(width=180).print(table)
