"""Align the words of a sentence with those of its translation: a matching, learnt from a few aligned pairs.

    python examples/alignment.py                       made-up sentence pairs
    SSVM_DATA=folder python examples/alignment.py      Hansards: 100 pairs to train on, 347 to test
"""

import os
import re
from collections import Counter
from pathlib import Path

import numpy as np

from ssvm_dsl import Cost, Dim, Factor, Input, Label, Matching, Model, StructuredSVM


class Align(Model):
    I, J = Dim(), Dim()
    x = Input(I, J, 19)
    y = Label(I, J, 2)
    sim = Factor(y.is_(1), features=x)
    one = Matching(y.is_(1), rows=I, cols=J)
    loss = Cost(y, [[0, 1], [3, 0]])  # a missing link is worse than a wrong one


def read(folder):
    """Return sentence pairs, and of each the sure links, and all that are possible."""
    if folder:
        texts, golds = ((Path(folder) / f"alignment/enfr.{name}").read_text() for name in ("src-tgt", "gold"))
        links = [{w: tuple(int(n) - 1 for n in re.split("[-p]", w)) for w in one.split()} for one in golds.splitlines()]
        sure = [{link for text, link in one.items() if "-" in text} for one in links]
        pairs = [tuple(side.split() for side in line.split("|||")) for line in texts.splitlines()]
        return pairs, sure, [set(one.values()) for one in links]
    pairs, sure, rng = [], [], np.random.default_rng(0)
    for _ in range(60):  # the word w becomes we; neighbours change places now and then
        words = [f"w{k}" for k in rng.zipf(1.4, int(rng.integers(3, 9)))]
        order = np.argsort(np.arange(len(words)) + rng.random(len(words)) * 1.5).tolist()
        pairs.append((words, [words[k] + "e" for k in order]))
        sure.append({(k, j) for j, k in enumerate(order)})
    return pairs, sure, sure


def features(s, t, seen, met):
    """Return what tells words that belong together: how often they meet, and beside whom, places, letters."""
    dice = np.array([[2 * met[a, b] / (seen[0][a] + seen[1][b]) for b in t] for a in s])
    rare = np.array([[min(seen[0][a], seen[1][b]) < 4 for b in t] for a in s])
    apart = abs(np.arange(len(s))[:, None] / len(s) - np.arange(len(t)) / len(t))
    near, around = np.exp(-apart * len(s) / 2), np.pad(dice, 1)
    best = [dice / dice.max(axis=axis, keepdims=True) for axis in (0, 1)]
    alike = [np.array([[a[:n] == b[:n] for b in t] for a in s]) for n in (2, 3, 4, 99)]
    met_often = [rare, ~rare, dice * rare, dice * ~rare, dice**2, near * dice, *best, *(one == 1 for one in best)]
    places = [around[:-2, :-2], around[2:, 2:], apart, apart**0.5, near]
    return np.stack([*met_often, *places, *alike], axis=2).astype(float)


def known(shape, sure, possible):
    """Return the links to learn from: 1, 0, and -1 where a link is possible, or one of several of a word."""
    y = np.zeros(shape, dtype=int)
    for i, j in [*sorted(sure), *possible]:
        y[i, j] = y[i, j] or (1 if (i, j) in sure and max(*y[i], *y[:, j]) < 1 else -1)
    return y


def main():
    pairs, sure, possible = read(os.environ.get("SSVM_DATA"))
    n = 100 if len(pairs) > 100 else 40
    seen = [Counter(word for pair in pairs for word in set(pair[side])) for side in (0, 1)]
    met = Counter((a, b) for source, target in pairs for a in set(source) for b in set(target))
    X = [features(*pair, seen, met) for pair in pairs]
    Y = [known(x.shape[:2], *links) for x, *links in zip(X, sure, possible, strict=True)]
    svm = StructuredSVM(Align, C=1.0, tol=0.01).fit(X[:n], Y[:n])
    found = [set(map(tuple, np.argwhere(y).tolist())) for y in svm.predict(X[n:])]
    hits = [sum(len(f & links) for f, links in zip(found, right[n:], strict=True)) for right in (sure, possible)]
    error = 1 - sum(hits) / (sum(map(len, found)) + sum(map(len, sure[n:])))
    print(f"{n} pairs to train on, backend {svm.report_.plan.backend}, gap {svm.report_.relative_gap:.1%}")
    print(f"alignment error rate on {len(found)} pairs: {error:.1%}")


if __name__ == "__main__":
    main()
