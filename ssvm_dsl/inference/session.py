"""An opened backend with its verifier: what the rest of the package talks to."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from functools import partial
from threading import RLock
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from ssvm_dsl.errors import BackendFault, TooLargeError
from ssvm_dsl.inference.foreign import ForeignSession, read_only
from ssvm_dsl.inference.planner import Plan
from ssvm_dsl.inference.verify import Verifier
from ssvm_dsl.ir.counts import CountTables
from ssvm_dsl.ir.loss import COUNT
from ssvm_dsl.ir.need import Guarantee, Limits, Task
from ssvm_dsl.ir.program import Program
from ssvm_dsl.ir.solution import Marginals, Solution
from ssvm_dsl.ir.theta import Theta
from ssvm_dsl.ir.tolerance import Terms
from ssvm_dsl.plugin_api.compiled import CompiledMessages, CompiledOracle
from ssvm_dsl.plugin_api.contained import contained
from ssvm_dsl.plugin_api.specs import BackendSpec, ConstraintSpec
from ssvm_dsl.registry import Registry, registry

F64 = NDArray[np.float64]
I32 = NDArray[np.int32]
I64 = NDArray[np.int64]

_NO_LIMITS = Limits()


class PlannedSession(Protocol):
    """What the rest of the package asks questions of."""

    program: Program

    @property
    def plan(self) -> Plan:
        """The backend that answers, and how it was chosen."""

    @property
    def guarantee(self) -> Guarantee:
        """What an answer is worth."""

    def solve(
        self,
        theta: Theta,
        *,
        examples: I64 | None = None,
        task: Task = Task.MAP,
        clamp: I32 | None = None,
        warm: Any = None,
        limits: Limits = _NO_LIMITS,
        k: int = 1,
        known: F64 | None = None,
    ) -> Solution:
        """Answer a question; the answer is verified.

        ``known`` are scores that labellings are known to have, such as the truth in training (``-inf``: none).
        """

    @property
    def tasks(self) -> frozenset[Task]:
        """The questions that may be asked."""

    @property
    def counts(self) -> bool:
        """Whether ``best_by_count`` may be called."""

    def best_by_count(
        self, theta: Theta, tables: CountTables, examples: I64 | None = None, known: F64 | None = None
    ) -> Solution:
        """Return the labelling that is worth most by its counts; the answer is verified.

        ``known`` is what labellings are known to be worth.
        """

    def compiled(self) -> CompiledOracle | None:
        """Return a compiled oracle, ``None`` without one."""

    def compiled_messages(self) -> CompiledMessages | None:
        """Return compiled message passing, ``None`` where that is not offered."""

    def slope(self, theta: Theta, ids: I64, warm: Any) -> Marginals | None:
        """Return a subgradient of the dual bound, or ``None`` where that is not offered."""

    def expect(self, theta: Theta, ids: I64, coef: F64, node: F64, tables: Sequence[F64]) -> F64 | None:
        """Add weighted marginals and return log partitions, or ``None`` where that is not offered."""


class CheckedSession:
    """A session whose answers are verified; opened by :func:`open_plan`.

    Where ``auto`` chose the backend and it cannot be opened, or refuses for its memory when asked, the next one in the
    plan's order answers, and ``plan`` says so.

    Parameters
    ----------
    plan : Plan
    program : Program
    plugins : Registry
    outwards : bool
        Whether bounds are rounded outwards.
    """

    def __init__(self, plan: Plan, program: Program, plugins: Registry, outwards: bool = False) -> None:
        self.program, self._plugins, self._outwards, self._moving = program, plugins, outwards, RLock()
        self._open(plan)

    def _open(self, plan: Plan) -> None:
        """Open the backend of a plan, or the next one that can be opened."""
        try:
            self._open_only(plan)
        except Exception as err:
            following = plan.following(err, self._plugins)
            if following is None:
                raise
            self._open(following)

    def _open_only(self, plan: Plan) -> None:
        """Open the backend of a plan."""
        program, plugins = self.program, self._plugins
        spec = plugins.find(BackendSpec, plan.backend)
        kinds = {group.kind for group in program.constraints}
        owner = plugins.owner(spec)
        origin = "" if owner.bundled else str(owner)
        self._fault = partial(BackendFault, spec.name, origin=origin)
        self._contained = contained(plugins.whose(spec), self._fault)
        self._turn = nullcontext() if spec.caps.thread_safe else plugins.turn(spec)
        with self._contained, self._turn:
            if owner.bundled:
                self._session: Any = plugins.load(spec)().open(program, plan.options)
            else:
                opened = plugins.load(spec)().open(read_only(program), dict(plan.options))
                self._session = ForeignSession(opened, program, self._fault)
        constraints = {kind: plugins.find(ConstraintSpec, kind) for kind in kinds}
        self._verify = Verifier(program, spec.name, spec.caps, constraints, foreign=origin)
        self.plan, self.spec = plan, spec

    def _move_on(self, refused: Plan, err: Exception) -> bool:
        """Open the next backend in place of one that refused, if that is not done; return whether there is one."""
        with self._moving:
            if self.plan is not refused:
                return True
            following = refused.following(err, self._plugins)
            if following is not None:
                self._open(following)
            return following is not None

    def solve(
        self,
        theta: Theta,
        *,
        examples: I64 | None = None,
        task: Task = Task.MAP,
        clamp: I32 | None = None,
        warm: Any = None,
        limits: Limits = _NO_LIMITS,
        k: int = 1,
        known: F64 | None = None,
    ) -> Solution:
        """Answer a question (see :class:`~ssvm_dsl.plugin_api.Session`) and verify the answer.

        Raises
        ------
        BackendFault
            The backend crashed, or its answer breaks the contract.
        TooLargeError
            It needs more memory than it is allowed, and no other fits.
        """
        plan = self.plan
        try:
            with self._contained, self._turn:
                solution = self._session.solve(
                    theta, examples=examples, task=task, clamp=clamp, warm=warm, limits=limits, k=k
                )
        except (TooLargeError, MemoryError) as err:
            if not self._move_on(plan, err):
                raise
            return self.solve(theta, examples=examples, task=task, clamp=clamp, limits=limits, k=k, known=known)
        solution = self._verify(theta, solution, examples, task, clamp, k, known)
        return round_outwards(self.program, theta, solution, examples, task) if self._outwards else solution

    @property
    def guarantee(self) -> Guarantee:
        """What an answer is worth."""
        return self.spec.caps.guarantee

    @property
    def tasks(self) -> frozenset[Task]:
        """The questions the backend answers."""
        return self.spec.caps.tasks

    @property
    def counts(self) -> bool:
        """Whether the backend finds best labellings by counts (and the program has no constraints)."""
        return COUNT in self.spec.caps.loss_kinds and not self.program.constraints

    def best_by_count(
        self, theta: Theta, tables: CountTables, examples: I64 | None = None, known: F64 | None = None
    ) -> Solution:
        """Answer by counts (see :class:`~ssvm_dsl.plugin_api.CountingSession`) and verify the answer.

        Raises
        ------
        BackendFault
            The backend crashed, or its answer breaks the contract.
        """
        with self._contained, self._turn:
            solution: Solution = self._session.best_by_count(theta, tables, examples)
        return self._verify.counted(theta, solution, tables, examples, known)

    def compiled(self) -> CompiledOracle | None:
        """Return the session's compiled oracle, ``None`` when it offers none (or the program has constraints)."""
        with self._contained:
            offer = None if self.program.constraints else getattr(self._session, "compiled", None)
            return None if offer is None else offer()

    def compiled_messages(self) -> CompiledMessages | None:
        """Return the session's compiled message passing (see :class:`~ssvm_dsl.plugin_api.CompiledMessages`).

        ``None`` where it offers none, the program has constraints, or masks rule states out.
        """
        closed = bool(self.program.constraints) or self.program.allowed is not None
        with self._contained:
            offer = None if closed else getattr(self._session, "compiled_messages", None)
            return None if offer is None else offer()

    def slope(self, theta: Theta, ids: I64, warm: Any) -> Marginals | None:
        """Return where the dual bound is attained (see :class:`~ssvm_dsl.plugin_api.SlopeSession`), where known."""
        with self._contained, self._turn:
            offer = None if self.program.constraints else getattr(self._session, "slope", None)
            return None if offer is None else offer(theta, ids, warm)

    def expect(self, theta: Theta, ids: I64, coef: F64, node: F64, tables: Sequence[F64]) -> F64 | None:
        """Let the session add weighted marginals (see :class:`~ssvm_dsl.plugin_api.SumSession`), where it can."""
        with self._contained, self._turn:
            offer = None if self.program.constraints else getattr(self._session, "expect", None)
            log_z: F64 | None = None if offer is None else offer(theta, ids, coef, node, tables)
        if log_z is not None and (log_z.shape != ids.shape or np.isnan(log_z).any() or (log_z == np.inf).any()):
            raise self._fault(f"expect returned log partitions of shape {log_z.shape}, nan or inf")
        return log_z


def round_outwards(
    program: Program, theta: Theta, solution: Solution, examples: I64 | None, task: Task
) -> Solution:
    """Return the solution with bounds that rounding cannot have left below the best score.

    They then hold for exact arithmetic on the scores given (:mod:`ssvm_dsl.ir.tolerance`).
    """
    if task is not Task.MARGINALS:
        score = solution.best if task is not Task.RELAXED else np.full_like(solution.bound, -np.inf)
        solution.terms = Terms.of(program, theta, examples)
        solution.bound = solution.terms.outwards(solution.bound, score, labelled=task is not Task.RELAXED)
    return solution


def open_plan(
    plan: Plan, program: Program, plugins: Registry | None = None, outwards: bool = True
) -> PlannedSession:
    """Open the planned backend (or one for each part) on a program.

    Parameters
    ----------
    plan : Plan
    program : Program
    plugins : Registry, optional
        The installed plug-ins by default.
    outwards : bool
        Whether bounds are rounded outwards, so that they hold in exact arithmetic.  It costs a look at all scores;
        training and prediction, which do not depend on the last digits, go without.
    """
    from ssvm_dsl.inference.parted_session import PartedSession

    known = registry() if plugins is None else plugins
    kind = PartedSession if plan.parts else CheckedSession
    return kind(plan, program, known, outwards)
