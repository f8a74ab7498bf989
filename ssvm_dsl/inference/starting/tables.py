"""States that no table rules out: repairs labellings of score ``-inf``."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ssvm_dsl.array_types import F64, I32, I64, Bools
from ssvm_dsl.ir.program import Program
from ssvm_dsl.ir.ragged import pointers
from ssvm_dsl.ir.theta import Theta


@dataclass(frozen=True, eq=False)
class HardFactors:
    """The factors of a program whose tables rule joint states out.

    Parameters
    ----------
    program : Program
    pool : ndarray of float64
        The tables.
    slot_ptr : ndarray of int64, shape (F + 1,)
    scope : ndarray of int32
        The variable of each slot.
    table : ndarray of int64, shape (F,)
        Where the table of each factor begins.
    factor_ptr : ndarray of int64, shape (V + 1,)
    factor : ndarray of int64
        The factors of each variable.
    """

    program: Program
    pool: F64
    slot_ptr: I64
    scope: I32
    table: I64
    factor_ptr: I64
    factor: I64

    @classmethod
    def of(cls, program: Program, theta: Theta) -> HardFactors:
        """Return those of a program with these scores; tables that allow everything are left out."""
        scopes, tables, arity = [np.zeros(0, np.int32)], [np.zeros(0, np.int64)], [np.zeros(0, np.int64)]
        for group, table, offset in zip(program.groups, theta.tables, theta.offsets, strict=False):
            hard = np.asarray(np.isneginf(table).any(axis=1))
            if not group.n_factors or not hard.any():
                continue
            row = group.table_rows()
            mine = np.flatnonzero(hard[row])
            scopes.append(group.shapes.variables()[mine].ravel())
            tables.append(offset + row[mine].astype(np.int64) * group.n_configs)
            arity.append(np.full(len(mine), group.arity, dtype=np.int64))
        slot_ptr, scope = pointers(np.concatenate(arity)), np.concatenate(scopes)
        of_slot = np.repeat(np.arange(len(slot_ptr) - 1, dtype=np.int64), np.diff(slot_ptr))
        degree = np.bincount(scope, minlength=program.n_variables)
        by_variable = of_slot[np.argsort(scope, kind="stable")]
        return cls(program, theta.pool, slot_ptr, scope, np.concatenate(tables), pointers(degree), by_variable)

    @property
    def n_factors(self) -> int:
        """How many there are."""
        return len(self.table)

    def labels(self, score: F64) -> tuple[I32, Bools]:
        """Return (labels, which variables have no state that is in any joint state: a proof that there are none).

        Parameters
        ----------
        score : ndarray of float64, shape (S,)
            What is best; ``-inf`` rules a state out.
        """
        from ssvm_dsl.kernels.flat import FactorLists
        from ssvm_dsl.kernels.propagation import take_states

        program = self.program
        labels, dead = np.zeros(program.n_variables, np.int32), np.zeros(program.n_variables, dtype=bool)
        lists = FactorLists(
            program.card, program.state_ptr, self.slot_ptr, self.scope, self.table, self.factor_ptr, self.factor
        )
        take_states(lists, score, self.pool, score > -np.inf, labels, dead)
        return labels, dead

    def hurt(self, labels: I32) -> I64:
        """Return the factors whose joint states are ruled out."""
        return np.flatnonzero(self.pool[self._entries(labels)] == -np.inf)

    def _entries(self, labels: I32) -> I64:
        """Return where in the pool the joint state of each factor is."""
        card = self.program.card[self.scope].astype(np.int64)
        position = np.zeros(self.n_factors, dtype=np.int64)
        arity = np.diff(self.slot_ptr)
        for k in range(int(arity.max(initial=0))):
            mine = np.flatnonzero(arity > k)
            slot = self.slot_ptr[mine] + k
            position[mine] = position[mine] * card[slot] + labels[self.scope[slot]]
        return self.table + position
