"""``SolverProgress``: the results of dual solvers on a batch of examples so far."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ssvm_dsl.ir import F64, I32, I64, Bools

#: The fixed cost of a visit to a slot, in table entries.
VISIT_COST = 8.0


class SolverProgress(NamedTuple):
    """How far a solver has come on n examples; kernels continue from it and write to it.

    Parameters
    ----------
    labels : ndarray of int32
        Best labelling of each example, packed.
    score : ndarray of float64, shape (n,)
        Its score without the constant; ``-inf`` while there is none.
    bound : ndarray of float64, shape (n,)
        Lowest bound so far, without the constant.
    reference : ndarray of float64, shape (n,)
        The bound at the end of the last phase.
    iterations : ndarray of int64, shape (n,)
    done : ndarray of bool, shape (n,)
        Whether bound and labelling have met or the bound falls no more.
    current : ndarray of float64
        Messages the solver is at, packed; those that gave ``bound`` are kept apart.
    temperature : ndarray of float64, shape (n,)
        Temperature of smoothed updates, 0 for plain ones.
    """

    labels: I32
    score: F64
    bound: F64
    reference: F64
    iterations: I64
    done: Bools
    current: F64
    temperature: F64

    @classmethod
    def start(cls, n_examples: int, n_labels: int, n_messages: int) -> SolverProgress:
        """Return the progress of examples that have neither a labelling nor a bound yet."""
        n = n_examples
        return cls(
            np.zeros(n_labels, np.int32), np.full(n, -np.inf), np.full(n, np.inf), np.full(n, np.inf),
            np.zeros(n, np.int64), np.zeros(n, np.bool_), np.zeros(n_messages), np.zeros(n),
        )  # fmt: skip

    def part(self, examples: slice, labels: slice, messages: slice) -> SolverProgress:
        """Return views of a range of the examples."""
        return SolverProgress(
            self.labels[labels], self.score[examples], self.bound[examples], self.reference[examples],
            self.iterations[examples], self.done[examples], self.current[messages], self.temperature[examples],
        )  # fmt: skip
