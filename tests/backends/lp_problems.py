"""Graphs the tests of ``lp`` and ``ilp`` share, and the relaxation written down naively."""

from __future__ import annotations

import gc
import itertools
import os
import signal
import threading
from contextlib import contextmanager

import numpy as np
from scipy.optimize import linprog

from ssvm_dsl.ir import Group, Program, Theta
from ssvm_dsl.testing.problems import Problem


def pairwise(n, card, edges, rng, node=None, tables=None):
    """One example of n variables with random scores where none are given."""
    edges = np.array(edges, np.int32).reshape(-1, 2)
    rows = np.arange(len(edges), dtype=np.int32)
    group = Group.of("e", (card, card), edges, np.array([0, len(edges)]), rows, len(edges), np.array([0, n]))
    program = Program(np.array([0, n]), np.full(n, card, np.int32), (group,)).validate()
    node = rng.normal(size=n * card) if node is None else node
    tables = rng.normal(size=(len(edges), card * card)) if tables is None else tables
    return Problem("graph", program, Theta.of(program, node, [tables]))


def grid_edges(h, w):
    at = np.arange(h * w).reshape(h, w)
    across, down = (at[:, :-1], at[:, 1:]), (at[:-1], at[1:])
    return np.concatenate([np.stack([a.ravel(), b.ravel()], axis=1) for a, b in (across, down)])


def grid(h, w, card, seed=0):
    return pairwise(h * w, card, grid_edges(h, w), np.random.default_rng(seed))


def complete(n, card, seed=0):
    return pairwise(n, card, list(itertools.combinations(range(n), 2)), np.random.default_rng(seed))


def eight_wide(seed=0):
    """Eight binary variables in one factor, and a ring of pairs."""
    ring = pairwise(8, 2, [(v, (v + 1) % 8) for v in range(8)], np.random.default_rng(seed))
    scope, ptr = np.arange(8, dtype=np.int32)[None], ring.program.var_ptr
    wide = Group.of("w", (2,) * 8, scope, np.array([0, 1]), np.zeros(1, np.int32), 1, ptr)
    program = Program(ring.program.var_ptr, ring.program.card, (*ring.program.groups, wide)).validate()
    table = np.random.default_rng(seed + 1).normal(size=(1, 256))
    return Problem("eight wide", program, Theta.of(program, ring.theta.node, [*ring.theta.tables, table]))


def noisy(problem, size, seed=1):
    rng, theta = np.random.default_rng(seed), problem.theta.copy()
    theta.node[:] += size * rng.normal(size=theta.node.size)
    theta.pool[:] += size * rng.normal(size=theta.pool.size)
    return theta


def naive_relaxation(problem, example):
    """Value of the local polytope: a dense matrix, row by row, over the allowed columns; ``-inf`` if infeasible."""
    program, theta = problem.program, problem.theta
    columns, rows = {}, []
    for v in range(*program.var_ptr[example : example + 2]):
        for s in range(program.card[v]):
            at = program.state_ptr[v] + s
            masked = program.allowed is not None and not program.allowed[at]
            columns["node", v, s] = -np.inf if masked else theta.node[at]
        rows.append(({("node", v, s): 1.0 for s in range(program.card[v])}, 1.0))
    for g, (group, table) in enumerate(zip(program.groups, theta.tables)):
        for f in range(*group.ptr[example : example + 2]):
            joint = list(itertools.product(*(range(c) for c in group.cards)))
            for c, score in zip(joint, table[group.table[f]]):
                columns[g, f, c] = score
            for k, v in enumerate(group.scope[f]):
                for s in range(program.card[v]):
                    rows.append(({**{(g, f, c): 1.0 for c in joint if c[k] == s}, ("node", v, s): -1.0}, 0.0))
    place = {name: k for k, name in enumerate(columns)}
    matrix, score = np.zeros((len(rows), len(place))), np.array(list(columns.values()))
    for i, (row, _) in enumerate(rows):
        for name, value in row.items():
            matrix[i, place[name]] = value
    shut = score == -np.inf
    bounds = [(0, 0) if s else (0, None) for s in shut]
    found = linprog(-np.where(shut, 0, score), A_eq=matrix, b_eq=[b for _, b in rows], bounds=bounds, method="highs")
    return -np.inf if found.status == 2 else theta.const[example] - found.fun


@contextmanager
def interruptible():
    """Yield a function whose first call sends Ctrl-C to this process a moment later, wherever it is then.

    The handler is Python's own, also in a worker of pytest-xdist.  No garbage is collected meanwhile: an exception
    within a callback of the collector (hypothesis has one) is lost.
    """
    before, timers = signal.signal(signal.SIGINT, signal.default_int_handler), []

    def press(*told, seconds=0.1):
        if not timers:
            timers.append(threading.Timer(seconds, lambda: os.kill(os.getpid(), signal.SIGINT)))
            timers[0].start()

    gc.disable()
    try:
        yield press
    finally:
        for timer in timers:
            timer.cancel()
            timer.join()
        gc.enable()
        signal.signal(signal.SIGINT, before)
