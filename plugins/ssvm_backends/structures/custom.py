"""``custom`` and ``custom-exact``: best structures by the user's own class (``Custom(y, oracle=...)``).

Variables that are in no literal of a constraint take their best state.  The host checks the answers of the class before
this backend gives them bounds: their own score for classes that are proved exact on small
problems, none otherwise.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

import numpy as np

from ssvm_dsl.errors import PluginError
from ssvm_dsl.ir import ConstraintGroup, Need, Program
from ssvm_dsl.plugin_api import Clock, ExampleAnswer, ExampleSession, PlainExample, StructureRules, Verdict

#: Assumed operations of a call of a user's class, and of each score it reads.
CALL, SCORE = 1e5, 100.0


class CustomBackend:
    """Asks the user's class, example by example; answers have no bound."""

    exact = False

    def check(self, need: Need) -> Verdict:
        """Accept one constraint of an example: answers to several need not agree."""
        if need.max_constraints > 1:
            return Verdict(False, reasons=("takes one Custom constraint of an example, and no other constraint",))
        states = float(need.n_variables) * need.max_card
        return Verdict(True, CALL * need.n_examples + SCORE * states, n_bytes=8.0 * states)

    def open(self, program: Program, options: Mapping[str, Any]) -> CustomSession:
        """Open the backend on a program whose structure is answered by the user's own oracle."""
        return CustomSession(program, self.exact)


class CustomExact(CustomBackend):
    """Asks a user's class that is proved exact on small problems: the score of its answer is the bound."""

    exact = True


class CustomSession(ExampleSession):
    """Structures of one program.

    Parameters
    ----------
    program : Program
    exact : bool
        Whether answers of classes are optimal, and no answer proves that there is none.

    Raises
    ------
    PluginError
        A constraint is not a Custom (those of a planned program are checked).
    """

    def __init__(self, program: Program, exact: bool) -> None:
        super().__init__(program)
        self.groups, self.exact = [group for group in program.constraints if group.n_constraints], exact
        if any(group.oracle is None for group in self.groups):
            raise PluginError("a constraint is not of a user's own class")

    def answer(self, example: PlainExample, clock: Clock, warm: Any) -> ExampleAnswer:
        """Answer for one example; see :class:`~ssvm_dsl.plugin_api.ExampleSession`."""
        if any(scores.max() == -np.inf for scores in example.node):  # all states of a variable are ruled out
            return ExampleAnswer(None, bound=-np.inf)
        labels = np.array([int(np.argmax(scores)) for scores in example.node], dtype=np.int32)
        for group in self.groups:
            for k in range(int(group.ptr[example.number]), int(group.ptr[example.number + 1])):
                assert group.oracle is not None
                variables = _variables(group, k, group.oracle.n_states)
                scores = np.array([example.node[v] for v in variables]).reshape(-1, group.oracle.n_states)
                best = cast(StructureRules, group.rules).best(group, k, scores)
                if best is None:
                    return ExampleAnswer(None, bound=-np.inf if self.exact else np.nan)
                labels[variables] = best
        score = example.score(labels)
        return ExampleAnswer(labels, score, score if self.exact else np.nan)


def _variables(group: ConstraintGroup, k: int, n_states: int) -> list[int]:
    """Return the variables of a constraint, counted from the first one of the example."""
    part = group.literals(k)
    n = (part.stop - part.start) // n_states  # literals of the first state come first
    return [int(v) for v in group.variable[part.start : part.start + n]]
