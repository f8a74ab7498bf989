"""Answer questions about new examples: ground, plan, solve, a few hundred examples at a time.

Working in chunks keeps features in the processor's cache and memory bounded by the chunk, not by the data.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ssvm_dsl.compiler import Grounded
from ssvm_dsl.inference.batch import solve_batch
from ssvm_dsl.inference.planner import accepted_guarantee, plan
from ssvm_dsl.inference.session import open_plan
from ssvm_dsl.ir.need import Need, Task
from ssvm_dsl.ir.solution import Solution
from ssvm_dsl.plugin_api.protocols import Executor

#: Examples answered together.
CHUNK = 1024


@dataclass(frozen=True, eq=False)
class Question:
    """What is asked of every example.

    Parameters
    ----------
    w : ndarray of float64, shape (dim,)
        The weights.
    backend : str
        Name of a backend, or ``"auto"``.
    options : dict, optional
        Its options.
    task : Task
    k : int
        How many labellings, for ``kbest``.
    """

    w: NDArray[np.float64]
    backend: str
    options: dict[str, Any] | None
    task: Task = Task.MAP
    k: int = 1

    def answers(
        self, grounder: Callable[[int, int], Grounded], n: int, executor: Executor
    ) -> Iterator[tuple[Grounded, Solution]]:
        """Yield (grounded chunk, its solution) for the examples ``0 .. n-1`` in order.

        Parameters
        ----------
        grounder : callable
            Lays the model over examples ``lo .. hi-1``.
        n : int
        executor : Executor
            Shares the work of a chunk among threads.
        """
        for lo in range(0, n, CHUNK):
            grounded = grounder(lo, min(lo + CHUNK, n))
            need = Need.of(grounded.program, frozenset({self.task}), accepted_guarantee(self.backend))
            session = open_plan(plan(need, self.backend, self.options), grounded.program)
            yield grounded, solve_batch(grounded.parameters, session, executor, self.w, self.task, self.k, lo)
