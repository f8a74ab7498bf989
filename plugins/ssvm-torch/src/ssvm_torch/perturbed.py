"""Perturbed maximisers: the mean of the best labellings of scores with Gaussian noise, which is differentiable.

With y*(s) the counts in the best labelling for scores s, noise Z and scale sigma (Berthet, Blondel, Teboul, Cuturi,
Vert and Bach, "Learning with differentiable perturbed optimizers", NeurIPS 2020, proposition 3.1),

    y_sigma(s) = E y*(s + sigma Z),      gradient of <g, y_sigma> = E <g, y*(s + sigma Z)> Z / sigma.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch.autograd.function import once_differentiable

from ssvm_dsl.errors import OptionError
from ssvm_dsl.scoring import Scorer
from ssvm_torch.arrays import Scores, as_mask, like, to_arrays
from ssvm_torch.graphs import outside_graphs
from ssvm_torch.risks import BatchQuestion
from ssvm_torch.sparsemap import penalised


class _Perturbed(torch.autograd.Function):
    """The mean over samples; keeps noise and answers for the gradient."""

    @staticmethod
    def forward(
        ctx: Any, question: BatchQuestion, on: list[str], samples: int, sigma: float, seed: int, *scores: torch.Tensor
    ) -> tuple[torch.Tensor, ...]:
        given = to_arrays(dict(zip(question.names, scores, strict=True)))
        arrays = {name: one.astype(np.float64) for name, one in given.items()}
        rng = np.random.default_rng(seed)
        ctx.question, ctx.on, ctx.sigma, ctx.drawn = question, on, sigma, []
        ctx.save_for_backward(*scores)
        for _ in range(samples):
            noise = {name: rng.normal(size=arrays[name].shape) for name in on}
            moved = {name: arrays[name] + sigma * part for name, part in noise.items()}
            counts = question.answer(arrays | moved).counts()
            ctx.drawn.append((noise, {name: counts[name] for name in on}))
        of = dict(zip(question.names, scores, strict=True))
        return tuple(like(np.mean([counts[name] for _, counts in ctx.drawn], axis=0), of[name]) for name in on)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: torch.Tensor) -> tuple[Any, ...]:
        given = {name: one.detach().cpu().numpy().astype(np.float64) for name, one in zip(ctx.on, grads, strict=True)}
        sums = {name: np.zeros(one.shape) for name, one in given.items()}
        for noise, counts in ctx.drawn:
            along = sum((given[name] * counts[name]).reshape(len(counts[name]), -1).sum(axis=1) for name in ctx.on)
            for name in ctx.on:
                sums[name] += np.reshape(along, (-1,) + (1,) * (sums[name].ndim - 1)) * noise[name]
        scale = ctx.sigma * len(ctx.drawn)
        made = [
            like(sums[name] / scale, one) if name in sums else None
            for name, one in zip(ctx.question.names, ctx.saved_tensors, strict=True)
        ]
        return None, None, None, None, None, *made


@outside_graphs
def perturbed(
    scorer: Scorer,
    scores: Scores,
    *,
    on: str | Sequence[str] | None = None,
    samples: int = 32,
    sigma: float = 1.0,
    seed: int = 0,
    mask: Any = None,
    lengths: Any = None,
    data: Any = None,
) -> Scores:
    """Return the mean counts of the perturbed scores by factor; any backend with best labellings serves.

    Gradients flow to the perturbed scores alone.

    Parameters
    ----------
    scorer : Scorer
    scores : dict of str to Tensor
        By factor, padded or one table for all.
    on : str or list of str, optional
        The factors whose scores are perturbed: all padded ones of single variables without it.
    samples : int
    sigma : float
        Scale of the noise.
    seed : int
        The same seed gives the same noise.
    mask, lengths, data
        As of :meth:`~ssvm_torch.StructuredLayer.forward`.

    Raises
    ------
    OptionError
        There are no samples, or no noise.
    """
    if samples < 1 or not sigma > 0.0:
        raise OptionError(f"perturbed: samples is at least 1 and sigma above 0, got {samples} and {sigma}")
    chosen = penalised(scorer, scores, on)
    asked = {"mask": as_mask(mask), "lengths": as_mask(lengths), "data": data}
    made = _Perturbed.apply(BatchQuestion(scorer, list(scores), asked), chosen, samples, sigma, seed, *scores.values())
    return dict(zip(chosen, made, strict=True))
