"""Find phrases in sentences: named features of words, as CRFsuite takes them.

    python examples/chunking.py [FILE.png]             a toy corpus; FILE.png shows the phrases of a new sentence
    SSVM_DATA=folder python examples/chunking.py       CoNLL-2000: 8936 sentences of folder/sequences/conll2000.zip
"""

import os

from ssvm_dsl import Attributes, Dim, Factor, Hamming, Label, Model, StructuredSVM, chain
from ssvm_dsl.datasets import CHUNK_TAGS, chunk_attributes, chunk_f1, chunk_segments, load_conll2000
from ssvm_dsl.report import plot_segments, save_for_script

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


class Chunks(Model):
    T = Dim()
    words = Attributes(T)
    y = Label(T, CHUNK_TAGS)
    emit = Factor(y, features=words)
    trans = Factor(chain(y))
    loss = Hamming(y)


def read():
    """Return (training sentences, test sentences): each of words, parts of speech and chunk tags."""
    if os.environ.get("SSVM_DATA"):
        return load_conll2000()
    lines = CORPUS.strip().splitlines()
    toy = [tuple(zip(*(token.split("/") for token in line.split()), strict=True)) for line in lines]
    return toy[:5], toy[5:]


def main():
    train, test = read()
    X, X_test = [[chunk_attributes(words, kinds) for words, kinds, _ in part] for part in (train, test)]
    Y, Y_test = [[chunks for _, _, chunks in part] for part in (train, test)]
    svm = StructuredSVM(Chunks, C=0.1, tol=0.05, random_state=0).fit(X, Y)
    print(f"{len(train)} sentences to train on, {svm.report_.n_weights} weights, gap {svm.report_.relative_gap:.1%}")
    print(f"trained in {svm.report_.seconds:.1f} s; F1 of phrases {chunk_f1(Y_test, svm.predict(X_test)):.4f}")
    print(f"right chunk tags on {len(test)} test sentences: {svm.score(X_test, Y_test):.1%}")
    (words, _, right), found = test[0], svm.predict(X_test[:1])[0]
    for word, tag, true in zip(words, found, right, strict=True):
        print(f"  {word:12} {tag:6} {'' if tag == true else 'should be ' + true}")
    shown = {"true": chunk_segments(right), "predicted": chunk_segments(found)}
    save_for_script(plot_segments, shown, words, "O")


if __name__ == "__main__":
    main()
