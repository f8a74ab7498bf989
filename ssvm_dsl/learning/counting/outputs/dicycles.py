"""``Dicycles``: every directed cycle through some of N nodes is an output.

Cycles of high gain are found by local search over many policies at once, in which a cycle is a row of successors, -1 at
nodes that are not on it.  The search starts, for each node, at the best cycle of
three nodes that meets it, in either direction, which earns at least 0.  A round makes for every policy the step that
earns most, until none earns anything: a node is put between two others, taken out, or exchanged for one that is not on
the cycle.  The best of these cycles is kept.
"""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from itertools import combinations, permutations
from math import comb, factorial
from typing import Any, ClassVar

import numpy as np

from ssvm_dsl.array_types import F64, I64, Bools
from ssvm_dsl.calls import checked_class
from ssvm_dsl.errors import OptionError
from ssvm_dsl.learning.counting.outputs.output_spaces import OutputSpace, whole_number

#: So many nodes have 50 million pairs.
MOST_NODES = 10_000

#: Policies that are searched at once: a few arrays of N^3 numbers for each.
BATCH = 512

#: Gains below this share of the largest entry are rounding errors.
ROUNDING = 1e-12


@checked_class
class Dicycles(OutputSpace):
    """All directed cycles of two nodes or more in the complete directed graph on N nodes.

    For each pair u < v, ``phi_uv(z)`` is 1 if the cycle leads from u to v, -1 if from v to u, and 0 if neither or both
    (Gaertner and Vembu 2009, section 4.2, whose features hold each number twice, the second time negated, as they have
    one for each ordered pair).  A vector of scores is a policy: what a step from u to v earns, and a step back costs.
    With ``b(p, q, r) = sum_{i=p}^N binom(N - q, i - q) (i - r)!``

        |Y| = b(2, 0, 1) ,     Phi = 0 ,     C_{uv,uv} = 2 b(3, 2, 2) ,     C_{uv,uw} = -2 b(3, 3, 3) ,
        C_{uv,vw} = 2 b(3, 3, 3) ,     0 for pairs without a common node .

    (The paper prints C without the factor 2, and with another exponent; these are the sums that enumeration gives.)

    Reversing a cycle negates its features, so the best of any cycle and its reverse scores at least 0, half-way from
    the worst output to the best one.  The decoder ``"approximate"`` keeps that guarantee, and improves cycles by
    adding, taking out and exchanging nodes until no such step is left; ``"exact"`` finds the best cycle, which is a
    hard problem, by the backend ``circuit``, in time exponential in the worst case.

    Parameters
    ----------
    n_nodes : int
        At least 3.

    Examples
    --------
    >>> CountingPredictor(Dicycles(10), kernel="linear").fit(X, [(0, 3, 1), (2, 5), ...])
    """

    decoders: ClassVar = {"approximate": 0.5, "exact": 1.0}

    def __init__(self, n_nodes: int) -> None:
        self.n_nodes = whole_number(n_nodes, 3, "n_nodes")
        if self.n_nodes > MOST_NODES:
            raise OptionError(f"n_nodes is at most {MOST_NODES}: each pair of nodes has a feature, got {n_nodes}")
        self.tail, self.head = np.triu_indices(self.n_nodes, 1)
        self.n_features = len(self.tail)

    def __repr__(self) -> str:
        return f"Dicycles({self.n_nodes})"

    def count(self, p: int, q: int, r: int) -> int:
        """Return ``b(p, q, r)``: over the sizes i of cycles, choices of the other nodes times orders."""
        n = self.n_nodes
        return sum(comb(n - q, i - q) * factorial(i - r) for i in range(p, n + 1))

    @property
    def size(self) -> int:
        """The number of directed cycles."""
        return self.count(2, 0, 1)

    @property
    def Phi(self) -> F64:
        """The sum of the features of all cycles: 0."""
        return np.zeros(self.n_features)

    @property
    def C(self) -> F64:
        """The sum of ``phi(z) phi(z)'`` over all cycles."""
        return self._pairs(float(2 * self.count(3, 2, 2)), float(2 * self.count(3, 3, 3)))

    @property
    def second_moment(self) -> F64:
        """The mean of ``phi(z) phi(z)'``, from exact fractions."""
        same, common = (float(Fraction(2 * self.count(3, k, k), self.size)) for k in (2, 3))
        return self._pairs(same, common)

    @property
    def mean(self) -> F64:
        """The mean of the features: 0."""
        return self.Phi

    def _pairs(self, same: float, common: float) -> F64:
        """Return the matrix of a number for the same pair, and one, signed, for pairs with a common node."""
        ends = np.zeros((self.n_features, self.n_nodes))
        rows = np.arange(self.n_features)
        ends[rows, self.tail], ends[rows, self.head] = 1.0, -1.0
        signs = -(ends @ ends.T)  # -1 where both leave or both enter the common node, 1 where the one follows the other
        return np.where(np.eye(self.n_features) > 0, same, common * signs)

    def canonical(self, output: Any) -> tuple[int, ...]:
        """Return a cycle as the tuple of its nodes in order, the smallest first.

        Raises
        ------
        ValueError
            It is none.
        """
        nodes = np.asarray(output)
        good = nodes.ndim == 1 and nodes.dtype.kind in "iu" and 2 <= len(nodes) == len(np.unique(nodes))
        if not good or nodes.min() < 0 or nodes.max() >= self.n_nodes:
            text = f"expected two or more different nodes below {self.n_nodes}, in the order of a cycle"
            raise ValueError(f"{text}, found {output!r}")
        return tuple(np.roll(nodes, -int(nodes.argmin())).tolist())

    def features(self, output: Any) -> F64:
        """Return 1 for each step of the cycle from a lower to a higher node, -1 for steps down."""
        nodes = np.array(output)
        steps = np.zeros((self.n_nodes, self.n_nodes))
        steps[nodes, np.roll(nodes, -1)] = 1.0
        return np.asarray((steps - steps.T)[self.tail, self.head])

    def policies(self, scores: F64) -> F64:
        """Return what each step earns as antisymmetric matrices; ``shape (n, N, N)`` of ``scores (n, d)``."""
        steps = np.zeros((len(scores), self.n_nodes, self.n_nodes))
        steps[:, self.tail, self.head] = scores
        return np.asarray(steps - steps.transpose(0, 2, 1))

    def decode(self, scores: F64, decoder: str = "approximate") -> list[tuple[int, ...]]:
        """Return a cycle for each policy; see the class for what the decoders guarantee."""
        policies = self.policies(np.asarray(scores, dtype=np.float64))
        if decoder == "exact":
            from ssvm_dsl.learning.counting.outputs.circuits import best_circuits

            return [self.canonical(nodes) for nodes in best_circuits(policies)]
        cycles: I64 = improved_cycles(policies)
        return [self.canonical(nodes) for nodes in in_order(cycles)]

    def outputs(self) -> Iterator[tuple[int, ...]]:
        """Return all cycles."""
        for size in range(2, self.n_nodes + 1):
            for nodes in combinations(range(self.n_nodes), size):
                yield from ((nodes[0], *rest) for rest in permutations(nodes[1:]))


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
