"""Find names in sentences: segments, scored by the whole name, its length, its first and its last word.

    python examples/names.py [FILE.png]                FILE.png shows the segments of a new sentence
"""

import numpy as np

from ssvm_dsl import Dim, Factor, Feature, Hamming, Input, Label, Model, SpanLength, StructuredSVM, chain, spans
from ssvm_dsl.report import plot_segments, save_for_script

SEEN = {"the": [0, 0, 0], "saw": [0, 0, 0], "Mrs": [1, 1, 0], "Ltd": [1, 0, 1]}  # capital letter, title, suffix


def ends(x, start, end):
    """The first and last word of each span, and whether all its words have capital letters."""
    capitals = np.cumsum(np.r_[0.0, x[:, 0]])
    return np.c_[x[start], x[end - 1], capitals[end] - capitals[start] == end - start]


class Names(Model):
    T = Dim()
    x = Input(T, 3)
    y = Label(T, ["other", "person", "company"], segments=4)
    word = Factor(y, features=x)
    name = Factor(spans(y), features=[SpanLength(spans(y)), Feature(ends, spans(y), width=7)])
    follow = Factor(chain(y))
    loss = Hamming(y)


def sentence(rng):
    """Return (words, segments): persons are one or two words after a title, companies two or three before a suffix."""
    words, segments = [], []
    while len(words) < 12:
        kind, start = str(rng.choice(["other", "other", "person", "company"])), len(words)
        if kind == "other":
            words.append(str(rng.choice(["the", "saw"])))
        elif kind == "person":
            words += ["Mrs"] * int(rng.random() < 0.7) + ["Bell"] * int(rng.integers(1, 3))
        else:
            words += ["Bell"] * int(rng.integers(2, 4)) + ["Ltd"]
        segments.append((start, len(words), kind))
    return words, segments


def main():
    data = list(map(sentence, [np.random.default_rng(0)] * 80))
    X = [np.array([SEEN.get(word, [1, 0, 0]) for word in words], dtype=float) for words, _ in data]
    Y = [segments for _, segments in data]
    svm = StructuredSVM(Names, C=1.0, random_state=0).fit(X[:40], Y[:40])
    found = svm.predict(X[40:])
    right = sum(len(set(a) & set(b)) for a, b in zip(found, Y[40:], strict=True))
    print(f"backend {svm.report_.plan.backend}, gap {svm.report_.relative_gap:.1%}")
    print(f"segments found in 40 new sentences: {right / sum(map(len, Y[40:])):.1%}")
    print(" | ".join(f"{' '.join(data[40][0][a:b])} ({kind})" for a, b, kind in found[0]))
    save_for_script(plot_segments, {"true": Y[40], "predicted": found[0]}, data[40][0], "other")


if __name__ == "__main__":
    main()
