"""Records of the kernels that work on fractional planes."""

from __future__ import annotations

from typing import NamedTuple

from ssvm_dsl.ir import F64, I8, I64


class Entries(NamedTuple):
    """Where the numbers of each example's planes belong.

    Parameters
    ----------
    ptr : ndarray of int64, shape (n + 1,)
        Entries of each example.
    where : ndarray of int64
        The score of each entry, in ``[theta.node, theta.pool]``.
    truth_ptr : ndarray of int64, shape (n + 1,)
    truth : ndarray of int64
        The entries of the truth, counted within the example.
    first : ndarray of int64, shape (M, n)
        Where the entries of each map's factors start within the example; -1 for maps of single variables.
    var_ptr, state_ptr : ndarray of int64
    """

    ptr: I64
    where: I64
    truth_ptr: I64
    truth: I64
    first: I64
    var_ptr: I64
    state_ptr: I64


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


class Store(NamedTuple):
    """Planes of every example; K is the capacity.

    Parameters
    ----------
    n_planes : ndarray of int64, shape (n,)
    alpha, loss : ndarray of float64, shape (n, K)
        Dual weight (the truth's is ``1 - sum``) and loss of each plane.
    gram : ndarray of float64, shape (n, K, K)
    values : ndarray of float64
        Example i's planes one after the other from ``K * ptr[i]``.
    """

    n_planes: I64
    alpha: F64
    loss: F64
    gram: F64
    values: F64


class FractionalWorkspace(NamedTuple):
    """Work space; K is the capacity of the cache.

    Parameters
    ----------
    flat, node, pool : ndarray of float64
        Scores, all in one array, and two views of it: those of states, shape (S,), and those of tables.
    direction : ndarray of float64, shape (dim,)
        Zero between visits.
    delta : ndarray of float64
        By how much the marginals of one example change, entry by entry.
    slope, before : ndarray of float64, shape (K + 1,)
        Slope of each plane, and its dual weight before the steps.
    scores : ndarray of float64
        Work space of the scoring kernel.
    nothing : ndarray of float64, shape (S,)
        Zeros.
    ones : ndarray of float64, shape (M,)
    unbounded : ndarray of int8, shape (M,)
        Zeros.
    counter : ndarray of int64, shape (1,)
        Operations so far, roughly, in multiply-adds.
    """

    flat: F64
    node: F64
    pool: F64
    direction: F64
    delta: F64
    slope: F64
    before: F64
    scores: F64
    nothing: F64
    ones: F64
    unbounded: I8
    counter: I64


class MoveRule(NamedTuple):
    """The rule by which weights move along features.

    Parameters
    ----------
    metric : ndarray of float64, shape (M,)
        The factor of each map's entries.
    bounded : ndarray of int8, shape (M,)
        Maps that move ``free``, and have ``w = shrunk(free)``; zeros where w is no weights.
    """

    metric: F64
    bounded: I8


class PlaneWeights(NamedTuple):
    """The weights, and those of bounded maps without their bound.

    Parameters
    ----------
    w, free : ndarray of float64, shape (dim,)
        Changed in place; may be one array where no map is bounded.
    """

    w: F64
    free: F64


class NewPlanes(NamedTuple):
    """A new plane for each of some examples.

    Parameters
    ----------
    examples : ndarray of int64, shape (n_listed,)
    ptr : ndarray of int64, shape (n_listed + 1,)
    values : ndarray of float64
        The planes, each a vector of marginals, packed by ``ptr``.
    losses : ndarray of float64, shape (n_listed,)
    """

    examples: I64
    ptr: I64
    values: F64
    losses: F64


class LastVisits(NamedTuple):
    """Duality gap before, and gain of, each example's last visit: ndarrays of float64, shape (n,), changed."""

    gap: F64
    gain: F64
