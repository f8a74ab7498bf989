"""``OpenedBackend``: the backend of a plan, opened on a program, and all that its host must know to ask it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from functools import cached_property
from time import perf_counter
from typing import Any

from ssvm_dsl.errors import PluginError
from ssvm_dsl.inference.blas_threads import one_blas_thread
from ssvm_dsl.inference.bridging.bridge_chains import bridge_chain_through
from ssvm_dsl.inference.bridging.choices import ABILITIES, TASKS
from ssvm_dsl.inference.bridging.lowering import Lowering
from ssvm_dsl.inference.bridging.merging import Merging, merged_factors
from ssvm_dsl.inference.layers.base import ABILITY_OF
from ssvm_dsl.inference.layers.bridged import BridgedSession
from ssvm_dsl.inference.layers.chunked import open_session
from ssvm_dsl.inference.layers.foreign import open_foreign
from ssvm_dsl.inference.planning.candidates import consider
from ssvm_dsl.inference.planning.plans import Plan
from ssvm_dsl.inference.rules.constraint_rules import with_rules
from ssvm_dsl.inference.verification.verify import Verifier
from ssvm_dsl.ir.need import Ability, Guarantee, Task
from ssvm_dsl.ir.program import Program
from ssvm_dsl.ir.question import Question
from ssvm_dsl.needs.program_needs import program_need
from ssvm_dsl.pausing import within
from ssvm_dsl.plugin_api.example_session import Clock
from ssvm_dsl.plugin_api.hosting.contained import contained
from ssvm_dsl.plugin_api.specs import BackendSpec, BridgeSpec
from ssvm_dsl.registry import Registry


@dataclass(frozen=True, eq=False)
class OpenedBackend:
    """A backend's session, behind what adapts questions to it.

    Parameters
    ----------
    plan : Plan
    spec : BackendSpec
    session : Session
    verify : Verifier
    asked : Program
        What it was opened on: with bridges, the program behind them; of relaxations, one whose factors are merged.
    guard : contained
        Makes whatever it raises an error that names it.
    call_lock : context manager
        Held by each call to one that takes one call at a time.
    """

    plan: Plan
    spec: BackendSpec
    session: Any
    verify: Verifier
    asked: Program
    guard: contained
    call_lock: Any

    @classmethod
    def of(cls, plan: Plan, program: Program, program_with_rules: Program, plugins: Registry) -> OpenedBackend:
        """Open the backend of a plan.

        Parameters
        ----------
        plan : Plan
            For a program without components.
        program, program_with_rules : Program
            Without and with the rules of its constraints.
        plugins : Registry
        """
        spec, lowerings = plugins.find(BackendSpec, plan.backend), list[Lowering | Merging]()
        asked = program_with_rules
        owner, owner_name = plugins.owner(spec), plugins.describe_owner(spec)
        if plan.bridges:
            chain = bridge_chain_through(program, plan.bridges, plugins)
            lowerings += chain.lowerings
            asked = with_rules(chain.program, plugins)
        bounds = spec.caps.guarantee is Guarantee.BOUND and not spec.caps.abilities
        if bounds and not plan.relaxed and (merging := merged_factors(asked)):
            lowerings.append(merging)
            asked = merging.program
        if any(group.of_spans for group in asked.groups) and not spec.caps.of_spans:
            raise PluginError(f"backend '{spec.name}' takes scores of variables only, these are of whole segments")
        owners = [owner, *(plugins.owner(plugins.find(BridgeSpec, name)) for name in plan.bridges)]
        origin = ", ".join(str(one) for one in dict.fromkeys(owners) if not one.bundled)
        rounded = "none" not in plan.options.values()
        verify = Verifier(program_with_rules, plan.title, spec.caps, foreign=origin, completes=rounded)
        guard = contained(owner_name, verify.fault)
        call_lock = nullcontext() if spec.caps.thread_safe else plugins.call_lock(spec)
        with guard, call_lock, one_blas_thread():
            make = plugins.load(spec)
            if owner.bundled:
                session = open_session(make(), asked, plan.options)
            else:
                session = open_foreign(make, asked, spec.caps, plan.options, verify.fault, owner_name)
        if lowerings:
            session = BridgedSession(session, lowerings)
        return cls(plan, spec, session, verify, asked, guard, call_lock)

    @property
    def tasks(self) -> frozenset[Task]:
        """The questions it answers."""
        return self._offered[0]

    @property
    def abilities(self) -> frozenset[Ability]:
        """What it announces, as far as it may be used."""
        return self._offered[1]

    @cached_property
    def _offered(self) -> tuple[frozenset[Task], frozenset[Ability]]:
        """The tasks that it answers for the program, and the abilities that it has there.

        What a plan did not ask for is no promise of its ``Caps`` alone: ``check`` may refuse it for this program.
        Properties of tables that it relies on were looked at when it was planned.
        """
        caps, options = self.spec.caps, dict(self.plan.options)
        need = program_need(self.asked, guarantee=Guarantee.HEURISTIC, properties=caps.requires)
        announced = caps.constrained_abilities if self.asked.constraints else caps.abilities
        tasks = frozenset(one for one in caps.tasks if consider(need.asking(one), self.spec, options)[0].ok)
        able = frozenset(
            one for one in announced if consider(replace(need, abilities=frozenset({one})), self.spec, options)[0].ok
        )
        if self.plan.bridges:
            tasks, able = tasks & TASKS, able & ABILITIES
        if not caps.thread_safe:  # calls from within kernels of trainers cannot wait for their turn
            able -= {Ability.COMPILED}
        return tasks, able

    def ask(self, ability: str, arguments: Sequence[Any]) -> Any:
        """Call a method of the session; ``None`` where that is not offered.

        Waiting for its turn counts against the time limit of a question.

        Parameters
        ----------
        ability : str
            One of ``ABILITY_OF``.
        arguments : sequence
            A question and what goes with it; nothing for compiled calls.
        """
        needed = ABILITY_OF[ability]
        if needed is not None and needed not in self.abilities:
            return None
        with self.guard, one_blas_thread():
            method = getattr(self.session, ability, None)
            if method is None:  # an optional one
                return None
            if not arguments:
                return method()
            if self.spec.caps.thread_safe:
                return method(*arguments) if arguments[0].limits.time is None else _within_limit(method, arguments)
            begin = perf_counter()
            with self.call_lock:
                return _within_limit(method, (left_of(arguments[0], begin), *arguments[1:]))


def _within_limit(method: Callable[..., Any], arguments: Sequence[Any]) -> Any:
    """Call a method with a question, and what goes with it, inside the time limit of the question."""
    limits = arguments[0].limits
    if limits.time is None:
        return method(*arguments)
    with within(Clock.start(limits)):
        return method(*arguments)


def left_of(question: Question, begin: float) -> Question:
    """Return the question with the rest of its time, of which some has passed since ``begin``."""
    limits = question.limits
    if limits.time is None:
        return question
    return question.replace(limits=replace(limits, time=max(0.0, limits.time - (perf_counter() - begin))))
