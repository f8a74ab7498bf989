"""Sessions of ``ad3`` for programs with hard constraints: rows in addition to tables, and labellings that keep them.

The relaxation is that of ``lp``: the local polytope and the linear rows of all constraints
(:mod:`ssvm_backends.dual.admm.constrained_steps`).  Directed trees are one factor in place of their rows
(:mod:`ssvm_backends.dual.admm.trees`), which makes it tighter, and so are constraints of kinds that find mixtures of
truth values (:mod:`ssvm_backends.dual.admm.mixtures`).

From time to time the fractional solution becomes a labelling:
the oracle of each constraint takes the best labelling by its probabilities
(:class:`~ssvm_backends.decomposition.incumbents.Incumbents`), all others their most probable state, and what keeps all
constraints is improved.  Where none of these does, an integer program of all rows together takes the most probable
labelling, or proves that there is none.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from itertools import pairwise
from time import perf_counter
from typing import TYPE_CHECKING, Any

import numpy as np

from ssvm_backends.dual.admm.mixtures import mixture_rows
from ssvm_backends.dual.admm.program_trees import TreeSets
from ssvm_backends.dual.admm.rows import ProgramRows, RowFactors, columns_left, reduced_rows
from ssvm_backends.dual.kernels import PHASE, SolverProgress
from ssvm_backends.dual.session import CALL, ExampleRange, message_places, message_pointers
from ssvm_backends.graphs.deadline import UNLIMITED
from ssvm_backends.graphs.graph import build_graph, top_states
from ssvm_backends.graphs.reduce import Reduced, reduce_problem
from ssvm_dsl.errors import OutOfTime
from ssvm_dsl.ir import (
    F64,
    I64,
    Limits,
    Marginals,
    Messages,
    Primal,
    Program,
    Question,
    Solution,
    Stop,
    Task,
    Terms,
    Theta,
    pointers,
    positions,
    runs,
)
from ssvm_dsl.plugin_api import Clock, score_marginals

if TYPE_CHECKING:
    from ssvm_backends.decomposition.incumbents import Incumbents
    from ssvm_backends.decomposition.parts import DualSubproblem
    from ssvm_backends.dual.admm.acceleration import History

#: Work of an iteration for each entry of a table, state and entry of a row, and how many times that for one of a tree.
PRICE, TREE = 8.0, 20.0

#: Work of an iteration for each constraint whose kind is asked, in Python.
CALLED = 2e5


class ConstrainedRun:
    """One call: the reduced examples asked for, and their progress.

    Parameters
    ----------
    session : ConstrainedSession
    question : Question
    """

    def __init__(self, session: ConstrainedSession, question: Question) -> None:
        from ssvm_backends.dual.admm.constrained_steps import RowState

        program, graph = session.program, session.graph
        self.question, self.ids, self.clock = question, question.ids(program), Clock.start(question.limits)
        session.rows_within(self.clock)
        self.reduced: Reduced = reduce_problem(program, graph, question, always=True)
        rows, trees, self.mixtures, self.entry, possible = reduced_rows(program, session.rows, self.ids, self.reduced)
        self.rows: RowFactors = rows
        self.trees, self.sets = trees, TreeSets.start(trees)
        self.feasible = self.reduced.feasible & possible
        self.ptr, self.kept, stored = session.stored(self.ids, question.warm)
        self.place = message_places(graph, self.reduced, self.ids, self.kept[0])
        self.stored = stored
        self.messages = stored[0][self.place]
        self.known = RowState.start(rows, stored[1][self.entry_places(session)])
        n = len(self.ids)
        self.progress = SolverProgress.start(n, int(self.reduced.label_ptr[-1]), len(self.messages))
        self.progress.done[~self.feasible] = True
        self.progress.bound[~self.feasible] = -np.inf
        self.const = np.where(self.reduced.feasible, self.reduced.instance.const, 0.0)
        self.terms = Terms.of(program, question.theta, self.ids)
        self.parts: list[ExampleRange] = []
        self.histories: list[History] = []  # of each part
        self.seen = np.zeros(n, dtype=np.int64)  # at which iteration a labelling was looked for
        self.improved = np.zeros(n, dtype=bool)  # whether nothing more is tried for its labelling

    def entry_places(self, session: ConstrainedSession) -> I64:
        """Return where the messages of rows are among those that are kept."""
        starts = session.rows.entry_ptr[session.rows.ptr]
        here = runs(starts[self.ids], starts[self.ids + 1] - starts[self.ids])
        place = np.zeros(int(starts[-1]), dtype=np.int64)
        place[here] = np.arange(len(here))
        return place[self.entry]

    def history(self, part: ExampleRange) -> History:
        """Return an empty memory of the iterations of a part: states, auxiliary columns and all messages."""
        from ssvm_backends.dual.admm.acceleration import History

        graph, rows = self.reduced.instance.graph, self.rows
        sizes = np.diff(graph.state_ptr[graph.var_ptr]) + np.diff(message_pointers(graph, self.reduced.ids))
        sizes += np.diff(rows.auxiliary_ptr) + np.diff(rows.entry_ptr[rows.ptr])
        return History.start(sizes[part.lo : part.hi])

    def chunks(self) -> Iterator[tuple[int, int, float]]:
        """Yield (first, stop, work of an iteration) of parts of the batch of about a call's work each."""
        graph, rows = self.reduced.instance.graph, self.rows
        tables = pointers(graph.table_size * np.diff(graph.slot_ptr))[graph.factor_ptr]
        states, entries = graph.state_ptr[graph.var_ptr], rows.entry_ptr[rows.ptr]
        cost = PRICE * (np.diff(tables) + np.diff(states) + 2.0 * np.diff(entries) + 8.0)
        of_trees = np.where(self.trees.of_row >= 0, np.diff(rows.entry_ptr), 0)
        cost += PRICE * TREE * np.diff(pointers(of_trees)[rows.ptr])
        called = np.array([one is not None for one in self.mixtures], dtype=np.float64)
        cost += CALLED * np.diff(np.append(0.0, np.cumsum(called))[rows.ptr])
        number = np.floor(np.cumsum(cost) / CALL)
        cuts = [0, *(np.flatnonzero(np.diff(number)) + 1).tolist(), len(cost)]
        for lo, hi in pairwise(cuts):
            if lo < hi:
                yield lo, hi, float(cost[lo:hi].sum())


class ConstrainedSession:
    """Relaxations, bounds and labellings of one program with constraints.

    Parameters
    ----------
    program : Program
    options : mapping
    """

    def __init__(self, program: Program, options: Mapping[str, Any]) -> None:
        self.program, self.options = program, options
        self.graph = build_graph(program)
        self._rows: ProgramRows | None = None
        self._oracles: list[DualSubproblem] | None = None

    @property
    def rows(self) -> ProgramRows:
        """The rows of all constraints."""
        return self.rows_within(UNLIMITED)

    def rows_within(self, clock: Clock) -> ProgramRows:
        """Return the rows of all constraints; the first question that has the time writes them.

        Raises
        ------
        OutOfTime
        """
        if self._rows is None:
            self._rows = ProgramRows.from_program(self.program, clock)
        return self._rows

    def slope(self, question: Question) -> Marginals | None:
        """Return ``None``: the messages of rows are no scores of tables."""
        return None

    def compiled_messages(self) -> None:
        """Return ``None``: no message passing for kernels of others."""
        return

    def stored(self, ids: I64, warm: object) -> tuple[I64, tuple[I64, I64], tuple[F64, F64]]:
        """Return where the kept messages of examples are, those of tables and of rows apart, and their values.

        Parameters
        ----------
        ids : ndarray of int64, shape (n,)
        warm : object
            :class:`~ssvm_dsl.ir.Messages` of an earlier answer: for each example those of tables, then those of rows.
        """
        tables, starts = message_pointers(self.graph, ids), self.rows.entry_ptr[self.rows.ptr]
        rows = pointers(starts[ids + 1] - starts[ids])
        ptr = tables + rows
        values = warm.of(ids, ptr) if isinstance(warm, Messages) else np.zeros(int(ptr[-1]))
        of_tables = runs(ptr[:-1], np.diff(tables))
        of_rows = runs(ptr[:-1] + np.diff(tables), np.diff(rows))
        return ptr, (tables, rows), (values[of_tables], values[of_rows])

    def solve(self, question: Question) -> Solution:
        """Answer ``map``, ``map_clamped`` or ``relaxed``; see :class:`~ssvm_dsl.plugin_api.Session`."""
        run = ConstrainedRun(self, question)
        best = None if question.task is Task.RELAXED else self._incumbents(question, run.clock)
        stop = self._run(run, best)
        solution = self._relaxed(run, stop) if best is None else self._labelled(run, best, stop)
        solution.warm = None if run.clock.over else self._kept(run)  # laying messages out takes time
        solution.stats = {"iterations": int(run.progress.iterations.sum())}
        return solution

    def _incumbents(self, question: Question, clock: Clock) -> Incumbents:
        from ssvm_backends.decomposition.incumbents import Incumbents
        from ssvm_backends.decomposition.parts import constraint_parts

        if self._oracles is None:
            with suppress(OutOfTime):  # labellings are held against the constraints all the same
                self._oracles = constraint_parts(self.program, clock)
        theta = question.theta
        open_theta = Theta(question.masked_node(self.program), theta.pool, theta.tables, theta.const)
        return Incumbents(self.program, self.graph, self._oracles or [], open_theta, clock)

    def _run(self, run: ConstrainedRun, best: Incumbents | None) -> Stop:
        """Iterate until all is done or a limit is reached; return the limit that ended unfinished examples."""
        limits, most = run.clock.limits, int(self.options["max_iterations"])
        most = most if limits.iterations is None else min(most, limits.iterations)
        message_ptr = message_pointers(run.reduced.instance.graph, run.reduced.ids)
        chunks, at = list(run.chunks()), 0
        until, longest = PHASE, 0.0
        try:
            for lo, hi, _ in chunks:
                part = ExampleRange(lo, hi, run.reduced, message_ptr, run.messages, run.progress, run.question.task)
                part.state = _primal_side(run, part)
                run.histories.append(run.history(part))
                run.parts.append(part)
            while not run.progress.done.all() and at < most:
                for part, history, (_, _, work) in zip(run.parts, run.histories, chunks, strict=True):
                    while not part.progress.done.all() and part.reached < min(until, most):
                        if run.clock.over or run.clock.left < longest:
                            self._improve(run, best)
                            return self._cut_short(run, best, Stop.TIME)
                        n, begin = min(max(int(CALL / work), 1), min(until, most) - part.reached), perf_counter()
                        self._iterate(run, part, history, n)
                        longest = max(longest, perf_counter() - begin)
                at, until = min(until, most), 2 * until
                self._improve(run, best)
                if not run.clock.over:
                    run.improved = run.progress.done.copy()
            if best is not None:
                self._last_resort(run, best)
        except KeyboardInterrupt:
            return self._cut_short(run, best, Stop.INTERRUPTED)
        return self._cut_short(run, best, Stop.TIME) if run.clock.over else Stop.ITERATIONS

    def _cut_short(self, run: ConstrainedRun, best: Incumbents | None, why: Stop) -> Stop:
        """Take back that examples are done whose labellings might still have become better; return why they ended."""
        progress = run.progress
        if best is not None:
            score, bound = best.score[run.ids], progress.bound + run.const
            with np.errstate(invalid="ignore"):
                met = (progress.bound == -np.inf) | run.terms.closed(score, bound)
            progress.done[:] &= met | (run.improved & (score > -np.inf))
        return why

    def _iterate(self, run: ConstrainedRun, part: ExampleRange, history: History, n: int) -> None:
        from ssvm_backends.dual.admm.constrained_steps import RowTask, constrained_ad3

        instance, rows, point = run.reduced.instance, run.rows, np.empty(len(run.rows.column))
        mixtures = mixture_rows(run.mixtures, point, run.known.copy, run.known.message)
        task = RowTask(
            instance, part.ids, part.messages, part.progress, rows, run.trees, run.sets, run.known,
            np.empty(len(instance.node)), point, history, np.empty(len(history.point)), mixtures,
        )  # fmt: skip
        constrained_ad3(task, part.state, n, float(self.options["tol"]), part.task is not Task.RELAXED)
        if mixtures.call.error is not None:
            raise mixtures.call.error

    def _improve(self, run: ConstrainedRun, best: Incumbents | None) -> None:
        """Make labellings of the fractional solutions that have moved, and see which bounds they meet."""
        progress = run.progress
        if best is not None:
            moved = np.flatnonzero(run.feasible & (progress.iterations > run.seen) & (progress.bound > -np.inf))
            if len(moved):
                run.seen[moved] = progress.iterations[moved]
                ids, (worth, likely) = run.ids[moved], self._worth(run, best)
                best.offer(ids, likely[positions(self.program.var_ptr, ids)])
                best.offer_best(ids, worth, likely)
                best.improve(ids)
            progress.score[:] = best.score[run.ids] - run.const
            with np.errstate(invalid="ignore"):
                closed = run.terms.closed(best.score[run.ids], progress.bound + run.const)
            progress.done[:] |= closed & (progress.bound < np.inf)
        for part in run.parts:
            part.tell(run.reduced, run.clock)

    def _worth(self, run: ConstrainedRun, best: Incumbents) -> tuple[F64, Any]:
        """Return the probability of each state (``-inf``: ruled out), and the likeliest one of each variable."""
        place, fixed = columns_left(self.program, run.ids, run.reduced)
        p = np.concatenate([part.state.p for part in run.parts])
        worth = np.where(fixed > 0.0, 1.0, -np.inf)
        worth[place >= 0] = p[place[place >= 0]]
        likely = top_states(worth, self.program.card)
        return np.where(best.theta.node > -np.inf, worth, -np.inf), likely

    def _last_resort(self, run: ConstrainedRun, best: Incumbents) -> None:
        """Ask all constraints at once where no labelling was found; believe a proof that there is none."""
        from ssvm_backends.decomposition.parts import joint_part

        progress = run.progress
        without = np.flatnonzero(run.feasible & (best.score[run.ids] == -np.inf) & (progress.bound > -np.inf))
        if not len(without) or run.clock.limits.iterations is not None:
            return
        part, (worth, _) = joint_part(self.program, best.theta), self._worth(run, best)
        limits = Limits(time=None if run.clock.end == np.inf else max(run.clock.left, 1e-3))
        solution = part.session.solve(Question(part.bare_theta(best.theta, worth), run.ids[without], limits=limits))
        best.offer(run.ids[without], solution.labels)
        if (solution.stop == Stop.INTERRUPTED).any():
            raise KeyboardInterrupt
        best.improve(run.ids[without])
        progress.score[:] = best.score[run.ids] - run.const
        impossible = without[solution.primal == Primal.INFEASIBLE]
        progress.bound[impossible] = -np.inf
        progress.done[impossible] = True

    def _labelled(self, run: ConstrainedRun, best: Incumbents, stop: Stop) -> Solution:
        score, (bound, why) = best.score[run.ids], self._bounds(run, stop)
        bound = np.where(bound < score, score, bound)
        labels = best.labels[positions(self.program.var_ptr, run.ids)]
        return Solution(labels, score, bound, why, Primal.codes(score, bound))

    def _relaxed(self, run: ConstrainedRun, stop: Stop) -> Solution:
        """Return the fractional solutions, whose variables are made distributions again."""
        from ssvm_backends.dual.admm.marginals import lift_split

        graph = run.reduced.instance.graph
        for part in run.parts:
            first = graph.state_ptr[graph.var_ptr[part.lo]]
            ptr = graph.state_ptr[graph.var_ptr[part.lo] : graph.var_ptr[part.hi]] - first
            if len(ptr):
                total = np.add.reduceat(part.state.p, ptr)
                card = graph.card[graph.var_ptr[part.lo] : graph.var_ptr[part.hi]]
                part.state.p[:] /= np.repeat(np.where(total > 0.0, total, 1.0), card)
        bound, why = self._bounds(run, stop)
        marginals = lift_split(self.program, self.graph, run.ids, run.reduced, run.parts)
        reached = run.feasible & (bound > -np.inf) & (run.progress.iterations > 0)
        score = np.full(len(run.ids), -np.inf)
        if reached.any():
            score[reached] = score_marginals(self.program, run.question.theta, marginals, run.ids)[reached]
        missing = np.where(bound == -np.inf, Primal.INFEASIBLE, Primal.NONE)
        primal = np.where(reached, Primal.FRACTIONAL, missing).astype(np.int8)
        return Solution(np.zeros(0, np.int32), score, bound, why, primal, marginals=marginals)

    def _bounds(self, run: ConstrainedRun, stop: Stop) -> tuple[F64, Any]:
        """Return the bounds with constants (``nan``: none yet), and why each search ended."""
        progress = run.progress
        with np.errstate(invalid="ignore"):
            bound = np.nextafter(progress.bound + run.const, np.inf)
        bound = np.where(progress.bound == np.inf, np.nan, np.where(progress.bound == -np.inf, -np.inf, bound))
        spent = progress.iterations >= int(self.options["max_iterations"])
        why = np.where(progress.done, Stop.FINISHED, np.where(spent, Stop.ITERATIONS, stop))
        return bound, why.astype(np.int8)

    def _kept(self, run: ConstrainedRun) -> Messages:
        """Return the messages of the lowest bounds, to start from next time."""
        tables, rows = run.stored
        tables[run.place] = run.messages
        rows[run.entry_places(self)] = run.known.best
        values = np.zeros(int(run.ptr[-1]))
        of_tables = np.diff(run.kept[0])
        values[runs(run.ptr[:-1], of_tables)] = tables
        values[runs(run.ptr[:-1] + of_tables, np.diff(run.kept[1]))] = rows
        return Messages(run.ids.copy(), run.ptr, values)


def _primal_side(run: ConstrainedRun, part: ExampleRange) -> Any:
    """Return the primal side of a part before the first iteration."""
    from ssvm_backends.dual.admm.steps import PrimalSide

    graph = run.reduced.instance.graph
    states = graph.state_ptr[graph.var_ptr]
    n_states, n_factors = (int(p[part.hi] - p[part.lo]) for p in (states, graph.factor_ptr))
    return PrimalSide.start(part.hi - part.lo, n_states, n_factors, len(part.messages))

