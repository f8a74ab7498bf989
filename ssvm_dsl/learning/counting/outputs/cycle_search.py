"""Directed cycles of high gain under antisymmetric policies, by local search over many policies at once.

A cycle is a row of successors, -1 at nodes that are not on it.  The search starts, for each node, at the best cycle of
three nodes that meets it, in either direction, which earns at least 0.  A round makes for every policy the step that
earns most, until none earns anything: a node is put between two others, taken out, or exchanged for one that is not on
the cycle.  The best of these cycles is kept.
"""

from __future__ import annotations

import numpy as np

from ssvm_dsl.array_types import F64, I64, Bools

#: Policies that are searched at once: a few arrays of N^3 numbers for each.
BATCH = 512

#: Gains below this share of the largest entry are rounding errors.
ROUNDING = 1e-12


def improved_cycles(policies: F64) -> I64:
    """Return a cycle for each policy that no single step improves; ``shape (n, N)``, successors.

    Parameters
    ----------
    policies : ndarray of float64, shape (n, N, N)
        What a step from u to v earns; antisymmetric.
    """
    n, n_nodes, _ = policies.shape
    cycles_of = np.full((n, n_nodes), -1, dtype=np.int64)
    for lo in range(0, n, BATCH):
        part = policies[lo : lo + BATCH]
        best = np.full(len(part), -np.inf)
        for start in range(n_nodes):
            cycles = best_triangles(part, start)
            _improve(part, cycles)
            gain = gains(part, cycles)
            better = gain > best
            best[better], cycles_of[lo : lo + BATCH][better] = gain[better], cycles[better]
    return cycles_of


def gains(policies: F64, cycles: I64) -> F64:
    """Return what each cycle earns."""
    on = cycles >= 0
    steps = np.take_along_axis(policies, np.where(on, cycles, 0)[:, :, None], axis=2)[:, :, 0]
    return np.asarray(np.where(on, steps, 0.0).sum(axis=1))


def in_order(cycles: I64) -> list[list[int]]:
    """Return the nodes of each cycle, in order."""
    ordered = []
    for row in cycles.tolist():
        start = next(v for v, successor in enumerate(row) if successor >= 0)
        nodes = [start]
        while (after := row[nodes[-1]]) != start:
            nodes.append(after)
        ordered.append(nodes)
    return ordered


def best_triangles(policies: F64, start: int) -> I64:
    """Return the best cycle of three nodes of each policy that meets a node."""
    n, n_nodes, _ = policies.shape
    gain = policies[:, start, :, None] + policies + policies[:, None, :, start]
    v, w = np.indices((n_nodes, n_nodes))
    gain[:, (v == w) | (v == start) | (w == start)] = -np.inf
    second, third = np.unravel_index(gain.reshape(n, -1).argmax(axis=1), v.shape)
    cycles, rows = np.full((n, n_nodes), -1, dtype=np.int64), np.arange(n)
    cycles[:, start], cycles[rows, second], cycles[rows, third] = second, third, start
    return cycles


def _improve(policies: F64, cycles: I64) -> None:
    """Make the best step of each policy in its cycle until there is none."""
    least = ROUNDING * np.abs(policies).max(axis=(1, 2))
    open_ = np.arange(len(policies))
    while len(open_):
        open_ = open_[_step(policies[open_], cycles, open_, least[open_])]


def _step(policies: F64, cycles: I64, open_: I64, least: F64) -> Bools:
    """Make the best step for each policy in the cycles at ``open_``; return for which ones there was one."""
    here = cycles[open_]
    m, n_nodes = here.shape
    rows, every = np.arange(m)[:, None], np.arange(n_nodes)[None, :]
    on = here >= 0
    after = np.where(on, here, 0)
    beyond = np.take_along_axis(after, after, axis=1)
    to_after, to_beyond = policies[rows, every, after], policies[rows, after, beyond]
    ends = policies.transpose(0, 2, 1)  # ends[., u, k] = policy[., k, u]
    barred = ~on[:, :, None] | on[:, None, :]
    insert = policies + ends[rows, after] - to_after[:, :, None]
    swap = policies + ends[rows, beyond] - (to_after + to_beyond)[:, :, None]
    insert[barred] = swap[barred] = -np.inf
    remove = np.where(on, policies[rows, every, beyond] - to_after - to_beyond, -np.inf)
    remove[on.sum(axis=1) <= 2] = -np.inf
    gains = np.concatenate([insert.reshape(m, -1), swap.reshape(m, -1), remove], axis=1)
    best = gains.argmax(axis=1)
    better: Bools = gains[np.arange(m), best] > least
    _make(cycles, open_[better], best[better], n_nodes)
    return better


def _make(cycles: I64, rows: I64, step: I64, n_nodes: int) -> None:
    """Write steps: numbers below N^2 insert node k after u, below 2 N^2 put k for the one after u, the rest drop it."""
    kind, place = step // n_nodes**2, step % n_nodes**2
    u = np.where(kind < 2, place // n_nodes, place)
    after = cycles[rows, u]
    beyond = cycles[rows, after]
    dropped = kind >= 1
    target = np.where(dropped, beyond, after)
    cycles[rows[dropped], after[dropped]] = -1
    new = place % n_nodes
    put = kind < 2
    cycles[rows[put], u[put]] = new[put]
    cycles[rows[put], new[put]] = target[put]
    cycles[rows[~put], u[~put]] = target[~put]
