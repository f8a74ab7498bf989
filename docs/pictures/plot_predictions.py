"""
Predictions as pictures
=======================

Segments, dependency trees, parse trees, matchings, label maps, and what a score is made of, beside the truth.
"""

# %%
# Segments of a sentence, one colour a class.

import numpy as np

from ssvm_dsl import Dim, Factor, Hamming, Input, Label, Model, ParseTree, StructuredSVM, chain
from ssvm_dsl.datasets import make_chains
from ssvm_dsl.report import (
    plot_contributions,
    plot_heads,
    plot_label_maps,
    plot_links,
    plot_marginals,
    plot_segments,
    plot_tree,
)  # fmt: skip

WORDS = ["she", "can", "read", "the", "letter", "in", "the", "garden"]
TRUTH = [(0, 1, "NP"), (1, 3, "VP"), (3, 5, "NP"), (5, 6, "PP"), (6, 8, "NP")]
FOUND = [(0, 1, "NP"), (1, 3, "VP"), (3, 8, "NP")]
plot_segments({"true": TRUTH, "predicted": FOUND}, WORDS)

# %%
# The heads of its words: the preposition hangs from the wrong word, so its arc is red, and the true one is dashed.

plot_heads(WORDS, [2, 2, None, 4, 2, 4, 7, 5], [2, 2, None, 4, 2, 2, 7, 5])

# %%
# A parse tree beside the true one: symbols over words that the truth does not join are red.

VERB = [["V", "read"], ["NP", ["D", "the"], ["N", "letter"]]]
PLACE = ["PP", ["P", "in"], ["NP", ["D", "the"], ["N", "garden"]]]
truth = ParseTree.of(["S", ["PR", "she"], ["VP", ["VP", *VERB], PLACE]])
found = ParseTree.of(["S", ["PR", "she"], ["VP", VERB[0], ["NP", VERB[1], PLACE]]])
plot_tree(found, truth)

# %%
# A matching of words of two languages.

plot_links(WORDS[:5], ["elle", "peut", "lire", "la", "lettre"], [(0, 0), (1, 1), (2, 2), (3, 3), (4, 3)],
           truth=[(0, 0), (1, 1), (2, 2), (3, 3), (4, 4)])  # fmt: skip

# %%
# A grid beside its truth.

rows, columns = np.mgrid[:24, :24]
right = np.where(columns > 18, 2, (rows - 12) ** 2 + (columns - 9) ** 2 < 49)
noisy = np.where(np.random.default_rng(0).random(right.shape) < 0.08, 0, right)
plot_label_maps({"truth": right, "prediction": noisy, "mistakes": (right != noisy).astype(int)})

# %%
# What the score of a predicted labelling is made of, by position.


class Word(Model):
    T = Dim()
    x = Input(T, 5)
    y = Label(T, 3)
    emit = Factor(y, features=x)
    trans = Factor(chain(y))
    loss = Hamming(y)


X, Y = make_chains(40, noise=1.5, random_state=0)
svm = StructuredSVM(Word, C=0.5, random_state=0).fit(X, Y)
plot_contributions(svm.explain(X[0]).by("feature"))

# %%
# Probabilities of the classes along a sequence.

crf = StructuredSVM(Word, C=0.5, risk="log", trainer="lbfgs", random_state=0).fit(X, Y)
plot_marginals(crf.predict_marginals(X[:1])[0], range(3))
