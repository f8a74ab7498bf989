"""
Models of the catalogue
=======================

Two models of ``examples/catalogue``: what they join, and what they find.
"""

# %%
# A skip-chain: words 0, 3 and 5 are the same, so that their labels have factors, too.

import numpy as np
from graphs import Contrast
from sequences import SkipChain

from ssvm_dsl import StructuredSVM, ground
from ssvm_dsl.report import plot_factor_graph, plot_label_maps

words = np.array([7, 1, 2, 7, 3, 7, 4])
plot_factor_graph(ground(SkipChain, [{"x": np.zeros((len(words), 3)), "word": words}]))

# %%
# Labels of images under known weights, and what a model finds that has learnt from twenty others.


def image(rng):
    """Return an image of two channels: smooth patches, and noise."""
    patches = np.kron(rng.normal(size=(5, 6, 2)), np.ones((4, 4, 1)))
    return {"x": patches + 0.5 * rng.normal(size=patches.shape)}


rng = np.random.default_rng(0)
X = [image(rng) for _ in range(21)]
truth = StructuredSVM.from_weights(Contrast, {"unary": [[0.5, -0.5], [-0.5, 0.5]], "right": [1.0, 0.5]})
Y = truth.predict(X)
svm = StructuredSVM(Contrast, tol=0.05, random_state=0).fit(X[:20], Y[:20])
alone = StructuredSVM.from_weights(Contrast, {"unary": svm.weights_["unary"], "right": [0.0, 0.0]})
plot_label_maps({"true": Y[20], "learnt": svm.predict(X[20:])[0], "pixels alone": alone.predict(X[20:])[0]})
