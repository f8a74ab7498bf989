"""Find the heads of words: directed trees (Chu-Liu-Edmonds) and projective ones (Eisner).

    python examples/dependency.py                      sentences of a toy grammar
    SSVM_DATA=folder python examples/dependency.py     the WSJ sample: folder/sequences/dependency_treebank.zip
"""

import os
import zipfile
from zlib import crc32

import numpy as np
from scipy.sparse import csr_array

from ssvm_dsl import Arborescence, Dim, Factor, Hamming, Input, Label, Model, ProjectiveTree, StructuredSVM

TOY = ["the/DT/3 old/JJ/3 w{}/NN/4 w{}/VB/0 a/DT/6 w{}/NN/4", "w{}/NN/2 w{}/VB/0 w{}/NN/2 with/IN/3 the/DT/6 w{}/NN/4"]


class Heads(Model):
    T = Dim()
    x = Input(T, T, 2**18, sparse=True)  # a row for each (word, head)
    r = Input(T, 2**18, sparse=True)  # a row for each word with the root for its head
    head = Label(T, over=T, null=True)
    arc = Factor(head, features=x)
    root = Factor(head.is_(None), features=r, tie=arc)
    tree = Arborescence(head, single_root=True)
    loss = Hamming(head)


class Projective(Heads):
    tree = ProjectiveTree(Heads.head, single_root=True)


def read(folder):
    """Return sentences as lists of (word, part of speech, head); heads count from 1, 0 is the root."""
    if not folder:
        numbers = np.random.default_rng(0).integers(9, size=(60, 4))
        return [[token.split("/") for token in TOY[k % 2].format(*n).split()] for k, n in enumerate(numbers)]
    with zipfile.ZipFile(f"{folder}/sequences/dependency_treebank.zip") as z:
        text = "\n\n".join(z.read(name).decode() for name in sorted(z.namelist()) if name.endswith(".dp"))
    blocks = ([line.split() for line in block.splitlines() if line] for block in text.split("\n\n"))
    return [one for one in blocks if len(one) <= 30 and [row[2] for row in one].count("0") == 1][:2000]


def rows(sentence):
    """Return hashed features of each (word, head), and of each word below the root: words, tags, distance."""
    words, tags, _ = zip(*sentence, strict=True)
    w, p = (np.array([crc32(one.encode()) for one in ("ROOT", *side)], np.uint64) for side in (words, tags))
    d, h = np.arange(1, len(w))[:, None], np.arange(len(w))[None, :]
    far = (np.sign(h - d) * np.digitize(abs(h - d), [2, 3, 4, 6, 10]) + 9).astype(np.uint64)
    left, right = np.roll(p, 1), np.roll(p, -1)
    parts = [(p[h], p[d]), (w[h], p[d]), (p[h], w[d]), (w[h], w[d]), (p[h], p[d], far), (w[d], far), (p[d], far)]
    parts += [(p[h], p[d], right[h], left[d]), (p[h], p[d], left[h], right[d]), (p[h], p[d], left[d], right[d])]
    codes = np.zeros((*far.shape, len(parts)), dtype=np.uint64)
    for k, part in enumerate(parts):
        for code in (np.uint64(k), *part):
            codes[..., k] = (codes[..., k] ^ code) * np.uint64(0x9E3779B97F4A7C15)
    columns = (codes >> np.uint64(46)).astype(np.int64)
    tables = columns[:, 1:].reshape(-1, len(parts)), columns[:, 0]
    ends = [np.arange(len(table) + 1) * len(parts) for table in tables]
    return [csr_array((np.ones(t.size), t.ravel(), end), (len(t), 2**18)) for t, end in zip(tables, ends, strict=True)]


def main():
    sentences = read(os.environ.get("SSVM_DATA"))
    X = [dict(zip("xr", rows(one), strict=True)) for one in sentences]
    Y = [np.array([int(row[2]) - 1 for row in one]) for one in sentences]
    n = len(X) * 3 // 4
    for model in (Heads, Projective):
        svm = StructuredSVM(model, C=0.1, tol=0.05).fit(X[:n], Y[:n])
        print(f"{model.__name__:10} {svm.report_.plan.backend:12} gap {svm.report_.relative_gap:.1%}", end="  ")
        print(f"right heads in {len(X) - n} new sentences: {svm.score(X[n:], Y[n:]):.1%}")


if __name__ == "__main__":
    main()
