"""Naive readers, straight from the texts, and writers of random ones: what the real readers are held against."""

from __future__ import annotations

import math
from itertools import product

import numpy as np

from ssvm_dsl.plugin_api import score_labels


def read_uai(text):
    """Return (cards, [(scope, {states: log value})])."""
    tokens = iter(text.split())
    assert next(tokens) in ("MARKOV", "BAYES")
    cards = [int(next(tokens)) for _ in range(int(next(tokens)))]
    scopes = [[int(next(tokens)) for _ in range(int(next(tokens)))] for _ in range(int(next(tokens)))]
    factors = []
    for scope in scopes:
        states = list(product(*(range(cards[v]) for v in scope)))
        assert int(next(tokens)) == len(states)
        factors.append((scope, {s: log(float(next(tokens))) for s in states}))
    return cards, factors


def read_fg(text):
    """Return (labels, cards, factors); the first variable varies fastest."""
    lines = [line for line in text.splitlines() if not line.startswith("#")]
    tokens = iter(" ".join(lines).split())
    raw, card = [], {}
    for _ in range(int(next(tokens))):
        n = int(next(tokens))
        scope = [int(next(tokens)) for _ in range(n)]
        sizes = [int(next(tokens)) for _ in range(n)]
        card.update(zip(scope, sizes))
        listed = {int(next(tokens)): float(next(tokens)) for _ in range(int(next(tokens)))}
        states = [s[::-1] for s in product(*(range(c) for c in sizes[::-1]))]
        raw.append((scope, {s: log(listed.get(k, 0.0)) for k, s in enumerate(states)}))
    labels = sorted(card)
    return labels, [card[v] for v in labels], [([labels.index(v) for v in scope], t) for scope, t in raw]


def read_wcsp(text):
    """Return (cards, factors) of functions in extension, unshared; scores are minus the costs."""
    tokens = iter(text.split()[1:])
    n, _, m, top = (int(next(tokens)) for _ in range(4))
    cards = [int(next(tokens)) for _ in range(n)]
    factors = []
    for _ in range(m):
        scope = [int(next(tokens)) for _ in range(int(next(tokens)))]
        default, count = int(next(tokens)), int(next(tokens))
        costs = dict.fromkeys(product(*(range(cards[v]) for v in scope)), default)
        for _ in range(count):
            states = tuple(int(next(tokens)) for _ in scope)
            costs[states] = int(next(tokens))
        factors.append((scope, {s: -c if c < top else -math.inf for s, c in costs.items()}))
    return cards, factors


def log(value):
    return math.log(value) if value else -math.inf


def naive_score(factors, labels):
    return sum(table[tuple(labels[v] for v in scope)] for scope, table in factors)


def scores_of(problem, labellings):
    """The scores of labellings by the definition of ``Theta``."""
    return [float(score_labels(problem.program, problem.theta, np.array(y, np.int32))[0]) for y in labellings]


def assert_same_scores(problem, cards, factors, limit=3000, seed=0):
    """The problem scores every labelling (or a random choice) as the naive reader does."""
    assert problem.program.card.tolist() == cards
    total = math.prod(cards)
    if total <= limit:
        labellings = list(product(*map(range, cards)))
    else:
        rng = np.random.default_rng(seed)
        labellings = [tuple(rng.integers(0, cards).tolist()) for _ in range(40)]
    expected = [naive_score(factors, y) for y in labellings]
    np.testing.assert_allclose(scores_of(problem, labellings), expected, rtol=1e-12, atol=1e-12)
    return labellings, expected


def random_scopes(rng, n_variables, n_factors, max_arity=3):
    sizes = rng.integers(0, min(max_arity, n_variables) + 1, n_factors)
    return [rng.permutation(n_variables)[:k].tolist() for k in sizes]


def values_for(rng, size):
    values = rng.random(size).round(3)
    values[rng.random(size) < 0.2] = 0.0
    return values


def uai_text(rng, kind="MARKOV"):
    """A random UAI text with lines broken anywhere."""
    cards = rng.integers(1, 4, rng.integers(1, 6)).tolist()
    scopes = random_scopes(rng, len(cards), rng.integers(0, 7), 4)
    tokens = [kind, len(cards), *cards, len(scopes)]
    for scope in scopes:
        tokens += [len(scope), *scope]
    for scope in scopes:
        values = values_for(rng, math.prod(cards[v] for v in scope))
        tokens += [len(values), *values.tolist()]
    return joined(rng, tokens)


def fg_text(rng):
    """A random libDAI text; labels have gaps."""
    cards = rng.integers(1, 4, rng.integers(1, 6)).tolist()
    labels = np.sort(rng.choice(100, len(cards), replace=False)).tolist()
    scopes = random_scopes(rng, len(cards), rng.integers(0, 7), 4)
    blocks = ["# a comment", str(len(scopes))]
    for scope in scopes:
        values = values_for(rng, math.prod(cards[v] for v in scope))
        listed = [(k, x) for k, x in enumerate(values.tolist()) if x]
        rng.shuffle(listed)
        names, sizes = (" ".join(str(of[v]) for v in scope) for of in (labels, cards))
        head = [len(scope), names, sizes, len(listed)]
        blocks += ["", *map(str, head), "# another", *(f"{int(k)}\t{x}" for k, x in listed)]
    return "\n".join(blocks) + "\n"


def wcsp_text(rng):
    """A random WCSP text of functions in extension."""
    cards = rng.integers(1, 4, rng.integers(1, 6)).tolist()
    scopes = random_scopes(rng, len(cards), rng.integers(0, 7), 4)
    tokens = ["7up", len(cards), max(cards), len(scopes), 12, *cards]
    for scope in scopes:
        states = list(product(*(range(cards[v]) for v in scope)))
        chosen = [s for s in states if rng.random() < 0.6]
        tokens += [len(scope), *scope, int(rng.integers(0, 14)), len(chosen)]
        for s in chosen:
            tokens += [*s, int(rng.integers(0, 14))]
    return joined(rng, tokens)


def joined(rng, tokens):
    gaps = rng.choice([" ", "\n", "\t", "  \r\n"], len(tokens))
    return "".join(f"{token}{gap}" for token, gap in zip(tokens, gaps))
