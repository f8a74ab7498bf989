"""Exact elimination: batches of complete and of different graphs, partition functions of the 2014 UAI competition."""

from __future__ import annotations

import gzip
import json
import os
import warnings
from itertools import combinations
from pathlib import Path
from time import perf_counter, process_time
from typing import Any

import numpy as np

from model_table import graph
from ssvm_backends.elimination.junction_tree import JunctionTree
from ssvm_dsl import StructuredSVM
from ssvm_dsl.errors import TooLargeError
from ssvm_dsl.io.formats.uai import read_evidence
from ssvm_dsl.io.problem_file import read_problem
from ssvm_dsl.ir import Group, Program, Question, Task, Theta
from ssvm_dsl.plugin_api import program_need

#: What the issue asks for: milliseconds for the best labelling of 14 binary variables, all pairs joined.
TARGET_MS = 1.0

#: How far log10 Z may be off.
LOG10_Z = 1e-4


def complete_graphs(n: int, copies: int, card: int = 2) -> tuple[Program, Theta]:
    """A batch of complete graphs with standard normal scores."""
    rng, pairs = np.random.default_rng(0), np.array(list(combinations(range(n), 2)), dtype=np.int32)
    scope = (pairs[None] + n * np.arange(copies)[:, None, None]).reshape(-1, 2).astype(np.int32)
    rows = np.arange(len(scope), dtype=np.int32)
    group = Group.of(
        "pair", (card, card), scope, len(pairs) * np.arange(copies + 1), rows, len(scope), n * np.arange(copies + 1)
    )
    program = Program(n * np.arange(copies + 1), np.full(n * copies, card, np.int32), (group,)).validate()
    node, table = rng.normal(size=program.n_states), rng.normal(size=(len(scope), card * card))
    return program, Theta.of(program, node, [table])


def session(program: Program, marginals: str = "all", max_entries: int = 2**26) -> Any:
    """An opened junction tree."""
    return JunctionTree().open(program, {"max_entries": max_entries, "marginals": marginals})


def batches() -> None:
    """Milliseconds for each example of a batch."""
    print(f"complete graphs, milliseconds each in a batch (target for the best labelling of 14: {TARGET_MS})")
    for n, copies in ((10, 1500), (14, 1500), (17, 100)):
        program, theta = complete_graphs(n, copies)
        one = session(program)
        begin = perf_counter()
        program_need(program)
        planned = perf_counter() - begin
        few = np.arange(min(copies, 100), dtype=np.int64)
        questions: dict[str, dict[str, Any]] = {
            "best": {},
            "marginals": {"examples": few, "task": Task.MARGINALS},
            "5 best": {"examples": few, "task": Task.KBEST, "k": 5},
        }
        text = []
        for name, question in questions.items():
            times, count = [], len(question.get("examples", range(copies)))
            for _ in range(3):
                begin = perf_counter()
                one.solve(Question(theta, **question))
                times.append(perf_counter() - begin)
            text.append(f"{name} {1e3 * min(times) / count:.3f}")
        print(f"  {n} binary variables: {', '.join(text)}; looking at {copies} graphs took {1e3 * planned:.1f}")


#: A graph with edge features.
Joined = graph(8, 4, 5)


def random_graphs(count: int, n: int, m: int, seed: int) -> tuple[list[Any], list[Any]]:
    """Connected graphs, each another one, of n labels and m edges; n - 1 edges make trees."""
    rng, X, Y = np.random.default_rng(seed), [], []
    for _ in range(count):
        edges = {(int(rng.integers(0, v)), v) for v in range(1, n)}
        while len(edges) < m:
            a, b = sorted(rng.choice(n, 2, replace=False).tolist())
            edges.add((a, b))
        ends = np.array(sorted(edges), dtype=np.int32)
        X.append({"x": rng.normal(size=(n, 8)), "e": ends, "f": rng.normal(size=(m, 5))})
        Y.append(rng.integers(0, 4, n))
    return X, Y


def different_graphs(count: int = 1000, n: int = 20) -> None:
    """Processor milliseconds for each of a batch of graphs of which no two are alike, never seen before."""
    print(f"{count} different graphs of {n} labels of 4 states, predicted once: processor milliseconds each (goal 0.4)")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        svm = StructuredSVM(Joined, max_passes=2, random_state=0).fit(*random_graphs(20, n, 30, 0))
    for name, m in (("trees", n - 1), ("30 edges", 30)):
        times = []
        for seed in range(1, 6):
            X, _ = random_graphs(count, n, m, seed)
            begin = process_time()
            svm.predict(X)
            times.append(process_time() - begin)
        print(f"  {name}: {1e3 * min(times) / count:.3f}")


def published_marginals(path: Path) -> Any:
    """Marginals of all states, six digits each."""
    numbers, out, at = gzip.decompress(path.read_bytes()).split()[1:], [], 1
    for _ in range(int(numbers[0])):
        count = int(numbers[at])
        out += [float(x) for x in numbers[at + 1 : at + 1 + count]]
        at += 1 + count
    return np.array(out)


def competition(folder: Path) -> None:
    """log10 Z and marginals beside the published ones."""
    verdicts: dict[str, int] = {}
    print("partition functions and marginals (published: six digits), seconds, largest errors")
    print(f"  {'':16}{'table':>9}{'log10 Z':>13}{'error':>9}{'seconds':>9}{'marginals':>11}{'seconds':>9}{'best':>14}")
    for listed in json.loads((folder / "partition_functions.json").read_text()):
        name = listed["file"]
        problem = read_problem(folder / f"{name}.gz")
        clamp = read_evidence(folder / f"{name}.evid", problem)
        begin = perf_counter()
        try:
            found = session(problem.program, "none").solve(Question(problem.theta, task=Task.MARGINALS, clamp=clamp))
        except TooLargeError as err:
            verdicts["refused"] = verdicts.get("refused", 0) + 1
            print(f"  {name[:-4]:16}refused: {str(err).splitlines()[0]}")
            continue
        spent, log10_z = perf_counter() - begin, found.log_partition[0] / np.log(10)
        error = abs(log10_z - listed["log10_Z"])
        right = f"log10 Z {'within' if error <= LOG10_Z else 'NOT within'} {LOG10_Z:g}"
        verdicts[right] = verdicts.get(right, 0) + 1
        try:
            begin = perf_counter()
            question = Question(problem.theta, task=Task.MARGINALS, clamp=clamp)
            marginals = session(problem.program).solve(question).marginals.node
            largest = np.abs(marginals - published_marginals(folder / f"{name}.MAR.gz")).max()
            told = f"{largest:11.1e}{perf_counter() - begin:9.2f}"
        except TooLargeError:
            told = f"{'too large':>11}{'':9}"
        begin = perf_counter()
        session(problem.program).solve(Question(problem.theta, task=Task.MAP_CLAMPED, clamp=clamp))
        best, table = perf_counter() - begin, 2.0 ** program_need(problem.program).max_clique_table
        print(f"  {name[:-4]:16}{table:9.1e}{log10_z:13.5f}{error:9.1e}{spent:9.2f}{told}{best:14.2f}")
    print("  " + ", ".join(f"{count} {verdict}" for verdict, count in verdicts.items()))


def main() -> None:
    """Print all tables."""
    batches()
    different_graphs()
    if os.environ.get("SSVM_DATA"):
        competition(Path(os.environ["SSVM_DATA"]) / "map" / "pr2014")
    else:
        print("set SSVM_DATA for the partition functions")
