"""``LossTerm``: the loss of every labelling, as scores added to ``Theta`` (or a kind with a name)."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from ssvm_dsl.array_types import F64, I32, I64
from ssvm_dsl.ir.counts import CountTables
from ssvm_dsl.ir.program import Program
from ssvm_dsl.ir.ragged import members, owners
from ssvm_dsl.ir.solution import label_ptr, node_scores, select

ADDITIVE = "additive"
ZERO_ONE = "zero-one"
COUNT = "count"


@dataclass(frozen=True, eq=False)
class LossTerm:
    """Loss of a labelling yhat against the truth: ``const + sum_v node[v, yhat_v]``, or a named kind.

    Parameters
    ----------
    truth : ndarray of int32, shape (V,)
        The true labelling.
    node : ndarray of float64, shape (S,)
        Additive part.
    const : ndarray of float64, shape (B,)
        Constant part.
    kind : str
        ``"additive"``: the above is all.  ``"zero-one"``: ``weight`` for every labelling but the truth.  ``"count"``:
        the offset of ``tables`` for the counts of the labelling, besides the above; the backend that answers
        loss-augmented questions must list it.
    weight : float
        Scale of the zero-one loss.
    tables : CountTables, optional
        For the kind ``"count"``: tables of all examples, with scales of one.
    given : ndarray of float64, shape (S,), optional
        The part of ``node`` that is no loss: scores without weights, counted from those of the truth, which
        predictions see as well (:class:`~ssvm_dsl.ir.constants.Constants`).
    """

    truth: I32
    node: F64
    const: F64
    kind: str = ADDITIVE
    weight: float = 1.0
    tables: CountTables | None = None
    given: F64 | None = None

    def with_given(self, program: Program, scores: F64) -> LossTerm:
        """Return the loss with scores of states that have no weights in it: ``Delta(y) + g(y) - g(truth)``.

        What a trainer maximises is the same; it sees the sum as the loss, so that planes are right as they are.
        """
        of_truth = scores[program.state_ptr[:-1] + self.truth]
        given = scores - np.repeat(of_truth, program.card)
        return replace(self, node=self.node + given, given=given)

    @property
    def has_margin(self) -> bool:
        """Whether some labelling costs something."""
        price = self.node if self.given is None else self.node - self.given
        return self.kind != ADDITIVE or bool(price.any())

    @property
    def called(self) -> str:
        """What the kind is called in the language, for messages."""
        return {ZERO_ONE: "ZeroOne", COUNT: "CountLoss"}.get(self.kind, self.kind)

    def value(self, program: Program, labels: I32, examples: I64 | None = None) -> F64:
        """Return the loss of a packed labelling of each selected example; ``shape (n,)``."""
        ids = select(program, examples)
        if self.kind == ZERO_ONE:
            variables = members(program.var_ptr, ids)
            owner = owners(label_ptr(program, examples))
            wrong = np.bincount(owner, weights=labels != self.truth[variables], minlength=len(ids)) > 0
            return np.asarray(self.weight * wrong)
        total = self.const[ids] + node_scores(program, self.node, labels, examples)
        return total if self.tables is None else total + self.tables.select(ids).terms(program, labels, examples)[0]

    def largest(self, program: Program) -> F64:
        """Return the largest loss any labelling of each example can have; ``shape (B,)``.

        For a sum of counts and an additive part: the sum of the largest ones, an upper bound.
        """
        if self.kind == ZERO_ONE:
            return np.where(np.diff(program.var_ptr) > 0, self.weight, 0.0)
        worst = np.zeros(program.n_variables)
        np.maximum.at(worst, np.repeat(np.arange(program.n_variables), program.card), self.node)
        total = self.const + np.bincount(owners(program.var_ptr), weights=worst, minlength=program.n_examples)
        return total if self.tables is None else total + self.tables.largest()
