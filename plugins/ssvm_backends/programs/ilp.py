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
from dataclasses import dataclass, replace
from itertools import pairwise
from math import ceil, fsum, log2
from typing import Any, Protocol

import numpy as np

from ssvm_backends.graphs.graph import degree
from ssvm_backends.programs.local_polytope import LocalPolytope, Priced, first_incumbent
from ssvm_backends.programs.ortools_modules import import_ortools
from ssvm_backends.programs.rounds import Rounds, proposed
from ssvm_backends.programs.session import COLUMN_BYTES, Kept, PolytopeSession, ProgramAnswer, columns_of, first_answer
from ssvm_backends.programs.side_rows import SideRows
from ssvm_dsl.errors import OutOfTime
from ssvm_dsl.ir import (
    F64,
    I32,
    I64,
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
from ssvm_dsl.plugin_api import CallOutcome, Clock, PropagatingKind, Verdict, call_in_process, call_in_thread, loading

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
                try:
                    again = solver(priced, clock, answer.labels)
                except OutOfTime:
                    return replace(answer, stop=Stop.TIME)
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


# --------------------------------------------------------------------------------------------------------------------
# CP-SAT on local polytopes of 0/1 variables: the model once for each structure, objective and hints per call.
#
# Each row of the polytope says that exactly one of some literals holds: one state of a variable; one joint state of a
# factor that has its k-th variable in state s, or that variable is not in state s.
#
# The search is given a labelling to start from; when that has a finite score it is the first incumbent, so that a
# search that is cut short has one to show.

#: All losses together are below 2 to this power, in whole numbers (the solver refuses sums of more than 63 bits).
MAX_BITS = 61

#: The rounding of a whole labelling aimed at is below 2 to minus this power of the most it can lose ...
MIN_BITS = 40

#: ... and below 2 to minus this power.
ABSOLUTE_BITS = 22

#: Seconds for each entry of the equations that a search takes whatever its limit: to copy the model, to read it.
SEARCH_SECONDS = 1e-6

#: The clock is checked after this many columns or rows.
LOOK_EVERY = 4096


@dataclass(frozen=True, eq=False)
class IntegerLosses:
    """Losses as whole numbers.

    Parameters
    ----------
    loss : ndarray of int64, shape (n_columns,)
        Rounded multiples of ``unit``; zero where closed.
    unit : float
        A power of two.
    excess : float
        The most a labelling's rounded losses exceed its true ones.
    top : float
        Score of the labelling, if there were one, that loses nothing.
    """

    loss: I64
    unit: float
    excess: float
    top: float

    def bound(self, lost: int) -> float:
        """Return the upper bound on all scores that ``lost`` units as lower bound on all losses prove."""
        return fsum([self.top, -lost * self.unit, self.excess])


def integer_losses(priced: Priced, losses: F64) -> IntegerLosses:
    """Return losses in whole numbers.

    Parameters
    ----------
    losses : ndarray of float64, shape (n_columns,)
        Not negative, ``inf`` where closed; zero somewhere in each block.
    """
    starts, n_blocks = priced.polytope.block_ptr[:-1], len(priced.polytope.block_ptr) - 1
    finite = np.where(losses < np.inf, losses, 0.0)
    span = float(np.maximum.reduceat(finite, starts).sum())
    unit = 1.0
    if span > 0.0:
        wanted = min(log2(span) - MIN_BITS, -ABSOLUTE_BITS) - log2(n_blocks)
        unit = max(2.0 ** ceil(max(wanted, log2(float(finite.sum())) - MAX_BITS)), np.finfo(float).tiny)
    scaled = finite / unit
    whole = np.rint(scaled)
    excess = float(np.maximum.reduceat((whole - scaled) * unit, starts).sum())
    return IntegerLosses(whole.astype(np.int64), unit, excess + priced.rounding(span), priced.top)


class CpSat:
    """Solves examples.

    Parameters
    ----------
    num_workers : int
        Threads of one search; answers are reproducible for one.
    """

    def __init__(self, num_workers: int) -> None:
        self.num_workers = num_workers
        self._models: list[Any] = []  # that no search uses now: to make one takes a millisecond
        self._frame: Kept[LocalPolytope, Any] = Kept(
            lambda polytope, clock: (_frame(polytope, clock), polytope.n_columns)
        )

    def __call__(self, priced: Priced, clock: Clock, warm: Any) -> ProgramAnswer:
        """Return the best labelling found and its proved bound.

        Parameters
        ----------
        priced : Priced
        clock : Clock
        warm : ndarray of int32, optional
            Labels to start from.
        """
        from ortools.sat.python import cp_model

        start, losses = first_incumbent(priced, warm)
        integers = integer_losses(priced, losses)
        model = self._model()
        self._fill(model.proto, priced.polytope, integers, losses == np.inf, start, clock)
        solver = cp_model.CpSolver()
        self._configure(solver.parameters, clock)
        teller = _teller(priced, integers, clock, solver)
        if teller is not None:
            solver.best_bound_callback = teller.on_bound
        ended = call_in_thread(lambda: solver.solve(model, teller), solver.stop_search, clock)
        status, interrupted = ended.value, ended.stop is Stop.INTERRUPTED
        if status is not None:  # else the search goes on with the model
            model.proto.copy_from(cp_model.CpModelProto())  # models not in use take no memory
            self._models.append(model)
        if teller is not None and teller.trouble is not None:
            if not isinstance(teller.trouble, KeyboardInterrupt):
                raise teller.trouble
            interrupted = True
        stop = Stop.INTERRUPTED if interrupted else Stop.FINISHED
        if status is None:
            return first_answer(priced, start, ended.stop)
        if status == cp_model.MODEL_INVALID:
            raise ValueError("CP-SAT refuses the model")
        if status == cp_model.INFEASIBLE:
            return ProgramAnswer(bound=-np.inf)
        if status != cp_model.OPTIMAL and stop is Stop.FINISHED:
            stop = Stop.TIME if clock.limits.iterations is None or clock.over else Stop.ITERATIONS
        return _answer(priced, integers, solver, stop, start)

    def _model(self) -> Any:
        """Return an empty CP-SAT model, or one whose search has ended: its memory is used again."""
        from ortools.sat.python import cp_model

        try:
            return self._models.pop()
        except IndexError:
            return cp_model.CpModel()

    def _fill(
        self, proto: Any, polytope: LocalPolytope, integers: IntegerLosses, closed: Any, start: I32, clock: Clock
    ) -> None:
        """Overwrite a model with the rows of a polytope, losses, and a labelling to start from."""
        frame = self._frame(polytope, clock)
        clock.afford(SEARCH_SECONDS * polytope.nnz)
        proto.copy_from(frame)
        for column in np.flatnonzero(closed).tolist():
            proto.variables[column].domain[1] = 0
        used = np.flatnonzero(integers.loss)
        proto.objective.vars.extend(used.tolist())
        proto.objective.coeffs.extend(integers.loss[used].tolist())
        values = np.zeros(polytope.n_columns, dtype=np.int64)
        values[polytope.chosen(start)] = 1
        proto.solution_hint.vars.extend(range(polytope.n_columns))
        proto.solution_hint.values.extend(values.tolist())

    def _configure(self, parameters: Any, clock: Clock) -> None:
        parameters.num_workers = self.num_workers
        parameters.random_seed = 0
        # all rows in the solver's own relaxation, or its bounds are hopeless: a 10 x 10 grid of 3 states takes 0.2 s
        # instead of more than 12 s
        parameters.linearization_level = 2
        parameters.catch_sigint_signal = False
        if clock.end < np.inf:
            parameters.max_time_in_seconds = clock.left
        if clock.limits.iterations is not None:
            parameters.max_number_of_conflicts = clock.limits.iterations


def _frame(polytope: LocalPolytope, clock: Clock) -> Any:
    """Return the variables and rows of a model, as a ``CpModelProto``.

    Raises
    ------
    OutOfTime
    """
    from ortools.sat.python import cp_model

    proto, matrix = cp_model.CpModelProto(), polytope.matrix
    for column in range(polytope.n_columns):
        proto.variables.add().domain.extend([0, 1])
        if column % LOOK_EVERY == 0:
            clock.afford(0.0)
    literals = np.where(matrix.data > 0, matrix.indices, -matrix.indices - 1).tolist()
    ends = matrix.indptr.tolist()
    for row, (start, end) in enumerate(pairwise(ends)):
        proto.constraints.add().exactly_one.literals.extend(literals[start:end])
        if row % LOOK_EVERY == 0:
            clock.afford(0.0)
    _add_side(proto, polytope.side, clock)
    return _propagating(proto, polytope, clock)


def _propagating(proto: Any, polytope: LocalPolytope, clock: Clock) -> Any:
    """Return a model with what kinds of constraints add to it (:class:`~ssvm_dsl.plugin_api.PropagatingKind`)."""
    from ortools.sat.python import cp_model

    groups = [group for group in polytope.side.groups if isinstance(group.rules, PropagatingKind)]
    if not groups:
        return proto
    model = cp_model.CpModel()
    model.proto.copy_from(proto)
    for group in groups:
        assert isinstance(group.rules, PropagatingKind)
        columns = (polytope.state_ptr[group.variable] + group.state).tolist()
        for k in range(group.n_constraints):
            clock.afford(0.0)
            part, literals = group.literals(k), list[Any]()
            for column, negated in zip(columns[part], group.negated[part].tolist(), strict=True):
                variable = model.get_bool_var_from_proto_index(column)
                literals.append(variable.negated() if negated else variable)
            group.rules.propagate(group, k, model, literals)
    made = cp_model.CpModelProto()
    made.copy_from(model.proto)
    return made


def _add_side(proto: Any, side: SideRows, clock: Clock) -> None:
    """Add the rows of hard constraints, and their auxiliary columns, all of them whole numbers."""
    for least, most in zip(np.ceil(side.least).tolist(), np.floor(side.most).tolist(), strict=True):
        proto.variables.add().domain.extend([int(least), int(most)])
    for row, (columns, coefficients, lower, upper) in enumerate(side.whole_rows()):
        if row % (LOOK_EVERY // 16) == 0:  # a row takes as long as some columns
            clock.afford(0.0)
        added = proto.constraints.add()
        if lower > upper:
            added.bool_or.literals.extend([])  # nothing satisfies it
            continue
        added.linear.vars.extend(columns)
        added.linear.coeffs.extend(coefficients)
        added.linear.domain.extend([lower, upper])


def _answer(priced: Priced, integers: IntegerLosses, solver: Any, stop: Stop, start: I32) -> ProgramAnswer:
    response = solver.response_proto
    # losses are not negative, so zero is a lower bound whatever the solver got round to prove
    bound = integers.bound(max(0, int(response.inner_objective_lower_bound)))
    stats = {"conflicts": int(response.num_conflicts), "branches": int(response.num_branches)}
    labels, score = start, priced.score_of(start)
    if len(response.solution):
        better = _labels(priced.polytope, response.solution)
        if stop is Stop.FINISHED or priced.score_of(better) >= score:
            labels, score = better, priced.score_of(better)
    if score == -np.inf:
        return ProgramAnswer(bound=bound, stop=stop, stats=stats)
    return ProgramAnswer(labels, score, max(bound, score), stop, warm=labels, stats=stats)


def _labels(polytope: LocalPolytope, solution: Any) -> I32:
    return polytope.labels_of(np.array(list(solution), dtype=np.float64))


def _teller(priced: Priced, integers: IntegerLosses, clock: Clock, solver: Any) -> Any:
    """Return a callback that reports new incumbents and bounds, or ``None`` when nobody listens.

    An exception of the listener ends the search and is kept in ``trouble``: it must not pass through the solver.
    """
    if clock.limits.progress is None:
        return None
    from ortools.sat.python import cp_model

    class Teller(cp_model.CpSolverSolutionCallback):
        """Keeps the best of both and tells whoever asked."""

        def __init__(self) -> None:
            super().__init__()
            self.found, self.proved = -np.inf, np.inf
            self.trouble: BaseException | None = None

        def on_solution_callback(self) -> None:
            response: Any = self.Response()  # type: ignore[no-untyped-call]
            self.found = max(self.found, priced.score_of(_labels(priced.polytope, response.solution)))
            self.on_bound(self.best_objective_bound)

        def on_bound(self, lost: float) -> None:
            # a float64 from the solver: one unit in the last place is taken off before it counts as proved
            self.proved = min(self.proved, integers.bound(max(0, int(np.nextafter(lost, 0.0)))))
            try:
                clock.tell(self.found, max(self.proved, self.found))
            except BaseException as trouble:
                self.trouble = trouble
                solver.stop_search()

    return Teller()
