"""Answers that are not there: a labelling that nobody found is never shown as one, and what was found is not lost."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ssvm_dsl.array_types import Bools
from ssvm_dsl.errors import InfeasibleError, MissingAnswerError, NoLabellingError
from ssvm_dsl.inference.planning.plans import AUTO, Plan
from ssvm_dsl.ir.need import Guarantee, Task
from ssvm_dsl.ir.solution import FEASIBLE, INFEASIBLE, Primal, Solution, Stop

#: Examples that an error names at most.
NAMED = 5


class MissingAnswers:
    """The examples of a call that have no answer, over all of its chunks.

    Parameters
    ----------
    task : Task
        ``map``, ``kbest``, ``marginals`` or ``relaxed``.
    """

    def __init__(self, task: Task) -> None:
        self.task, self.n_examples = task, 0
        self.infeasible: list[int] = []
        self.without: list[int] = []
        self._reason, self._fractional, self._late = "", False, False
        self._plan: Plan | None = None
        self._guarantee = Guarantee.EXACT

    def add(
        self, plan: Plan, guarantee: Guarantee, solution: Solution, first: int = 0,
        why: Callable[[int], str] = lambda example: "",
    ) -> Bools:  # fmt: skip
        """Note the examples of a chunk that have no answer, and return which these are.

        Parameters
        ----------
        plan : Plan
            Of the backend that answered, for the message.
        guarantee : Guarantee
            The guarantee of its answers.
        solution : Solution
            A verified one.
        first : int
            Number of the first example.
        why : callable
            Says why an answer, counted from 0, does not exist, in words; empty where it does not know.
        """
        missing = without_answer(solution, self.task)
        self.n_examples = first + len(missing)
        if not np.logical_or.reduce(missing):
            return missing
        never = missing & (solution.primal == INFEASIBLE)
        if never.any() and not self.infeasible:
            self._reason = why(int(np.flatnonzero(never)[0]))
        open_ones = missing & ~never
        if open_ones.any():
            self._plan, self._guarantee = plan, guarantee
            self._fractional |= bool((solution.primal[open_ones] == Primal.FRACTIONAL).any())
            self._late |= bool((solution.stop[open_ones] == Stop.TIME).any())
        self.infeasible += (first + np.flatnonzero(never)).tolist()
        self.without += (first + np.flatnonzero(open_ones)).tolist()
        return missing

    def because(self, reason: str) -> None:
        """Say why the first example that has no labelling has none."""
        self._reason = reason or self._reason

    @property
    def any(self) -> bool:
        """Whether an example has no answer."""
        return bool(self.infeasible or self.without)

    def check(self, found: Sequence[Any] = ()) -> None:
        """Raise where an example has no answer; the error carries what was found.

        Raises
        ------
        InfeasibleError
            An example has no labelling that masks and constraints allow.
        NoLabellingError
            The backend found none, or a fractional solution only.
        """
        if not self.any:
            return
        error: MissingAnswerError
        if self.infeasible:
            text = f"example {self.infeasible[0]} has no labelling that its masks and constraints allow"
            if len(self.infeasible) > 1:
                text += f" (nor have {len(self.infeasible) - 1} others)"
            error = InfeasibleError(f"{text}: {self._reason}" if self._reason else text)
        else:
            error = NoLabellingError(self._without_text())
        error.found = found
        raise error

    def _without_text(self) -> str:
        """Return which examples have no answer, why, and what to do."""
        assert self._plan is not None
        what = {Task.MARGINALS: "marginals", Task.RELAXED: "fractional solution"}.get(self.task, "labelling")
        whole = f"{len(self.without)} of {self.n_examples} examples ({_listed(self.without)})"
        cause = "its search ended before it found a labelling"
        if self._late:
            cause = "time was up"
            if what == "labelling":
                cause += " before one was found, and whether there is any takes a search to tell"
        elif self._fractional and self.task is not Task.RELAXED:
            cause = "its solutions are fractional"
        who = "no backend was chosen in time:" if self._unplanned else f"backend '{self._plan.title}' has"
        return f"{who} no {what} for {whole}: {cause}\n  hint: {self._hint()}"

    @property
    def _unplanned(self) -> bool:
        """Whether time was up before a backend was chosen."""
        return self._plan is not None and self._plan.backend == AUTO

    def _hint(self) -> str:
        """Return advice, without settings that are already in use."""
        assert self._plan is not None
        plan = self._plan
        options = [pair for one in (plan, *plan.components) for pair in one.options.items()]
        off = [f"{name}='none'" for name, value in options if value == "none"]
        advice = ["raise time_limit"] if self._late else []
        advice += [f"leave out the option {', '.join(off)}"] if off else []
        chosen = self._unplanned or bool(plan.components) or any(one.name != plan.backend for one in plan.candidates)
        if not chosen:
            advice.append("set backend='auto', which takes exact ones that always find a labelling if they finish")
        elif self._guarantee is not Guarantee.EXACT:
            advice.append("ask for guarantee='exact'")
        elif not advice:
            advice.append("name another backend (ssvm explain lists them)")
        return f"{', or '.join(advice)}; .found of this error holds the answers for the other examples"


def without_answer(solution: Solution, task: Task) -> Bools:
    """Return which examples have no answer, ``shape (n,)``.

    Marginals come without labels, but with log Z where they are done; ``relaxed`` asks for fractional solutions.
    """
    if solution.complete:
        return np.zeros(len(solution.primal), dtype=bool)
    none = np.asarray(solution.primal != FEASIBLE)
    if task is Task.MARGINALS and solution.log_partition is not None:
        none = np.isnan(solution.log_partition) | (solution.primal == INFEASIBLE)
    if task is Task.RELAXED:
        none &= solution.primal != Primal.FRACTIONAL
    return none


def _listed(numbers: list[int]) -> str:
    """Return the first few numbers as text."""
    text = ", ".join(str(n) for n in numbers[:NAMED])
    return f"{'number' if len(numbers) == 1 else 'numbers'} {text}{', ...' if len(numbers) > NAMED else ''}"
