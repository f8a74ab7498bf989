"""Best parse trees and sums over all of them beside bare kernels of the same recursion, and NLTK's where installed.

Milliseconds of processor time for one sentence, the best of several turns.  *Bare* is what a page of code does: a dense
chart, every rule at every division, no chains of symbols, no masks; inside and outside in probabilities, which may
underflow.
*Ours* is everything from scores to labels, or to marginals.
"""

from __future__ import annotations

from importlib.util import find_spec
from typing import Any

import numpy as np
from assignment_speed import spent
from rich.console import Console
from rich.table import Table

from ssvm_backends.structures.constituency.cky import Cky
from ssvm_dsl import Dim, Factor, Grammar, Input, Label, Model, ground, rules, spans
from ssvm_dsl.ir import Question, Task
from ssvm_dsl.kernels import njit

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
    """Return the milliseconds of bare best, ours, bare sums, ours."""
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
    seconds = spent(
        lambda: bare_best(numbers, score, tag, span), lambda: session.solve(questions[0]),
        lambda: bare_sums(numbers, weight, tag2, span2, counts), lambda: session.solve(questions[1]),
    )  # fmt: skip
    return [1e3 * one for one in seconds]


def nltk_time(n: int) -> float:
    """Return the milliseconds of NLTK's Viterbi parser on a small grammar that ours answers, too."""
    from nltk import PCFG
    from nltk.parse import ViterbiParser

    text = "S -> S S [0.4] | A B [0.2] | 'a' [0.4]\nA -> 'a' [0.5] | A S [0.5]\nB -> 'a' [1.0]"
    parser = ViterbiParser(PCFG.fromstring(text))
    return 1e3 * spent(lambda: next(iter(parser.parse(["a"] * n))))[0]


def main() -> None:
    """Show the times of all sizes."""
    table = Table("words", "symbols", "rules", "bare best", "cky", "times", "bare sums", "cky", "times")
    for case in CASES:
        best, mine, sums, ours = measure(*case)
        cells = [f"{best:.2f}", f"{mine:.2f}", f"{mine / best:.2f}", f"{sums:.2f}", f"{ours:.2f}", f"{ours / sums:.2f}"]
        table.add_row(*map(str, case), *cells)
    Console().print(table)
    if find_spec("nltk") is not None:
        print(f"NLTK's ViterbiParser, 12 words, 5 rules: {nltk_time(12):.1f} ms")
