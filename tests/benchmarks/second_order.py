"""Dependency trees with and without factors over two arcs, on short sentences of the WSJ sample.

The second model adds to each arc's score those of two arcs to the same head and of an arc and the one above it, by tags
and sides, for triples of tags that the training sentences have.  Both train by ``bcfw`` on the same sentences, and all
sentences are tested: each by fits on the folds that it is not in.

    SSVM_DATA=folder make bench ARGS=second-order
"""

from __future__ import annotations

import argparse
import sys
from time import process_time
from zlib import crc32

import numpy as np
from scipy.sparse import csr_array

from ssvm_dsl import Arborescence, Dim, Edges, Factor, Hamming, Input, Label, Model, StructuredSVM, along
from ssvm_dsl.datasets import arc_features, load_dependency_treebank

#: Columns that features of two arcs are hashed to.
WIDTH = 2**16

#: Signs that are drawn for each sentence.
DRAWS = 10_000


class First(Model):
    T = Dim()
    x = Input(T, T, 2**18, sparse=True)
    r = Input(T, 2**18, sparse=True)
    head = Label(T, over=T, null=True)
    arc = Factor(head, features=x)
    root = Factor(head.is_(None), features=r, tie=arc)
    tree = Arborescence(head, single_root=True)
    loss = Hamming(head)


class Second(First):
    M = Dim()
    e = Edges(M, over=First.T, arity=4)  # rows (a, b, c, d): a points to b, and c to d
    f = Input(M, WIDTH, sparse=True)
    both = Factor(along(First.head, e), features=f)


def triples(n):
    """All (a, b, c, d) of two words with the same head on one side of it, and of a word, its head and the next one."""
    a, c, h = (one.ravel() for one in np.indices((n, n, n)))
    same = (a < c) & ((a - h) * (c - h) > 0)
    above = (a != c) & (a != h) & (c != h)  # a points to c, which points to h
    siblings = np.stack([a, h, c, h], axis=1)[same]
    chains = np.stack([a, c, c, h], axis=1)[above]
    return np.concatenate([siblings, chains]), np.repeat([0, 1], [len(siblings), len(chains)])


def named(pos, rows, kind):
    """The names of the features of each row: tags of all three words, and of the two lower ones, with sides."""
    code = np.array([crc32(tag.encode()) for tag in pos], dtype=np.uint64)
    a, b, c, d = rows.T
    third = np.where(kind == 0, c, d)
    side = (np.sign(a - b) * 3 + np.sign(c - d) + 8 + 16 * kind).astype(np.uint64)
    near = (np.abs(a - c) == 1).astype(np.uint64)
    parts = [(code[a], code[b], code[third], side), (code[a], code[third], side + np.uint64(64), near)]
    out = np.zeros((len(rows), len(parts)), dtype=np.uint64)
    for k, part in enumerate(parts):
        for one in part:
            out[:, k] = (out[:, k] ^ one) * np.uint64(0x9E3779B97F4A7C15) + np.uint64(k)
    return out


def grounded(sentences, train):
    """Inputs of both models; triples of tags that no training tree has are left out."""
    seen: set[int] = set()
    for _, pos, heads in sentences[:train]:
        rows, kind = triples(len(pos))
        there = (heads[rows[:, 0]] == rows[:, 1]) & (heads[rows[:, 2]] == rows[:, 3])
        seen.update(named(pos, rows[there], kind[there])[:, 0].tolist())
    X = []
    for words, pos, _ in sentences:
        rows, kind = triples(len(pos))
        names = named(pos, rows, kind)
        kept = np.isin(names[:, 0], np.array(sorted(seen), dtype=np.uint64))
        rows, columns = rows[kept], (names[kept] >> np.uint64(48)).astype(np.int64)
        ends = np.arange(len(rows) + 1) * columns.shape[1]
        features = csr_array((np.ones(columns.size), columns.ravel(), ends), (len(rows), WIDTH))
        x, r = arc_features(words, pos)
        X.append({"x": x, "r": r, "e": rows, "f": features})
    return X, [heads for _, _, heads in sentences]


def chance(better, worse, seed=0):
    """How often differences of sentences, each with a random sign, add up to as much: a paired test of both sides."""
    difference = better - worse
    signs = np.random.default_rng(seed).choice([-1.0, 1.0], size=(DRAWS, len(difference)))
    return (1 + int((np.abs(signs @ difference) >= abs(difference.sum())).sum())) / (1 + DRAWS)


def judged(model, options, X, Y, n):
    """Print gap and times of a fit on the first n sentences, and return which heads of each other one are right."""
    keys = "xr" if model is First else "xref"
    data = [{key: x[key] for key in keys} for x in X]
    svm, begin = StructuredSVM(model, **options), process_time()
    svm.fit(data[:n], Y[:n])
    fit, begin = process_time() - begin, process_time()
    right = [a == b for a, b in zip(svm.predict(data[n:]), Y[n:], strict=True)]
    print(
        f"{model.__name__:7} {svm.report_.plan.backend:12} gap {svm.report_.relative_gap:6.1%}"
        f"  right heads {np.concatenate(right).mean():.2%}"
        f"  CPU seconds: fit {fit:.1f}, predict {process_time() - begin:.1f}",
        flush=True,
    )
    return right


def main() -> None:
    """Print the share of right heads in sentences that were not trained on, of both models."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--folds", type=int, default=2)
    parser.add_argument("--longest", type=int, default=12)
    parser.add_argument("--passes", type=int, default=4)
    parser.add_argument("--C", type=float, default=0.1)
    parser.add_argument("--nodes", type=int, default=1, help="of each search of decompose; 1: training on bounds")
    args = parser.parse_args([] if sys.argv[0].endswith("run.py") else None)
    trees = [one for one in load_dependency_treebank() if 3 <= len(one.words) <= args.longest]
    trees = [(one.words, one.pos, one.heads) for one in trees if sum(one.heads < 0) == 1]
    folds = np.array_split(np.arange(len(trees)), args.folds)
    right, options = [], {"C": args.C, "max_passes": args.passes, "tol": 0.01, "random_state": 0, "n_threads": 1}
    loose = {"backend": "decompose", "guarantee": "bound", "backend_options": {"max_nodes": args.nodes}}
    print(
        f"{len(trees)} sentences of up to {args.longest} words, each judged by a fit without its fold of {args.folds}"
    )
    for model, more in ((First, {}), (Second, loose)):
        # the features of pairs are chosen by the training sentences of each fold
        shown = [None] * len(trees)
        for fold in folds:
            order = np.concatenate([np.setdiff1d(np.arange(len(trees)), fold), fold])
            n = len(trees) - len(fold)
            X, Y = grounded([trees[i] for i in order], n)
            found = judged(model, options | more, X, Y, n)
            for i, one in zip(fold, found, strict=True):
                shown[i] = one
        right.append(shown)
    first, second = (np.concatenate(one) for one in right)
    print(f"right heads: {first.mean():.2%} and {second.mean():.2%} of {len(first)}")
    print(f"heads that only the second has right: {(second & ~first).sum()}, only the first: {(~second & first).sum()}")
    by_sentence = [np.array([one.sum() for one in side], dtype=float) for side in right]
    print(f"chance of such a difference by signs of sentences drawn at random: {chance(*by_sentence[::-1]):.3f}")
