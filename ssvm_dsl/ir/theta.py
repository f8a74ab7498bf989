"""``Theta``: the scores of a program, one number for each state of a variable and each entry of a table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ssvm_dsl.array_types import F64, I64
from ssvm_dsl.ir.program import Program
from ssvm_dsl.ir.ragged import pointers


@dataclass(frozen=True, eq=False)
class Theta:
    """Scores of a program; the score of a labelling is ``const + sum node[v, y_v] + sum table[f, y_f]``.

    ``-inf`` forbids a state or a joint state; ``+inf`` and ``nan`` do not occur.

    Parameters
    ----------
    node : ndarray of float64, shape (S,)
        Unary scores, state by state.
    pool : ndarray of float64
        All tables of all groups, one after the other (``tables`` are views of it).
    tables : tuple of ndarray, shape (n_tables, prod(cards))
        The table pool of each group, rows in C order over ``cards``.
    const : ndarray of float64, shape (B,)
        A constant for each example.
    """

    node: F64
    pool: F64
    tables: tuple[F64, ...]
    const: F64

    @classmethod
    def zeros(cls, program: Program, node: F64 | None = None) -> Theta:
        """Return all-zero scores laid out for a program, or with ``node`` as unary scores."""
        places = program.table_places
        pool = np.zeros(places[-1][1] if places else 0)
        tables = tuple([pool[lo:hi].reshape(shape) for lo, hi, shape in places])
        node = np.zeros(int(program.state_ptr[-1])) if node is None else node
        return cls(node, pool, tables, np.zeros(len(program.var_ptr) - 1))

    @classmethod
    def of(
        cls,
        program: Program,
        node: NDArray[np.floating] | Sequence[float] | None = None,
        tables: Sequence[NDArray[np.floating]] = (),
        const: NDArray[np.floating] | Sequence[float] | None = None,
    ) -> Theta:
        """Return scores copied from arrays; what is left out is zero.

        Raises
        ------
        ValueError
            A shape does not fit the program, or a score is nan or +inf.
        """
        theta = cls.zeros(program)
        parts = [(theta.node, node, "node"), (theta.const, const, "const")]
        parts += [
            (mine, given, f"table of group {group.name}")
            for group, mine, given in zip(program.groups, theta.tables, tables, strict=False)
        ]
        if len(tables) not in (0, len(program.groups)):
            raise ValueError(f"theta: {len(program.groups)} tables expected, {len(tables)} given")
        for mine, given, what in parts:
            if given is not None:
                array = np.asarray(given, dtype=np.float64)
                if array.size != mine.size:
                    raise ValueError(f"theta: {what} has {array.size} entries, expected {mine.size}")
                if np.isnan(array).any() or (array == np.inf).any():
                    raise ValueError(f"theta: {what} holds nan or +inf")
                mine[...] = array.reshape(mine.shape)
        return theta

    def copy(self) -> Theta:
        """Return a deep copy."""
        pool = self.pool.copy()
        offsets = pointers(np.array([table.size for table in self.tables], dtype=np.int64))
        tables = tuple(pool[o : o + t.size].reshape(t.shape) for o, t in zip(offsets, self.tables, strict=False))
        return Theta(self.node.copy(), pool, tables, self.const.copy())

    @property
    def offsets(self) -> I64:
        """Where the tables of each group start in ``pool``; ``shape (n_groups + 1,)``."""
        return pointers(np.array([table.size for table in self.tables], dtype=np.int64))
