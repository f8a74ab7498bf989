"""
Models as pictures
==================

``plot_factor_graph`` draws the declaration of a model, and the factor graph of one example.
"""

# %%
# A model of label maps: one label for each pixel, and neighbours that tend to agree.

import numpy as np

from ssvm_dsl import POTTS, Dim, Factor, Hamming, Input, Label, Model, complete, ground, pairs
from ssvm_dsl.report import plot_factor_graph


class Seg(Model):
    H, W = Dim(), Dim()
    x = Input(H, W, 12)
    y = Label(H, W, 21)
    data = Factor(y, features=x)
    horiz = Factor(pairs(y, W), form=POTTS, nonneg=True)
    vert = Factor(pairs(y, H), form=POTTS, nonneg=True)
    loss = Hamming(y, ignore=255)


plot_factor_graph(Seg)

# %%
# The factor graph of an image of three by four pixels: circles are variables, squares are factors.

plot_factor_graph(ground(Seg, [np.zeros((3, 4, 12))]))


# %%
# Six labels of a picture, each two of which are joined by a factor of their own.


class Scene(Model):
    K = Dim(6)
    x = Input(294)
    y = Label(K, 2)
    unary = Factor(y, features=x, per=K)
    pair = Factor(complete(y), per="edge")
    loss = Hamming(y)


plot_factor_graph(ground(Scene, [np.zeros(294)]))
