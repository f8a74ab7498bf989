"""Upper bounds of each example's risk from the messages of ``bcfw``, where its blocks are factors.

See :mod:`ssvm_trainers.planes.factors.factor_kernels` for the definition of messages.
"""

from __future__ import annotations

import numpy as np

from ssvm_dsl.ir import F64, I32, I64
from ssvm_dsl.kernels import FlatMaps, ScoreSpace, StateScores, borrow, njit, score_example
from ssvm_trainers.planes.cache import Entries
from ssvm_trainers.planes.factors.factor_kernels import table_values
from ssvm_trainers.planes.factors.records import Dual, Factors, SweepWorkspace


@njit(cache=True, nogil=True)
def message_bounds(
    maps: FlatMaps, entries: Entries, factors: Factors, space: SweepWorkspace, loss: F64, truth: I32, dual: Dual,
    ids: I64,
) -> F64:  # fmt: skip
    """Return the upper bounds of the risks of some examples at w from the messages, less the constants of their losses.

    For messages d it is (Meshi et al. 2010, equation 8), with the scores theta of the loss-augmented problem at w,

        sum_v max_s (theta_v + sum_f d_fv)(s)  +  sum_f max_c (theta_f(c) - sum_k d_fk(c_k))  -  w . Phi(x_i, y_i) .

    Parameters
    ----------
    maps, entries, factors : FlatMaps, Entries, Factors
        All feature maps; read only.
    space : SweepWorkspace
        Work space.
    loss : ndarray of float64, shape (S,)
        Loss of each state.
    truth : ndarray of int32, shape (V,)
    dual : Dual
        ``messages`` and ``w`` are read.
    ids : ndarray of int64
        The examples.

    Returns
    -------
    ndarray of float64, shape (len(ids),)
    """
    maps, entries, factors, space = borrow(maps), borrow(entries), borrow(factors), borrow(space)
    loss, dual, state_ptr, belief = borrow(loss), borrow(dual), entries.state_ptr, space.belief
    messages, w, bounds = dual.messages, dual.w, np.empty(len(ids))
    for place, i in enumerate(ids):
        lo, hi = entries.var_ptr[i], entries.var_ptr[i + 1]
        zero, total = state_ptr[lo], 0.0
        scores = ScoreSpace(space.node, space.pool, space.scores)
        score_example(maps, StateScores(entries.var_ptr, state_ptr, loss), i, w, space.ones, scores)
        for s in range(state_ptr[lo], state_ptr[hi]):
            belief[s - zero] = space.node[s]
        for v in range(lo, hi):
            s = state_ptr[v] + truth[v]
            total -= space.node[s] - loss[s]
        for f in range(factors.start[factors.shape[i]], factors.start[factors.shape[i] + 1]):
            g, x, config = factors.group[f], 0, 0
            message, table = factors.message_at[i] + factors.message[f], factors.table_at[i, g] + factors.table[f]
            for k in range(factors.arity[g]):
                v = lo + factors.variable[factors.slot[f] + k]
                config = config * (state_ptr[v + 1] - state_ptr[v]) + truth[v]
                for s in range(state_ptr[v] - zero, state_ptr[v + 1] - zero):
                    belief[s] += messages[message + x]
                    space.margin[x] = messages[message + x]
                    x += 1
            table_values(factors, f, space.pool, table, space.margin, space.value)
            best = -np.inf
            for c in range(factors.n_configs[g]):
                best = max(best, space.value[c])
            total += best - space.pool[table + config]
        for v in range(lo, hi):
            best = -np.inf
            for s in range(state_ptr[v] - zero, state_ptr[v + 1] - zero):
                best = max(best, belief[s])
            total += best
        bounds[place] = total
    return bounds
