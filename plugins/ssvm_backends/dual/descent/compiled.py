"""Block-coordinate descent on the dual bound for callers with separate kernels.

:class:`~ssvm_dsl.plugin_api.CompiledMessages` takes structure as flat arrays: the number of the update, and a graph.
"""

from __future__ import annotations

from math import exp, log
from typing import NamedTuple

import numpy as np

from ssvm_backends.dual.descent.block_descent import STAR, DescentRule, add_up, sweep
from ssvm_backends.dual.kernels import MAX_ARITY, VISIT, Site, extent, fill_visits, shift_of
from ssvm_backends.dual.slope import choose, state_score
from ssvm_backends.graphs.graph import Graph, Instance
from ssvm_dsl.ir import F64, I32, I64
from ssvm_dsl.kernels import (
    MESSAGE_SIGNATURE,
    SOFT_MESSAGE_SIGNATURE,
    borrow,
    cfunc,
    njit,
    pack,
    packed_longs,
    packed_record,
)
from ssvm_dsl.plugin_api import CompiledMessages

# -- The dual bound with soft maxima, and where it is attained (Meshi et al. 2010, equation 13) ----------------------
#
# At temperature T the bound of fixed messages is
#
#     sum_v T log sum_s exp(node'[v, s] / T)  +  sum_f T log sum_c exp(table'[f, c] / T)
#
# with scores reparametrised by the messages (:mod:`ssvm_backends.dual.kernels`).  It is smooth in the scores; its
# gradient is a distribution over the states of each variable and, apart from them, over the joint states of each
# factor. Factors and variables agree where messages minimise the bound, and only there.


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


#: How a graph is read.
graph_in = packed_record(Graph)


class CompiledRule(NamedTuple):
    """The update, and the temperature of its maxima."""

    update: int
    temperature: float


@njit(cache=True, nogil=True)
def improve(instance: Instance, rule: CompiledRule, example: int, passes: int, messages: F64, work: F64) -> Site:
    """Update all messages of one example some times; return the example with these messages.

    Parameters
    ----------
    instance : Instance
        All scores are finite; nobody reads the constants.
    rule : CompiledRule
    example : int
        The example.
    passes : int
        How often to update all messages.
    messages : ndarray of float64
        Those of this example, from 0; updated in place.
    work : ndarray of float64
        As much as :func:`work_size` says.
    """
    instance, messages, work = borrow(instance), borrow(messages), borrow(work)
    g, node, pool, update = instance.graph, instance.node, instance.pool, rule.update
    v_lo, f_lo, at = g.var_ptr[example], g.factor_ptr[example], np.int64(0)
    v_hi, f_hi = g.var_ptr[example + 1], g.factor_ptr[example + 1]
    shift = shift_of(g, example, at)
    site = Site(g, node, pool, messages, shift, example)
    if passes == 0:
        return site
    n_visits = VISIT * (g.slot_ptr[f_hi] - g.slot_ptr[f_lo])
    n_states = g.state_ptr[v_hi] - g.state_ptr[v_lo]
    # callers give work space of one type; integers take as many bytes
    visits, belief = work[:n_visits].view(np.int64), work[n_visits : n_visits + n_states]
    value = work[n_visits + n_states :]
    fill_visits(g, example, shift, update != STAR, visits)
    if update != STAR:
        add_up(g, node, messages, shift, example, belief)
    lo, hi = (v_lo, v_hi) if update == STAR else (f_lo, f_hi)
    whole = DescentRule(update, rule.temperature, belief, value)
    for _ in range(passes):
        sweep(site, visits, whole, lo, hi)
    return site


@njit(cache=True, nogil=True)
def descend_example(
    instance: Instance, rule: CompiledRule, example: int, passes: int, messages: F64, choices: I32, work: F64
) -> float:
    """Update all messages of one example some times; write where the bound is attained, and return it.

    Parameters
    ----------
    instance, rule, example, passes, messages, work
        As for :func:`improve`.
    choices : ndarray of int32
        Written: its states and joint states, see :func:`~ssvm_backends.dual.slope.choose`.
    """
    choices, g = borrow(choices), instance.graph
    n_variables = g.var_ptr[example + 1] - g.var_ptr[example]
    site = improve(instance, rule, example, passes, messages, work)
    return choose(site, choices[:n_variables], choices[n_variables:])


class SoftAnswers(NamedTuple):
    """Messages, soft bounds and where these are attained, of n examples.

    Parameters
    ----------
    message_ptr, ptr : ndarray of int64, shape (n + 1,)
        Where messages and probabilities of each start.
    messages : ndarray of float64
    probabilities : ndarray of float64
        See :func:`soft_choose`.
    bound : ndarray of float64, shape (n,)
    """

    message_ptr: I64
    ptr: I64
    messages: F64
    probabilities: F64
    bound: F64


@njit(cache=True, nogil=True)
def soften_examples(
    instance: Instance, rule: CompiledRule, ids: I64, passes: int, answers: SoftAnswers, work: F64
) -> None:
    """Update the messages of some examples; write their soft bounds, and where these are attained.

    Parameters
    ----------
    instance, rule, passes, work
        As for :func:`improve`; the temperature is above 0.
    ids : ndarray of int64, shape (n,)
    answers : SoftAnswers
        Messages are updated in place, the others written.
    """
    answers = borrow(answers)
    for i in range(len(ids)):
        mine = answers.messages[answers.message_ptr[i] : answers.message_ptr[i + 1]]
        site = improve(instance, rule, ids[i], passes, mine, work)
        out = answers.probabilities[answers.ptr[i] : answers.ptr[i + 1]]
        answers.bound[i] = soft_choose(site, rule.temperature, out)


@cfunc(MESSAGE_SIGNATURE)
def descent(ints, longs, reals, example, pool, node, passes, messages, choices, work):  # type: ignore[no-untyped-def]
    """Compiled message passing, see :class:`~ssvm_dsl.plugin_api.CompiledMessages`; returns the dual bound.

    Parameters
    ----------
    ints, longs : ndarray of int32, ndarray of int64
        Packed: the kind of update, and the arrays of the graph.
    reals : ndarray of float64, shape (1,)
        The temperature of soft maxima.
    pool, node : ndarray of float64
        Tables and unary scores of all examples, finite.
    example, passes, messages, choices, work
        As for :func:`descend_example`.
    """
    instance = Instance(graph_in(ints, longs, 1), node, pool, reals)
    rule = CompiledRule(packed_longs(longs, 0)[0], reals[0])
    return descend_example(instance, rule, example, passes, messages, choices, work)


@cfunc(SOFT_MESSAGE_SIGNATURE)
def soft_descent(ints, longs, reals, example, pool, node, passes, messages, marginals, work):  # type: ignore[no-untyped-def]
    """Compiled message passing with soft maxima; returns the soft bound.

    Parameters
    ----------
    ints, longs, reals, example, pool, node, passes, messages, work
        As for :func:`descent`; the temperature is above 0.
    marginals : ndarray of float64
        Written: probabilities, see :func:`soft_choose`.
    """
    instance = Instance(graph_in(ints, longs, 1), node, pool, reals)
    rule = CompiledRule(packed_longs(longs, 0)[0], reals[0])
    site = improve(instance, rule, example, passes, messages, work)
    return soft_choose(site, rule.temperature, marginals)


def work_size(graph: Graph) -> int:
    """Return how many numbers of work space any example needs."""
    longest, widest, _, slots = extent(graph, np.arange(graph.n_examples))
    return int(VISIT * slots + widest * longest + widest * MAX_ARITY)


def compiled_messages(graph: Graph, update: int, temperature: float) -> tuple[CompiledMessages, Graph]:
    """Return the compiled messages for callers with separate kernels, and the graph as views of its arrays."""
    ints, longs = pack(np.array([update]), *graph)
    views = graph_in.py_func(ints, longs, 1)
    ptr, soft = graph.message_ptr[graph.slot_ptr[graph.factor_ptr]], temperature > 0.0
    function = soft_descent if soft else descent
    return CompiledMessages(function, ints, longs, np.array([temperature]), ptr, work_size(graph), soft), views
