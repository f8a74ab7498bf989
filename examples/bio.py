"""Rule out impossible tags: phrases as B(egin), I(nside), O(utside), with the rules of such tags and without.

    python examples/bio.py [FILE.png]       made-up sentences; FILE.png shows the tags of a new one
    SSVM_DATA=folder python examples/bio.py                CoNLL-2000: 500 sentences to train on, 500 to test
"""

import os
from itertools import pairwise

import numpy as np

from ssvm_dsl import BIO, Attributes, Dim, Factor, Forbid, Hamming, Label, Model, StructuredSVM, chain
from ssvm_dsl.datasets import CHUNK_TAGS, chunk_attributes, chunk_f1, load_conll2000
from ssvm_dsl.report import plot_segments, save_for_script

TAGS = CHUNK_TAGS if os.environ.get("SSVM_DATA") else ["O", "B-PER", "I-PER", "B-LOC", "I-LOC"]
NAMES = {"PER": ["anna", "bert", "carl", "dora", "edda", "fulda"], "LOC": ["aachen", "bonn", "carl", "dora", "fulda"]}


class Free(Model):
    T = Dim()
    words = Attributes(T)
    y = Label(T, TAGS)
    emit = Factor(y, features=words)
    trans = Factor(chain(y))
    loss = Hamming(y)


class Legal(Free):
    inside = Forbid(chain(Free.y), BIO(Free.y))
    begin = Forbid(Free.y.at(0), BIO(Free.y))


def made_up(n, seed):
    """Return (attributes, tags) of sentences in which names of two kinds overlap, and follow each other."""
    rng, X, Y = np.random.default_rng(seed), [], []
    for _ in range(n):
        words, tags = [], []
        for kind in rng.permutation(["PER", "LOC", "PER", "LOC"]):
            k = int(rng.integers(1, 4))
            words += [str(rng.choice(["saw", "in", "and"])), *rng.choice(NAMES[kind], size=k).tolist()]
            tags += ["O", f"B-{kind}", *[f"I-{kind}"] * (k - 1)]
        seen = ["", *(word if rng.random() < 0.8 else "?" for word in words)]
        X.append([[f"w={b}", f"before={a}"] for a, b in pairwise(seen)])
        Y.append(tags)
    return X, Y


def main():
    train, test = made_up(40, seed=0), made_up(200, seed=1)
    if os.environ.get("SSVM_DATA"):
        parts = (zip(*part[:500], strict=True) for part in load_conll2000())
        train, test = ((list(map(chunk_attributes, words, tags)), list(y)) for words, tags, y in parts)
    shown = {"true": test[1][0]}
    for model in (Free, Legal):
        found = StructuredSVM(model, C=1.0, tol=0.001, random_state=0).fit(*train).predict(test[0])
        shown[model.__name__] = found[0]
        broken = sum(b[0] == "I" and a[1:] != b[1:] for tags in found for a, b in pairwise(["O", *tags]))
        print(f"{model.__name__:6} {broken:3} tags that cannot be; F1 of phrases {chunk_f1(test[1], found):.2f}")
    save_for_script(plot_segments, shown, outside="O")


if __name__ == "__main__":
    main()
