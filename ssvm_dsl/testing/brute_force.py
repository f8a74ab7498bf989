"""The ``brute-force`` backend: tries every labelling.  The reference that other backends are compared with.

The scores of all labellings of an example are one tensor with an axis for each variable of two or more states
(variables of one state have nothing to choose).  A table of any arity is added to it by broadcasting, a
marginal is a sum over axes, and the C order of the tensor is the lexicographic order of the labellings.
Additions happen in the order of :func:`~ssvm_dsl.plugin_api.score_labels`, so scores agree to the last bit.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from functools import cached_property
from typing import Any

import numpy as np

from ssvm_dsl.array_types import F64, I32, I64, Bools
from ssvm_dsl.errors import OutOfTime, PluginError
from ssvm_dsl.ir import (
    SPANS,
    ConstraintGroup,
    CountTables,
    Group,
    Marginals,
    Need,
    Primal,
    Program,
    Question,
    Solution,
    Stop,
    Task,
    Theta,
)
from ssvm_dsl.ir.counts import worth
from ssvm_dsl.ir.ragged import members
from ssvm_dsl.plugin_api import Clock, Verdict
from ssvm_dsl.requirements.programs import most_labellings

#: Labellings of the largest example that is taken.
MAX_LABELLINGS = 2**20

#: Operations for each example, however few labellings it has.
CALL = 2e5

#: Times as many operations that it takes to judge constraints.
JUDGING = 10.0

#: Largest number of labellings of an example that a user's own class judges one by one, about 10 us each.
MAX_ASKED = 2**14

#: Labellings whose constraints are judged at once.
JUDGED = 4096

#: ``Need`` counts labellings with logarithms; this much relative rounding is forgiven.
_ROUNDING = 1e-6


class BruteForce:
    """Exhaustive search: exact MAP, k-best and marginals of small examples with factors of any arity."""

    def check(self, need: Need) -> Verdict:
        """Refuse examples of more than ``2**20`` labellings; the cost is that of scoring every labelling."""
        if too_many := _too_many(need.max_labellings, need.without_rows):
            return Verdict(False, reasons=(too_many,))
        terms = (need.n_variables + need.n_factors) / max(need.n_examples, 1)
        terms = max(terms, 1.0) * (JUDGING if need.constraint_kinds else 1.0)
        return Verdict(True, need.n_examples * (CALL + need.max_labellings * terms))

    def open(self, program: Program, options: Mapping[str, Any]) -> BruteForceSession:
        """Prepare for a program.

        Raises
        ------
        PluginError
            An example is too large (one of a planned program is not), or a kind of constraints is unknown.
        """
        unknown = sorted({group.kind for group in program.constraints if group.rules is None})
        if unknown:
            raise PluginError(f"brute-force does not know what constraints of the kind {', '.join(unknown)} say")
        # the need of a program is not computed: this reference must not use the kernels that it is compared with
        asked = any(group.oracle is not None for group in program.constraints)
        if too_many := _too_many(most_labellings(program), asked):
            raise PluginError(f"brute-force cannot open this program: {too_many}")
        return BruteForceSession(program)


def _too_many(n_labellings: float, asked: bool) -> str:
    """Return why there are too many labellings to try all, empty if not; ``asked``: a user's class judges each."""
    most = MAX_ASKED if asked else MAX_LABELLINGS
    if n_labellings <= most * (1 + _ROUNDING):
        return ""
    return f"an example has {n_labellings:.7g} labellings; it tries {most}"


class BruteForceSession:
    """Brute force on one program; holds nothing but the program."""

    def __init__(self, program: Program) -> None:
        self.program = program

    def solve(self, question: Question) -> Solution:
        """Answer any task but ``relaxed`` (see :class:`~ssvm_dsl.plugin_api.Session`).

        Among labellings of equal score the lexicographically first counts as better.  A time limit is checked
        before each example and while constraints are judged; examples that are not finished have ``Stop.TIME``, score
        ``-inf`` and bound ``nan``.

        Notes
        -----
        Time O(labellings x (variables + factors)) for each example.
        """
        clock, answer = Clock.start(question.limits), _Enumerated(self.program, question)
        with suppress(OutOfTime):
            for i, example in enumerate(question.ids(self.program)):
                clock.afford(0.0)
                answer.enter(i, Labellings(self.program, question.theta, int(example), question.clamp, clock))
        return answer.solution(flat=question.task is not Task.KBEST)

    def best_by_count(self, question: Question, tables: CountTables) -> Solution:
        """Return the labelling worth most by its counts (see :class:`~ssvm_dsl.plugin_api.CountingSession`)."""
        ids, ptr = question.ids(self.program), question.label_ptr(self.program)
        labels, value = np.zeros(int(ptr[-1]), dtype=np.int32), np.full(len(ids), -np.inf)
        for i, example in enumerate(ids):
            of = Labellings(self.program, question.theta, int(example), None)
            values = of.worth(tables, i)
            best = int(np.argmax(values))
            value[i] = values[best]
            if value[i] > -np.inf:
                labels[ptr[i] : ptr[i + 1]] = best // of.strides % of.card
        return Solution.exact(labels, value)


class Labellings:
    """All labellings of one example and their scores.

    Parameters
    ----------
    program : Program
    theta : Theta
    example : int
    clamp : ndarray of int32, shape (V,), optional
        States fixed in advance, -1 where free.
    clock : Clock, optional
        Says when to give up.

    Raises
    ------
    OutOfTime

    Attributes
    ----------
    scores : ndarray of float64
        One axis for each variable of two or more states; ``-inf`` where a mask or a clamp is broken.
    """

    def __init__(
        self, program: Program, theta: Theta, example: int, clamp: I32 | None, clock: Clock | None = None
    ) -> None:
        self.program, self.example, self._clock = program, example, clock
        self.first, self.stop = (int(v) for v in program.var_ptr[example : example + 2])
        self.card = program.card[self.first : self.stop]
        self.axis = np.cumsum(self.card > 1) - 1
        self.shape = tuple(int(c) for c in self.card if c > 1)
        self.scores = self._node_scores(theta, clamp).reshape(self.shape)
        for group, table in zip(program.groups, theta.tables, strict=True):
            scopes, rows = group.factors(example)
            if group.of_spans:
                if len(rows):
                    states = self.span_states(group)
                    worth = np.where(states >= 0, table[rows, np.maximum(states, 0)], 0.0).sum(axis=1)
                    self.scores = self.scores + worth.reshape(self.shape)
                continue
            scores = np.zeros(self.shape if len(rows) else ())
            for scope, row in zip(scopes + np.int32(self.first), rows, strict=True):
                scores += self._spread(table[row], scope)
            self.scores = self.scores + scores
        for one in program.constraints:
            if one.counts[example]:
                self.scores = np.where(self._broken(one), -np.inf, self.scores)

    def _node_scores(self, theta: Theta, clamp: I32 | None) -> F64:
        """Return constant plus node scores of every labelling, ``-inf`` where masks or clamps forbid it."""
        program, total = self.program, np.zeros(1)
        for v in range(self.first, self.stop):
            states = slice(program.state_ptr[v], program.state_ptr[v + 1])
            node = theta.node[states]
            if program.allowed is not None:
                node = np.where(program.allowed[states], node, -np.inf)
            if clamp is not None and clamp[v] >= 0:
                node = np.where(np.arange(len(node)) == clamp[v], node, -np.inf)
            total = np.add.outer(total, node).ravel()
        return np.asarray(theta.const[self.example] + total)

    def _broken(self, group: ConstraintGroup) -> Bools:
        """Return which labellings break a constraint of a group, as a tensor; a few thousand are judged at a time."""
        one, out = np.array([self.example]), np.zeros(self.scores.size, dtype=bool)
        for lo in range(0, len(out), JUDGED):
            if self._clock is not None:
                self._clock.afford(0.0)
            numbers = np.arange(lo, min(lo + JUDGED, len(out)))
            labels = (numbers[:, None] // self.strides % self.card).astype(np.int32)
            mine = group.take(np.repeat(one, len(numbers)))
            broken = mine.broken(labels.ravel(), np.arange(len(numbers) + 1) * len(self.card))
            out[lo + mine.example_of[broken]] = True
        return out.reshape(self.shape)

    def _axes(self, scope: I32) -> list[int]:
        """Return the axes of a factor's variables, in the order of its scope."""
        local = scope - self.first
        return [int(self.axis[v]) for v in local if self.card[v] > 1]

    def _spread(self, row: F64, scope: I32) -> F64:
        """Return a table row as a tensor that broadcasts over all labellings."""
        axes = self._axes(scope)
        table = row.reshape([self.shape[axis] for axis in axes]).transpose(np.argsort(axes))
        return table.reshape([size if axis in axes else 1 for axis, size in enumerate(self.shape)])

    def span_states(self, group: Group) -> I64:
        """Return the joint state of each factor of segments or spans in each labelling, -1 where there is none."""
        if group.kind == SPANS:
            return self.segment_states(group)
        labels = np.arange(self.scores.size)[:, None] // self.strides % self.card
        scopes, out = group.factors(self.example)[0], []
        for label, begin, last, after in scopes.tolist():
            whole = (labels[:, begin] == 1) & (labels[:, begin + 1 : last + 1] == 0).all(axis=1)
            whole &= (after == begin) | (labels[:, after] == 1)
            out.append(np.where(whole, labels[:, label], -1))
        return np.stack(out, axis=1)

    def segment_states(self, group: Group) -> I64:
        """Return class times L, and length less 1, of the segment that begins at each position in each labelling.

        -1 where none begins, ``shape (n_labellings, n_positions)``: the definition of a group of spans.
        """
        labels = np.arange(self.scores.size)[:, None] // self.strides % self.card
        scopes, longest = group.factors(self.example)[0], group.cards[1]
        out, length = np.full((len(labels), len(scopes)), -1), np.zeros(len(labels), dtype=np.int64)
        for f in range(len(scopes) - 1, -1, -1):
            label, begin, following = scopes[f]
            length = np.where((following == begin) | (labels[:, following] == 1), 1, length + 1)
            states = labels[:, label] * longest + np.minimum(length, longest) - 1
            out[:, f] = np.where(labels[:, begin] == 1, states, -1)
        return out

    def expected_segments(self, probabilities: F64, group: Group) -> F64:
        """Return the expected number of segments of each class and length, or of each span and class.

        ``shape (rows of marginals, n_configs)``.
        """
        if not len(group.factors(self.example)[0]):
            return np.zeros((int(group.kind == SPANS), group.n_configs))
        states = self.span_states(group)
        parts = [states] if group.kind == SPANS else [states[:, f : f + 1] for f in range(states.shape[1])]
        expected = []
        for column in parts:
            weights = np.broadcast_to(probabilities.ravel()[:, None], column.shape)[column >= 0]
            expected.append(np.bincount(column[column >= 0], weights, group.n_configs))
        return np.array(expected, dtype=np.float64)

    def best(self, k: int) -> tuple[I32, F64]:
        """Return up to k feasible labellings, best first, ``shape (m, n_variables)``, and their scores."""
        scores = self.scores.ravel()
        k = min(k, scores.size)
        threshold = np.partition(scores, scores.size - k)[scores.size - k]
        near = np.flatnonzero((scores >= threshold) & (scores > -np.inf))
        picked = near[np.argsort(-scores[near], kind="stable")][:k]
        return (picked[:, None] // self.strides % self.card).astype(np.int32), scores[picked]

    @cached_property
    def strides(self) -> I64:
        """Multipliers that turn a labelling into its place in the flattened scores."""
        ends = np.append(np.cumprod(self.card[:0:-1], dtype=np.int64)[::-1], 1)
        return ends[: len(self.card)]

    def score(self, labels: I32) -> float:
        """Return the score of one labelling, ``shape (n_variables,)``."""
        return float(self.scores.ravel()[int(labels @ self.strides)])

    def totals(self, tables: CountTables, k: int) -> I64:
        """Return one of the two counts of every labelling, in the order of the flattened scores."""
        ptr, total = self.program.state_ptr, np.zeros(1, dtype=np.int64)
        for v in range(self.first, self.stop):
            total = np.add.outer(total, tables.counts[ptr[v] : ptr[v + 1], k]).ravel()
        labels = np.arange(self.scores.size)[:, None] // self.strides % self.card
        for one in tables.factors:
            scope, rows = one.group.factors(self.example)
            if not len(scope):
                continue
            of_spans = one.group.of_spans
            states = self.span_states(one.group) if of_spans else (labels[:, scope] * one.group.strides).sum(axis=2)
            total += np.where(states >= 0, one.counts[rows, states, k], 0).sum(axis=1)
        return total

    def worth(self, tables: CountTables, i: int) -> F64:
        """Return the score of every labelling by the i-th of some tables, in the order of the flattened scores."""
        (rows, columns), start = tables.shape[i], tables.start[i]
        a, b = self.totals(tables, 0), self.totals(tables, 1)
        inside = (a < rows) & (b < columns)
        at, scores = start + a[inside] * columns + b[inside], self.scores.ravel()
        value = np.full(len(scores), -np.inf)
        value[inside] = worth(tables.offset[at], tables.scale[at], scores[inside])
        return value

    def log_partition(self) -> float:
        """Return ``log sum_y exp(score(y))``."""
        top = float(self.scores.max())
        return top if top == -np.inf else top + float(np.log(np.exp(self.scores - top).sum()))

    def probabilities(self) -> F64:
        """Return the probability of every labelling (all zero when none is feasible)."""
        total = self.log_partition()
        return np.zeros(self.shape) if total == -np.inf else np.asarray(np.exp(self.scores - total))

    def marginal(self, probabilities: F64, scope: I32) -> F64:
        """Return the joint probabilities of some variables, in C order over their states."""
        axes = self._axes(scope)
        others = tuple(axis for axis in range(len(self.shape)) if axis not in axes)
        return np.asarray(probabilities.sum(axis=others)).transpose(np.argsort(np.argsort(axes))).ravel()


class _Enumerated:
    """The arrays of a solution, filled in example by example; entries never filled in mark examples not reached."""

    def __init__(self, program: Program, question: Question) -> None:
        ids, marginals = question.ids(program), question.task is Task.MARGINALS
        n, k = len(ids), question.k if question.task is Task.KBEST else 1
        self.ptr, self.k = question.label_ptr(program), k
        self.labels = np.zeros((k, int(self.ptr[-1])), dtype=np.int32)
        self.score, self.bound = np.full((k, n), -np.inf), np.full(n, np.nan)
        self.stop = np.full(n, Stop.TIME, dtype=np.int8)
        self.primal = np.full(n, Primal.NONE, dtype=np.int8)
        self.marginals = _no_marginals(program, ids) if marginals else None
        self.log_partition = np.full(n, np.nan) if marginals else None
        self._node_end, self._factor_end = 0, [0] * len(program.groups)

    def enter(self, i: int, labellings: Labellings) -> None:
        """Fill in the answer of the i-th example asked for."""
        labels, scores = labellings.best(self.k)
        self.labels[: len(labels), self.ptr[i] : self.ptr[i + 1]] = labels
        self.score[: len(scores), i] = scores
        self.bound[i], self.stop[i] = self.score[0, i], Stop.FINISHED
        self.primal[i] = Primal.FEASIBLE if len(scores) else Primal.INFEASIBLE
        if self.marginals is not None and self.log_partition is not None:
            self.log_partition[i] = labellings.log_partition()
            self._enter_marginals(labellings, self.marginals)

    def _enter_marginals(self, of: Labellings, out: Marginals) -> None:
        probabilities = of.probabilities()
        for v in range(of.first, of.stop):
            end = self._node_end + int(of.program.card[v])
            out.node[self._node_end : end] = of.marginal(probabilities, np.array([v], dtype=np.int32))
            self._node_end = end
        for g, group in enumerate(of.program.groups):
            if group.of_spans:
                expected, at = of.expected_segments(probabilities, group), self._factor_end[g]
                out.tables[g][at : at + len(expected)] = expected
                self._factor_end[g] += len(expected)
                continue
            for scope in group.factors(of.example)[0] + np.int32(of.first):
                out.tables[g][self._factor_end[g]] = of.marginal(probabilities, scope)
                self._factor_end[g] += 1

    def solution(self, flat: bool) -> Solution:
        """Return the answer, with one labelling as plain vectors when ``flat``."""
        labels, score = (self.labels[0], self.score[0]) if flat else (self.labels, self.score)
        return Solution(
            labels,
            score,
            self.bound,
            self.stop,
            self.primal,
            marginals=self.marginals,
            log_partition=self.log_partition,
        )


def _no_marginals(program: Program, ids: I64) -> Marginals:
    """Return all-zero marginals packed over the examples asked for."""
    node = np.zeros(int(program.card[members(program.var_ptr, ids)].sum()))
    tables = tuple(np.zeros((int(g.answer_rows(ids).sum()), g.n_configs)) for g in program.groups)
    return Marginals(node, tables)
