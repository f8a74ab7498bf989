"""Hard rules of files: bounds on sums of literals, which tables over many variables would be too large for."""

from __future__ import annotations

from array import array
from collections.abc import Sequence

import numpy as np

from ssvm_dsl.ir.constraints import ConstraintGroup
from ssvm_dsl.ir.ragged import pointers

#: Most that coefficients of whole numbers sum to: rules are checked to 1e-9 of that, which stays below one half.
MOST_SUM = 400_000_000


class SumRules:
    """Rules ``lower <= sum of the coefficients of true literals <= upper``, kept in flat arrays that grow."""

    def __init__(self) -> None:
        self._size, self._variable, self._state = array("q"), array("i"), array("i")
        self._coefficient, self._lower, self._upper = array("d"), array("d"), array("d")

    def add(
        self, variables: Sequence[int], states: Sequence[int], coefficients: Sequence[float] | None, lower: float,
        upper: float = np.inf,
    ) -> None:  # fmt: skip
        """Add a rule over literals "variable v has state s"; without coefficients they count one each."""
        self._size.append(len(variables))
        self._variable.extend(variables)
        self._state.extend(states)
        self._coefficient.extend([1.0] * len(variables) if coefficients is None else coefficients)
        self._lower.append(lower)
        self._upper.append(upper)

    @property
    def n_literals(self) -> int:
        """Literals so far."""
        return len(self._variable)

    def groups(self) -> tuple[ConstraintGroup, ...]:
        """Return the rules, counts apart from weighted sums; none can be added from now on."""
        size, coefficient = np.array(self._size, dtype=np.int64), np.array(self._coefficient)
        variable, state = (np.array(one, dtype=np.int32) for one in (self._variable, self._state))
        lower, upper = np.array(self._lower), np.array(self._upper)
        owner = np.repeat(np.arange(len(size)), size)
        plain = np.bincount(owner, coefficient != 1.0, len(size)) == 0
        groups = []
        for kind, mine in (("count", plain), ("linear", ~plain)):
            n, literals = int(mine.sum()), mine[owner]
            if not n:
                continue
            bounds = {"lower": lower[mine], "upper": upper[mine]}
            if kind == "count":
                bounds = {
                    "lower": np.maximum(np.ceil(lower[mine]), 0.0).astype(np.int64),
                    "upper": np.minimum(np.floor(upper[mine]), size[mine]).astype(np.int64),
                }
            groups.append(ConstraintGroup(
                kind, f"{kind}s of the file", np.array([0, n], dtype=np.int64), pointers(size[mine]),
                variable[literals], state[literals], np.zeros(int(literals.sum()), dtype=bool), bounds,
                {} if kind == "count" else {"coefficient": coefficient[literals]},
            ))  # fmt: skip
        return tuple(groups)
