"""The best labellings found so far: candidates are completed, held against all constraints, scored and improved."""

from __future__ import annotations

import numpy as np

from ssvm_backends.decomposition.parts import DualSubproblem
from ssvm_backends.graphs.graph import Graph, top_states
from ssvm_dsl.ir import F64, I32, I64, Bools, Limits, Program, Question, Stop, Theta, pointers, positions
from ssvm_dsl.plugin_api import Clock, score_labels

#: Seconds that an oracle gets however little is left.
LEAST_TIME = 1e-3

#: Rounds of improving a labelling by answering it.
ANSWERS = 4


def oracle_limits(clock: Clock) -> Limits:
    """Return the limits of an oracle that is asked in the course of a question: its remaining time."""
    return Limits(time=None if clock.end == np.inf else max(clock.left, LEAST_TIME))


class Incumbents:
    """The best labelling of each example.

    Parameters
    ----------
    program : Program
    graph : Graph
        Of the program.
    parts : list of DualSubproblem
    theta : Theta
        Scores, with ``-inf`` at the states that masks and clamps rule out.
    clock : Clock
        Of the question; nothing is improved any more when it is over.

    Attributes
    ----------
    labels : ndarray of int32, shape (V,)
    score : ndarray of float64, shape (B,)
        ``-inf`` without a labelling.
    """

    def __init__(self, program: Program, graph: Graph, parts: list[DualSubproblem], theta: Theta, clock: Clock) -> None:
        self.program, self.graph, self.parts, self.theta, self.clock = program, graph, parts, theta, clock
        self.labels = np.zeros(program.n_variables, dtype=np.int32)
        self.score = np.full(program.n_examples, -np.inf)
        self.rules = [part for part in parts if part.constrained]
        self.ruled = np.zeros(program.n_variables, dtype=bool)
        for part in self.rules:
            self.ruled |= part.member

    def offer(self, ids: I64, labels: I32) -> Bools:
        """Take in labellings that satisfy all constraints and are better than those known; return which.

        Parameters
        ----------
        ids : ndarray of int64, shape (n,)
        labels : ndarray of int32
            Packed over ``ids``.
        """
        program = self.program
        score = score_labels(program, self.theta, labels, ids)
        better = score > self.score[ids]
        if not better.any():
            return better
        ptr = pointers(program.var_ptr[ids + 1] - program.var_ptr[ids])
        some = np.flatnonzero(better)
        mine = labels[positions(ptr, some)]
        mine_ptr = pointers(np.diff(ptr)[some])
        for group in program.constraints:
            taken = group.take(ids[some])
            better[some[taken.example_of[taken.broken(mine, mine_ptr)]]] = False
        some = np.flatnonzero(better)
        self.labels[positions(program.var_ptr, ids[some])] = labels[positions(ptr, some)]
        self.score[ids[some]] = score[some]
        return better

    def offer_parts(self, ids: I64, part_labels: list[I32]) -> None:
        """Offer the labelling of each part, completed by those of the parts before and after it.

        Parameters
        ----------
        ids : ndarray of int64, shape (n,)
        part_labels : list of ndarray of int32
            The labelling of each part, packed over ``ids``.
        """
        where = positions(self.program.var_ptr, ids)
        members = [part.member[where] for part in self.parts]
        complete = part_labels[-1].copy()
        for labels, member in zip(reversed(part_labels), reversed(members), strict=True):
            complete[member] = labels[member]
        for number in range(len(self.rules) or len(self.parts)):
            self.offer(ids, np.where(members[number], part_labels[number], complete))

    def begin(self, ids: I64) -> None:
        """Offer the best states by unary scores, those under constraints by their oracles, and improve them."""
        program, labels = self.program, self.labels.copy()
        where, states = positions(program.var_ptr, ids), positions(program.state_ptr[program.var_ptr], ids)
        labels[where] = top_states(self.theta.node[states], program.card[where])
        if self.rules:
            self.offer_best(ids, self.theta.node, labels)
        else:
            self.offer(ids, labels[where])
        self.improve(ids)

    def offer_best(self, ids: I64, worth: F64, others: I32) -> Bools:
        """Offer the labelling of largest worth under each part's constraints; return which labellings became better.

        Parameters
        ----------
        ids : ndarray of int64, shape (n,)
        worth : ndarray of float64, shape (S,)
            A number for each state, ``-inf`` where it is ruled out.
        others : ndarray of int32, shape (V,)
            The labels of the variables that a part does not have.

        Raises
        ------
        KeyboardInterrupt
            An oracle was interrupted; what it has found was offered.
        """
        where, better = positions(self.program.var_ptr, ids), np.zeros(len(ids), dtype=bool)
        labels = others[where]
        for part in self.rules:
            member = np.repeat(part.member, self.program.card)
            theta = part.bare_theta(self.theta, np.where(member, worth, 0.0))
            question = Question(theta, ids, limits=oracle_limits(self.clock))
            found = part.session.solve(question)
            labels = np.where(part.member[where], found.labels, labels)
            better |= self.offer(ids, labels)
            if (found.stop == Stop.INTERRUPTED).any():
                raise KeyboardInterrupt
        return better

    def improve(self, ids: I64) -> None:
        """Improve the labellings of some examples: constraints answer the labels of all others, free variables move."""
        from ssvm_backends.graphs.kernels import given_others
        ids = ids[self.score[ids] > -np.inf]
        worth = np.zeros(self.program.n_states)
        for _ in range(ANSWERS):
            if not len(ids) or self.clock.over:
                return
            before = self.score[ids].copy()
            if self.rules:
                given_others(self.graph, self.theta.node, self.theta.pool, ids, self.labels, worth)
                self.offer_best(ids, worth, self.labels)
            if not self.ruled.all():
                self.offer(ids, self._moved(ids))
            ids = ids[self.score[ids] > before]

    def _moved(self, ids: I64) -> I32:
        """Return the labellings after local search, packed over examples; variables under constraints stay."""
        from ssvm_backends.local.search import improve, improve_within

        node, pool = self._pinned(), self.theta.pool
        labels = self.labels[positions(self.program.var_ptr, ids)]
        if self.clock.end == np.inf:
            improve(self.graph, node, pool, ids, labels)
            return labels
        ptr = pointers(self.program.var_ptr[ids + 1] - self.program.var_ptr[ids])
        for place, i in enumerate(ids.tolist()):
            if self.clock.over:
                break
            improve_within(self.graph, node, pool, i, labels[ptr[place] : ptr[place + 1]], self.clock)
        return labels

    def _pinned(self) -> F64:
        """Return the unary scores with variables under constraints pinned to their labels."""
        chosen = np.zeros(self.program.n_states, dtype=bool)
        chosen[self.program.state_ptr[:-1] + self.labels] = True
        return np.where(np.repeat(self.ruled, self.program.card) & ~chosen, -np.inf, self.theta.node)
