"""``LossTerm``: the loss of every labelling, as scores added to ``Theta`` (or a kind with a name)."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from ssvm_dsl.array_types import F64, I32, I64
from ssvm_dsl.ir.counts import CountTables
from ssvm_dsl.ir.program import Group, Program
from ssvm_dsl.ir.ragged import members, owners, positions
from ssvm_dsl.ir.solution import chosen_states, label_ptr, select
from ssvm_dsl.ir.theta import Theta

ADDITIVE = "additive"
JOINT = "joint"
ZERO_ONE = "zero-one"
COUNT = "count"


@dataclass(frozen=True, eq=False)
class LossFactors:
    """Prices of the joint states of the factors of a group: ``sum_f scale[f] prices[true[f], yhat_f]``.

    Parameters
    ----------
    group : Group
        The factors; each has its own table (factor f of the batch has row f).
    prices : ndarray of float64, shape (n_configs, n_configs)
        Row: true joint state, column: that of the answer; zero where they are the same, and nowhere negative.  Of spans
        (:class:`Group`) these are true ones, and prices count from that of a span that is missed.
    true : ndarray of int32, shape (n_factors,)
        The true joint state of each factor of the batch.
    scale : ndarray of float64, shape (n_factors,)
    """

    group: Group
    prices: F64
    true: I32
    scale: F64

    def tables(self, examples: I64 | None) -> F64:
        """Return the prices of the joint states of each factor of the selected examples; ``shape (n, n_configs)``."""
        rows = self.group.table_rows(examples)
        return self.prices[self.true[rows]] * self.scale[rows][:, None]

    def value(self, program: Program, labels: I32, ids: I64) -> F64:
        """Return the loss of packed labellings of some examples; ``shape (n,)``."""
        owner, rows, states = chosen_states(self.group, program, labels, ids)
        price = np.where(states >= 0, self.prices[self.true[rows], states], 0.0) * self.scale[rows]
        totals = np.bincount(owner, weights=price, minlength=len(ids))
        return np.asarray(totals, dtype=np.float64)

    def largest(self) -> F64:
        """Return the sum of the largest price of each factor of an example; ``shape (B,)``."""
        shapes = self.group.shapes
        most = (np.maximum(self.prices.max(axis=1), 0.0)[self.true] * self.scale)[self.group.table_rows()]
        totals = np.bincount(owners(shapes.ptr), weights=most, minlength=shapes.n_examples)
        return np.asarray(totals, dtype=np.float64)


@dataclass(frozen=True, eq=False)
class LossTerm:
    """Loss of a labelling yhat against the truth: ``const + sum_v node[v, yhat_v]`` and factors, or a named kind.

    Parameters
    ----------
    truth : ndarray of int32, shape (V,)
        The true labelling.
    node : ndarray of float64, shape (S,)
        Additive part.
    const : ndarray of float64, shape (B,)
        Constant part.
    kind : str
        ``"additive"``: the above is all.  ``"joint"``: and ``factors``, which are tables of loss-augmented questions.
        ``"zero-one"``: ``weight`` for every labelling but the truth.  ``"count"``: the offset of ``tables`` for the
        counts of the labelling, besides all of the above; the backend that answers loss-augmented questions must list
        it.
    weight : float
        Scale of the zero-one loss.
    tables : CountTables, optional
        For the kind ``"count"``: tables of all examples, with scales of one.
    given : ndarray of float64, shape (S,), optional
        The part of ``node`` that is no loss: scores without weights, counted from those of the truth, which
        predictions see as well (:class:`~ssvm_dsl.scores.constants.Constants`).
    factors : tuple of LossFactors
        Prices of joint states.
    """

    truth: I32
    node: F64
    const: F64
    kind: str = ADDITIVE
    weight: float = 1.0
    tables: CountTables | None = None
    given: F64 | None = None
    factors: tuple[LossFactors, ...] = ()

    def augment(self, program: Program, theta: Theta, ids: I64, scale: F64 | None = None) -> None:
        """Add the loss to the scores of some examples.

        Parameters
        ----------
        program : Program
            Its last groups are :attr:`groups`.
        theta : Theta
            Changed in place; tables of the loss hold nothing but it.
        ids : ndarray of int64, shape (n,)
        scale : ndarray of float64, shape (n,), optional
            Multiplier of the loss of each example.
        """
        states = positions(program.state_ptr[program.var_ptr], ids)
        if scale is None:
            theta.node[states] += self.node[states]
        else:
            starts = program.state_ptr[program.var_ptr]
            theta.node[states] += np.repeat(scale, starts[ids + 1] - starts[ids]) * self.node[states]
        first = len(program.groups) - len(self.groups)
        for g, priced in enumerate(self.factors, first):
            assert program.groups[g] is priced.group, "programs of training end with the groups of the loss"
            by = 1.0 if scale is None else np.repeat(scale, priced.group.shapes.counts[ids])[:, None]
            theta.tables[g][priced.group.table_rows(ids)] = by * priced.tables(ids)

    def with_given(self, program: Program, scores: F64) -> LossTerm:
        """Return the loss with scores of states that have no weights in it: ``Delta(y) + g(y) - g(truth)``.

        What a trainer maximises is the same; it sees the sum as the loss, so that planes are right as they are.
        """
        of_truth = scores[program.state_ptr[:-1] + self.truth]
        given = scores - np.repeat(of_truth, program.card)
        return replace(self, node=self.node + given, given=given)

    @property
    def groups(self) -> list[Group]:
        """What programs of training end with (:meth:`ParameterMap.with_groups`): groups of prices, then of counts."""
        groups = [priced.group for priced in self.factors]
        return groups if self.tables is None else groups + [counted.group for counted in self.tables.factors]

    @property
    def has_margin(self) -> bool:
        """Whether some labelling costs something."""
        price = self.node if self.given is None else self.node - self.given
        return self.kind not in (ADDITIVE, JOINT) or bool(price.any() or any(f.largest().any() for f in self.factors))

    @property
    def called(self) -> str:
        """Name of the kind in the language, for messages."""
        return {ZERO_ONE: "ZeroOne", COUNT: "CountLoss", JOINT: "Cost of joint states"}.get(self.kind, self.kind)

    def value(self, program: Program, labels: I32, examples: I64 | None = None) -> F64:
        """Return the loss of a packed labelling of each selected example; ``shape (n,)``."""
        ids = select(program, examples)
        if self.kind == ZERO_ONE:
            variables = members(program.var_ptr, ids)
            owner = owners(label_ptr(program, examples))
            wrong = np.bincount(owner, weights=labels != self.truth[variables], minlength=len(ids)) > 0
            return np.asarray(self.weight * wrong)
        total = self.const[ids] + _sums_of_states(program, self.node, labels, examples)
        for priced in self.factors:
            total += priced.value(program, labels, ids)
        return total if self.tables is None else total + self.tables.select(ids).terms(program, labels, examples)[0]

    def largest(self, program: Program) -> F64:
        """Return the largest loss any labelling of each example can have; ``shape (B,)``.

        Of a sum of several parts, factors and counts among them, the sum of the largest ones, an upper bound.
        """
        if self.kind == ZERO_ONE:
            return np.where(np.diff(program.var_ptr) > 0, self.weight, 0.0)
        worst: F64 = np.zeros(program.n_variables)
        if len(self.node):
            np.maximum(np.maximum.reduceat(self.node, program.state_ptr[:-1]), worst, out=worst)
        total = self.const + np.bincount(owners(program.var_ptr), weights=worst, minlength=program.n_examples)
        total += sum(priced.largest() for priced in self.factors)
        return total if self.tables is None else total + self.tables.largest()


def _sums_of_states(program: Program, node: F64, labels: I32, examples: I64 | None) -> F64:
    """Return ``sum_v node[v, y_v]`` of a packed labelling of each selected example; ``shape (n,)``."""
    ptr = label_ptr(program, examples)
    values = node[program.state_ptr[:-1][positions(program.var_ptr, examples)] + labels]
    if len(ptr) == 2 and len(values):
        return np.asarray(np.add.reduceat(values, ptr[:-1]))
    total, filled = np.zeros(len(ptr) - 1), np.flatnonzero(ptr[1:] > ptr[:-1])
    if len(filled):
        total[filled] = np.add.reduceat(values, ptr[filled])
    return total
