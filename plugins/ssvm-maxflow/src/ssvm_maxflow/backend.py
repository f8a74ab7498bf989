"""``maxflow``: exact maximisation of binary submodular models by the minimum cuts of PyMaxflow.

Boykov and Kolmogorov (PAMI 2004): near linear on the sparse graphs of images.  Scores become a network of whole numbers
in :mod:`ssvm_maxflow.backend`, which says what rounding does to answers.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from dataclasses import dataclass
from math import frexp, fsum, isfinite, ldexp
from time import perf_counter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ssvm_dsl.errors import ScoreError
from ssvm_dsl.ir import Need, Primal, Program, Question, Solution, Stop, Theta
from ssvm_dsl.plugin_api import Verdict, loading

F64 = NDArray[np.float64]
I64 = NDArray[np.int64]
I32 = NDArray[np.int32]
Bools = NDArray[np.bool_]

#: Seconds for each variable and factor that a cut may take: one that is begun cannot be cut short.
SECONDS = 2e-6


class MaxFlow:
    """Boykov-Kolmogorov maximum flow."""

    def check(self, need: Need) -> Verdict:
        """Accept binary submodular problems, as ``Caps`` say."""
        size = float(need.n_variables + need.n_factors)
        return Verdict(True, 60.0 * size + 1e4 * need.n_examples, n_bytes=200.0 * size / max(need.n_examples, 1))

    def open(self, program: Program, options: Mapping[str, Any]) -> Session:
        """Return a session."""
        with loading():
            importlib.import_module("maxflow")
        return Session(program)


class Session:
    """Answers example by example.

    Parameters
    ----------
    program : Program
    """

    def __init__(self, program: Program) -> None:
        self.program = program

    def solve(self, question: Question) -> Solution:
        """Answer ``map`` or ``map_clamped``; see :class:`~ssvm_dsl.plugin_api.Session`."""
        ids, node, limits = question.ids(self.program), question.masked_node(self.program), question.limits
        end = np.inf if limits.time is None else perf_counter() + limits.time
        labels = [np.zeros(size, np.int32) for size in np.diff(question.label_ptr(self.program))]
        score, bound = np.full(len(ids), -np.inf), np.full(len(ids), np.nan)
        stop = np.full(len(ids), Stop.TIME, np.int8)
        for number, i in enumerate(ids.tolist()):
            example = Example.of(self.program, question.theta, node, i)
            if perf_counter() + SECONDS * (len(example.node) + len(example.scope)) >= end:
                break
            labels[number], score[number], bound[number] = best(example)
            stop[number] = Stop.FINISHED
        packed = np.concatenate([np.zeros(0, np.int32), *labels])
        return Solution(packed, score, bound, stop, Primal.codes(score, bound))


def best(example: Example) -> tuple[I32, float, float]:
    """Return the best labelling of an example, its score and an upper bound; ``-inf`` for both without any."""
    network = Network.of(example)
    if network is None:
        return np.zeros(len(example.node), dtype=np.int32), -np.inf, -np.inf
    cut, labels = minimum_cut(network)
    score = example.score(labels)
    return labels, score, network.peak - network.unit * cut if score > -np.inf else -np.inf


def minimum_cut(network: Network) -> tuple[int, I32]:
    """Return the cost of the best labelling, and the labelling: for each variable the side, 0 for the source's."""
    import maxflow

    n = len(network.source)
    if not n:
        return network.base, np.zeros(0, dtype=np.int32)
    graph = maxflow.Graph[int](n, len(network.scope))
    nodes = graph.add_grid_nodes(n)
    graph.add_grid_tedges(nodes, network.source, network.sink)
    if len(network.scope):
        first, second = np.ascontiguousarray(network.scope.T)
        graph.add_edges(first, second, network.forth, network.back)
    value = int(graph.maxflow())
    return network.base + value, graph.get_grid_segments(nodes).astype(np.int32)


# --------------------------------------------------------------------------------------------------------------------
# Scores of one example as a network whose minimum cut is the best labelling (Kolmogorov and Zabih, PAMI 2004).
#
# A *block* is a variable or a factor; it adds one of its scores ``t`` to the score of a labelling.  With the largest
# finite score of each block,
#
#     peak = const + sum over blocks of max t          loss = max t - t >= 0          score(y) = peak - sum of losses
#
# Costs are whole numbers, ``floor(loss / unit)``.  Rounding down keeps the bound true: where every cut costs at least
# ``low``, no labelling scores more than ``peak - unit low``.  The unit is 1 where all scores are integers (nothing is
# rounded then), and otherwise a power of two such that all losses together are about ``2**50`` units.
#
# State 0 is the side of the source.  The costs (a, b, c, d) of a factor over (x, y), in the order 00, 01, 10, 11, are
#
#     a + (c - a) x + (d - c) y + (b + c - a - d) (1 - x) y
#
# costs of single variables and an arc from x to y.  Its capacity must not be negative: that is submodularity.  Where
# rounding, here or in the computation of the scores, makes it negative by next to nothing, d is lowered, which leaves
# the bound true.
#
# A joint state that is forbidden (``-inf``) together with all others of a row or a column of its table forbids a state
# of one variable.  (0, 1) and (1, 0) may be forbidden alone, (0, 0) and (1, 1) may not.  Forbidden states get further
# capacity to a terminal, (0, 1) and (1, 0) further capacity of an arc: more than all losses together, so that a minimum
# cut contains something forbidden only where all labellings do.

#: Base-2 logarithm of the sum of all losses in units, for scores that are not integers.
BITS = 50

#: A capacity may be negative by four units and this share of the table's costs, unless all scores are integers.
FORGIVEN = 2.0**-40


@dataclass(frozen=True, eq=False)
class Example:
    """The scores of one example of binary variables.

    Parameters
    ----------
    node : ndarray of float64, shape (n, 2)
        Scores of the states; ``-inf`` where a mask or a clamp forbids one, or where there is none.
    scope : ndarray of int64, shape (m, 2)
        The variables of all factors, counted from the example's first.
    table : ndarray of float64, shape (m, 4)
        Their scores.
    const : float
    """

    node: F64
    scope: I64
    table: F64
    const: float

    @classmethod
    def of(cls, program: Program, theta: Theta, masked_node: F64, i: int) -> Example:
        """Return the scores of example i of a program; see :meth:`ssvm_dsl.ir.Question.masked_node`."""
        first, last = (int(v) for v in program.var_ptr[i : i + 2])
        node = np.full((last - first, 2), -np.inf)
        states = masked_node[program.state_ptr[first] : program.state_ptr[last]]
        node[np.arange(2) < program.card[first:last, None]] = states
        scopes, tables = [np.zeros((0, 2), np.int64)], [np.zeros((0, 4))]
        for group, pool in zip(program.groups, theta.tables, strict=True):
            mine = slice(int(group.ptr[i]), int(group.ptr[i + 1]))
            table = np.full((mine.stop - mine.start, 2, 2), -np.inf)
            table[:, : group.cards[0], : group.cards[1]] = pool[group.table[mine]].reshape(-1, *group.cards)
            scopes.append(group.scope[mine].astype(np.int64) - first)
            tables.append(table.reshape(-1, 4))
        return cls(node, np.concatenate(scopes), np.concatenate(tables), float(theta.const[i]))

    def score(self, labels: I32) -> float:
        """Return the score of a labelling."""
        single = self.node[np.arange(len(labels)), labels]
        joint = self.table[np.arange(len(self.scope)), labels[self.scope] @ np.array([2, 1])]
        together = np.concatenate([[self.const], single, joint])
        return fsum(together) if np.isfinite(together).all() else -np.inf


@dataclass(frozen=True, eq=False)
class Network:
    """A network whose cuts are labellings.

    Parameters
    ----------
    source, sink : ndarray of int64, shape (n,)
        Capacities of the arcs from and to the terminals: what states 1 and 0 of each variable cost.
    scope : ndarray of int64, shape (m, 2)
    forth, back : ndarray of int64, shape (m,)
        Capacities of the arcs from the first variable of a factor to the second, and back.
    base : int
        What a cut costs less than its labelling.
    unit : float
        What a cost of 1 is in scores.
    peak : float
        The score of a labelling of cost 0, if there were one.
    """

    source: I64
    sink: I64
    scope: I64
    forth: I64
    back: I64
    base: int
    unit: float
    peak: float

    @classmethod
    def of(cls, example: Example) -> Network | None:
        """Return the network of an example, ``None`` where a variable or a factor has nothing that is allowed.

        Raises
        ------
        ScoreError
            A table is not submodular, or the scores are too large for double precision.
        """
        highs = [example.node.max(axis=1), example.table.max(axis=1)]
        if any((high == -np.inf).any() for high in highs):
            return None
        scores = (example.node, example.table)
        with np.errstate(over="ignore"):
            losses = [np.where(t > -np.inf, high[:, None] - t, 0.0) for high, t in zip(highs, scores, strict=True)]
            worst = [loss.max(axis=1) for loss in losses]
            total = float(sum(part.sum() for part in worst))
        peak = fsum([example.const, *np.concatenate(highs)])
        if not (isfinite(total) and isfinite(peak)):
            raise ScoreError("'maxflow' cannot add up scores of this size in double precision")
        whole = all(bool((np.rint(loss) == loss).all()) for loss in losses) and total < 2.0**BITS
        unit = 1.0 if whole else ldexp(1.0, max(frexp(total)[1] - BITS, -1000))
        node, table = (np.floor(loss / unit).astype(np.int64) for loss in losses)
        top = int(sum(np.floor(part / unit).sum() for part in worst)) + 1
        states, forth, back, bad = without_forbidden(example, table)
        capacity = table @ np.array([-1, 1, 1, -1])
        missing = np.maximum(-capacity, 0)
        bad |= missing > (0 if whole else 4 + FORGIVEN * table.sum(axis=1))
        if bad.any():
            raise not_submodular(example, int(np.flatnonzero(bad)[0]))
        table[:, 3] -= missing
        unary = node[:, 1] - node[:, 0]
        np.add.at(unary, example.scope[:, 0], table[:, 2] - table[:, 0])
        np.add.at(unary, example.scope[:, 1], table[:, 3] - table[:, 2])
        sink = np.maximum(-unary, 0)
        base = int(node[:, 0].sum() + table[:, 0].sum() - sink.sum())
        source, sink = np.maximum(unary, 0) + top * states[:, 1], sink + top * states[:, 0]
        return cls(source, sink, example.scope, capacity + missing + top * forth, top * back, base, unit, peak)


def without_forbidden(example: Example, table: I64) -> tuple[Bools, Bools, Bools, Bools]:
    """Give forbidden joint states costs that leave tables submodular, and return what is forbidden instead.

    Parameters
    ----------
    example : Example
    table : ndarray of int64, shape (m, 4)
        Costs; those of forbidden joint states are written.

    Returns
    -------
    states : ndarray of bool, shape (n, 2)
        Which states of variables are forbidden.
    forth, back : ndarray of bool, shape (m,)
        Whether (0, 1) and (1, 0) are forbidden.
    bad : ndarray of bool, shape (m,)
        Whether (0, 0) or (1, 1) is forbidden alone.
    """
    states, infinite = example.node == -np.inf, example.table == -np.inf
    square = infinite.reshape(-1, 2, 2)
    covered = np.zeros_like(square)
    for end, axis in ((0, 2), (1, 1)):
        gone = square.all(axis=axis)
        np.logical_or.at(states, example.scope[:, end], gone)
        covered |= np.expand_dims(gone, axis)
    alone = infinite & ~covered.reshape(-1, 4)
    table[infinite] = 0
    both = table[:, 0] + table[:, 3]
    for joint in (1, 2):
        table[:, joint] = np.where(infinite[:, joint], both, table[:, joint])
    return states, alone[:, 1], alone[:, 2], alone[:, 0] | alone[:, 3]


def not_submodular(example: Example, factor: int) -> ScoreError:
    """Return the error for a factor."""
    variables, scores = example.scope[factor].tolist(), example.table[factor].reshape(2, 2).tolist()
    return ScoreError(
        f"'maxflow' needs t(0, 0) + t(1, 1) >= t(0, 1) + t(1, 0) in every table; the factor over variables {variables} "
        f"has scores {scores}\n  hint: keep the weights of such factors non-negative (form=POTTS, nonneg=True), or use "
        "'combi' or 'trws'"
    )
