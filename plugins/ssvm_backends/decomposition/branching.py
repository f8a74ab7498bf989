"""Branch and bound over decompositions: the open node of highest bound of every example, all examples in one batch.

A node rules states out.  Its bound is lowered from its parent's prices; where that leaves a gap, the variable that the
parts agree on least is split into its state of most votes and all others.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from heapq import heappop, heappush
from itertools import count

import numpy as np

from ssvm_backends.decomposition.descent import PriceDescent
from ssvm_backends.decomposition.incumbents import Incumbents
from ssvm_dsl.errors import OutOfTime
from ssvm_dsl.ir import F64, I8, I64, Bools, Program, Stop, Theta, pointers, positions
from ssvm_dsl.plugin_api import Clock

#: A node ends where the planes promise less than this share of its gap: splitting it does more.
SHARE = 0.05

#: Why the search of an example ends, and not only a node.
CUT_SHORT = (Stop.TIME, Stop.INTERRUPTED)


@dataclass(order=True, frozen=True)
class BranchNode:
    """An open node of one example.

    Parameters
    ----------
    key : float
        Its bound, negative, so that the highest one comes first.
    number : int
        Older ones first among equals.
    open : ndarray of bool
        The states of the example's variables that are not ruled out.
    prices : ndarray of float64, shape (K, states of the example)
    """

    key: float
    number: int
    open: Bools = field(compare=False)
    prices: F64 = field(compare=False)


class Branching:
    """The trees of a batch of examples.

    Parameters
    ----------
    program : Program
    descent : Descent
    theta : Theta
        Scores, with ``-inf`` at the states that are ruled out from the start.
    best : Incumbents

    Attributes
    ----------
    roots : ndarray of float64, shape (K, S)
        Prices of all examples before anything is branched on.
    steps : ndarray of float64, shape (B,)
        The lengths of the steps there.
    """

    def __init__(self, program: Program, descent: PriceDescent, theta: Theta, best: Incumbents) -> None:
        self.program, self.descent, self.theta, self.best = program, descent, theta, best
        self.node = theta.node.copy()
        self.heaps: dict[int, list[BranchNode]] = {}
        self.leaves = np.full(program.n_examples, -np.inf)  # highest bound of closed nodes
        self.numbers = count()
        self.roots, self.steps = descent.bundle.center, descent.step

    def run(self, ids: I64, clock: Clock, most: int, n_nodes: int, bound: F64, stop: I8) -> None:
        """Lower bounds, node by node.

        Parameters
        ----------
        ids : ndarray of int64, shape (n,)
        clock : Clock
        most : int
            Calls of the oracles for each node.
        n_nodes : int
            Nodes of each example.
        bound : ndarray of float64, shape (B,)
            Written.
        stop : ndarray of int8, shape (B,)
            Written.
        """
        whole, first = self.theta.node > -np.inf, True
        for i in ids:
            states = self._states(i)
            self.heaps[i] = [BranchNode(-np.inf, next(self.numbers), whole[states], self._prices(states))]
        for _ in range(n_nodes):
            if clock.over or not len(ids):
                break
            bounds = np.full(len(bound), np.inf)
            stop[ids] = Stop.FINISHED
            parents = [heappop(self.heaps[i]) for i in ids]
            for i, node in zip(ids, parents, strict=True):
                states = self._states(i)
                self.node[states] = np.where(node.open, self.theta.node[states], -np.inf)
                self.descent.bundle.center[:, states] = node.prices
                bounds[i] = -node.key
            scores = Theta(self.node, self.theta.pool, self.theta.tables, self.theta.const)
            try:
                self.descent.run(ids, scores, self.best, clock, most, bounds, stop, SHARE if n_nodes > 1 else 0.0)
            except KeyboardInterrupt:
                stop[ids] = Stop.INTERRUPTED
            except OutOfTime:  # raised within an oracle, which was preparing
                stop[ids] = Stop.TIME
            if first:
                self.roots, first = self.descent.bundle.center.copy(), False
                self.steps = self.descent.step.copy()
            for i, node in zip(ids, parents, strict=True):
                self._expand(int(i), node, bounds[i], stop)
                bound[i] = self._bound(i)
                clock.tell(self.best.score[i], bound[i])
            # what ended a node only, and not the whole search, does not count
            going = np.array([bool(self.heaps[i]) and stop[i] not in CUT_SHORT for i in ids], dtype=bool)
            done = self.descent.closed(ids, self.best.score[ids], bound[ids]) | (bound[ids] == -np.inf)
            ended = np.where(going, stop[ids], np.maximum(stop[ids], Stop.ITERATIONS))
            stop[ids] = np.where(done, Stop.FINISHED, ended)
            ids = ids[going & ~done]
        stop[ids] = Stop.TIME if clock.over else Stop.ITERATIONS

    def _states(self, i: int) -> slice:
        """Return where the states of an example are."""
        program = self.program
        return slice(*program.state_ptr[program.var_ptr[i : i + 2]].tolist())

    def _prices(self, states: slice) -> F64:
        return self.descent.bundle.center[:, states].copy()

    def _bound(self, i: int) -> float:
        """Return the highest bound of an example's open nodes, and of those that are done."""
        heap = self.heaps[i]
        return max(float(self.leaves[i]), -heap[0].key if heap else -np.inf, float(self.best.score[i]))

    def _expand(self, i: int, node: BranchNode, bound: float, stop: I8) -> None:
        """Put the children of a node on the heap, or the bound of a leaf among those of leaves."""
        example = np.array([i], dtype=np.int64)
        if self.descent.closed(example, self.best.score[example], np.array([bound]))[0]:
            self.leaves[i] = max(self.leaves[i], bound)
            return
        place, states = self._least_agreed(i, node.open), self._states(i)
        if stop[i] in CUT_SHORT:
            self.leaves[i] = max(self.leaves[i], bound)
            return
        if place is None:
            self.leaves[i] = max(self.leaves[i], min(bound, self._score_of_last(example, node.open)))
            return
        prices = self._prices(states)
        first, state, last = place
        taken, others = node.open.copy(), node.open.copy()
        taken[first:state], taken[state + 1 : last], others[state] = False, False, False
        for child in (taken, others):
            heappush(self.heaps[i], BranchNode(-bound, next(self.numbers), child, prices))

    def _score_of_last(self, example: I64, open_: Bools) -> float:
        """Offer the only labelling of a node in which no variable has a choice; return an upper bound of its score.

        Its score has the rounding of one sum, while the node's bound has that of all parts.
        """
        card = self.program.card[positions(self.program.var_ptr, example)]
        last = np.flatnonzero(open_)
        if len(last) < len(card):  # a variable has no state at all
            return -np.inf
        self.best.offer(example, (last - pointers(card)[:-1]).astype(np.int32))
        return float(self.best.score[example[0]])

    def _least_agreed(self, i: int, open_: Bools) -> tuple[int, int, int] | None:
        """Return the first state of the variable to split, its state of most votes, and its end.

        ``None`` where no variable has a choice.  States are counted from the first one of the example.
        """
        program, states = self.program, self._states(i)
        if states.start == states.stop:
            return None
        ptr = program.state_ptr[program.var_ptr[i] : program.var_ptr[i + 1] + 1] - states.start
        votes = np.where(open_, self.descent.bundle.mean[states], -np.inf)
        left = np.add.reduceat(open_.astype(np.int64), ptr[:-1])
        top = np.where(left > 1, np.maximum.reduceat(votes, ptr[:-1]), np.inf)
        v = int(top.argmin())
        if left[v] <= 1:
            return None
        first, last = int(ptr[v]), int(ptr[v + 1])
        return first, first + int(votes[first:last].argmax()), last
