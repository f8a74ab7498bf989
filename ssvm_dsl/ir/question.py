"""``Question``: everything a session is asked, as one record."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ssvm_dsl.array_types import F64, I32, I64, Bools
from ssvm_dsl.ir.need import Limits, Task
from ssvm_dsl.ir.program import Program
from ssvm_dsl.ir.ragged import pointers, positions
from ssvm_dsl.ir.solution import label_ptr
from ssvm_dsl.ir.theta import Theta

NO_LIMITS = Limits()


@dataclass(frozen=True, eq=False)
class Question:
    """What ``Session.solve`` is asked.

    Parameters
    ----------
    theta : Theta
        Scores laid out for the whole program; only those of the selected examples mean anything.
    examples : ndarray of int64, optional
        The examples to answer for, each at most once; all by default.  The answer is packed in this order.
    task : Task
    clamp : ndarray of int32, shape (V,), optional
        States of the program's variables that are fixed in advance, -1 where free (task ``map_clamped``).
    warm : object, optional
        ``Solution.warm`` of an earlier answer to start from; a session ignores what it cannot use.
    limits : Limits
    k : int
        How many labellings of each example, for the task ``kbest``.
    tables : bool
        Whether marginals of factors are asked for, for the task ``marginals``: otherwise backends may leave them out.
    variables : ndarray of bool, shape (V,), optional
        The variables whose summed marginals are asked for (``expect``), all by default; backends may leave out others.
    """

    theta: Theta
    examples: I64 | None = None
    task: Task = Task.MAP
    clamp: I32 | None = None
    warm: Any = None
    limits: Limits = NO_LIMITS
    k: int = 1
    tables: bool = True
    variables: Bools | None = None

    def ids(self, program: Program) -> I64:
        """Return the numbers of the examples asked for."""
        return program.every_example if self.examples is None else self.examples

    def label_ptr(self, program: Program) -> I64:
        """Return where the labels of each example asked for start in the answer; ``shape (n + 1,)``."""
        return program.var_ptr if self.examples is None else label_ptr(program, self.examples)

    def masked_node(self, program: Program) -> F64:
        """Return the unary scores of all states, ``-inf`` where a mask or a clamp rules a state out.

        It is ``theta.node`` itself where there are neither; not to be written to.  Only the states of the examples
        asked for are looked at, and mean anything.
        """
        node, clamp, allowed = self.theta.node, self.clamp, program.allowed
        if allowed is None and clamp is None:
            return node
        ids = self.ids(program)
        states = positions(program.state_ptr[program.var_ptr], ids)
        keep = np.ones(len(node[states]), dtype=bool) if allowed is None else allowed[states]
        if clamp is not None:
            variables = positions(program.var_ptr, ids)
            card, fixed = program.card[variables], clamp[variables]
            number = np.arange(len(keep)) - np.repeat(pointers(card)[:-1], card)
            keep = keep & ((np.repeat(fixed, card) < 0) | (number == np.repeat(fixed, card)))
        out = np.zeros(len(node))
        out[states] = np.where(keep, node[states], -np.inf)
        return out

    @property
    def limited(self) -> bool:
        """Whether the answer may stop early."""
        return self.limits != NO_LIMITS

    def __str__(self) -> str:
        parts = [f"task {self.task.value}"]
        if self.task is Task.KBEST:
            parts.append(f"k={self.k}")
        if self.examples is not None:
            parts.append(f"examples={self.examples.tolist()}")
        if self.clamp is not None:
            parts.append(f"clamp={self.clamp.tolist()}")
        if self.limited:
            parts.append(str(self.limits))
        return ", ".join(parts)

    def replace(self, **changes: Any) -> Question:
        """Return the question with some fields changed."""
        return replace(self, **changes)
