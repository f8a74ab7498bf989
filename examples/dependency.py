"""Find the head of each word: directed trees (Chu-Liu-Edmonds) and projective ones (Eisner).

    python examples/dependency.py [FILE.png]           sentences of a toy grammar; FILE.png shows a new tree
    SSVM_DATA=folder python examples/dependency.py     the WSJ sample: folder/sequences/dependency_treebank.zip
"""

import os

import numpy as np

from ssvm_dsl import Arborescence, Dim, Factor, Hamming, Input, Label, Model, ProjectiveTree, StructuredSVM
from ssvm_dsl.datasets import arc_features, load_dependency_treebank
from ssvm_dsl.report import plot_heads, save_for_script

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


def read():
    """Return sentences: words, parts of speech, and heads, -1 for the root."""
    if os.environ.get("SSVM_DATA"):
        sentences = load_dependency_treebank()
        return [one for one in sentences if len(one.words) <= 30 and sum(one.heads < 0) == 1][:2000]
    numbers = np.random.default_rng(0).integers(9, size=(60, 4))
    rows = [[token.split("/") for token in TOY[k % 2].format(*n).split()] for k, n in enumerate(numbers)]
    return [([w for w, _, _ in row], [p for _, p, _ in row], np.array([int(h) - 1 for _, _, h in row])) for row in rows]


def main():
    sentences = read()
    X = [dict(zip("xr", arc_features(words, pos), strict=True)) for words, pos, _ in sentences]
    Y = [heads for _, _, heads in sentences]
    n = len(X) * 3 // 4
    for model in (Heads, Projective):
        svm = StructuredSVM(model, C=0.1, tol=0.05).fit(X[:n], Y[:n])
        print(f"{model.__name__:10} {svm.report_.plan.backend:12} gap {svm.report_.relative_gap:.1%}", end="  ")
        print(f"right heads in {len(X) - n} new sentences: {svm.score(X[n:], Y[n:]):.1%}")
    save_for_script(plot_heads, sentences[n][0], svm.predict(X[n : n + 1])[0], Y[n])


if __name__ == "__main__":
    main()
