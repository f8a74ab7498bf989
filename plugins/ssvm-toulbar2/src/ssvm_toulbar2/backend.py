"""``toulbar2``: exact maximisation by branch and bound with soft arc consistency (Allouche et al., CP 2010, CP 2015).

Any graph, factors of any number of variables, masks and clamps.  Scores become integer costs in
:mod:`ssvm_toulbar2.costs`, which says what rounding does to answers; the solver is given tables, never files, and runs
in a process of its own (:mod:`ssvm_toulbar2.process`), so that time limits and Ctrl-C end it within a moment, several
threads can ask at once, and a crash is a fault of this backend and not the end of the program.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from time import perf_counter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ssvm_dsl.ir import Need, Primal, Program, Question, Solution, Stop
from ssvm_dsl.plugin_api import Verdict
from ssvm_toulbar2.costs import Costs, Example
from ssvm_toulbar2.process import worker

I32 = NDArray[np.int32]

#: Joint states of the largest factor that is written down.
MAX_TABLE = 1 << 20

#: Most states of a variable; the solver numbers them in 16 bits.
MAX_STATES = 1 << 15


class Toulbar2:
    """Branch and bound by toulbar2; exponential in the worst case."""

    def check(self, need: Need) -> Verdict:
        """Accept everything that can be written down as tables."""
        if os.name != "posix":
            return Verdict(False, reasons=("stops its solver by signals, which this system does not have",))
        if need.max_table > MAX_TABLE:
            return Verdict(False, reasons=(f"a factor has {need.max_table} joint states; it handles {MAX_TABLE}",))
        if need.max_card > MAX_STATES:
            return Verdict(False, reasons=(f"a variable has {need.max_card} states; it handles {MAX_STATES}",))
        entries = need.n_variables * need.max_card + need.n_factors * need.max_table
        largest = 100.0 * entries / max(need.n_examples, 1)
        return Verdict(True, cost=need.n_examples * 1e6 + 1e3 * entries, n_bytes=largest)

    def open(self, program: Program, options: Mapping[str, Any]) -> Session:
        """Return a session."""
        with worker():  # a process is started here, and not on anybody's time
            return Session(program, int(options["vac"]))


@dataclass(frozen=True)
class Answer:
    """What is known about one example.

    Parameters
    ----------
    labels : ndarray of int32, optional
    score : float
        Of the labels; ``-inf`` without any.
    bound : float
        ``-inf`` proves that there is no labelling, ``nan`` says nothing.
    stop : Stop
    """

    labels: I32 | None = None
    score: float = -np.inf
    bound: float = np.nan
    stop: Stop = Stop.FINISHED

    @property
    def primal(self) -> Primal:
        """What the labels are."""
        if self.labels is not None:
            return Primal.FEASIBLE
        return Primal.INFEASIBLE if self.bound == -np.inf else Primal.NONE


class Session:
    """Answers example by example.

    Parameters
    ----------
    program : Program
    vac : int
        Depth down to which the solver keeps virtual arc consistency; 0 for never.
    """

    def __init__(self, program: Program, vac: int) -> None:
        self.program, self.vac = program, vac

    def solve(self, question: Question) -> Solution:
        """Answer ``map`` or ``map_clamped``; see :class:`~ssvm_dsl.plugin_api.Session`.

        Iterations are backtracks of a search.  ``Solution.warm`` maps numbers of examples to their labellings, from
        whose scores the next searches start.
        """
        ids, node, limits = question.ids(self.program), question.masked_node(self.program), question.limits
        known = question.warm if isinstance(question.warm, dict) else {}
        end = np.inf if limits.time is None else perf_counter() + limits.time
        answers: list[Answer] = []
        for number, i in enumerate(ids.tolist()):
            left = end - perf_counter()
            if left <= 0.0 or (answers and answers[-1].stop is Stop.INTERRUPTED):
                break
            example = Example.of(self.program, question.theta, node, i)
            until = perf_counter() + left / (len(ids) - number)
            answers.append(self._one(example, known.get(i), until, limits.iterations or 0))
            if limits.progress is not None:
                limits.progress(answers[-1].score, answers[-1].bound)
        rest = answers[-1].stop if answers and answers[-1].stop is Stop.INTERRUPTED else Stop.TIME
        answers += [Answer(stop=rest)] * (len(ids) - len(answers))
        return self._packed(question, answers)

    def _one(self, example: Example, known: I32 | None, end: float, backtracks: int) -> Answer:
        """Answer for one example."""
        if not len(example.cards):
            return Answer(np.zeros(0, np.int32), example.const, example.const)
        costs = Costs.of(example)
        if costs.peak == -np.inf:
            return Answer(bound=-np.inf)
        top = costs.top
        if known is not None and example.score(known) > -np.inf:
            top = costs.of_labels(example, known) + 1
        else:
            known = None
        problem = {"top": top, "vac": self.vac, "backtracks": backtracks, "hint": known is not None}
        arrays: list[NDArray[Any]] = [example.cards, costs.node]
        for scope, table in zip(example.scopes, costs.tables, strict=True):
            arrays += [scope, table]
        if known is not None:
            arrays.append(known)
        with worker() as process:
            reply, reason = process.ask(problem, arrays, end)
        return read(example, costs, known, reply, reason)

    def _packed(self, question: Question, answers: list[Answer]) -> Solution:
        ids, sizes = question.ids(self.program), np.diff(question.label_ptr(self.program))
        labels = [
            np.zeros(size, np.int32) if answer.labels is None else answer.labels
            for size, answer in zip(sizes, answers, strict=True)
        ]
        return Solution(
            np.concatenate([np.zeros(0, np.int32), *labels]),
            np.array([answer.score for answer in answers], dtype=np.float64),
            np.array([answer.bound for answer in answers], dtype=np.float64),
            np.array([answer.stop for answer in answers], dtype=np.int8),
            np.array([answer.primal for answer in answers], dtype=np.int8),
            warm={int(i): a.labels for i, a in zip(ids, answers, strict=True) if a.labels is not None},
        )


def read(example: Example, costs: Costs, known: I32 | None, reply: dict[str, Any] | None, reason: Stop) -> Answer:
    """Return what a reply of the solver says about an example.

    Parameters
    ----------
    example, costs
        What it was asked.
    known : ndarray of int32, optional
        A labelling that it was given.
    reply : dict, optional
        See :func:`ssvm_toulbar2.worker.solve`; ``None`` where it did not answer in time.
    reason : Stop
        Why it was stopped from outside, ``FINISHED`` where it was not.

    Raises
    ------
    RuntimeError
        It says that there is no labelling as good as the one that it was given.
    """
    if reply is None:
        stop, low, labels = reason, 0, None
    else:
        limited = Stop.ITERATIONS if reason is Stop.FINISHED else reason
        stop, low = limited if reply["limited"] else Stop.FINISHED, reply["low"]
        labels = None if reply["labels"] is None else np.array(reply["labels"], dtype=np.int32)
    if labels is None and stop is Stop.FINISHED:
        if known is not None:
            raise RuntimeError("toulbar2 found no labelling as good as the one that it was given")
        return Answer(bound=-np.inf)
    if labels is not None and stop is Stop.FINISHED:  # the solver does not always raise its own bound to the optimum
        low = max(low, costs.of_labels(example, labels))
    labels = known if labels is None else labels
    score = -np.inf if labels is None else example.score(labels)
    return Answer(labels, score, costs.bound(low), stop)
