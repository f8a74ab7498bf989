"""Find genes in DNA: a gene is a segment of a made-up strand, scored by its ends, its length and its bases.

    python examples/genes.py [FILE.png]                FILE.png shows the segments of a new strand
"""

import numpy as np

from ssvm_dsl import Dim, Factor, Feature, Hamming, Input, Label, Model, SpanLength, StructuredSVM, chain, spans
from ssvm_dsl.report import plot_segments, save_for_script

BASES = "ACGT"


def ends(x, start, end):
    """Whether each span begins with ATG, ends with TAA, and is made of whole triples of bases."""
    strand = "".join(BASES[k] for k in x.argmax(axis=1))
    found = [(strand[a : a + 3] == "ATG", strand[b - 3 : b] == "TAA") for a, b in zip(start, end, strict=True)]
    return np.c_[np.array(found, dtype=float), (end - start) % 3 == 0]


class Genes(Model):
    T = Dim()
    x = Input(T, 4)
    y = Label(T, ["other", "gene"], segments=30)
    base = Factor(y, features=x)
    span = Factor(spans(y), features=[SpanLength(spans(y)), Feature(ends, spans(y), width=3)])
    follow = Factor(chain(y))
    loss = Hamming(y)


def strand(rng):
    """Return bases and segments: genes of 3 to 8 triples after ATG, rich in G and C, among bases of all kinds."""
    bases, segments = "", []
    for kind in ["other", "gene"] * 3 + ["other"]:
        n, start = int(rng.integers(8, 28)) if kind == "other" else 3 * int(rng.integers(3, 9)), len(bases)
        share = [0.3, 0.2, 0.2, 0.3] if kind == "other" else [0.2, 0.3, 0.3, 0.2]
        some = "".join(rng.choice(list(BASES), size=n, p=share))
        bases += some if kind == "other" else f"ATG{some[: n - 6]}TAA"
        segments.append((start, len(bases), kind))
    return bases, segments


def main():
    rng = np.random.default_rng(0)
    data = [strand(rng) for _ in range(90)]
    X, Y = [np.eye(4)[[BASES.index(base) for base in bases]] for bases, _ in data], [one for _, one in data]
    svm = StructuredSVM(Genes, C=10.0, tol=0.01, random_state=0).fit(X[:50], Y[:50])
    found = [{one for one in y if one[2] == "gene"} for y in svm.predict(X[50:])]
    right = sum(len(genes & set(y)) for genes, y in zip(found, Y[50:], strict=True))
    print(f"backend {svm.report_.plan.backend}, gap {svm.report_.relative_gap:.1%}")
    print(f"genes in {len(found)} new strands: {right / (3 * len(found)):.0%} found with both ends,", end=" ")
    print(f"{right / sum(map(len, found)):.0%} of those predicted are right")
    save_for_script(plot_segments, {"true": Y[50], "predicted": svm.predict(X[50:51])[0]}, outside="other")


if __name__ == "__main__":
    main()
