"""Align the words of a sentence with those of its translation: a matching, learnt from a few aligned pairs.

    python examples/alignment.py                       made-up sentence pairs
    SSVM_DATA=folder python examples/alignment.py      Hansards: 100 pairs to train on, 347 to test
"""

import os
import re
from collections import Counter
from pathlib import Path

import numpy as np

from ssvm_dsl import Dim, Factor, Hamming, Input, Label, Matching, Model, StructuredSVM


class Align(Model):
    I, J = Dim(), Dim()
    x = Input(I, J, 9)
    y = Label(I, J, 2)
    sim = Factor(y.is_(1), features=x)
    one = Matching(y.is_(1), rows=I, cols=J)
    loss = Hamming(y)


def read(folder):
    """Return sentence pairs, and of each the sure links, and all that are possible."""
    if folder:
        texts, golds = ((Path(folder) / f"alignment/enfr.{name}").read_text() for name in ("src-tgt", "gold"))
        lines = [line.split() for line in golds.splitlines()]
        links = [{text: tuple(int(n) - 1 for n in re.split("[-p]", text)) for text in line} for line in lines]
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
    """Return what tells words that belong together: how often they meet, where they stand, how they begin."""
    dice = np.array([[2 * met[a, b] / (seen[0][a] + seen[1][b]) for b in t] for a in s])
    apart = abs(np.arange(len(s))[:, None] / len(s) - np.arange(len(t)) / len(t))
    alike = [np.array([[a[:n] == b[:n] for b in t] for a in s]) for n in (4, 99)]
    rare = np.array([[min(seen[0][a], seen[1][b]) < 4 for b in t] for a in s])
    return np.stack([rare, ~rare, dice * rare, dice * ~rare, dice**2, apart, apart**0.5, *alike], axis=2).astype(float)


def main():
    pairs, sure, possible = read(os.environ.get("SSVM_DATA"))
    n = 100 if len(pairs) > 100 else 40
    seen = [Counter(word for pair in pairs for word in set(pair[side])) for side in (0, 1)]
    met = Counter((a, b) for source, target in pairs for a in set(source) for b in set(target))
    X = [features(*pair, seen, met) for pair in pairs]
    Y = [np.zeros(x.shape[:2], dtype=int) for x in X]
    for y, links in zip(Y, sure, strict=True):
        for i, j in sorted(links):  # a matching has one link of a word at most
            y[i, j] = not y[i].any() and not y[:, j].any()
    svm = StructuredSVM(Align, C=1.0, tol=0.01).fit(X[:n], Y[:n])
    found = [set(map(tuple, np.argwhere(y).tolist())) for y in svm.predict(X[n:])]
    hits = [sum(len(f & links) for f, links in zip(found, right[n:], strict=True)) for right in (sure, possible)]
    error = 1 - sum(hits) / (sum(map(len, found)) + sum(map(len, sure[n:])))
    print(f"{n} pairs to train on, backend {svm.report_.plan.backend}, gap {svm.report_.relative_gap:.1%}")
    print(f"alignment error rate on {len(found)} pairs: {error:.1%}")


if __name__ == "__main__":
    main()
