"""Best parse trees and sums over all of them beside bare kernels of the same recursion, NLTK and torch-struct.

Milliseconds of processor time for one sentence, the best of several turns.  *Bare* is what a page of code does: a dense
chart, every rule at every division, no chains of symbols, no masks; inside and outside in probabilities, which may
underflow.
*Ours* is everything from scores to labels, or to marginals; *oracle* is a call of the compiled oracle of trainers.
NLTK is compared where it is installed, torch-struct where ``SSVM_BENCH_TORCH_STRUCT`` names a Python that has it, in 64
bits and one thread; its log Z is ours.
"""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from assignment_speed import spent
from rich.console import Console
from rich.table import Table

from ssvm_backends.structures.constituency.cky import Cky
from ssvm_dsl import Dim, Factor, Grammar, Input, Label, Model, ground, rules, spans
from ssvm_dsl.ir import Question, Task
from ssvm_dsl.kernels import njit
from ssvm_dsl.kernels.compiled_oracles import call_oracle

#: Words, symbols, rules.
CASES = ((10, 30, 900), (25, 30, 900), (25, 30, 5000), (40, 30, 900))


@njit
def bare_best(rules_of: Any, score: Any, tag: Any, span: Any) -> float:  # type: ignore[no-untyped-def]
    """Return the score of the best tree under symbol 0."""
    n, n_symbols = tag.shape
    chart = np.full((n, n, n_symbols), -np.inf)
    for t in range(n):
        chart[t, t] = tag[t]
    for length in range(2, n + 1):
        for i in range(n - length + 1):
            j = i + length - 1
            for k in range(i, j):
                for r in range(len(rules_of)):
                    value = score[r] + chart[i, k, rules_of[r, 1]] + chart[k + 1, j, rules_of[r, 2]]
                    if value > chart[i, j, rules_of[r, 0]]:
                        chart[i, j, rules_of[r, 0]] = value
            chart[i, j] += span[i, j]
    return chart[0, n - 1, 0]


@njit
def bare_sums(rules_of: Any, weight: Any, tag: Any, span: Any, counts: Any) -> float:  # type: ignore[no-untyped-def]
    """Return log Z of exponentials of scores; add the expected number of each rule."""
    n, n_symbols = tag.shape
    chart, back = np.zeros((n, n, n_symbols)), np.zeros((n, n, n_symbols))
    for t in range(n):
        chart[t, t] = tag[t]
    for length in range(2, n + 1):
        for i in range(n - length + 1):
            j = i + length - 1
            for k in range(i, j):
                for r in range(len(rules_of)):
                    a, b, c = rules_of[r]
                    chart[i, j, a] += weight[r] * chart[i, k, b] * chart[k + 1, j, c]
            chart[i, j] *= span[i, j]
    back[0, n - 1, 0] = 1.0 / chart[0, n - 1, 0]
    for length in range(n, 1, -1):
        for i in range(n - length + 1):
            j = i + length - 1
            for k in range(i, j):
                for r in range(len(rules_of)):
                    a, b, c = rules_of[r]
                    share = back[i, j, a] * span[i, j, a] * weight[r]
                    one, other = chart[i, k, b], chart[k + 1, j, c]
                    back[i, k, b] += share * other
                    back[k + 1, j, c] += share * one
                    counts[r] += share * one * other
    return np.log(chart[0, n - 1, 0])


def random_grammar(rng: np.random.Generator, n_symbols: int, n_rules: int) -> Grammar:
    """Return a grammar of so many symbols, all of which are tags, too, and rules of two children."""
    names = [f"X{k}" for k in range(n_symbols)]
    chosen = rng.choice(n_symbols**3, n_rules, replace=False)
    places = np.stack(np.unravel_index(chosen, (n_symbols,) * 3), axis=1).tolist()
    made = [(names[a], (names[b], names[c])) for a, b, c in places]
    return Grammar(made, names[0], tags=names, chains=sorted({(left,) for left, _ in made}))


def measure(n: int, n_symbols: int, n_rules: int) -> list[float]:
    """Return the milliseconds of bare best, ours, the oracle, bare sums, ours."""
    rng = np.random.default_rng(0)
    grammar = random_grammar(rng, n_symbols, n_rules)

    class Parser(Model):
        T = Dim()
        x = Input(T, 1)
        y = Label(T, grammar=grammar)
        leaf = Factor(y, features=x)
        phrase = Factor(spans(y))
        rule = Factor(rules(y))

    made = ground(Parser, [rng.normal(size=(n, 1))])
    theta = made.parameters.scores(0.3 * rng.normal(size=made.parameters.dim))
    session, (group,) = Cky().open(made.program, {}), made.program.groups
    place = {name: k for k, name in enumerate(grammar.symbols)}
    numbers = np.array([[place[one] for one in rule] for rule in grammar.numbered_rules])
    score = theta.tables[0].ravel()[1 : n_rules + 1].copy()
    tag = theta.node[: n * n_symbols].reshape(n, n_symbols)[:, [grammar.tags.index(s) for s in grammar.symbols]].copy()
    width = len(grammar.chains) + 1
    cells = theta.node[n * n_symbols :][: n * n * width].reshape(n, n, width)
    span = np.full((n, n, n_symbols), -np.inf)
    for c, chain in enumerate(grammar.chains):
        span[:, :, place[chain[0]]] = cells[:, :, c + 1] - cells[:, :, 0]
    base = cells[:, :, 0].sum() + theta.tables[0][group.factors(0)[1][0], 0]
    questions = [Question(theta), Question(theta, task=Task.MARGINALS)]
    root = 0 if grammar.symbols[0] == grammar.start[0] else place[grammar.start[0]]
    assert root == 0
    counts = np.zeros(n_rules)
    best = bare_best(numbers, score, tag, span) + base
    assert np.isclose(best, session.solve(questions[0]).score[0])
    tag2, span2, weight = np.exp(tag), np.exp(span), np.exp(score)
    log_z = bare_sums(numbers, weight, tag2, span2, counts) + base
    found = session.solve(questions[1])
    assert np.isclose(log_z, found.log_partition[0])
    assert np.allclose(counts, found.marginals.tables[0].sum(axis=0)[1 : n_rules + 1])
    oracle, labels = session.compiled(), np.zeros(made.program.n_variables, np.int32)
    call = (oracle.function, oracle.ints, oracle.longs, 0, theta.pool, theta.node, labels, np.zeros(0))
    assert np.isclose(call_oracle(*call), best)
    seconds = spent(
        lambda: bare_best(numbers, score, tag, span), lambda: session.solve(questions[0]), lambda: call_oracle(*call),
        lambda: bare_sums(numbers, weight, tag2, span2, counts), lambda: session.solve(questions[1]),
    )  # fmt: skip
    return [1e3 * one for one in seconds]


def nltk_times(n: int) -> list[float]:
    """Return the milliseconds of NLTK's Viterbi parser on a small grammar, and ours; both find the same score."""
    from nltk import PCFG
    from nltk.parse import ViterbiParser

    rules_of = {("S", "S", "S"): 0.4, ("S", "A", "B"): 0.2, ("A", "A", "S"): 0.5}
    words = {"S": 0.4, "A": 0.5, "B": 1.0}
    lines = [f"{left} -> {one} {other} [{p}]" for (left, one, other), p in rules_of.items()]
    parser = ViterbiParser(PCFG.fromstring("\n".join(lines + [f"{left} -> 'a' [{p}]" for left, p in words.items()])))
    grammar = Grammar([(left, (one, other)) for left, one, other in rules_of], "S", tags=words)

    class Parser(Model):
        T = Dim()
        x = Input(T, 1)
        y = Label(T, grammar=grammar)
        leaf = Factor(y, features=x)
        rule = Factor(rules(y))

    made = ground(Parser, [np.ones((n, 1))])
    weights = np.zeros(made.parameters.dim)
    leaf, rule = (block.view(weights) for block in made.parameters.blocks)
    leaf[:, 0] = np.log([words[tag] for tag in grammar.tags])
    rule.reshape(-1)[1 : len(rules_of) + 1] = np.log([rules_of[one] for one in grammar.numbered_rules])
    session, question = Cky().open(made.program, {}), Question(made.parameters.scores(weights))
    (tree,) = parser.parse(["a"] * n)
    assert np.isclose(session.solve(question).score[0], tree.logprob() * np.log(2.0))
    return [1e3 * one for one in spent(lambda: next(iter(parser.parse(["a"] * n))), lambda: session.solve(question))]


#: What runs in the other environment: a file of lists in; log Z, and seconds of the best tree and of marginals out.
SENT_CFG = """
import json, sys, time, warnings, torch
from torch_struct import SentCFG
warnings.simplefilter("ignore")
torch.set_num_threads(1)
given = json.load(open(sys.argv[1]))
numbers = torch.tensor(given["numbers"])
tag, score = (torch.tensor(given[name], dtype=torch.float64) for name in ("tag", "score"))
n, k = tag.shape
dense = torch.full((k, 2 * k, 2 * k), -1e9, dtype=torch.float64)  # children: phrases, then tags
for one in (0, k):
    for other in (0, k):
        dense[numbers[:, 0], numbers[:, 1] + one, numbers[:, 2] + other] = score
root = torch.full((k,), -1e9, dtype=torch.float64)
root[0] = 0.0
args = tuple(array[None] for array in (tag, dense, root))
def asked():
    return SentCFG(args, lengths=torch.tensor([n]))
def spent(call):
    found = []
    for _ in range(5):
        begin = time.process_time()
        call()
        found.append(time.process_time() - begin)
    return min(found)
print(repr(float(asked().partition)), spent(lambda: asked().argmax), spent(lambda: asked().marginals))
"""


def torch_struct_times(python: str, n: int, n_symbols: int, n_rules: int) -> list[float]:
    """Return the milliseconds of torch-struct's best tree and its marginals, without scores of phrases."""
    rng = np.random.default_rng(0)
    chosen = rng.choice(n_symbols**3, n_rules, replace=False)
    numbers = np.stack(np.unravel_index(chosen, (n_symbols,) * 3), axis=1)
    score, tag = 0.3 * rng.normal(size=n_rules), 0.3 * rng.normal(size=(n, n_symbols))
    none = np.ones((n, n, n_symbols))
    log_z = bare_sums(numbers, np.exp(score), np.exp(tag), none, np.zeros(n_rules))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "given.json"
        given = {"tag": tag, "numbers": numbers, "score": score}
        path.write_text(json.dumps({name: array.tolist() for name, array in given.items()}))
        said = subprocess.run([python, "-c", SENT_CFG, str(path)], check=True, capture_output=True, text=True).stdout
    theirs, *seconds = map(float, said.split())
    assert np.isclose(theirs, log_z, rtol=1e-9)
    return [1e3 * one for one in seconds]


def main() -> None:
    """Show the times of all sizes."""
    names = ("bare best", "cky", "times", "oracle", "times", "bare sums", "cky", "times")
    table = Table("words", "symbols", "rules", *names)
    for case in CASES:
        best, mine, oracle, sums, ours = measure(*case)
        shown = [f"{best:.2f}", f"{mine:.2f}", f"{mine / best:.2f}", f"{oracle:.2f}", f"{oracle / best:.2f}"]
        table.add_row(*map(str, case), *shown, f"{sums:.2f}", f"{ours:.2f}", f"{ours / sums:.2f}")
    Console(width=120).print(table)
    if find_spec("nltk") is None:
        print("NLTK is not installed: not compared (pip install nltk)")
    else:
        theirs, mine = nltk_times(12)
        print(f"12 words, 3 rules, best tree: NLTK's ViterbiParser {theirs:.1f} ms, cky {mine:.2f} ms")
    other = os.environ.get("SSVM_BENCH_TORCH_STRUCT")
    if not other:
        print("torch-struct: skipped, SSVM_BENCH_TORCH_STRUCT names no Python that has it")
        return
    for n, n_symbols, n_rules in CASES[:2]:
        best, sums = torch_struct_times(other, n, n_symbols, n_rules)
        print(f"{n} words, {n_symbols} symbols: torch-struct's SentCFG best {best:.1f} ms, marginals {sums:.1f} ms")
