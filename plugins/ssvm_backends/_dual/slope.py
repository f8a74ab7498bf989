"""Where a dual bound is attained: the best state of each variable and the best joint state of each factor.

For fixed messages the bound ``sum_v max_s node'[v, s] + sum_f max_c table'[f, c]`` is a maximum of linear functions
of the scores, one for each choice of a state for every variable and, apart from them, of a joint state for every
factor.  The choice that attains it is a subgradient: ``bound(theta') >= bound + <choice, theta' - theta>``, whatever
the messages.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from ssvm_backends._dual.kernels import shift_of
from ssvm_backends._graphs.graph import F64, I32, I64, Graph


@njit(cache=True, nogil=True)
def best_choices(g: Graph, node: F64, pool: F64, ids: I64, ptr: I64, messages: F64, states: I32, configs: I64) -> None:
    """Write the best state of each variable and joint state of each factor of the listed examples, packed."""
    v_at, f_at = 0, 0
    for i in range(len(ids)):
        example = ids[i]
        shift = shift_of(g, example, ptr[i])
        for v in range(g.var_ptr[example], g.var_ptr[example + 1]):
            best = -np.inf
            for s in range(g.card[v]):
                value = node[g.state_ptr[v] + s]
                for t in range(g.touch_ptr[v], g.touch_ptr[v + 1]):
                    value += messages[g.message_ptr[g.touch_slot[t]] + shift + s]
                if value > best:
                    best, states[v_at] = value, s
            v_at += 1
        for f in range(g.factor_ptr[example], g.factor_ptr[example + 1]):
            best = -np.inf
            for c in range(g.table_size[f]):
                value = pool[g.table_ptr[f] + c]
                for k in range(g.slot_ptr[f], g.slot_ptr[f + 1]):
                    s = (c // g.stride[k]) % g.card[g.scope[k]]
                    value -= messages[g.message_ptr[k] + shift + s]
                if value > best:
                    best, configs[f_at] = value, c
            f_at += 1
