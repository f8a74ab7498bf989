"""Classify words by unseen parts: a latent chain of parts, and one label.

    python examples/latent_parts.py [FILE.png]         FILE.png shows the parts of new words

Words of class 0 have part a before part b, those of class 1 after it.  The mean of a word says nothing about its class;
the order of its parts says all, and no example shows which part is where.
"""

import numpy as np

from ssvm_dsl import Dim, Factor, Feature, Hamming, Input, Label, Latent, Model, StructuredSVM, chain, cross
from ssvm_dsl.report import plot_segments, save_for_script


def mean(x):
    return x.mean(axis=0)


class Whole(Model):
    T = Dim()
    x = Input(T, 4)
    y = Label(2)
    emit = Factor(y, features=Feature(mean, width=4))
    loss = Hamming(y)


class Parts(Model):
    T = Dim()
    x = Input(T, 4)
    h = Latent(T, 6)
    y = Label(2)
    emit = Factor(h, features=x)
    joint = Factor(cross(h, y))
    trans = Factor(chain(h))
    loss = Hamming(y)


def make_words(n, seed):
    """Return (positions of each word as rows of features, classes)."""
    rng, centres, X, Y = np.random.default_rng(seed), 3.0 * np.eye(3, 4), [], []
    for y in rng.integers(2, size=n).tolist():
        first, second = (0, 1) if y == 0 else (1, 0)
        parts = [first] * rng.integers(1, 3) + [2] + [second] * rng.integers(1, 3)
        X.append(centres[parts] + 0.8 * rng.normal(size=(len(parts), 4)))
        Y.append(y)
    return X, Y


def main():
    train, test = make_words(60, seed=2), make_words(60, seed=3)
    flat = StructuredSVM(Whole, random_state=0).fit(*train)
    svm = StructuredSVM(Parts, C=3.0, tol=0.02, random_state=0).fit(*train)
    print(f"without parts: {flat.score(*test):.1%} of {len(test[0])} new words right")
    print(f"with parts:    {svm.score(*test):.1%}")
    print("objective by round:", " ".join(f"{value:.1f}" for value in svm.report_.latent_objectives))
    parts = [["uvwxyz"[s] for s in word] for word in svm.latents(test[0][:6])]
    print("parts of the first words:", *map("".join, parts))
    save_for_script(plot_segments, {f"word {k + 1}, class {test[1][k]}": one for k, one in enumerate(parts)})


if __name__ == "__main__":
    main()
