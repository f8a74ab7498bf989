"""Small models of several structures, with a batch of inputs and labels for each."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch

from ssvm_dsl import (
    POTTS,
    AtMost,
    Dim,
    Edges,
    Factor,
    Given,
    Hamming,
    Input,
    Label,
    Matching,
    Model,
    ProjectiveTree,
    along,
    chain,
    complete,
    pairs,
    spans,
)


class Chain(Model):
    T = Dim()
    x = Input(T, 2)
    logits = Input(T, 3)
    y = Label(T, 3)
    net = Given(y, scores=logits)
    emit = Factor(y, features=x)
    trans = Factor(chain(y))
    step = Factor(chain(y), features=x, form=POTTS)
    first = Factor(y.at(0))
    loss = Hamming(y)


class Tree(Model):
    N, M = Dim(), Dim()
    e = Edges(M, over=N)
    x = Input(N, 2)
    f = Input(M, 2)
    y = Label(N, 3)
    node = Factor(y, features=x)
    edge = Factor(along(y, e), features=f)
    loss = Hamming(y)


class Pixels(Model):
    H, W = Dim(), Dim()
    x = Input(H, W, 2)
    y = Label(H, W, 2)
    data = Factor(y, features=x)
    right = Factor(pairs(y, W), features=x)
    down = Factor(pairs(y, H), form=POTTS)
    loss = Hamming(y)


class Links(Model):
    I, J = Dim(), Dim()
    x = Input(I, J, 2)
    y = Label(I, J, 2)
    sim = Factor(y.is_(1), features=x)
    one = Matching(y.is_(1), rows=I, cols=J)
    loss = Hamming(y)


class Heads(Model):
    T = Dim()
    x = Input(T, T, 2)
    y = Label(T, over=T, null=True)
    arc = Factor(y, features=x)
    top = Factor(y.is_(None))
    tree = ProjectiveTree(y)
    loss = Hamming(y)


class Pieces(Model):
    T = Dim()
    x = Input(T, 2)
    y = Label(T, ["N", "V"], segments=2)
    inside = Factor(y, features=x)
    whole = Factor(spans(y))
    step = Factor(chain(y))
    loss = Hamming(y)


class Tags(Model):
    K = Dim(4)
    x = Input(3)
    y = Label(K, 2)
    unary = Factor(y, features=x, per=K)
    pair = Factor(complete(y), per="edge")
    budget = AtMost(2, y.is_(1))
    loss = Hamming(y)


@dataclass(eq=False)
class Case:
    """A model with a batch: inputs, labels as users write them, and what else the layer takes."""

    model: Any
    inputs: dict[str, torch.Tensor]
    truth: Any
    more: dict[str, Any] = field(default_factory=dict)


def draw(*shape: int, seed: int = 0) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed + sum(shape))
    return torch.randn(*shape, dtype=torch.float64, generator=generator)


EDGES = [np.array([[0, 1], [0, 2]]), np.array([[1, 0]])]

CASES = {
    "chain": lambda: Case(
        Chain, {"x": draw(2, 4, 2), "logits": draw(2, 4, 3)}, torch.tensor([[0, 2, 1, 1], [2, 0, 1, -1]]),
        {"mask": torch.tensor([[1, 1, 1, 1], [1, 1, 1, 0]], dtype=torch.bool)},
    ),
    "tree": lambda: Case(
        Tree, {"x": draw(2, 3, 2), "f": draw(2, 2, 2)}, torch.tensor([[0, 2, 1], [2, 0, -1]]),
        {"lengths": {"N": torch.tensor([3, 2]), "M": torch.tensor([2, 1])}, "data": {"e": EDGES}},
    ),
    "grid": lambda: Case(
        Pixels, {"x": draw(2, 2, 3, 2)}, torch.tensor([[[0, 1, 1], [1, 1, 0]], [[0, 0, 0], [1, 0, 1]]])
    ),
    "matching": lambda: Case(Links, {"x": draw(2, 2, 3, 2)}, [np.eye(2, 3, dtype=int), np.zeros((2, 3), dtype=int)]),
    "projective trees": lambda: Case(Heads, {"x": draw(2, 3, 3, 2)}, [[-1, 0, 1], [1, 2, -1]]),
    "segments": lambda: Case(Pieces, {"x": draw(1, 3, 2)}, [[(0, 2, "N"), (2, 3, "V")]]),
    "budget": lambda: Case(Tags, {"x": draw(2, 3)}, torch.tensor([[0, 1, 1, 0], [0, 0, 0, 0]])),
}  # fmt: skip
