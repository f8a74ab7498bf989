"""Exact samples, one position after the other, each given those before it."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from ssvm_dsl.errors import OptionError
from ssvm_torch.risks import BatchQuestion


def draw(
    question: BatchQuestion, scores: dict[str, NDArray[Any]], label: str, n: int, seed: int | None,
    width: tuple[int, ...] | None,
) -> torch.Tensor:  # fmt: skip
    """Return n samples of the label of each example, ``shape (n, B, *positions)``, -1 where there are none.

    Raises
    ------
    OptionError
        No factor has scores for each state of each position.
    """
    unary = unary_of(question, scores, label)
    rng, marked = np.random.default_rng(seed), scores[unary].astype(np.float64)
    there = question.answer(scores).padded(label, width) >= 0
    places = np.argwhere(there.any(axis=0))
    out = np.full((n, *there.shape), -1, dtype=np.int64)
    for which in range(n):
        fixed = marked.copy()
        for place in map(tuple, places.tolist()):
            counts = question.answer(scores | {unary: fixed}, task="log_z").counts()[unary]
            at: Any = (slice(None), *place)
            chances = np.maximum(counts[at], 0.0)
            ends = np.cumsum(chances, axis=1)
            drawn = (rng.random(len(ends))[:, None] * ends[:, -1:] >= ends).sum(axis=1)
            drawn = np.minimum(drawn, chances.shape[1] - 1)
            out[(which, *at)] = np.where(there[at], drawn, -1)
            kept = np.full(fixed[at].shape, -np.inf)
            rows = np.arange(len(drawn))
            kept[rows, drawn] = marked[at][rows, drawn]
            fixed[at] = np.where(there[at][:, None], kept, fixed[at])
    return torch.from_numpy(out)


def unary_of(question: BatchQuestion, scores: dict[str, NDArray[Any]], label: str | None = None) -> str:
    """Return a factor with padded scores for each state of each position of a label (the only one).

    Raises
    ------
    OptionError
        There is none.
    """
    for name, template in question.scorer.templates.items():
        own = template.target.is_whole and template.shape == template.target.cards
        padded = own and scores[name].ndim == 1 + len(template.axes) + 1
        if padded and (label is None or template.target.label.name == label):
            return name
    where = "" if label is None else f" of label '{label}'"
    raise OptionError(f"no factor has scores for each state of each position{where}: declare Factor(y, features=x)")
