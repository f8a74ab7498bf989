"""Factor graphs of files and other libraries: one question to one backend, and the status of its verified answer.

The status is derived, never taken over:

* ``optimal``: a labelling that counts, with ``bound - score`` within tolerance (``Solution.optimal``);
* ``infeasible``: the certified bound says that no labelling counts;
* ``interrupted``, ``feasible`` (a labelling, not proved optimal), ``bound only``, ``no answer``: what is left;
* for marginals ``exact`` or ``approximate``, by what the backend guarantees.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from math import inf, isfinite, isnan, log, nan
from operator import index
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ssvm_dsl.array_types import I32
from ssvm_dsl.calls import checked_call
from ssvm_dsl.deadline import Deadline, within
from ssvm_dsl.errors import DataError, OptionError
from ssvm_dsl.inference.planning.planner import AUTO
from ssvm_dsl.inference.planning.plans import Plan
from ssvm_dsl.inference.session import Ask, open_session
from ssvm_dsl.ir.analysis.energies import energy_ratio
from ssvm_dsl.ir.graph_problem import GraphProblem
from ssvm_dsl.ir.need import Guarantee, Limits, Task
from ssvm_dsl.ir.question import Question
from ssvm_dsl.ir.solution import Primal, Solution, Stop
from ssvm_dsl.notebook_tables import text_rows
from ssvm_dsl.units import number_text, seconds_text

#: Statuses that answer the question.
ANSWERED = ("optimal", "feasible", "exact", "approximate")


@dataclass(frozen=True, eq=False)
class SolveAnswer:
    """The answer of a backend.

    Parameters
    ----------
    plan : Plan
    status : str
    seconds : float
    score, bound : float
        ``nan`` where there is none.
    labels : list of int, optional
    eta : float
        The energy of the labels is at most that many times the least one, where tables are distances of two variables;
        ``nan`` elsewhere, and without a bound.
    log_partition : float, optional
        For marginals; ``nan`` where there is none.
    node : ndarray of float64, optional
        Marginals of all states of all variables.
    note : str
        What else there is to know.
    named : dict of str to str, optional
        The labels by name, where the file has names: of variables, and of states (else their numbers).
    """

    plan: Plan = field(repr=False)
    status: str
    seconds: float
    score: float = nan
    bound: float = nan
    labels: list[int] | None = None
    eta: float = nan
    log_partition: float | None = None
    node: NDArray[np.float64] | None = None
    note: str = ""
    named: dict[str, str] | None = None

    @property
    def gap(self) -> float:
        """``bound - score``, ``nan`` where one is missing."""
        return self.bound - self.score if isfinite(self.bound) and isfinite(self.score) else nan

    @property
    def answered(self) -> bool:
        """Whether it answers the question."""
        return self.status in ANSWERED or self.labels is not None

    def rows(self) -> list[tuple[str, str]]:
        """Return (name, text) of the rows to print, without the labelling."""
        rows = [("status", self.status)]
        if self.log_partition is not None:
            base_10 = number_text(self.log_partition / log(10))
            rows.append(("log Z", f"{number_text(self.log_partition)} (log10 Z {base_10})"))
        else:
            rows += [("score", number_text(self.score)), ("bound", number_text(self.bound))]
            rows.append(("gap", number_text(self.gap, ".3g")))
            if isfinite(self.eta) and self.eta > 1.0:
                rows.append(("eta", f"{self.eta:.5g}: the energy is at most {self.eta:.5g} times the lowest one"))
        rows += [("backend", self.plan.title), ("plan", self.plan.reason), ("time", seconds_text(self.seconds))]
        return [*rows, *([("note", self.note)] if self.note else [])]

    def __str__(self) -> str:
        return text_rows(self.rows())

    def summary(self) -> dict[str, Any]:
        """Return the content of ``--json``."""
        facts: dict[str, Any] = {
            "score": _finite(self.score),
            "bound": _finite(self.bound),
            "gap": _finite(self.gap),
            "status": self.status,
            "labels": self.labels,
            "backend": self.plan.title,
            "seconds": self.seconds,
        }
        if self.named is not None:
            facts["named"] = self.named
        if isfinite(self.eta):
            facts["eta"] = self.eta
        if self.log_partition is not None:
            facts["log_partition"] = _finite(self.log_partition)
        return facts


@checked_call
def solve_problem(
    problem: GraphProblem,
    task: str = "best",
    *,
    backend: str = AUTO,
    backend_options: Mapping[str, Any] | None = None,
    evidence: Mapping[int | str, int | str] | Sequence[int] | I32 | None = None,
    time_limit: float | None = None,
    progress: Callable[[float, float], None] | None = None,
) -> SolveAnswer:
    """Return the best labelling of a factor graph, or its marginals and log Z, as ``ssvm solve`` does.

    Parameters
    ----------
    problem : GraphProblem
        Such as ``read_problem("problem.uai")``.
    task : {"best", "marginals"}
    backend : str
        ``"auto"`` takes exact backends only; one that is named may be weaker.
    backend_options : mapping, optional
        Options of the named backend.
    evidence : mapping, or sequence of int, optional
        The states of observed variables: ``{variable: state}``, both by number or by the names that the file has, or a
        state for each variable, -1 where it is free.
    time_limit : float, optional
        Seconds, planning included, compiling kernels not.
    progress : callable, optional
        Called with the score and the bound whenever a slow backend has better ones.

    Raises
    ------
    NoBackendError
        No backend fits.
    DataError
        The evidence names a variable or state that is not there.

    Examples
    --------
    >>> answer = solve_problem(read_problem("problem.uai"), time_limit=10.0)
    >>> answer.status, answer.score, answer.labels
    """
    if not isinstance(problem, GraphProblem):
        raise OptionError(f"problem: expected what read_problem returns, got {type(problem).__name__}")
    if not isinstance(task, str) or task not in ("best", "marginals"):
        raise OptionError(f"task must be 'best' or 'marginals', got {task!r}")
    if not isinstance(backend_options, Mapping | None):
        raise OptionError(f"backend_options: expected a dict of options by name, got {backend_options!r}")
    marginals, clamp = task == "marginals", _observed(problem, evidence)
    asked = Task.MARGINALS if marginals else Task.MAP if clamp is None else Task.MAP_CLAMPED
    deadline, plans, theta = Deadline.of(time_limit), list[Plan](), problem.theta
    if marginals and clamp is not None:
        theta, clamp = problem.given(clamp), None
    try:
        with within(deadline):
            ask = Ask(frozenset({asked}), backend, backend_options)
            session = open_session(
                problem.program, ask, problem.theta, announce=lambda _, plan: plans.append(plan), outwards=True
            )
            question = Question(theta, task=asked, clamp=clamp, limits=Limits(progress=progress), tables=not marginals)
            solution = session.solve(question)
    except KeyboardInterrupt:
        if not plans:
            raise
        return SolveAnswer(plans[0], "interrupted", deadline.spent, log_partition=nan if marginals else None)
    if marginals:
        n_states = int(problem.program.card[: problem.n_given].sum())
        exact = session.guarantee is Guarantee.EXACT
        return _of_marginals(session.plan, exact, solution, deadline.spent, n_states)
    return _of_labels(session.plan, problem, question, solution, deadline.spent)


def _observed(
    problem: GraphProblem, evidence: Mapping[int | str, int | str] | Sequence[int] | I32 | None
) -> I32 | None:
    """Return a state for each variable, -1 where it is free; ``None`` where all are."""
    if evidence is None:
        return None
    try:
        pairs = list(evidence.items() if isinstance(evidence, Mapping) else enumerate(evidence))
        numbers = [tuple(one if isinstance(one, str) else index(one) for one in pair) for pair in pairs]
        variables, states = zip(*(problem.number(*pair) for pair in numbers), strict=True) if numbers else ((), ())
    except TypeError:
        expected = "{variable: state}, or a state for each variable, both as ints or by the names of the file"
        raise DataError("evidence", expected=expected, found=f"{evidence!r}"[:80]) from None
    if not isinstance(evidence, Mapping) and len(states) != problem.n_given:
        expected = f"a state for each of {problem.n_given} variables, -1 where it is free"
        raise DataError("evidence", expected=expected, found=f"{len(states)} of them")
    observed = [pair for pair in zip(variables, states, strict=True) if pair[1] != -1]
    return problem.clamp(observed) if observed else None


def _of_labels(
    plan: Plan, problem: GraphProblem, question: Question, solution: Solution, seconds: float
) -> SolveAnswer:
    score, bound = float(solution.score[0]), float(solution.bound[0])
    there = solution.primal[0] == Primal.FEASIBLE and score > -inf
    counts, note = there and score > problem.floor, ""
    if there and not counts:
        note = f"the best labelling found has score {score:.10g}; the file asks for more than {problem.floor:.10g}"
    status = _status(bool(solution.optimal()[0]), counts, bound, problem.floor, int(solution.stop[0]))
    labels = solution.labels[: problem.n_given].tolist() if counts else None
    named = None
    if labels is not None and problem.names is not None:
        named = {problem.name(v): problem.state_name(v, k) for v, k in enumerate(labels)}
    eta = nan
    if counts and isfinite(bound):
        eta = float(energy_ratio(problem.program, question, solution)[0])
    return SolveAnswer(plan, status, seconds, score if counts else nan, bound, labels, eta, note=note, named=named)


def _status(optimal: bool, counts: bool, bound: float, floor: float, stop: int) -> str:
    if optimal and counts:
        return "optimal"
    if bound <= floor:
        return "infeasible"
    if stop == Stop.INTERRUPTED:
        return "interrupted"
    if counts:
        return "feasible"
    return "bound only" if isfinite(bound) else "no answer"


def _of_marginals(plan: Plan, exact: bool, solution: Solution, seconds: float, n_states: int) -> SolveAnswer:
    log_z = nan if solution.log_partition is None else float(solution.log_partition[0])
    node = None if solution.marginals is None else solution.marginals.node[:n_states]
    stop = int(solution.stop[0])
    if stop == Stop.INTERRUPTED:
        return SolveAnswer(plan, "interrupted", seconds, log_partition=nan)
    if isnan(log_z) or (exact and stop != Stop.FINISHED):
        return SolveAnswer(plan, "no answer", seconds, log_partition=nan)
    if log_z == -inf:
        return SolveAnswer(plan, "infeasible" if exact else "no answer", seconds, log_partition=nan)
    return SolveAnswer(plan, "exact" if exact else "approximate", seconds, log_partition=log_z, node=node)


def _finite(value: float) -> float | None:
    return value if isfinite(value) else None
