"""Graphs of which only some nodes are labelled: what the others are, before a fit learns from all of them.

Factors that join an unknown label are left out of a fit, so that with one node in twenty labelled there are no edges to
learn from.  The labels that are missing are therefore completed first, in two steps that known labels judge.

1. A log-linear model of nodes alone learns from the known ones; its log-probabilities are scores of each node.
2. Neighbours that agree add a score J.  Each fifth of the known labels is hidden in turn, and the best labelling given
   the other four is found for a series of J; the J whose labellings agree with most hidden labels is taken, 0 where
   edges do not help.  On a graph whose neighbours differ more often than chance has it J is negative.

The best labelling with that J, given all known labels, completes them.  (Learning by rounds that begin with the nodes
alone, as latent variables do, ends where it begins: completed by their features, labels are explained by features.)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ssvm_dsl.array_types import F64, I64
from ssvm_dsl.lang.arrays import is_sparse
from ssvm_dsl.lang.dims import Dim
from ssvm_dsl.lang.factors import Factor, Given
from ssvm_dsl.lang.forms import POTTS
from ssvm_dsl.lang.frames import is_gap
from ssvm_dsl.lang.inputs import Edges, Input
from ssvm_dsl.lang.losses.label_losses import Hamming
from ssvm_dsl.lang.model import Model
from ssvm_dsl.lang.outputs.labels import Label
from ssvm_dsl.lang.outputs.targets import along
from ssvm_dsl.learning.estimators.svm import StructuredSVM

#: How often a part of the known labels is hidden.
FOLDS = 5

#: What neighbours that agree add, in units of log-probability.
STRENGTHS = (0.15, 0.25, 0.4, 0.6, 0.8, 1.0, 1.25, 1.6, 2.0, 2.5, 3.2)

#: Strengths are tried while they find at least this share of the hidden labels that the best one finds.
WORSE = 0.9


def states_of(Y: Sequence[Any], classes: Sequence[Any]) -> list[I64] | None:
    """Return the state of each node of each graph, -1 where it is not known; ``None`` where Y is no such list.

    A whole label that is not known is an empty array.
    """
    number, out = {name: k for k, name in enumerate(classes)}, []
    for one in Y:
        masked = np.ma.getmaskarray(one).tolist() if isinstance(one, np.ma.MaskedArray) else None
        try:
            values = [] if one is None else np.ma.getdata(one).tolist() if hasattr(one, "dtype") else list(one)
            states = [-1 if is_gap(value) else number[value] for value in values]
        except (KeyError, TypeError):
            return None
        if masked is not None and len(masked) == len(states):
            states = [-1 if hidden else state for hidden, state in zip(masked, states, strict=True)]
        out.append(np.array(states, dtype=np.int64))
    return out


def agreement(shares: Sequence[F64], edges: Sequence[I64]) -> tuple[F64, F64]:
    """Return how often two classes are at the ends of an edge, ``shape (k, k)``, and how often by chance.

    Parameters
    ----------
    shares : list of ndarray, shape (n, k)
        The probability of each class at each node; rows of 0 are not known, and their edges do not count.
    edges : list of ndarray, shape (m, 2)
    """
    joint = sum((p[e[:, 0]].T @ p[e[:, 1]] for p, e in zip(shares, edges, strict=True)), np.zeros((1, 1)))
    joint = joint + joint.T
    alone = joint.sum(axis=0)
    return joint, np.outer(alone, alone) / max(joint.sum(), 1e-12)


@dataclass(frozen=True, eq=False)
class Completion:
    """Labels of all nodes, and how they were found.

    Parameters
    ----------
    states : list of ndarray of int64, shape (n,)
    strength : float
        What neighbours that agree add.
    by_features, by_edges : float
        The share of hidden known labels that the nodes' features find alone, and with the edges.
    """

    states: list[I64]
    strength: float
    by_features: float
    by_edges: float

    def __str__(self) -> str:
        found = f"of hidden known labels features find {self.by_features:.3g}"
        return f"{found}, with edges ({self.strength:.3g} for neighbours that agree) {self.by_edges:.3g}"


def completed_states(
    X: Sequence[dict[str, Any]], known: Sequence[I64], n_classes: int, probabilities: Callable[[list[I64]], list[F64]],
    n_threads: int | None,
) -> Completion:  # fmt: skip
    """Return the states of all nodes.

    Parameters
    ----------
    X : list of dicts
        Graphs, with ``edges``.
    known : list of ndarray of int64, shape (n,)
        States, -1 where they are not known.
    n_classes : int
    probabilities : callable
        Given known states, the probability of each class at each node by its features: ``shape (n, n_classes)``.
    n_threads : int or None
        Of the fit that this is a part of.
    """

    class AgreeingGraph(Model):
        N, M = Dim(), Dim()
        own = Input(N, n_classes)
        edges = Edges(M, over=N)
        y = Label(N, n_classes)
        alone = Given(y, scores=own)
        pair = Factor(along(y, edges), form=POTTS)
        loss = Hamming(y)

    class AssociativeGraph(AgreeingGraph):
        pair = Factor(along(AgreeingGraph.y, AgreeingGraph.edges), form=POTTS, nonneg=True)

    edges = [np.asarray(one["edges"], dtype=np.int64).reshape(-1, 2) for one in X]
    place = [(g, v) for g, states in enumerate(known) for v in np.flatnonzero(states >= 0).tolist()]
    shares = probabilities(list(known))
    joint, chance = agreement([_surely(p, states) for p, states in zip(shares, known, strict=True)], edges)
    sign = 1.0 if np.trace(joint) >= np.trace(chance) else -1.0
    model = AssociativeGraph if sign > 0 else AgreeingGraph

    def labelled(shares: list[F64], known: list[I64], strength: float) -> list[I64]:
        scores = [np.log(np.maximum(p, 1e-12)) for p in shares]
        if strength == 0.0:
            return [_surely(p, states).argmax(axis=1) for p, states in zip(shares, known, strict=True)]
        svm = StructuredSVM.from_weights(
            model, {"pair": sign * strength}, guarantee="heuristic", n_threads=n_threads
        )
        given = [[None if s < 0 else s for s in states.tolist()] for states in known]
        examples = [{"own": s, "edges": e} for s, e in zip(scores, edges, strict=True)]
        return [np.asarray(one, dtype=np.int64) for one in svm.predict(examples, given=given)]

    folds = _folds([int(known[g][v]) for g, v in place])
    hidden = [_without(known, [place[k] for k in fold]) for fold in folds]
    learnt = [probabilities(some) for some in hidden]

    def found(strength: float) -> int:
        total = 0
        for fold, some, p in zip(folds, hidden, learnt, strict=True):
            states = labelled(p, some, strength)
            total += sum(int(states[g][v] == known[g][v]) for g, v in (place[k] for k in fold))
        return total

    right = {0.0: found(0.0)}
    for strength in STRENGTHS if len(folds) > 1 and any(map(len, edges)) else ():
        right[strength] = found(strength)
        if right[strength] < WORSE * max(right.values()):
            break
    best = max(right, key=lambda one: right[one])
    n = max(len(place), 1)
    return Completion(labelled(shares, list(known), best), sign * best, right[0.0] / n, right[best] / n)


def _surely(shares: F64, states: I64) -> F64:
    """Return probabilities with 1 for what is known."""
    out, there = shares.copy(), np.flatnonzero(states >= 0)
    out[there] = 0.0
    out[there, states[there]] = 1.0
    return out


def _folds(states: list[int]) -> list[NDArray[np.int64]]:
    """Return numbers of known labels to hide together, each class spread over all folds."""
    order = np.random.default_rng(0).permutation(len(states))
    order = order[np.argsort(np.array(states)[order], kind="stable")]
    return [np.sort(order[k::FOLDS]) for k in range(min(FOLDS, len(states)))]


def _without(known: Sequence[I64], places: list[tuple[int, int]]) -> list[I64]:
    """Return states of which some are hidden."""
    out = [states.copy() for states in known]
    for g, v in places:
        out[g][v] = -1
    return out


def rows_of(X: Sequence[Any], which: Sequence[I64]) -> Any:
    """Return the features of some nodes of each graph, one after the other, as a matrix or a list."""
    if is_sparse(X[0]):
        from scipy.sparse import vstack

        return vstack([x[rows] for x, rows in zip(X, which, strict=True)], format="csr")
    if all(isinstance(x, np.ndarray) for x in X):
        return np.concatenate([np.asarray(x, np.float64).reshape(len(x), -1)[r] for x, r in zip(X, which, strict=True)])
    return [x[row] for x, rows in zip(X, which, strict=True) for row in rows.tolist()]
