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

The k best labellings are found one after the other (:func:`k_best`).

Hard constraints of any kind are linear rows.  CP-SAT takes them in whole numbers; where a kind has auxiliary columns
that are fractions, HiGHS solves the example.  Kinds with too many rows to list get those that the last answer violates,
until it violates none (:mod:`ssvm_backends.programs.rounds`).
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Protocol

import numpy as np

from ssvm_backends.graphs.graph import degree
from ssvm_backends.programs.cp_sat import CpSat
from ssvm_backends.programs.local_polytope import Priced, first_incumbent
from ssvm_backends.programs.ortools_modules import import_ortools
from ssvm_backends.programs.rounds import Rounds, proposed
from ssvm_backends.programs.session import COLUMN_BYTES, PolytopeSession, ProgramAnswer, columns_of, first_answer
from ssvm_dsl.errors import OutOfTime
from ssvm_dsl.ir import (
    I32,
    RELATIVE,
    Bools,
    ConstraintGroup,
    LinearRows,
    Need,
    Primal,
    Program,
    Question,
    Solution,
    Stop,
    Task,
    Theta,
    positions,
)
from ssvm_dsl.plugin_api import CallOutcome, Clock, Verdict, call_in_process, loading

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


# -- HiGHS's branch and bound, through ``scipy.optimize.milp``, on local polytopes: an alternative to CP-SAT ---------
#
# Only the variables' columns are declared integer: with those whole, rows and non-negativity make the factors' whole.
# Losses are divided by the largest one.  HiGHS closes its gap up to an absolute 1e-6 and lets rows and whole numbers be
# off by as much; the losses are therefore scaled up first, and the bound gets twice these tolerances added.

#: Size of the largest loss as HiGHS sees it.
SCALE = 1e4

#: HiGHS's absolute tolerances, in its own units.
TOLERANCE = 1e-6


#: Seconds for each entry of the rows in which HiGHS does not check the clock.
LATE_SECONDS = 1e-5


def highs_milp(priced: Priced, clock: Clock, warm: Any) -> ProgramAnswer:
    """Return the best labelling found, or the one it starts from, if that is better.

    HiGHS itself takes no labels; they close columns.  It checks the clock too rarely on large examples: 50 000 columns
    with a limit of 1 s were seen to take 3 s; as much is kept back.  It cannot be asked to stop: it works in another
    process, which is killed at the limit and at Ctrl-C; what it had found is lost then (``stats["lost_calls"]``).
    """
    from scipy.optimize import Bounds, LinearConstraint

    polytope, (labels, losses) = priced.polytope, first_incumbent(priced, warm)
    closed = losses == np.inf
    largest = float(np.max(losses, where=~closed, initial=0.0)) or 1.0
    unit = largest / SCALE
    options: dict[str, Any] = {"mip_rel_gap": 0.0}
    if clock.end < np.inf:
        late = LATE_SECONDS * polytope.nnz
        clock.afford(late)
        options["time_limit"] = max(0.0, clock.left - late)
    if clock.limits.iterations is not None:
        options["node_limit"] = clock.limits.iterations
    side, n = polytope.side, polytope.n_columns
    most = np.concatenate([np.where(closed, 0.0, 1.0), side.most])
    cost = np.concatenate([np.where(closed, 0.0, losses / unit), np.zeros(side.n_auxiliary)])
    program = {
        "integrality": np.concatenate([np.arange(n) < polytope.state_ptr[-1], side.whole]),
        "bounds": Bounds(np.concatenate([np.zeros(n), side.least]), most),
        "constraints": LinearConstraint(*polytope.all_rows),
        "options": options,
    }
    ended: CallOutcome[Any] = call_in_process("scipy.optimize:milp", (cost,), program, clock)
    result = ended.value
    if result is None:
        return first_answer(priced, labels, ended.stop, lost_calls=1)
    if result.status == 2:
        return ProgramAnswer(bound=-np.inf)
    stop = Stop.FINISHED
    if result.status != 0:
        stop = Stop.TIME if clock.limits.iterations is None or clock.over else Stop.ITERATIONS
    lost = 0.0 if result.mip_dual_bound is None else max(0.0, float(result.mip_dual_bound))
    bound = min(priced.bound(), priced.top - (lost - 2 * TOLERANCE) * unit + priced.rounding(lost * unit))
    score = priced.score_of(labels)
    if result.x is not None:
        better = polytope.labels_of(np.asarray(result.x, dtype=np.float64))
        if priced.score_of(better) >= score:
            labels, score = better, priced.score_of(better)
    if score == -np.inf:
        return ProgramAnswer(bound=bound, stop=stop if result.x is None else Stop.ITERATIONS)
    return ProgramAnswer(
        labels, score, max(bound, score), stop, warm=labels, stats={"nodes": int(result.mip_node_count or 0)}
    )


# -- The k best labellings by integer programs: each one found is ruled out before the next is sought ----------------
#
# A labelling y is ruled out by one row over the columns of its states, ``sum_v x[v, y_v] <= V - 1``, which all others
# keep.  Each example takes up to k programs, each harder than the one before.


class _Solver(Protocol):
    def solve(self, question: Question) -> Solution: ...


class NoGood:
    """A constraint that not all of its literals are true."""

    def violated(self, group: ConstraintGroup, true: Bools) -> Bools:
        """Return which constraints are broken."""
        return np.logical_and.reduceat(true, group.literal_ptr[:-1])

    def rows(self, group: ConstraintGroup, k: int) -> LinearRows:
        """Return the one row of constraint k."""
        n = int(group.literal_ptr[k + 1] - group.literal_ptr[k])
        return LinearRows.one(np.ones(n), -np.inf, n - 1.0)


def k_best(
    program: Program, question: Question, open_: Callable[[Program, Mapping[str, Any]], _Solver], options: Any
) -> Solution:
    """Answer the task ``kbest`` example by example.

    Parameters
    ----------
    program : Program
    question : Question
    open_ : callable
        Makes a session for the task ``map`` of a program with constraints.
    options : mapping
        Options of the session.
    """
    ids, ptr, clock = question.ids(program), question.label_ptr(program), Clock.start(question.limits)
    k, n = question.k, len(ids)
    labels = np.zeros((k, int(ptr[-1])), dtype=np.int32)
    score, bound = np.full((k, n), -np.inf), np.full(n, np.nan)
    stop, primal = np.full(n, Stop.TIME, dtype=np.int8), np.full(n, Primal.NONE, dtype=np.int8)
    known: Mapping[int, Any] = question.warm if isinstance(question.warm, Mapping) else {}
    warm: dict[int, Any] = {}
    for j, example in enumerate(ids.tolist()):
        here = slice(int(ptr[j]), int(ptr[j + 1]))
        answers = _ranked(program, example, question, known.get(example), open_, options, clock.share(n - j))
        if answers[0].warm:
            warm[example] = answers[0].warm[0]
        bound[j], stop[j], primal[j] = answers[0].bound[0], answers[-1].stop[0], answers[0].primal[0]
        listed = [answer for answer in answers if answer.primal[0] == Primal.FEASIBLE]
        listed.sort(key=lambda answer: -float(answer.score[0]))  # two scores that rounding cannot tell apart
        for rank, answer in enumerate(listed):
            labels[rank, here], score[rank, j] = answer.labels, answer.score[0]
        bound[j] = max(bound[j], score[0, j]) if listed else bound[j]
    return Solution(labels, score, bound, stop, primal, warm=warm)


def _ranked(
    program: Program,
    example: int,
    question: Question,
    warm: Any,
    open_: Callable[[Program, Mapping[str, Any]], _Solver],
    options: Any,
    clock: Clock,
) -> list[Solution]:
    """Return the answers of one example, one after the other; the last one may hold no labelling."""
    only = np.array([example])
    part, states = program.example(example), positions(program.state_ptr[program.var_ptr], only)
    node = question.theta.node[states]
    theta = Theta(node, question.theta.pool, question.theta.tables, question.theta.const[example : example + 1])
    clamp = None if question.clamp is None else question.clamp[positions(program.var_ptr, only)]
    out: list[Solution] = []
    while len(out) < question.k:
        limits = replace(question.limits, time=None if clock.end == np.inf else clock.left)
        start = {0: warm} if warm is not None and not out else None
        asked = Question(theta, task=Task.MAP, clamp=clamp, limits=limits, warm=start)
        answer = open_(part, options).solve(asked)
        out.append(answer)
        if answer.stop[0] != Stop.FINISHED or answer.primal[0] != Primal.FEASIBLE or not part.n_variables:
            break
        part = replace(part, constraints=(*part.constraints, _without(answer.labels, len(out))))
    return out


def _without(labels: I32, number: int) -> ConstraintGroup:
    """Return the constraint that rules one labelling of an example out."""
    n = len(labels)
    ends = np.array([0, 1], dtype=np.int64), np.array([0, n], dtype=np.int64)
    variable, negated = np.arange(n, dtype=np.int32), np.zeros(n, dtype=bool)
    return ConstraintGroup("no-good", f"labelling {number}", *ends, variable, labels, negated, rules=NoGood())
