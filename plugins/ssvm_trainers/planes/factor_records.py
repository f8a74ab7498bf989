"""Records that the kernels of ``bcfw`` by factors read and write."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ssvm_dsl.ir import F64, I8, I32, I64
from ssvm_dsl.kernels import FlatMaps
from ssvm_trainers.planes.cache import Entries


class Factors(NamedTuple):
    """The factors of each shape of an example, in the order of their entries (:class:`Entries`).

    Those of example i are ``start[shape[i]] : start[shape[i] + 1]``; m in all shapes together.  Values that differ from
    example to example are numbers for each example and group.

    Parameters
    ----------
    shape : ndarray of int32, shape (n,)
    start : ndarray of int64, shape (K + 1,)
    group : ndarray of int64, shape (m,)
        The group of each.
    table, mu, message : ndarray of int64, shape (m,)
        Where its scores are in the pool, and its marginals and messages among all, counted from the next three.
    table_at, mu_at : ndarray of int64, shape (n, G)
    message_at : ndarray of int64, shape (n + 1,)
    own : ndarray of int64, shape (m,)
        Where its weights are that are its scores, and move with its marginals at once; -1 if there are none.
    slot : ndarray of int64, shape (m,)
        Where its variables are in ``variable``.
    variable : ndarray of int32
        Counted from the first one of the example.
    degree : ndarray of float64, shape (V,)
        Slots of each variable.
    arity, n_configs, width : ndarray of int64, shape (G,)
        Of the factors of each group; the width is the number of states of all its variables.
    rate : ndarray of float64, shape (G,)
        ``1 / scale`` of such weights.
    place_at : ndarray of int64, shape (G,)
        Where the rows of a group start in ``place``.
    place : ndarray of int64
        For each joint state and each slot of it, the place of its state among those of all slots.
    """

    shape: I32
    start: I64
    group: I64
    table: I64
    mu: I64
    message: I64
    table_at: I64
    mu_at: I64
    message_at: I64
    own: I64
    slot: I64
    variable: I32
    degree: F64
    arity: I64
    n_configs: I64
    width: I64
    rate: F64
    place_at: I64
    place: I64


class FactorRule(NamedTuple):
    """How far steps go.

    Parameters
    ----------
    penalty : float
        Of disagreement between factors and variables.
    n_steps : int
        Pairwise steps of each factor at most.
    tol : float
        Differences of gradients up to this end the steps.
    """

    penalty: float
    n_steps: int
    tol: float


class FactorSite(NamedTuple):
    """An example, and how far the visit to it has come.

    Parameters
    ----------
    example : int
    first, zero : int
        Its first variable, and the first state of that.
    step : float
        ``share / lam``.
    f, end : int
        The next factor, counted over all shapes, and the one after the last.
    entry, x_at : int
        Where the joint states of the next factor are in ``delta``, and its slots in ``margin``.
    """

    example: int
    first: int
    zero: int
    step: float
    f: int
    end: int
    entry: int
    x_at: int


class PairPlace(NamedTuple):
    """Where the numbers of a factor of two variables are.

    Parameters
    ----------
    rows, columns : int
        States of the two variables.
    mu : int
        Its marginals in ``mu``, row by row.
    a, b : int
        Those of its variables in ``mu``.
    table : int
        Its table in the scores.
    message : int
        The messages to the states of both variables, one after the other.
    x : int
        Their margins in ``margin``, likewise.
    """

    rows: int
    columns: int
    mu: int | np.uint64
    a: int | np.uint64
    b: int | np.uint64
    table: int | np.uint64
    message: int | np.uint64
    x: int | np.uint64


class Curvature(NamedTuple):
    """Curvature of the dual of an example along marginals of each variable and factor, for ``lam`` and share 1.

    That of factor f of example i is ``factor[at[i] + f]``: examples of one shape share it where pairs have no features.

    Parameters
    ----------
    at : ndarray of int64, shape (n,)
    node : ndarray of float64, shape (V,)
    factor : ndarray of float64
        Bounds of ``|Phi d|^2 / |d|^2`` over changes d of one variable's or one factor's marginals, in the metric of the
        regulariser, times the number of those that share weights with it.
    """

    node: F64
    factor: F64
    at: I64


class Dual(NamedTuple):
    """The changing arrays: marginals, messages, weights, and weights without their lower bounds.

    Parameters
    ----------
    mu : ndarray of float64
        Marginals of all variables, state by state, then of the factors of each group: p and q above.
    messages : ndarray of float64, or of float32 where there are many
        The multipliers d, factor by factor and slot by slot.
    w, free : ndarray of float64, shape (dim,)
    """

    mu: F64
    messages: F64
    w: F64
    free: F64


class Metric(NamedTuple):
    """The regulariser, and the weight of each example.

    Parameters
    ----------
    metric : ndarray of float64, shape (M,)
        ``1 / scale`` of each map's weights.
    bounded : ndarray of int8, shape (M,)
        Maps whose weights have a lower bound or an L1 penalty.
    lower : ndarray of float64, shape (M,)
    threshold : float
        ``l1 / lam``.
    share : ndarray of float64, shape (n,)
        ``weight_i / n``.
    lam : float
    """

    metric: F64
    bounded: I8
    lower: F64
    threshold: float
    share: F64
    lam: float


class FactorProblem(NamedTuple):
    """What visits read: all of it stays as it is.

    Parameters
    ----------
    maps : FlatMaps
        The feature maps but those whose weights move at once; ``entries.first`` and ``fixed`` are those of ``maps``.
    entries : Entries
    fixed : Metric
    factors : Factors
    curvature : Curvature
    loss : ndarray of float64, shape (S,)
        Loss of each state.
    """

    maps: FlatMaps
    entries: Entries
    fixed: Metric
    factors: Factors
    curvature: Curvature
    loss: F64


class SweepWorkspace(NamedTuple):
    """Work space for one example.

    Parameters
    ----------
    node : ndarray of float64, shape (S,)
    pool : ndarray of float64
        Scores, as in :class:`~ssvm_dsl.ir.Theta`.
    delta : ndarray of float64
        By how much the weights are to move along each entry of the example.
    scores : ndarray of float64
        Work space of the scoring kernel.
    ones : ndarray of float64, shape (M,)
    value, before : ndarray of float64, shape (most n_configs,)
        Gradient of one factor's marginals, and these before the steps.
    margin : ndarray of float64
        Margins of all factors, slot by slot.
    belief : ndarray of float64
        ``node`` and what factors add to it: the linear part of each variable's problem, then its new marginals.
    order : ndarray of float64, shape (most states,)
        Of the sorting in :func:`project`.
    pull : ndarray of float64, shape (most width,)
        The amount taken off one factor's scores for each state of each slot.
    totals : ndarray of float64, shape (3,)
        Squared residuals, added up until the caller sets them to zero: of margins, and of the change of p; and how many
        margins there were.
    """

    node: F64
    pool: F64
    delta: F64
    scores: F64
    ones: F64
    value: F64
    before: F64
    margin: F64
    belief: F64
    order: F64
    pull: F64
    totals: F64
