r"""From a fractional solution to a labelling, by the rule that the option ``rounding`` of ``lp`` names.

* ``argmax``: each variable takes its most likely state.
* ``threshold``: variable v takes the first state s with ``mu_v(0) + ... + mu_v(s) >= t``; the best labelling over
  many t.  For two states and submodular scores every t gives an optimal labelling (Hochbaum 2002), for ordered
  states and convex differences likewise.
* ``conditional``: the method of conditional expectations (Raghavan 1988).  Variables are drawn independently with
  probabilities mu_v in thought; one after the other is fixed to the state that keeps the expected score highest,
  so the labelling is at least as good as that draw on average.  Forbidden joint states come first: states are
  compared by the probability of meeting one, then by expected score.  Where the labelling breaks a hard constraint,
  thresholds are tried.
"""

from __future__ import annotations

import numpy as np

from ssvm_backends.programs.local_polytope import PolytopeGroup, Priced
from ssvm_dsl.ir import F64, I32, I64

#: Thresholds that are tried at most.
MAX_THRESHOLDS = 64

#: A running sum this close to 1 is 1, so that no state without weight comes into reach behind it.
_SAME_SUM = 1e-9

#: Probabilities of forbidden joint states closer than this count as equal.
_SAME_RISK = 1e-9


def rounded(priced: Priced, mu: F64, rule: str) -> I32:
    """Return a labelling near a fractional solution; its score may be ``-inf``.

    Parameters
    ----------
    priced : Priced
    mu : ndarray of float64, shape (n_columns,)
        Not negative, summing to one in each block, zero where forbidden.
    rule : {"argmax", "threshold", "conditional"}
    """
    if rule == "argmax":
        return priced.polytope.labels_of(mu)
    if rule == "threshold":
        return _by_threshold(priced, mu)
    labels = _by_expectation(priced, mu)
    return labels if priced.polytope.side.keeps(labels) else _by_threshold(priced, mu)


def _by_threshold(priced: Priced, mu: F64) -> I32:
    ptr = priced.polytope.state_ptr
    node = mu[: ptr[-1]]
    running = np.cumsum(node)
    before = np.repeat(np.concatenate([[0.0], running])[ptr[:-1]], np.diff(ptr))
    upto = running - before
    upto[upto > 1.0 - _SAME_SUM] = 1.0
    steps = np.unique(np.concatenate([[0.0], upto.round(9)]))
    middles = (steps[1:] + steps[:-1]) / 2
    if len(middles) > MAX_THRESHOLDS:
        middles = middles[np.linspace(0, len(middles) - 1, MAX_THRESHOLDS).astype(np.int64)]
    # a state without weight is never the first to reach a threshold that lies between two sums
    labellings = [priced.polytope.labels_of((upto >= t).astype(np.float64)) for t in middles]
    return max(labellings, key=priced.score_of)


def _by_expectation(priced: Priced, mu: F64) -> I32:
    polytope = priced.polytope
    ptr, n = polytope.state_ptr, polytope.n_variables
    card = np.diff(ptr)
    chance = np.zeros((n, int(card.max(initial=1))))
    chance[np.repeat(np.arange(n), card), np.arange(ptr[-1]) - np.repeat(ptr[:-1], card)] = mu[: ptr[-1]]
    touching, labels = _touching(polytope.parts, n), np.zeros(n, dtype=np.int32)
    for v in np.argsort(-chance.max(axis=1), kind="stable").tolist():
        gain = np.where(chance[v, : card[v]] > 0.0, priced.score[ptr[v] : ptr[v + 1]], -np.inf)
        risk = np.where(gain == -np.inf, np.inf, 0.0)
        for p, k, factors in touching[v]:
            expected, forbidden = _expected(priced, polytope.parts[p], factors, k, chance)
            gain, risk = gain + expected, risk + forbidden
        safe = risk <= risk.min() + _SAME_RISK
        labels[v] = int(np.argmax(np.where(safe, gain, -np.inf)))
        chance[v] = 0.0
        chance[v, labels[v]] = 1.0
    return labels


def _touching(parts: tuple[PolytopeGroup, ...], n_variables: int) -> list[list[tuple[int, int, I64]]]:
    """Return for each variable (part, place in the scope, factors of the part that have it there)."""
    out: list[list[tuple[int, int, I64]]] = [[] for _ in range(n_variables)]
    for p, part in enumerate(parts):
        for k, variable in enumerate(part.scope.T):
            order = np.argsort(variable, kind="stable")
            found, first = np.unique(variable[order], return_index=True)
            for v, factors in zip(found.tolist(), np.split(order, first[1:]), strict=False):
                out[v].append((p, k, factors))
    return out


def _expected(priced: Priced, part: PolytopeGroup, factors: I64, k: int, chance: F64) -> tuple[F64, F64]:
    """Return for each state of the k-th variable the expected score of some factors, and their risk of being forbidden.

    Parameters
    ----------
    factors : ndarray of int64, shape (n,)
        Factors of the part, all with the same k-th variable.
    chance : ndarray of float64, shape (V, largest card)
        The probability of each state of each variable.
    """
    first = part.columns.start + factors * int(np.prod(part.cards))
    table = priced.score[first[:, None] + np.arange(int(np.prod(part.cards)))].reshape(-1, *part.cards)
    open_ = table > -np.inf
    score, shut = np.where(open_, table, 0.0), (~open_).astype(np.float64)
    for axis in reversed(range(len(part.cards))):
        if axis != k:
            weights = chance[part.scope[factors, axis], : part.cards[axis]]
            weights = weights.reshape(len(factors), *(-1 if a == axis else 1 for a in range(score.ndim - 1)))
            score, shut = (score * weights).sum(axis=axis + 1), (shut * weights).sum(axis=axis + 1)
    return score.sum(axis=0), shut.sum(axis=0)
