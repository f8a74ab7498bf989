"""Factors parted into forests: each goes to the first layer in which it closes no cycle."""

from __future__ import annotations

import numpy as np

from ssvm_backends.dual.descent.spanning_trees import representative
from ssvm_dsl.ir import I64
from ssvm_dsl.kernels import njit
from ssvm_dsl.plugin_api import Clock

#: Factors between two checks of the clock, and layers that there is room for at first.
LOOK_EVERY, FIRST_LAYERS = 16384, 4


def first_layers(ptr: I64, scope: I64, same: I64, order: I64, n: int, clock: Clock) -> I64:
    """Return the layer of each factor when they are taken in an order.

    Parameters
    ----------
    ptr : ndarray of int64, shape (F + 1,)
        Where the variables of each factor start.
    scope : ndarray of int64
        Its variables, ascending.
    same : ndarray of int64, shape (F,)
        A number of each scope: factors of one scope are in one layer.
    order : ndarray of int64, shape (F,)
    n : int
        Number of variables.
    clock : Clock

    Raises
    ------
    OutOfTime
    """
    layer, layer_of = np.zeros(len(order), dtype=np.int64), np.full(len(order), -1, dtype=np.int64)
    parent = np.tile(np.arange(n, dtype=np.int64), (FIRST_LAYERS, 1))
    done = 0
    while done < len(order):
        clock.afford(0.0)
        until = min(done + LOOK_EVERY, len(order))
        done = take_factors(ptr, scope, same, order[:until], done, parent, layer_of, layer)
        if done < until:
            parent = np.concatenate([parent, np.tile(np.arange(n, dtype=np.int64), (len(parent), 1))])
    return layer


@njit(cache=True, nogil=True)
def take_factors(
    ptr: I64, scope: I64, same: I64, order: I64, begin: int, parent: I64, layer_of: I64, layer: I64
) -> int:
    """Find the layers of some factors; return how many of ``order`` have one.

    Parameters
    ----------
    ptr, scope, same, order
        As for :func:`first_layers`; read only.
    begin : int
        The first of ``order``.
    parent : ndarray of int64, shape (n_layers, n)
        The trees of each layer: above each variable, another one of its component, itself at the top.  In place.
    layer_of : ndarray of int64, shape (F,)
        The layer of each scope by its number, -1 where there is none yet.  In place.
    layer : ndarray of int64, shape (F,)
        The layer of each factor.  In place.

    Returns
    -------
    int
        Less than all where there are too few layers for the next one.
    """
    for place in range(begin, len(order)):
        f = order[place]
        lo, hi = ptr[f], ptr[f + 1]
        found = layer_of[same[f]]
        number = 0
        while found < 0 and number < len(parent):
            apart = True
            for a in range(lo, hi):
                top = representative(parent[number], scope[a])
                for b in range(lo, a):
                    if representative(parent[number], scope[b]) == top:
                        apart = False
                        break
                if not apart:
                    break
            if apart:
                found = number
            number += 1
        if found < 0:
            return place
        if layer_of[same[f]] < 0:
            layer_of[same[f]] = found
            for a in range(lo + 1, hi):
                parent[found, representative(parent[found], scope[a])] = representative(parent[found], scope[lo])
        layer[f] = found
    return len(order)
