"""Find phrases in sentences, with named features of words, as CRFsuite takes them.

    python examples/chunking.py                        a toy corpus
    SSVM_DATA=folder python examples/chunking.py       800 sentences of folder/sequences/conll2000.zip
"""

import os
import zipfile
from pathlib import Path

from ssvm_dsl import Attributes, Dim, Factor, Hamming, Label, Model, StructuredSVM, chain

CORPUS = """
the/DT/B-NP old/JJ/I-NP man/NN/I-NP sold/VB/B-VP a/DT/B-NP small/JJ/I-NP boat/NN/I-NP
she/PR/B-NP quickly/RB/B-VP read/VB/I-VP the/DT/B-NP letter/NN/I-NP in/IN/B-PP the/DT/B-NP garden/NN/I-NP
a/DT/B-NP young/JJ/I-NP teacher/NN/I-NP with/IN/B-PP grey/JJ/B-NP hair/NN/I-NP never/RB/B-VP smiled/VB/I-VP
they/PR/B-NP have/MD/B-VP often/RB/I-VP seen/VB/I-VP him/PR/B-NP at/IN/B-PP the/DT/B-NP station/NN/I-NP
the/DT/B-NP train/NN/I-NP will/MD/B-VP leave/VB/I-VP before/IN/B-PP noon/NN/B-NP
we/PR/B-NP can/MD/B-VP buy/VB/I-VP fresh/JJ/B-NP bread/NN/I-NP from/IN/B-PP the/DT/B-NP baker/NN/I-NP
my/DT/B-NP sister/NN/I-NP lives/VB/B-VP near/IN/B-PP a/DT/B-NP very/RB/I-NP large/JJ/I-NP lake/NN/I-NP
old/JJ/B-NP friends/NN/I-NP rarely/RB/B-VP write/VB/I-VP long/JJ/B-NP letters/NN/I-NP
"""
PHRASES = ["NP", "VP", "PP", "ADJP", "ADVP", "SBAR", "PRT", "CONJP", "INTJ", "LST", "UCP"]
TAGS = ["O"] + [f"{place}-{phrase}" for phrase in PHRASES for place in "BI"]


class Chunks(Model):
    T = Dim()
    words = Attributes(T)
    y = Label(T, TAGS)
    emit = Factor(y, features=words)
    trans = Factor(chain(y))
    loss = Hamming(y)


def features(sentence):
    """Return the named features of each position: the word, its kind, and those of its neighbours."""
    words, kinds = [word for word, _, _ in sentence], [kind for _, kind, _ in sentence]
    out = []
    for t, word in enumerate(words):
        names = ["bias", f"word={word.lower()}", f"suffix={word[-3:].lower()}", f"kind={kinds[t]}"]
        for step in (-1, 1):
            inside = 0 <= t + step < len(words)
            names += [f"kind[{step}]={kinds[t + step]}" if inside else f"edge[{step}]"]
        out.append(names)
    return out


def read():
    """Return (training sentences, test sentences): lists of (word, kind, chunk)."""
    folder = os.environ.get("SSVM_DATA")
    if not folder:
        lines = CORPUS.strip().splitlines()
        toy = [[token.split("/") for token in line.split()] for line in lines]
        return toy[:5], toy[5:]
    with zipfile.ZipFile(Path(folder) / "sequences" / "conll2000.zip") as archive:
        texts = [archive.read(f"conll2000/{part}.txt").decode() for part in ("train", "test")]
    train, test = [[[line.split() for line in block.splitlines()] for block in t.strip().split("\n\n")] for t in texts]
    return train[:800], test


def main():
    train, test = read()
    X, X_test = [features(s) for s in train], [features(s) for s in test]
    Y, Y_test = [[chunk for _, _, chunk in s] for s in train], [[chunk for _, _, chunk in s] for s in test]
    svm = StructuredSVM(Chunks, C=0.1, tol=0.01, random_state=0).fit(X, Y)
    print(f"{len(train)} sentences to train on, {svm.report_.n_weights} weights, gap {svm.report_.relative_gap:.1%}")
    print(f"right chunk tags on {len(test)} test sentences: {svm.score(X_test, Y_test):.1%}")
    for (word, kind, right), found in zip(test[0], svm.predict(X_test[:1])[0], strict=True):
        print(f"  {word:12} {kind:4} {found:6} {'' if found == right else 'should be ' + right}")


if __name__ == "__main__":
    main()
