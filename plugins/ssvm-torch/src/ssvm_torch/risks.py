"""Risks and marginals as functions of scores; their gradients are counts, in the shape of the scores."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch.autograd.function import once_differentiable

from ssvm_dsl.errors import DataError
from ssvm_dsl.scoring import ScoredAnswers, Scorer
from ssvm_torch.arrays import like, to_arrays, widest

#: The risks: the task, and whether scores are augmented by the loss.
RISKS = {"margin": ("best", True), "log": ("log_z", False), "softmax-margin": ("log_z", True)}

#: Weights are proportional up to this relative error, of single precision.
SAME = 2.0**-22

#: The step of a perturbation, in units of the precision and the size of the scores.
STEP = 2.0**-10


@dataclass(eq=False)
class BatchQuestion:
    """What is asked about a batch of scores.

    Parameters
    ----------
    scorer : Scorer
    names : list of str
        The factors, in the order of the tensors.
    asked : dict
        Further arguments of ``Scorer.answer``: sizes, data and truth.
    """

    scorer: Scorer
    names: Sequence[str]
    asked: dict[str, Any] = field(default_factory=dict)

    def answer(self, scores: dict[str, NDArray[Any]], **more: Any) -> ScoredAnswers:
        """Return the answers for scores by factor."""
        return self.scorer.answer(scores, **self.asked, **more)


def _gradients(
    scores: Sequence[torch.Tensor], names: Sequence[str], counts: dict[str, NDArray[Any]]
) -> list[torch.Tensor]:
    """Return counts as gradients of the scores."""
    return [like(counts[name], tensor) for name, tensor in zip(names, scores, strict=True)]


class RiskFunction(torch.autograd.Function):
    """The risk of each example, ``shape (B,)``: ``max_y or log sum exp (score(y) + loss(y)) - score(truth)``.

    With ``whole`` it is the sum of these, weighed.  Sums over labellings are weighed while they are made, by what the
    caller will weigh the risks by; should other weights come back, they are made again.
    """

    @staticmethod
    def forward(
        ctx: Any, question: BatchQuestion, risk: str, weights: NDArray[Any], whole: bool, *scores: torch.Tensor
    ) -> torch.Tensor:
        arrays = to_arrays(dict(zip(question.names, scores, strict=True)))
        task, augmented = RISKS[risk]
        more: dict[str, Any] = {"task": task, "augmented": augmented}
        if task == "log_z":
            more["weights"] = weights
        found = question.answer(arrays, **more)
        ctx.question, ctx.more, ctx.found, ctx.weights, ctx.whole = question, more, found, weights, whole
        ctx.save_for_backward(*scores)
        upper, truth = found.log_z if task == "log_z" else found.score, found.truth_score
        if not np.isfinite(truth).all():
            i = int(np.argmin(np.isfinite(truth)))
            raise DataError("truth", example=i, expected="labels that the scores allow", found="a score of -inf")
        return like(weights @ (upper - truth) if whole else upper - truth, widest(scores))

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: torch.Tensor) -> tuple[Any, ...]:
        scores, found, question = ctx.saved_tensors, ctx.found, ctx.question
        factor: float | None = grad.item() if ctx.whole else None
        coef = grad.detach().cpu().double().numpy() if factor is None else factor * ctx.weights
        if ctx.more["task"] == "best":
            return None, None, None, None, *_gradients(scores, question.names, found.counts(coef, less_truth=True))
        if factor is None:
            factor = proportion(coef, ctx.weights)
        if factor is None:
            more = ctx.more | {"weights": coef}
            found = question.answer(to_arrays(dict(zip(question.names, scores, strict=True))), **more)
            factor = 1.0
        counts = found.counts(less_truth=True)
        if factor != 1.0:
            counts = {name: factor * one for name, one in counts.items()}
        return None, None, None, None, *_gradients(scores, question.names, counts)


def proportion(coef: NDArray[Any], weights: NDArray[Any]) -> float | None:
    """Return the number that weights have to be multiplied by; ``None`` where there is none."""
    at = int(np.argmax(np.abs(weights)))
    if weights[at] == 0.0:
        return None if coef.any() else 1.0
    factor = float(coef[at] / weights[at])
    wanted = factor * weights
    return factor if (np.abs(coef - wanted) <= SAME * np.abs(wanted)).all() else None


class Expected(torch.autograd.Function):
    """Expected counts of each score: the gradient of ``sum_i log Z_i``, differentiable itself.

    Its derivative is symmetric, so that the product with a vector is a directional derivative, which is taken by
    central differences of four points (Domke, "Implicit differentiation by perturbation", NIPS 2010).
    """

    @staticmethod
    def forward(ctx: Any, question: BatchQuestion, *scores: torch.Tensor) -> tuple[torch.Tensor, ...]:
        ctx.question = question
        ctx.save_for_backward(*scores)
        counts = question.answer(to_arrays(dict(zip(question.names, scores, strict=True))), task="log_z").counts()
        return tuple(_gradients(scores, question.names, counts))

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: torch.Tensor) -> tuple[Any, ...]:
        names, scores = ctx.question.names, ctx.saved_tensors
        arrays = to_arrays(dict(zip(names, scores, strict=True)))
        arrived = zip(names, grads, strict=True)
        direction = {name: one.detach().cpu().numpy().astype(np.float64) for name, one in arrived}
        largest = max(float(np.abs(one).max(initial=0.0)) for one in direction.values())
        if largest == 0.0:
            return None, *(torch.zeros_like(one) for one in scores)
        found = _slope(ctx.question, arrays, direction, STEP / largest)
        return None, *_gradients(scores, names, found)


def _slope(
    question: BatchQuestion, scores: dict[str, NDArray[Any]], direction: dict[str, NDArray[Any]], step: float
) -> dict[str, NDArray[Any]]:
    """Return the derivative of expected counts along a direction."""

    def at(times: float) -> dict[str, NDArray[Any]]:
        moved = {name: one.astype(np.float64) + times * step * direction[name] for name, one in scores.items()}
        return dict(question.answer(moved, task="log_z").counts())

    near, far = (at(1.0), at(-1.0)), (at(2.0), at(-2.0))
    return {
        name: (8.0 * (near[0][name] - near[1][name]) - (far[0][name] - far[1][name])) / (12.0 * step)
        for name in scores
    }
