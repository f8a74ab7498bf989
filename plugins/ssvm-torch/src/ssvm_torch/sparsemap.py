"""SparseMAP: the sparse distribution over labellings whose mean is closest to the scores.

    max over p in the simplex of labellings   sum_y p_y score(y) - 1/2 |A p|^2,

where the columns of A are the counts of the penalised scores in each labelling (Niculae, Martins, Blondel and Cardie,
"SparseMAP: differentiable sparse structured inference", ICML 2018). An active set of labellings grows by the best one
for the gradient, ``score - A' A p``, so that any backend with best labellings serves; on the set the problem is a small
quadratic program, which is solved exactly, and so is the derivative.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch.autograd.function import once_differentiable

from ssvm_dsl.errors import OptionError
from ssvm_dsl.scoring import ScoredAnswers, Scorer
from ssvm_torch.arrays import Scores, as_mask, as_states, like, summed, to_arrays, widest
from ssvm_torch.graphs import outside_graphs
from ssvm_torch.risks import BatchQuestion

#: Added to squared lengths of labellings, so that those that depend on each other have a unique solution.
RIDGE = 1e-11

#: Relative to the sizes of scores: what no labelling can improve by is the optimum.
TOLERANCE = 1e-10


@dataclass(eq=False)
class ActiveSet:
    """The labellings of each example that have been met, and their probabilities.

    Parameters
    ----------
    answers : list of ScoredAnswers
        Each has a labelling of every example.
    columns : ndarray, shape (B, d, m)
        The counts of the penalised scores.
    worth : ndarray, shape (B, m)
        The scores of the labellings.
    p : ndarray, shape (B, m)
    """

    answers: list[ScoredAnswers]
    columns: NDArray[np.float64]
    worth: NDArray[np.float64]
    p: NDArray[np.float64]

    @property
    def value(self) -> NDArray[np.float64]:
        """The optimum of each example; ``shape (B,)``."""
        mean = np.einsum("bdm,bm->bd", self.columns, self.p)
        return np.asarray((self.worth * self.p).sum(axis=1) - 0.5 * (mean**2).sum(axis=1))

    def counts(self, weights: NDArray[np.float64]) -> dict[str, NDArray[Any]]:
        """Return the sum of the counts of the labellings, weighed; by factor, in the shape of the scores."""
        used = np.flatnonzero(np.abs(weights).max(axis=0, initial=0.0) > 0.0).tolist() or [0]
        return summed([self.answers[m].counts(weights[:, m]) for m in used])

    def backward(self, grad: NDArray[np.float64]) -> dict[str, NDArray[Any]]:
        """Return the gradient of the scores for that of the mean, ``shape (B, d)``."""
        v = np.zeros_like(self.p)
        for i, p in enumerate(self.p):
            on = np.flatnonzero(p > 0.0)
            columns = self.columns[i][:, on]
            system = np.ones((len(on) + 1, len(on) + 1))
            system[:-1, :-1], system[-1, -1] = columns.T @ columns, 0.0
            v[i, on] = np.linalg.lstsq(system, np.append(columns.T @ grad[i], 0.0), rcond=1e-12)[0][:-1]
        return self.counts(v)


def solve(question: BatchQuestion, scores: dict[str, NDArray[Any]], on: Sequence[str], max_iter: int) -> ActiveSet:
    """Return the active set of each example at the optimum."""
    scores = {name: one.astype(np.float64) for name, one in scores.items()}
    wanted = _flat({name: np.where(np.isfinite(scores[name]), scores[name], 0.0) for name in on}, on)
    found: ActiveSet | None = None
    mean = np.zeros_like(wanted)
    for _ in range(max_iter):
        moved = {name: scores[name] - part for name, part in _unflat(mean, scores, on).items()}
        answers = question.answer(scores | moved)
        column = _flat(answers.counts(), on)
        worth = answers.score + (mean * column).sum(axis=1)  # by the scores themselves
        if found is None:
            found = ActiveSet([answers], column[:, :, None], worth[:, None], np.ones((len(column), 1)))
        else:
            now = (found.worth * found.p).sum(axis=1) - (mean**2).sum(axis=1)
            open_ = answers.score - now > TOLERANCE * (1.0 + np.abs(answers.score) + np.abs(now))
            if not open_.any():
                return found
            found = _grown(found, answers, column, worth, open_)
        mean = np.einsum("bdm,bm->bd", found.columns, found.p)
    warnings.warn(f"sparsemap: not converged in {max_iter} steps; raise max_iter", RuntimeWarning, stacklevel=3)
    assert found is not None
    return found


def _grown(
    found: ActiveSet, answers: ScoredAnswers, column: NDArray[np.float64], worth: NDArray[np.float64],
    open_: NDArray[np.bool_],
) -> ActiveSet:  # fmt: skip
    """Return the active set with another labelling of each example, and the optimum where it is not reached."""
    columns = np.concatenate([found.columns, column[:, :, None]], axis=2)
    worths = np.concatenate([found.worth, worth[:, None]], axis=1)
    p = np.concatenate([found.p, np.zeros((len(worth), 1))], axis=1)
    for i in np.flatnonzero(open_).tolist():
        known = np.flatnonzero(p[i] > 0.0)
        some = np.append(known, p.shape[1] - 1)
        a = columns[i][:, some]
        p[i, some] = simplex_program(a.T @ a, worths[i, some], p[i, some])
    return ActiveSet([*found.answers, answers], columns, worths, p)


def simplex_program(
    gram: NDArray[np.float64], linear: NDArray[np.float64], p: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return the maximiser of ``linear' p - 1/2 p' gram p`` over the simplex, from p.

    The active-set method for convex quadratic programs (Nocedal and Wright, "Numerical Optimization", algorithm 16.3).
    The last entry is new: it is free at the beginning.
    """
    n = len(p)
    gram = gram + RIDGE * max(1.0, float(gram.trace())) * np.eye(n)
    free = p > 0.0
    free[-1] = True
    for _ in range(20 * n + 20):
        on = np.flatnonzero(free)
        system = np.ones((len(on) + 1, len(on) + 1))
        system[:-1, :-1], system[-1, -1] = gram[np.ix_(on, on)], 0.0
        solved = np.linalg.solve(system, np.append(linear[on], 1.0))
        goal, level = solved[:-1], solved[-1]
        if (goal >= 0.0).all():
            p = np.zeros(n)
            p[on] = goal
            slack = linear - gram @ p - level
            slack[on] = 0.0
            if slack.max() <= TOLERANCE * (1.0 + np.abs(linear).max()):
                break
            free[int(np.argmax(slack))] = True
            continue
        falling = goal < p[on]
        ratio = np.where(falling, p[on] / np.where(falling, p[on] - goal, 1.0), np.inf)
        step = min(1.0, float(ratio.min()))
        moved = np.zeros(n)
        moved[on] = np.maximum(p[on] + step * (goal - p[on]), 0.0)
        free[on[int(np.argmin(ratio))]] = False
        moved[~free] = 0.0
        p = moved / moved.sum()
    return p


def _flat(parts: dict[str, Any], on: Sequence[str]) -> NDArray[np.float64]:
    """Return arrays of the penalised factors side by side, ``shape (B, d)``."""
    return np.concatenate([np.reshape(parts[name], (len(parts[name]), -1)) for name in on], axis=1)


def _unflat(flat: NDArray[np.float64], scores: dict[str, NDArray[Any]], on: Sequence[str]) -> dict[str, NDArray[Any]]:
    """Return the arrays of the penalised factors."""
    ends = np.cumsum([scores[name][0].size for name in on])[:-1]
    parts = np.split(flat, ends, axis=1)
    return {name: part.reshape(scores[name].shape) for name, part in zip(on, parts, strict=True)}


def penalised(scorer: Scorer, scores: Scores, on: str | Sequence[str] | None) -> list[str]:
    """Return the factors whose scores are meant: padded ones, of single variables if none are named.

    Raises
    ------
    OptionError
        There are none, or all examples share their scores.
    """
    padded = {
        name for name, one in scorer.templates.items() if scores[name].dim() == 1 + len(one.axes) + len(one.shape)
    }
    if on is None:
        chosen = [name for name, one in scorer.templates.items() if name in padded and one.target.arity == 1]
    else:
        chosen = [on] if isinstance(on, str) else list(on)
    wrong = [name for name in chosen if name not in padded]
    if wrong or not chosen:
        text = f"on: factors with padded scores, such as {', '.join(sorted(padded)) or 'none'}"
        raise OptionError(f"{text}; got {', '.join(map(str, wrong)) or 'none'}")
    return chosen


class _Mean(torch.autograd.Function):
    """The mean of the penalised counts, with the derivative of the program."""

    @staticmethod
    def forward(
        ctx: Any, question: BatchQuestion, on: list[str], max_iter: int, *scores: torch.Tensor
    ) -> tuple[torch.Tensor, ...]:
        arrays = to_arrays(dict(zip(question.names, scores, strict=True)))
        ctx.question, ctx.on, ctx.found = question, on, solve(question, arrays, on, max_iter)
        ctx.save_for_backward(*scores)
        mean = np.einsum("bdm,bm->bd", ctx.found.columns, ctx.found.p)
        parts, of = _unflat(mean, arrays, on), dict(zip(question.names, scores, strict=True))
        return tuple(like(parts[name], of[name]) for name in on)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: torch.Tensor) -> tuple[Any, ...]:
        given = {name: one.detach().cpu().numpy() for name, one in zip(ctx.on, grads, strict=True)}
        counts = ctx.found.backward(_flat(given, ctx.on).astype(np.float64))
        made = (like(counts[name], one) for name, one in zip(ctx.question.names, ctx.saved_tensors, strict=True))
        return None, None, None, *made


class _Loss(torch.autograd.Function):
    """The SparseMAP loss of each example; its gradient is the mean of the counts less those of the truth."""

    @staticmethod
    def forward(
        ctx: Any, question: BatchQuestion, on: list[str], max_iter: int, *scores: torch.Tensor
    ) -> torch.Tensor:
        arrays = to_arrays(dict(zip(question.names, scores, strict=True)))
        found = solve(question, arrays, on, max_iter)
        ctx.question, ctx.found = question, found
        ctx.save_for_backward(*scores)
        first = found.answers[0]
        of_truth = _flat(first.truth_counts(), on)
        return like(found.value - first.truth_score + 0.5 * (of_truth**2).sum(axis=1), widest(scores))

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: torch.Tensor) -> tuple[Any, ...]:
        coef = grad.detach().cpu().numpy().astype(np.float64)
        counts = ctx.found.counts(ctx.found.p * coef[:, None])
        truth = ctx.found.answers[0].truth_counts(coef)
        names = ctx.question.names
        made = (
            like(counts[name] - truth[name], one) for name, one in zip(names, ctx.saved_tensors, strict=True)
        )  # fmt: skip
        return None, None, None, *made


@outside_graphs
def sparsemap(
    scorer: Scorer,
    scores: Scores,
    *,
    on: str | Sequence[str] | None = None,
    mask: Any = None,
    lengths: Any = None,
    data: Any = None,
    max_iter: int = 200,
) -> Scores:
    """Return the mean counts of the penalised scores by factor: of unary scores, sparse probabilities of the states.

    Parameters
    ----------
    scorer : Scorer
        ``layer.scorer``, or one of a model.
    scores : dict of str to Tensor
        By factor, padded or one table for all: ``layer.scores(inputs)``.
    on : str or list of str, optional
        The factors whose counts are penalised: all padded ones of single variables without it.
    mask, lengths, data
        As of :meth:`~ssvm_torch.StructuredLayer.forward`.
    max_iter : int
        Labellings that are looked for at most.
    """
    chosen = penalised(scorer, scores, on)
    question = BatchQuestion(scorer, list(scores), _sizes(mask, lengths, data))
    return dict(zip(chosen, _Mean.apply(question, chosen, max_iter, *scores.values()), strict=True))


class SparseMap(torch.nn.Module):
    """The SparseMAP loss: non-negative, 0 where the truth is the whole answer, with sparse gradients.

    Parameters
    ----------
    scorer : Scorer
    on, max_iter
        As of :func:`sparsemap`.
    """

    def __init__(self, scorer: Scorer, *, on: str | Sequence[str] | None = None, max_iter: int = 200) -> None:
        super().__init__()
        self.scorer, self.on, self.max_iter = scorer, on, max_iter

    @outside_graphs
    def forward(
        self, scores: Scores, truth: Any, *, mask: Any = None, lengths: Any = None, data: Any = None
    ) -> torch.Tensor:
        """Return the loss of each example; ``shape (B,)``."""
        chosen = penalised(self.scorer, scores, self.on)
        asked = _sizes(mask, lengths, data) | {"truth": as_states(truth, self.scorer)}
        question = BatchQuestion(self.scorer, list(scores), asked)
        found: torch.Tensor = _Loss.apply(question, chosen, self.max_iter, *scores.values())
        return found


def _sizes(mask: Any, lengths: Any, data: Any) -> dict[str, Any]:
    return {"mask": as_mask(mask), "lengths": as_mask(lengths), "data": data}
