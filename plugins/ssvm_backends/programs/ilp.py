"""``ilp``: exact maximisation as an integer program, by CP-SAT or HiGHS.

The variables are those of the local polytope (:mod:`ssvm_backends.programs.local_polytope`), now 0 or 1; all rows are
kept because each one propagates.  Any topology, arity and number of states; time is exponential in the worst case.

Accuracy.  CP-SAT counts in whole numbers.  The loss of a column against the best of its block is rounded to multiples
of a power of two, chosen so that the rounding of a whole labelling stays below 2^-22 and below 2^-40 of what the
example's blocks can lose together, as far as all of it fits 61 bits.  The bound that is reported contains the rounding
error there really was.  HiGHS works in float64 with own tolerances, which its bound gets added.
Where that leaves the bound of a finished answer above its score by more than 1e-9 of what the answer loses, the search
is repeated from that answer, which closes every column with a larger loss and so allows a finer scale; if that does not
help, the bound says how far from optimal the answer may be.

The k best labellings are found one after the other (:mod:`ssvm_backends.programs.next_best`).

Hard constraints of any kind are linear rows.  CP-SAT takes them in whole numbers; where a kind has auxiliary columns
that are fractions, HiGHS solves the example.  Kinds with too many rows to list get those that the last answer violates,
until it violates none (:mod:`ssvm_backends.programs.rounds`).
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from ssvm_backends.graphs.graph import degree
from ssvm_backends.programs.cp_sat import CpSat
from ssvm_backends.programs.local_polytope import Priced, first_incumbent
from ssvm_backends.programs.milp import highs_milp
from ssvm_backends.programs.next_best import k_best
from ssvm_backends.programs.ortools_modules import import_ortools
from ssvm_backends.programs.rounds import Rounds, proposed
from ssvm_backends.programs.session import COLUMN_BYTES, PolytopeSession, ProgramAnswer, columns_of, first_answer
from ssvm_dsl.errors import OutOfTime
from ssvm_dsl.ir import RELATIVE, Need, Program, Question, Solution, Stop, Task
from ssvm_dsl.plugin_api import Clock, Verdict, loading

#: Operations for each example and each column; so many more factors of each variable make it twice as many.
CALL, COLUMN, DOUBLING = 2.4e7, 2.6e5, 7.0

#: Joint states of the largest factor that is turned into columns.
MAX_TABLE = 1 << 20


class ILP:
    """Integer programming over the local polytope, by CP-SAT or HiGHS.

    Maximise ``theta . mu`` subject to ``A mu = b`` and ``mu`` in {0, 1}, with a column for each state of a variable and
    each joint state of a factor.  Exponential in the worst case; anytime.
    """

    def check(self, need: Need) -> Verdict:
        """Accept everything but factors with too large tables."""
        if need.max_table > MAX_TABLE:
            return Verdict(False, reasons=(f"a factor has {need.max_table} joint states; it handles {MAX_TABLE}",))
        columns = columns_of(need)
        searches = 4.0 if Task.KBEST in need.tasks else 1.0  # at least two, each harder than the one before
        cost = searches * need.n_examples * (CALL + COLUMN * columns * 2.0 ** (degree(need) / DOUBLING))
        return Verdict(True, cost, n_bytes=COLUMN_BYTES * columns)

    def open(self, program: Program, options: Mapping[str, Any]) -> ILPSession:
        """Open the backend on a program; the session answers every labelling task by integer programming."""
        if options["solver"] == "highs":
            with loading():
                importlib.import_module("scipy.optimize")
        else:
            import_ortools("ortools.sat.python.cp_model")
        return ILPSession(program, options)


class ILPSession(PolytopeSession):
    """Integer programs of one program's examples."""

    def __init__(self, program: Program, options: Mapping[str, Any]) -> None:
        super().__init__(program, options, redundant=True)
        self._solver = highs_milp if options["solver"] == "highs" else CpSat(int(options["num_workers"]))
        self._by_fractions = highs_milp

    def solve(self, question: Question) -> Solution:
        """Answer a question; see :class:`~ssvm_dsl.plugin_api.Session`."""
        if question.task is Task.KBEST:
            return k_best(self.program, question, ILPSession, self.options)
        return super().solve(question)

    def answer(self, priced: Priced, clock: Clock, warm: Any, task: Task) -> ProgramAnswer:
        """Solve one example, in rounds where it has constraints whose rows are too many to list."""
        if not priced.polytope.side.separable:
            return self._at_once(priced, clock, warm)
        ptr, bound = priced.polytope.state_ptr, priced.bound()
        best = proposed(priced, priced.polytope.labels_of(priced.score), priced.score[: ptr[-1]])
        if isinstance(warm, np.ndarray) and warm.shape == best.shape and priced.score_of(warm) > priced.score_of(best):
            best = warm
        score, stats = priced.score_of(best), {"rounds": 0}
        rounds = Rounds(priced, clock)
        silent = replace(clock, limits=replace(clock.limits, progress=None))  # answers of rounds may be no labellings
        while True:
            answer = self._at_once(rounds.now, silent, best if score > -np.inf else None)
            bound, stop = min(bound, max(answer.bound, score)), answer.stop
            stats = {name: stats.get(name, 0) + more for name, more in {**answer.stats, "rounds": 1}.items()}
            if answer.labels is None:
                break
            labels = np.asarray(answer.labels, dtype=np.int32)
            whole = priced.score_of(labels)
            if whole > score:
                best, score = labels, whole
            clock.tell(score, bound)
            if stop is not Stop.FINISHED or whole > -np.inf:
                break
            chosen = np.zeros(int(ptr[-1]))
            chosen[ptr[:-1] + labels] = 1.0
            if clock.over or not rounds.add_violated(chosen, 0.5):
                stop = Stop.TIME
                break
        if score == -np.inf:
            return ProgramAnswer(bound=bound, stop=stop, stats=stats)
        return ProgramAnswer(best, score, max(bound, score), stop, warm=best, stats=stats)

    def _at_once(self, priced: Priced, clock: Clock, warm: Any) -> ProgramAnswer:
        """Solve one program; where there is no time to, the answer is the labelling that a search starts from."""
        solver = self._solver if priced.polytope.side.whole.all() else self._by_fractions
        try:
            answer = solver(priced, clock, warm)
        except OutOfTime:
            return first_answer(priced, first_incumbent(priced, warm)[0], Stop.TIME)
        if answer.stop is Stop.FINISHED and answer.labels is not None:
            lost = max(0.0, priced.top - answer.score)
            if answer.bound - answer.score > RELATIVE * lost + 2.0 * priced.rounding(lost):
                again = solver(priced, clock, answer.labels)
                answer = replace(again, bound=min(again.bound, answer.bound))
        return answer
