"""Best labellings under constraints whose kind finds the best states itself, constraint by constraint."""

from __future__ import annotations

from typing import cast

import numpy as np

from ssvm_backends.structures.session import StructureSession, constraint_scores
from ssvm_dsl.ir import F64, I32, I64, Bools
from ssvm_dsl.plugin_api import BestKind


class KindSession(StructureSession):
    """Best labellings of a program whose constraints are over different variables (:class:`BestKind`)."""

    def choose(self, group: int, node: F64, ids: I64, ptr: I64, labels: I32, feasible: Bools, excess: F64) -> None:
        """Write the best labels; see :class:`~ssvm_backends.structures.session.StructureSession`."""
        program, mine = self.program, self.groups[group]
        kind = cast(BestKind, mine.rules)
        for place, example in enumerate(ids.tolist()):
            first, stop = program.var_ptr[example : example + 2].tolist()
            states = program.state_ptr[first : stop + 1]
            for k in range(int(mine.ptr[example]), int(mine.ptr[example + 1])):
                variables, scores = constraint_scores(mine, k, states - states[0], node[states[0] : states[-1]])
                best = kind.best_states(mine, k, scores) if _possible(scores.score, scores.ptr) else None
                if best is None:
                    feasible[place] = False
                else:
                    labels[ptr[place] + variables] = best


def _possible(score: F64, ptr: I64) -> bool:
    """Whether every variable has a state that is not ruled out."""
    return not len(score) or bool((np.maximum.reduceat(score, ptr[:-1]) > -np.inf).all())
