"""
Weights of a word recogniser
============================

A model that reads handwritten words has two factors.  ``emit`` has one weight for each letter and pixel, so its weights
are pictures of letters.  ``trans`` has one weight for each pair of successive letters.
"""

# %%
# The model of the README, trained on one tenth of the letters.

import matplotlib.pyplot as plt
import numpy as np

from ssvm_dsl import Dim, Factor, Hamming, Input, Label, Model, StructuredSVM, chain
from ssvm_dsl.datasets import load_letters
from ssvm_dsl.report import plot_confusion, plot_marginals, plot_transitions, plot_weights

LETTERS = "abcdefghijklmnopqrstuvwxyz"


class OCR(Model):
    T = Dim()
    x = Input(T, 128)
    y = Label(T, LETTERS)
    emit = Factor(y, features=x)
    trans = Factor(chain(y))
    loss = Hamming(y)


X, Y, X_test, Y_test = load_letters(fold=1)
svm = StructuredSVM(OCR, C=0.1, random_state=0).fit(X, Y)

# %%
# What one word looks like, what the model reads, and what was written.

word = 3
fig, axes = plt.subplots(1, len(X_test[word]), figsize=(8, 1.8))
for ax, image, found, true in zip(
    axes, X_test[word], svm.predict(X_test[word : word + 1])[0], Y_test[word], strict=True
):
    ax.imshow(image.reshape(16, 8), cmap="Greys")
    ax.set_title(f"{found} ({true})", color="black" if found == true else "red")
    ax.axis("off")

# %%
# The weights of each letter, as pictures: red pixels speak for the letter, blue ones against it.

emit = svm.weights_[OCR.emit].reshape(26, 16, 8)
fig, axes = plt.subplots(2, 13, figsize=(9, 3))
for ax, letter, image in zip(axes.flat, LETTERS, emit, strict=True):
    ax.imshow(image, cmap="RdBu_r", vmin=-np.abs(emit).max(), vmax=np.abs(emit).max())
    ax.set_title(letter)
    ax.axis("off")

# %%
# The weights of pairs of letters, as a matrix and as a graph of the largest ones.

plot_weights(svm.weights_[OCR.trans], *svm.weights_.names(OCR.trans))

# %%

fig, ax = plt.subplots(figsize=(6, 6))
plot_transitions(svm.weights_[OCR.trans], LETTERS, n_edges=20, ax=ax)

# %%
# Which letters are taken for which.

fig, ax = plt.subplots(figsize=(6.5, 5.5))
plot_confusion(Y_test, svm.predict(X_test), classes=list(LETTERS), ax=ax)

# %%
# A conditional random field has probabilities: how sure it is of each letter of the word above.

crf = StructuredSVM(OCR, C=0.1, risk="log", trainer="lbfgs").fit(X, Y)
fig, ax = plt.subplots(figsize=(6, 5))
plot_marginals(crf.predict_marginals(X_test[word : word + 1])[0], list(LETTERS), Y_test[word], ax=ax)
