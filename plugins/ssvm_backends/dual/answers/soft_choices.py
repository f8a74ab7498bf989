"""The dual bound with soft maxima, and where it is attained (Meshi et al. 2010, equation 13).

At temperature T the bound of fixed messages is

    sum_v T log sum_s exp(node'[v, s] / T)  +  sum_f T log sum_c exp(table'[f, c] / T)

with scores reparametrised by the messages (:mod:`ssvm_backends.dual.kernels`).  It is smooth in the scores; its
gradient is a distribution over the states of each variable and, apart from them, over the joint states of each factor.
Factors and variables agree where messages minimise the bound, and only there.
"""

from __future__ import annotations

from math import exp, log

import numpy as np

from ssvm_backends.dual.answers.slope import state_score
from ssvm_backends.dual.kernels import Site
from ssvm_dsl.ir import F64
from ssvm_dsl.kernels import njit


@njit(cache=True, nogil=True)
def soft_choose(site: Site, temperature: float, out: F64) -> float:
    """Write the gradient of an example's soft bound; return the bound.

    Parameters
    ----------
    site : Site
        Read only.
    temperature : float
        T, positive.
    out : ndarray of float64, shape (states of the example and joint states of its factors,)
        Written: the states of each variable, then the joint states of each factor.
    """
    g, node, pool, messages, shift, example = site
    total, at = 0.0, 0
    for v in range(g.var_ptr[example], g.var_ptr[example + 1]):
        for s in range(g.card[v]):
            out[at + s] = state_score(g, node, messages, shift, v, s)
        total += _softened(out, at, g.card[v], temperature)
        at += g.card[v]
    for f in range(g.factor_ptr[example], g.factor_ptr[example + 1]):
        for c in range(g.table_size[f]):
            value = pool[g.table_ptr[f] + c]
            for k in range(g.slot_ptr[f], g.slot_ptr[f + 1]):
                value -= messages[g.message_ptr[k] + shift + (c // g.stride[k]) % g.card[g.scope[k]]]
            out[at + c] = value
        total += _softened(out, at, g.table_size[f], temperature)
        at += g.table_size[f]
    return total


@njit(cache=True, nogil=True)
def _softened(values: F64, at: int, n: int, temperature: float) -> float:
    """Turn n scores into probabilities proportional to ``exp(score / T)``; return their soft maximum."""
    top, total = -np.inf, 0.0
    for s in range(at, at + n):
        top = max(top, values[s])
    for s in range(at, at + n):
        values[s] = exp((values[s] - top) / temperature)
        total += values[s]
    for s in range(at, at + n):
        values[s] /= total
    return top + temperature * log(total)
