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
from typing import Any, NamedTuple, Protocol

import numpy as np

from ssvm_dsl.deadline import pause, time_left
from ssvm_dsl.errors import OutOfTime
from ssvm_dsl.inference.checked import CheckedSession
from ssvm_dsl.inference.component_session import ComponentSession
from ssvm_dsl.inference.planned import PlannedSession, StartingSession, UnplannedSession
from ssvm_dsl.inference.planning.planner import AUTO, accepted_guarantee, need_of, plan_program
from ssvm_dsl.inference.planning.plans import Plan
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
        :class:`KeptSession` by what was asked for.
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


class KeptSession(NamedTuple):
    """A session that is kept with a program, what was asked for, and the plug-ins that it was planned with."""

    session: PlannedSession
    need: Need
    plugins: Registry
    generation: int


def open_session(
    program: Program,
    ask: Ask,
    scores: ParameterMap | Theta | None = None,
    kept: Keeper | None = None,
    announce: Callable[[Need, Plan], None] | None = None,
    outwards: bool = False,
    starts: bool = True,
) -> PlannedSession:
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
    key: Hashable | None = None
    try:
        pause()
        if kept is not None and isinstance(scores, ParameterMap):
            unsure = None if kept.settled and not ask.priced else tuple(doubts(scores, ask.first, ask.priced).items())
            options = None if ask.options is None else tuple(sorted(ask.options.items()))
            key = ask.tasks, ask.backend, options, ask.guarantee, ask.weakest, ask.abilities, unsure
            try:
                entry: KeptSession | None = kept.opened.get(key)
            except TypeError:  # the value of an option, which planning refuses
                key = entry = None
            same = entry is not None and entry.plugins is plugins and entry.generation == plugins.generation
            if entry is not None and same and not entry.session.replaced:  # it would be opened like that again
                if announce is not None:
                    announce(entry.need, entry.session.plan)
                return entry.session
        unhurried = time_left() == np.inf or not program.constraints  # else some ways were left out
        need = ask.need(scores, program)
        plan = plan_program(program, need, ask.backend, None if ask.options is None else dict(ask.options))
        if announce is not None:
            announce(need, plan)
        pause()
        session = open_plan(plan, program, plugins, outwards)
    except OutOfTime:
        if starts:
            return StartingSession(ask.backend, program, plugins, outwards)
        return UnplannedSession(program, need, plan)
    if kept is not None and key is not None and unhurried and _may_stay(session, plan, need, plugins, kept):
        kept.opened[key] = KeptSession(session, need, plugins, plugins.generation)
    return session


def _may_stay(session: PlannedSession, plan: Plan, need: Need, plugins: Registry, kept: Keeper) -> bool:
    """Whether a session gives the same answers later, and has memory for them."""
    plans = plan.components or (plan,)
    caps = [plugins.find(BackendSpec, one.backend).caps for one in plans]
    if session.replaced or not all(one.deterministic and one.thread_safe for one in caps):
        return False
    if any(one.depends_on_memory for one in (plan, *plans)):
        return False
    return kept.reserve(plan.n_bytes + SLOT_BYTES * need.n_slots + SESSION_BYTES)


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
