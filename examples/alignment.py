"""Align words with their translation: a matching with diagonals, learned from a few sentence pairs.

    python examples/alignment.py [FILE.png]            made-up sentence pairs; FILE.png shows the links of a new one
    SSVM_DATA=folder python examples/alignment.py      Hansards: 100 pairs to train on, 347 to test; 10 s
"""

import os

import numpy as np

from ssvm_dsl import Cost, Dim, Factor, Input, Label, Matching, Model, StructuredSVM, pairs
from ssvm_dsl.datasets import link_features, load_alignments
from ssvm_dsl.report import plot_links, save_for_script


class Align(Model):
    I, J = Dim(), Dim()
    x, y = Input(I, J, 19), Label(I, J, 2, unknown=-1)
    sim = Factor(y.is_(1), features=x)
    both = Factor(pairs(y, I, J), form=[[[0, 0], [0, 1]]])  # successive words linked with successive words
    one = Matching(y.is_(1), rows=I, cols=J)
    loss = Cost(y, [[0, 1], [2, 0]])  # a missing link is worse than a wrong one


def read():
    """Return sentence pairs, and of each the sure links, and all that are possible."""
    if os.environ.get("SSVM_DATA"):
        data = load_alignments()
        return [(one.source, one.target) for one in data], [one.sure for one in data], [one.possible for one in data]
    rng = np.random.default_rng(0)
    sources = [[f"w{k}" for k in rng.zipf(1.4, int(rng.integers(3, 9)))] for _ in range(60)]
    orders = [np.argsort(np.arange(len(one)) + rng.random(len(one)) * 1.5).tolist() for one in sources]
    sure = [{(k, j) for j, k in enumerate(order)} for order in orders]  # neighbours change places now and then
    return [(w, [w[k] + "e" for k in order]) for w, order in zip(sources, orders, strict=True)], sure, sure


def known(shape, sure, possible):
    """Return the links to learn from: 1, 0, and -1 where a link is possible, or one of several of a word."""
    y = np.zeros(shape, dtype=int)
    for i, j in [*sorted(sure), *possible]:
        y[i, j] = y[i, j] or (1 if (i, j) in sure and max(*y[i], *y[:, j]) < 1 else -1)
    return y


def main():
    pairs, sure, possible = read()
    X, n = link_features(pairs), 100 if len(pairs) > 100 else 40
    Y = [known(x.shape[:2], *links) for x, *links in zip(X, sure, possible, strict=True)]
    quick = {"guarantee": "bound", "backend": "decompose", "backend_options": {"max_nodes": 1}}  # no search
    svm = StructuredSVM(Align, C=1.0, tol=0.02, **quick).fit(X[:n], Y[:n])
    found = [set(map(tuple, np.argwhere(y).tolist())) for y in svm.predict(X[n:])]
    hits = [sum(len(f & links) for f, links in zip(found, right[n:], strict=True)) for right in (sure, possible)]
    print(f"{n} pairs to train on, backend {svm.report_.plan.backend}, gap {svm.report_.relative_gap:.1%}")
    print(f"alignment error rate on {len(found)} pairs: {1 - sum(hits) / sum(map(len, found + sure[n:])):.1%}")
    save_for_script(plot_links, *pairs[n + 7], found[7], sure[n + 7])


if __name__ == "__main__":
    main()
