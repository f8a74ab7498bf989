"""CP-SAT on local polytopes of 0/1 variables: the model once for each structure, objective and hints per call.

Each row of the polytope says that exactly one of some literals holds: one state of a variable; one joint state of a
factor that has its k-th variable in state s, or that variable is not in state s.

The search is given a labelling to start from; when that has a finite score it is the first incumbent, so that a search
that is cut short has one to show.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from math import ceil, fsum, log2
from typing import Any

import numpy as np

from ssvm_backends.programs.local_polytope import LocalPolytope, Priced, first_incumbent
from ssvm_backends.programs.session import Kept, ProgramAnswer, first_answer
from ssvm_backends.programs.side_rows import SideRows
from ssvm_dsl.ir import F64, I32, I64, Stop
from ssvm_dsl.plugin_api import Clock, PropagatingKind, call_in_thread

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
