"""Why an example has no labelling: an irreducible set of constraints that cannot be kept together.

Constraints are left out one after the other, as long as there is still no labelling (a deletion filter; Chinneck and
Dravnieks, ORSA J. Computing 3, 1991): many at once first, single ones in the end.  What remains is irreducible: without
any one of them there is a labelling.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Generic, TypeVar

import numpy as np

from ssvm_dsl.deadline import Deadline, within
from ssvm_dsl.errors import SsvmError
from ssvm_dsl.inference.session import Ask, open_session
from ssvm_dsl.inference.starting.repair import scores_of
from ssvm_dsl.ir.need import Task
from ssvm_dsl.ir.program import Program
from ssvm_dsl.ir.question import Question
from ssvm_dsl.ir.solution import Primal
from ssvm_dsl.ir.theta import Theta
from ssvm_dsl.plugin_api.constraints import UnmetKind

#: Programs that are solved at most, and seconds for each.
MOST_TRIALS, TRIAL_SECONDS = 300, 2.0

T = TypeVar("T")

#: A constraint: number of its group, and of the constraint in its example.
Item = tuple[int, int]


def conflict(program: Program, theta: Theta, example: int, until: Deadline | None = None) -> str:
    """Return which constraints of an example cannot be kept together, in words; empty where that stays unknown.

    Parameters
    ----------
    program : Program
        With the rules of its constraints.
    theta : Theta
        Scores; only what they forbid (``-inf``) is looked at.
    example : int
        One without a labelling.
    until : Deadline, optional
        When to end, with what is known by then; where that is over, nothing is looked at.
    """
    until = Deadline() if until is None else until
    if until.over:
        return ""
    search = _Search(program, theta, example, until)
    every = [(g, k) for g, group in enumerate(search.alone.constraints) for k in range(group.n_constraints)]
    if not every or not search.infeasible(every):
        return ""
    if search.going and search.infeasible([]):
        return "masks and scores of -inf leave no labelling, even without the constraints"
    core = search.irreducible(every)
    listed = " and ".join(search.named(item) for item in core[:5]) + (", ..." if len(core) > 5 else "")
    rest = "" if search.going else " (there may be fewer; the search was ended)"
    if len(core) == 1:
        said = search.why_unmet(core[0])
        return f"nothing keeps the constraint {listed}" + (f": {said}" if said else "")
    return f"the constraints {listed} cannot be kept together{rest}; loosen one of them"


def broken_together(program: Program, theta: Theta, until: Deadline) -> list[str]:
    """Return which constraints of the only example cannot be kept together, those that have a place, in words.

    They are an irreducible set; empty where none are needed, or where that stays unknown.
    """
    search = _Search(program, theta, 0, until)
    every = [(g, k) for g, group in enumerate(search.alone.constraints) for k in range(group.n_constraints)]
    if not every or until.over or not search.infeasible(every) or search.infeasible([]):
        return []
    named = {one: search.named(one) for one in search.irreducible(every)}
    return [text for (g, _), text in named.items() if text != f"'{search.alone.constraints[g].name}'"]


class Filter(Generic[T]):
    """Leaves out one of several things after the other, as long as there is no labelling under the others.

    Parameters
    ----------
    until : Deadline
        When to end, with what is known by then.
    """

    def __init__(self, until: Deadline) -> None:
        self.until, self.trials = until, 0

    @property
    def going(self) -> bool:
        """Whether another program may be solved: trials and time are left."""
        return self.trials < MOST_TRIALS and not self.until.over

    def infeasible(self, items: list[T]) -> bool:
        """Whether it is proved that no labelling keeps these; counts the trial."""
        raise NotImplementedError

    def irreducible(self, items: list[T]) -> list[T]:
        """Return an irreducible set of some that no labelling keeps."""
        chunk = max(1, len(items) // 2)
        while True:
            place = 0
            while place < len(items):
                fewer = items[:place] + items[place + chunk :]
                if self.going and self.infeasible(fewer):
                    items = fewer
                else:
                    place += chunk
            if chunk == 1:
                return items
            chunk = max(1, chunk // 2)


def proved_infeasible(program: Program, theta: Theta, until: Deadline) -> bool:
    """Return whether an exact backend proves that a program of one example has no labelling."""
    try:
        with within(Deadline(min(TRIAL_SECONDS, until.left))):
            session = open_session(program, Ask(frozenset({Task.MAP})), outwards=True)
            solution = session.solve(Question(theta))
    except SsvmError:  # why there is no labelling is nice to know, and nothing more
        return False
    return bool(solution.primal[0] == Primal.INFEASIBLE)


class _Search(Filter[Item]):
    """Looks whether some of an example's constraints can be kept together."""

    def __init__(self, program: Program, theta: Theta, example: int, until: Deadline) -> None:
        super().__init__(until)
        self.alone = program.take(np.array([example], dtype=np.int64))
        lo, hi = program.state_ptr[program.var_ptr[example : example + 2]]
        barred = [np.where(np.isneginf(table), -np.inf, 0.0) for table in theta.tables]
        node = np.where(np.isneginf(theta.node[lo:hi]), -np.inf, 0.0)
        self.theta = Theta.of(self.alone, node, barred)

    def infeasible(self, items: list[Item]) -> bool:
        """Whether it is proved that nothing keeps these constraints."""
        self.trials += 1
        kept = [np.array([k for g, k in items if g == number], dtype=np.int64) for number in self._groups]
        groups = tuple(group.only(mine) for group, mine in zip(self.alone.constraints, kept, strict=True) if len(mine))
        return proved_infeasible(replace(self.alone, constraints=groups), self.theta, self.until)

    def named(self, item: Item) -> str:
        """Return the text of a constraint."""
        group = self.alone.constraints[item[0]]
        n, where = group.n_constraints, group.words(item[1])
        return f"'{group.name}'" + (f" at {where}" if where else f" (number {item[1] + 1} of {n})" if n > 1 else "")

    def why_unmet(self, item: Item) -> str:
        """Return why a constraint cannot be kept, in the words of its kind; empty where it says nothing."""
        group = self.alone.constraints[item[0]]
        if not isinstance(group.rules, UnmetKind):
            return ""
        node = Question(self.theta).masked_node(self.alone)
        return group.rules.why_unmet(group, item[1], scores_of(self.alone, node, group, item[1])[1])

    @property
    def _groups(self) -> range:
        return range(len(self.alone.constraints))
