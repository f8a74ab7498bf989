"""Opened plans that are kept with a program: what is needed, who answers, and the session that is open.

They follow from the structure of the program, from what is asked, and from the plug-ins that are there.  A session is
kept where its backend promises that answers depend on nothing that it was asked before, in any thread
(``Caps.deterministic``, ``Caps.thread_safe``), and as long as it is the one that was planned: one that went on with
another backend, for the memory that was free at the time, is opened again.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from ssvm_dsl.inference.layers.base import PlannedSession
from ssvm_dsl.inference.planning.planner import need_of, plan_program
from ssvm_dsl.inference.planning.plans import Plan
from ssvm_dsl.inference.session import open_plan
from ssvm_dsl.ir.loss import LossFactors
from ssvm_dsl.ir.need import Ability, Guarantee, Need, Task
from ssvm_dsl.needs.properties import doubts
from ssvm_dsl.pausing import pause, time_left
from ssvm_dsl.plugin_api.specs import BackendSpec
from ssvm_dsl.registry import Registry, registry
from ssvm_dsl.scores.parameter_map import ParameterMap

#: Bytes of a session for each variable of a factor, and for itself, beside what its backend says.
SLOT_BYTES, SESSION_BYTES = 16.0, 20_000.0


class Keeper(Protocol):
    """Where opened plans are kept with a program.

    Attributes
    ----------
    settled : bool
        Whether all that is asked of a backend follows from the program.
    opened : dict
        The plans, by keys of this module.
    """

    settled: bool
    opened: dict[Hashable, Any]

    def reserve(self, n_bytes: float) -> bool:
        """Count the bytes of an entry; return whether it fits."""


@dataclass(frozen=True, eq=False)
class OpenedPlan:
    """A plan and its session.

    Parameters
    ----------
    need : Need
    plan : Plan
    session : PlannedSession
    plugins : Registry
    generation : int
        Of the plug-ins that it was planned with.
    """

    need: Need
    plan: Plan
    session: PlannedSession
    plugins: Registry
    generation: int

    def holds(self, plugins: Registry) -> bool:
        """Whether it would be planned and opened like that again."""
        same = self.plugins is plugins and self.generation == plugins.generation
        return same and self.session.answers_by(self.plan)

    @classmethod
    def of(
        cls,
        parameters: ParameterMap,
        kept: Keeper | None,
        tasks: frozenset[Task],
        guarantee: Guarantee,
        backend: str,
        options: Mapping[str, Any] | None,
        first: int = 0,
        announce: Callable[[Need, Plan], None] | None = None,
        abilities: frozenset[Ability] = frozenset(),
        priced: Sequence[LossFactors] = (),
    ) -> OpenedPlan:
        """Return the opened plan for tasks, kept or made now.

        Parameters
        ----------
        parameters : ParameterMap
        kept : KeptProgram, optional
            Where its program is kept, if it is.
        tasks, guarantee
            What is asked.
        backend : str
            A backend's name, or ``"auto"``.
        options : mapping, optional
            Of the backend.
        first : int
            Number of the first example, for messages.
        announce : callable
            Called with the plan before it is opened.
        abilities : frozenset of Ability
            What is asked for beyond the tasks.
        priced : sequence of LossFactors
            Joint states that a loss adds to.

        Raises
        ------
        OutOfTime
            The call at hand must end.
        NoBackendError, PluginError, OptionError
            As for :func:`~ssvm_dsl.inference.planning.planner.plan`.
        """
        plugins = registry()
        key: Hashable | None = None
        if kept is not None:
            unsure = None if kept.settled and not priced else tuple(doubts(parameters, first, priced).items())
            key = _key(options, tasks, guarantee, backend, abilities, unsure)
            opened: OpenedPlan | None = None if key is None else kept.opened.get(key)
            if opened is not None and opened.holds(plugins):
                if announce is not None:
                    announce(opened.need, opened.plan)
                return opened
        unhurried = time_left() == np.inf or not parameters.program.constraints  # else some ways were left out
        need = need_of(parameters, tasks, guarantee, abilities, first, priced)
        plan = plan_program(parameters.program, need, backend, None if options is None else dict(options))
        if announce is not None:
            announce(need, plan)
        pause()
        made = cls(need, plan, open_plan(plan, parameters.program, outwards=False), plugins, plugins.generation)
        if kept is not None and key is not None and unhurried and made._may_stay(kept):
            kept.opened[key] = made
        return made

    def _may_stay(self, kept: Keeper) -> bool:
        """Whether the session gives the same answers later, and has memory for them."""
        plans = self.plan.components or (self.plan,)
        caps = [self.plugins.find(BackendSpec, one.backend).caps for one in plans]
        if not all(one.deterministic and one.thread_safe for one in caps) or not self.session.answers_by(self.plan):
            return False
        if any(one.depends_on_memory for one in (self.plan, *plans)):
            return False
        return kept.reserve(self.plan.n_bytes + SLOT_BYTES * self.need.n_slots + SESSION_BYTES)


def _key(options: Mapping[str, Any] | None, *asked: Any) -> Hashable | None:
    """Return the inputs of a plan other than program and plug-ins; ``None`` if they cannot be compared."""
    if not options:
        return options is None, asked
    given = tuple(sorted(options.items()))
    try:
        hash(given)
    except TypeError:
        return None
    return given, asked
