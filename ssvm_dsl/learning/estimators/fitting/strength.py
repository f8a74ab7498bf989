"""``C="cv"``: the strength of regularisation that is best on held-out examples, along a path of warm-started fits.

The examples are in three folds.  From a small C to larger ones, weights are learnt on two of them, starting from those
of the C before, and judged on the third.  The path ends where held-out examples say that it only gets worse.  Of the C
that are as good as the best one, within half a standard error of the difference on the same examples, the smallest is
taken.  (A whole one is usual, Breiman et al. 1984, chapter 3; here it cost orders of noisy lists 1 % of their pairs.)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from ssvm_dsl.array_types import F64, I64

#: Number of folds, and the values of C.
N_FOLDS = 3
VALUES = tuple(4.0**k for k in range(-5, 6))

#: Relative gap, and passes over the data, at which fits on folds end.
FOLD_TOL, FOLD_PASSES = 0.03, 30.0

#: Standard errors below which a C is as good as the best one, and beyond which it is worse, so that the path ends.
AS_GOOD, WORSE = 0.5, 2.0

#: The path also ends after so many C in a row that are not better than the best one,
PATIENCE = 2

#: and with the first C that is begun after so many passes over the data.
PATH_PASSES = 300.0

#: Learns weights at a C on the examples whose weight is not 0, from a start; returns them, the losses of all examples
#: with them, and the passes it took.
Learn = Callable[[float, F64, F64 | None], tuple[F64, F64, float]]


@dataclass(frozen=True, eq=False)
class ChosenStrength:
    """What held-out examples say of C.

    Parameters
    ----------
    C : float
        The chosen one.
    start : ndarray of float64, shape (dim,)
        The mean of the weights of the folds at it.
    values : tuple of float
        Those tried.
    means : ndarray of float64
        Mean held-out losses.
    """

    C: float
    start: F64
    values: tuple[float, ...]
    means: F64

    def __str__(self) -> str:
        first, last = self.values[0], self.values[-1]
        best = self.means[self.values.index(self.C)]
        return f"{self.C:g}, by {N_FOLDS} folds (held-out loss {best:.3g}; {first:.2g} to {last:.2g} tried)"


def folds_of(kinds: Sequence[int] | I64) -> I64:
    """Return the fold of each example; those of one kind are spread over all folds."""
    kinds = np.asarray(kinds)
    order = np.random.default_rng(0).permutation(len(kinds))
    order = order[np.argsort(kinds[order], kind="stable")]
    folds = np.empty(len(kinds), dtype=np.int64)
    folds[order] = np.arange(len(kinds)) % N_FOLDS
    return folds


def chosen_strength(learn: Learn, folds: I64, weight: F64) -> ChosenStrength:
    """Return the C that held-out examples choose.

    Parameters
    ----------
    learn : callable
    folds : ndarray of int64, shape (n,)
    weight : ndarray of float64, shape (n,)
        Of the examples; in each fold and outside of it some are positive.
    """
    starts: list[F64 | None] = [None] * N_FOLDS
    losses, starts_at, best, spent = list[F64](), list[F64](), 0, 0.0
    for C in VALUES:
        if spent > PATH_PASSES:
            break
        lost_of = np.empty(len(folds))
        for fold in range(N_FOLDS):
            outside = folds == fold
            w, lost, passes = learn(C, np.where(outside, 0.0, weight), starts[fold])
            starts[fold], lost_of[outside], spent = w, lost[outside], spent + passes
        losses.append(lost_of)
        starts_at.append(np.mean([one for one in starts if one is not None], axis=0))
        if np.average(lost_of, weights=weight) < np.average(losses[best], weights=weight):
            best = len(losses) - 1
        elif len(losses) > best + PATIENCE or _worse(lost_of, losses[best], weight, WORSE):
            break
    # the best one is the first that is not worse than itself
    chosen = next(k for k, one in enumerate(losses) if not _worse(one, losses[best], weight, AS_GOOD))
    means = np.array([np.average(one, weights=weight) for one in losses])
    return ChosenStrength(VALUES[chosen], starts_at[chosen], VALUES[: len(losses)], means)


def _worse(losses: F64, best: F64, weight: F64, errors: float) -> bool:
    """Return whether losses are larger than the best ones by more than some standard errors of the difference."""
    share, apart = weight / weight.sum(), losses - best
    mean = float(share @ apart)
    return mean > errors * float(np.sqrt((share**2) @ (apart - mean) ** 2))
