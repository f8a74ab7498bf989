"""
Choosing C
==========

``C`` weighs errors on the training data against the size of the weights.  Three ways to choose it,
and a picture of each.
"""

# %%
# Cross-validation over a grid.  Points are means over the folds, bars are standard deviations.

import numpy as np

from ssvm_dsl import Dim, Factor, Hamming, Input, Label, Model, StructuredSVM, chain, grid_scores, regularization_path
from ssvm_dsl.datasets import make_chains
from ssvm_dsl.report import plot_grid, plot_path, plot_training


class Weather(Model):
    T = Dim()
    x = Input(T, 5)
    y = Label(T, 3)
    emit = Factor(y, features=x)
    trans = Factor(chain(y))
    loss = Hamming(y)


X, Y = make_chains(120, n_states=3, n_features=5, noise=2.0, random_state=0)
svm = StructuredSVM(Weather, tol=1e-2, random_state=0)
plot_grid(grid_scores(svm, {"C": np.logspace(-3, 1, 7).tolist()}, X[:80], Y[:80]))

# %%
# All values of ``C`` at once: between two points of the path the weights stay within 10 % of the best objective.

path = regularization_path(svm, X[:80], Y[:80], 1e-3, 1.0, epsilon=0.1, validation=(X[80:], Y[80:]))
points = [point for point, _ in path]
plot_path(points, [point.validation_score for point in points], name="share of right states")

# %%
# Scores on held-out examples during one fit.

early = StructuredSVM(Weather, C=1.0, tol=1e-4, random_state=0).fit(X[:80], Y[:80], validation=(X[80:], Y[80:]))
plot_training(early.report_, over="n_passes", what="validation")
