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
* ``by-class``: one class after the other, by one threshold for all variables: those that have no label yet, and at
  least t of the class, take it, until all have one (Kleinberg and Tardos 1999; for associative networks Taskar,
  Chatalbashev and Koller 2004).  With classes and thresholds drawn at random, a variable takes state s with the
  probability mu_v(s), and a factor of c variables keeps 1/c of ``sum_s min_v mu_v(s) t(s, .., s)`` on average.  Here
  that average is never given up: of all classes and thresholds the one is taken after which it is highest,

      sum_v theta_v . mu_v  (without a label)  +  scores of what has labels
      +  1/c sum_s min_v mu_v(s) t(s, .., s)  (factors none of whose variables has one).

  So the labelling scores at least the variables' part of the relaxation and 1/c of each factor's, where tables score
  equal states only, and not below 0.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ssvm_backends.programs.local_polytope import PolytopeGroup, Priced
from ssvm_dsl.ir import F64, I32, I64
from ssvm_dsl.plugin_api import pause

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
    rule : {"argmax", "threshold", "conditional", "by-class"}
    """
    if rule == "argmax":
        return priced.polytope.labels_of(mu)
    if rule == "threshold":
        return _by_threshold(priced, mu)
    labels = _by_class(priced, mu) if rule == "by-class" else _by_expectation(priced, mu)
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


class _EqualStates(NamedTuple):
    """Factors as scores of equal states.

    Parameters
    ----------
    variables : list of list of int
        Of each factor.
    worth : list of list of float
        Score of each state that all its variables have, above the factor's lowest.
    kept : list of float
        What the average keeps of it.
    touching : list of list of int
        Factors of each variable.
    """

    variables: list[list[int]]
    worth: list[list[float]]
    kept: list[float]
    touching: list[list[int]]


def _equal_states(priced: Priced, share: F64) -> _EqualStates:
    """Return the factors; states that not all variables of a factor have are worth nothing."""
    classes = _EqualStates([], [], [], [[] for _ in range(len(share))])
    for part in priced.polytope.parts:
        size, arity = int(np.prod(part.cards)), len(part.cards)
        first = part.columns.start + np.arange(len(part.scope)) * size
        table = priced.score[first[:, None] + np.arange(size)]
        states = np.arange(min(part.cards))
        equal = table[:, np.ravel_multi_index((states,) * arity, part.cards)]
        lowest = np.where(table > -np.inf, table, np.inf).min(axis=1, keepdims=True)
        worth = np.where(equal > -np.inf, equal - lowest, 0.0)
        least = share[part.scope][:, :, : len(states)].min(axis=1)
        number = len(classes.variables)
        classes.variables.extend(part.scope.tolist())
        classes.worth.extend(worth.tolist())
        classes.kept.extend(((worth * least).sum(axis=1) / arity).tolist())
        for f, scope in enumerate(part.scope.tolist()):
            for v in scope:
                classes.touching[v].append(number + f)
    return classes


def _by_class(priced: Priced, mu: F64) -> I32:
    ptr, n = priced.polytope.state_ptr, priced.polytope.n_variables
    card, states = np.diff(ptr), int(np.diff(ptr).max(initial=1))
    share, score = np.zeros((n, states)), np.zeros((n, states))
    at = np.repeat(np.arange(n), card), np.arange(ptr[-1]) - np.repeat(ptr[:-1], card)
    share[at], score[at] = mu[: ptr[-1]], priced.score[: ptr[-1]]
    gain = score - np.where(share > 0.0, share * score, 0.0).sum(axis=1, keepdims=True)
    factors, labels = _equal_states(priced, share), np.full(n, -1, dtype=np.int32)
    while (labels < 0).any():
        pause()
        free = np.flatnonzero(labels < 0)
        best, chosen, state = -np.inf, free[:0], 0
        for s in range(states):
            rise, taken = _best_threshold(factors, share[:, s], gain[:, s], labels, free, s)
            if len(taken) and (rise, len(taken)) > (best, len(chosen)):
                best, chosen, state = rise, taken, s
        labels[chosen] = state
    return labels


def _best_threshold(
    factors: _EqualStates, share: F64, gain: F64, labels: I32, free: I64, state: int
) -> tuple[float, I64]:
    """Return by how much the average rises with the best threshold for a state, and the variables that take it."""
    order = free[np.argsort(-share[free], kind="stable")]
    order = order[share[order] > 0.0]
    rise, best, taken = 0.0, -np.inf, 0
    missing: dict[int, int] = {}  # of factors all of whose labels are this state: variables without one
    for place, v in enumerate(order.tolist()):
        rise += float(gain[v])
        for f in factors.touching[v]:
            if f not in missing:
                given = [labels[u] for u in factors.variables[f]]
                missing[f] = given.count(-1) if all(one in (-1, state) for one in given) else len(given) + 1
                rise -= factors.kept[f] if given.count(-1) == len(given) else 0.0
            missing[f] -= 1
            if missing[f] == 0 and state < len(factors.worth[f]):
                rise += factors.worth[f][state]
        last = place + 1 == len(order) or share[order[place + 1]] < share[v]
        if last and rise >= best:
            best, taken = rise, place + 1
    return best, order[:taken]


def _touching(parts: tuple[PolytopeGroup, ...], n_variables: int) -> list[list[tuple[int, int, I64]]]:
    """Return for each variable (part, place in the scope, factors of the part that have it there)."""
    out: list[list[tuple[int, int, I64]]] = [[] for _ in range(n_variables)]
    for p, part in enumerate(parts):
        for k, variable in enumerate(part.scope.T):
            order = np.argsort(variable, kind="stable")
            variables, first = np.unique(variable[order], return_index=True)
            for v, factors in zip(variables.tolist(), np.split(order, first[1:]), strict=False):
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
