"""``custom`` and ``custom-exact``: best structures by the user's own class (``Custom(y, oracle=...)``).

Variables that are in no literal of a constraint take their best state.  The host checks what the class finds before it
comes here; this is only where answers get their bounds: the score itself of classes that are proved exact on small
problems, none otherwise.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

import numpy as np

from ssvm_dsl.errors import PluginError
from ssvm_dsl.ir import ConstraintGroup, Need, Program
from ssvm_dsl.plugin_api import Clock, ExampleAnswer, ExampleSession, PlainExample, StructureRules, Verdict

#: Operations that a call of a user's class is taken for, and each score it looks at.
CALL, SCORE = 1e5, 100.0


class CustomBackend:
    """Asks the class, example by example, and believes nothing of what it finds but its score."""

    exact = False

    def check(self, need: Need) -> Verdict:
        """Accept one constraint of an example: nothing makes answers to several agree."""
        if need.max_constraints > 1:
            return Verdict(False, reasons=("takes one Custom constraint of an example, and no other constraint",))
        states = float(need.n_variables) * need.max_card
        return Verdict(True, CALL * need.n_examples + SCORE * states, n_bytes=8.0 * states)

    def open(self, program: Program, options: Mapping[str, Any]) -> CustomSession:
        """Return a session."""
        return CustomSession(program, self.exact)


class CustomExact(CustomBackend):
    """Asks a class that is proved exact on small problems: what it finds is the best."""

    exact = True


class CustomSession(ExampleSession):
    """Structures of one program.

    Parameters
    ----------
    program : Program
    exact : bool
        Whether what classes find is the best, and nothing means that there is nothing.

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
                found = cast(StructureRules, group.rules).best(group, k, scores)
                if found is None:
                    return ExampleAnswer(None, bound=-np.inf if self.exact else np.nan)
                labels[variables] = found
        score = example.score(labels)
        return ExampleAnswer(labels, score, score if self.exact else np.nan)


def _variables(group: ConstraintGroup, k: int, n_states: int) -> list[int]:
    """Return the variables of a constraint, counted from the first one of the example."""
    part = group.literals(k)
    n = (part.stop - part.start) // n_states  # literals of the first state come first
    return [int(v) for v in group.variable[part.start : part.start + n]]
