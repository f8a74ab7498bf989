"""From a program to a session that answers questions about it: choose a backend, open it.

:func:`open_session` plans and opens within the time limit of the current call; :func:`open_plan` opens a given plan.

Open sessions are kept with the program.  They depend on its structure, on the question and on the installed plug-ins.
A session is kept if its backend promises that answers do not depend on earlier questions, in any thread
(``Caps.deterministic``, ``Caps.thread_safe``).  A session that had to continue with another backend, because memory was
short at the time, is not kept.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from ssvm_dsl.deadline import pause, time_left
from ssvm_dsl.errors import OutOfTime
from ssvm_dsl.inference.checked import CheckedSession
from ssvm_dsl.inference.component_session import ComponentSession
from ssvm_dsl.inference.planned import PlannedSession
from ssvm_dsl.inference.planning.planner import AUTO, accepted_guarantee, need_of, plan_program
from ssvm_dsl.inference.planning.plans import Plan
from ssvm_dsl.inference.unopened import StartingSession, UnplannedSession
from ssvm_dsl.ir.loss import LossFactors
from ssvm_dsl.ir.need import Ability, Guarantee, Need, Task
from ssvm_dsl.ir.program import Program
from ssvm_dsl.ir.solution import INTERRUPTED, Solution
from ssvm_dsl.ir.theta import Theta
from ssvm_dsl.plugin_api.specs import BackendSpec
from ssvm_dsl.registry import Registry, registry
from ssvm_dsl.requirements.programs import program_need
from ssvm_dsl.requirements.properties import doubts, table_properties
from ssvm_dsl.scores.parameter_map import ParameterMap

#: Bytes of a session for each variable of a factor, and for itself, beside what its backend says.
SLOT_BYTES, SESSION_BYTES = 16.0, 20_000.0


class Keeper(Protocol):
    """Where opened sessions are kept with a program.

    Attributes
    ----------
    settled : bool
        Whether all that is asked of a backend follows from the program.
    opened : dict
        The sessions, by keys of this module.
    """

    settled: bool
    opened: dict[Hashable, Any]

    def reserve(self, n_bytes: float) -> bool:
        """Count the bytes of an entry; return whether it fits."""


@dataclass(eq=False)
class Ask:
    """What a session is opened for.

    Parameters
    ----------
    tasks : frozenset of Task
    backend : str
        A backend's name, or ``"auto"``.
    options : mapping, optional
        Of the backend.
    guarantee, weakest : Guarantee
        What ``auto`` takes, and what a backend that is named needs to give
        (:func:`~ssvm_dsl.inference.planning.planner.accepted_guarantee`).
    abilities : frozenset of Ability
        What is asked for beyond the tasks.
    priced : sequence of LossFactors
        Joint states that a loss adds to.
    first : int
        Number of the first example, for messages.
    """

    tasks: frozenset[Task]
    backend: str = AUTO
    options: Mapping[str, Any] | None = None
    guarantee: Guarantee = Guarantee.EXACT
    weakest: Guarantee = Guarantee.HEURISTIC
    abilities: frozenset[Ability] = frozenset()
    priced: Sequence[LossFactors] = ()
    first: int = 0

    def need(self, scores: ParameterMap | Theta | None, program: Program) -> Need:
        """Return the need of a program, for scores of which so much is known: see :func:`open_session`."""
        guarantee = accepted_guarantee(self.backend, self.guarantee, self.weakest)
        if isinstance(scores, ParameterMap):
            return need_of(scores, self.tasks, guarantee, self.abilities, self.first, self.priced)
        known = frozenset[str]() if scores is None else table_properties(program, scores)
        return program_need(program, self.tasks, guarantee, self.abilities, known)

    def key(self, unsure: Hashable) -> Hashable | None:
        """Return what tells apart all that may be asked of one program; ``None`` if options cannot be compared."""
        asked = self.tasks, self.backend, self.guarantee, self.weakest, self.abilities, unsure
        if not self.options:
            return self.options is None, asked
        given = tuple(sorted(self.options.items()))
        try:
            hash(given)
        except TypeError:
            return None
        return given, asked


@dataclass(frozen=True, eq=False)
class OpenedSession:
    """A session, and how it came about.

    Parameters
    ----------
    need : Need or None
        ``None`` where time was up before it was known.
    plan : Plan
        What was planned; ``session.plan`` is who answers now.
    session : PlannedSession
    plugins : Registry
    generation : int
        Of the plug-ins that it was planned with.
    """

    need: Need | None
    plan: Plan
    session: PlannedSession
    plugins: Registry
    generation: int

    def holds(self, plugins: Registry) -> bool:
        """Whether it would be planned and opened like that again."""
        same = self.plugins is plugins and self.generation == plugins.generation
        return same and self.session.answers_by(self.plan)

    def may_stay(self, kept: Keeper) -> bool:
        """Whether the session gives the same answers later, and has memory for them."""
        plans = self.plan.components or (self.plan,)
        caps = [self.plugins.find(BackendSpec, one.backend).caps for one in plans]
        if not all(one.deterministic and one.thread_safe for one in caps) or not self.session.answers_by(self.plan):
            return False
        if self.need is None or any(one.depends_on_memory for one in (self.plan, *plans)):
            return False
        return kept.reserve(self.plan.n_bytes + SLOT_BYTES * self.need.n_slots + SESSION_BYTES)


def open_session(
    program: Program,
    ask: Ask,
    scores: ParameterMap | Theta | None = None,
    kept: Keeper | None = None,
    announce: Callable[[Need, Plan], None] | None = None,
    outwards: bool = False,
    starts: bool = True,
) -> OpenedSession:
    """Return a session for a program, a kept one or a new one, within the time limit of the current call.

    If time runs out before a backend is open, the session answers with starting labellings (:class:`StartingSession`),
    or with nothing (:class:`UnplannedSession`).

    Parameters
    ----------
    program : Program
    ask : Ask
    scores : ParameterMap or Theta, optional
        Where scores come from, or these themselves: properties of tables that backends rely on are looked for there.
    kept : Keeper, optional
        Where sessions of the program are kept, if they are; with a parameter map.
    announce : callable, optional
        Called with the need and the plan before it is opened.
    outwards : bool
        As for :func:`open_plan`.
    starts : bool
        Whether starting labellings are answers.

    Raises
    ------
    NoBackendError, PluginError, OptionError
        As for :func:`~ssvm_dsl.inference.planning.planner.plan`.
    """
    plugins, need, plan = registry(), None, None
    try:
        pause()
        key: Hashable | None = None
        if kept is not None and isinstance(scores, ParameterMap):
            settled = kept.settled and not ask.priced
            key = ask.key(None if settled else tuple(doubts(scores, ask.first, ask.priced).items()))
            opened: OpenedSession | None = None if key is None else kept.opened.get(key)
            if opened is not None and opened.holds(plugins):
                if announce is not None and opened.need is not None:
                    announce(opened.need, opened.plan)
                return opened
        unhurried = time_left() == np.inf or not program.constraints  # else some ways were left out
        need = ask.need(scores, program)
        plan = plan_program(program, need, ask.backend, None if ask.options is None else dict(ask.options))
        if announce is not None:
            announce(need, plan)
        pause()
        made = OpenedSession(need, plan, open_plan(plan, program, plugins, outwards), plugins, plugins.generation)
    except OutOfTime:
        late = StartingSession(ask.backend, program, plugins, outwards) if starts else None
        session = UnplannedSession(program, need, plan) if late is None else late
        return OpenedSession(need, session.plan, session, plugins, plugins.generation)
    if kept is not None and key is not None and unhurried and made.may_stay(kept):
        kept.opened[key] = made
    return made


def open_plan(plan: Plan, program: Program, plugins: Registry | None = None, outwards: bool = True) -> PlannedSession:
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
    known = registry() if plugins is None else plugins
    kind = ComponentSession if plan.components else CheckedSession
    return kind(plan, program, known, outwards)


def refuse_interrupted(solution: Solution) -> Solution:
    """Return a solution; raise ``KeyboardInterrupt`` for one that a backend cut short because of Ctrl-C."""
    if not solution.complete and np.logical_or.reduce(solution.stop == INTERRUPTED):
        raise KeyboardInterrupt
    return solution
