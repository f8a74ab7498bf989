"""``make bench ARGS=fit-limits``: fits that a limit ends - how late they are, and what they certify.

Every row asks for more than there is time for.  Printed are the wall time of the call less what was spent on loading
code, the bounds of the objective, and how many examples were not looked at in time.  The objective at the weights that
are returned is computed again without a limit where a pass takes less than ``CHECK`` seconds.
"""

from __future__ import annotations

import argparse
import sys
import time
import warnings
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1]))

from limit_problems import complete_edges, grid_edges, large

from ssvm_dsl import (
    Dim,
    Factor,
    Given,
    Hamming,
    Input,
    Label,
    Latent,
    Model,
    ProjectiveTree,
    StructuredSVM,
    chain,
    complete,
    cross,
)
from ssvm_dsl.datasets import load_multilabel

#: What a call may be late by: a share of the limit, or seconds.
SHARE, SECONDS = 0.1, 0.2


class GivenChain(Model):
    T = Dim()
    s = Input(T, 5)
    y = Label(T, 5)
    g = Given(y, scores=s)
    t = Factor(chain(y))
    loss = Hamming(y)


class Chain(Model):
    T = Dim()
    s = Input(T, 5)
    y = Label(T, 5)
    g = Factor(y, features=s)
    t = Factor(chain(y))
    loss = Hamming(y)


class Tree(Model):
    N = Dim()
    x = Input(N, N, 5)
    y = Label(N, N, 2)
    arc = Factor(y.is_(1), features=x)
    tree = ProjectiveTree(y.is_(1), head=N, root="diagonal")
    loss = Hamming(y)


class Hidden(Model):
    T = Dim()
    x = Input(T, 2)
    h = Latent(T, 2)
    y = Label(2)
    emit = Factor(h, features=x)
    joint = Factor(cross(h, y))
    trans = Factor(chain(h))
    loss = Hamming(y)


def multi_label(n_labels, width, sparse=False):
    """Return the model of so many labels, all pairs of which have a table."""

    class Labels(Model):
        K = Dim(n_labels)
        x = Input(width, sparse=sparse)
        y = Label(K, 2)
        one = Factor(y.is_(1), features=x, per=K)
        two = Factor(complete(y), per="edge")
        loss = Hamming(y)

    return Labels
