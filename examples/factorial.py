"""Tag and chunk at once: two layers of labels, joined at every word.

    python examples/factorial.py [FILE.png]            made-up sentences, a third of the words lost; FILE.png: a new one
    SSVM_DATA=folder python examples/factorial.py      CoNLL-2000: 300 sentences to learn from, 300 to test
"""

import os
from itertools import pairwise

import numpy as np

from ssvm_dsl import Attributes, Dim, Factor, Hamming, Label, Model, StructuredSVM, chain, cross
from ssvm_dsl.datasets import CHUNK_TAGS, chunk_f1, load_conll2000
from ssvm_dsl.report import plot_segments, save_for_script

TAGS = "# $ '' ( ) , . : `` CC CD DT EX FW IN JJ JJR JJS MD NN NNP NNPS NNS PDT POS PRP PRP$ RB RBR RBS RP SYM TO UH"
TAGS = f"{TAGS} VB VBD VBG VBN VBP VBZ WDT WP WP$ WRB".split()
PHRASES = {"NP": ["DT NN", "DT JJ NN", "JJ NNS", "PRP"], "VP": ["VBD", "MD VB", "MD RB VB"], "PP": ["IN"]}


class Apart(Model):
    T = Dim()
    words = Attributes(T)
    tag = Label(T, TAGS)
    chunk = Label(T, CHUNK_TAGS)
    tagged = Factor(tag, features=words)
    chunked = Factor(chunk, features=words)
    tags = Factor(chain(tag))
    chunks = Factor(chain(chunk))
    loss = Hamming(tag) + Hamming(chunk)


class Together(Apart):
    both = Factor(cross(Apart.tag, Apart.chunk))


def sentence(rng):
    """Return words, tags and chunks of a made-up sentence: phrases in any order, four words for each tag."""
    kinds = [(kind, str(rng.choice(PHRASES[kind])).split()) for kind in rng.choice(list(PHRASES), size=5).tolist()]
    tags, chunks = zip(*((t, f"{'BI'[k > 0]}-{kind}") for kind, some in kinds for k, t in enumerate(some)), strict=True)
    return [f"{tag}{rng.integers(4)}" if rng.random() < 0.7 else "?" for tag in tags], tags, chunks


def main():
    rng, n = np.random.default_rng(0), 300 if os.environ.get("SSVM_DATA") else 100
    parts = [p[:n] for p in load_conll2000()] if n == 300 else [[sentence(rng) for _ in range(n)] for _ in range(2)]
    X, X_test = ([[[f"w={b}", f"e={b[-3:]}", f"a={a}"] for a, b in pairwise(["", *w])] for w, _, _ in p] for p in parts)
    Y, Y_test = ([{"tag": tags, "chunk": chunks} for _, tags, chunks in part] for part in parts)
    known = {pair for y in Y for pair in zip(y["tag"], y["chunk"], strict=True)}
    for model in (Apart, Together):
        svm = StructuredSVM(model, C=0.1, tol=0.05, random_state=0).fit(X, Y)
        found = svm.predict(X_test)
        odd = sum(pair not in known for y in found for pair in zip(y["tag"].tolist(), y["chunk"].tolist(), strict=True))
        f1 = chunk_f1([y["chunk"] for y in Y_test], [y["chunk"] for y in found])
        print(f"{model.__name__:9}{svm.report_.plan.backend:14} right labels {svm.score(X_test, Y_test):.1%},", end=" ")
        print(f"F1 of phrases {f1:.3f}; {odd} words whose labels contradict each other")
    sides = {"true": Y_test[0], "found": found[0]}
    shown = {f"{name} {part}": y[part] for part in ("tag", "chunk") for name, y in sides.items()}
    save_for_script(plot_segments, shown, outside="O")


if __name__ == "__main__":
    main()
