"""Which backends answer through which bridges, and what that costs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from ssvm_dsl.inference.bridging.bridge_chains import BridgeChain, bridge_chains_of
from ssvm_dsl.inference.planning.candidates import consider_resolved
from ssvm_dsl.inference.planning.plans import Candidate
from ssvm_dsl.ir.need import Ability, Need, Task
from ssvm_dsl.ir.program import Program
from ssvm_dsl.plugin_api.specs import BackendSpec, BridgeSpec
from ssvm_dsl.registry import Registry
from ssvm_dsl.requirements.programs import program_need

#: What sessions behind bridges do beyond ``solve``.
ABILITIES = frozenset({Ability.COUNTS})

#: What is asked through bridges: relaxations would be those of other tables.
TASKS = frozenset(Task) - {Task.RELAXED}

Refusals = list[tuple[str, tuple[str, ...]]]


@dataclass(eq=False)
class BridgeCandidates:
    """What fits behind bridges.

    Parameters
    ----------
    fitting : list of Candidate
    bridges : list of (name, reasons)
        Why bridges do not rewrite the constraints.
    backends : list of (title, reasons)
        Why backends do not answer behind those that do.
    """

    fitting: list[Candidate] = field(default_factory=list)
    bridges: Refusals = field(default_factory=list)
    backends: Refusals = field(default_factory=list)


def bridged(
    program: Program,
    need: Need,
    backends: Iterable[tuple[BackendSpec, Mapping[str, Any]]],
    plugins: Registry,
    strangers: bool = True,
) -> BridgeCandidates:
    """Return the backends that fit behind bridges, and why others do not.

    Parameters
    ----------
    program : Program
        With constraints.
    need : Need
        What is asked of it.
    backends : iterable of (BackendSpec, mapping)
        Those to be looked at, with their options.
    plugins : Registry
    strangers : bool
        Whether bridges that ``auto`` may not take are looked at: where others do, they are not.
    """
    if need.tasks - TASKS or need.abilities - ABILITIES:
        return BridgeCandidates()
    known = plugins.specs(BridgeSpec)
    usual = [spec for spec in known if plugins.owner(spec).allowed]
    choice = list(backends)
    choices = _behind(program, need, choice, usual, plugins)
    if strangers and not choices.fitting and len(known) > len(usual):
        return _behind(program, need, choice, known, plugins)
    return choices


def _behind(
    program: Program,
    need: Need,
    backends: list[tuple[BackendSpec, Mapping[str, Any]]],
    bridges: list[BridgeSpec],
    plugins: Registry,
) -> BridgeCandidates:
    """Return what fits behind these bridges."""
    chains = bridge_chains_of(program, bridges, plugins)
    out = BridgeCandidates(bridges=list(chains.refusals))
    for chain in chains.found:
        for spec, options in backends:
            one = behind(chain, need, spec, options)
            if one.ok:
                out.fitting.append(one)
            else:
                out.backends.append((one.title, one.reasons))
    return out


def behind(chain: BridgeChain, need: Need, spec: BackendSpec, options: Mapping[str, Any]) -> Candidate:
    """Return what a backend says to a need at the end of a chain."""
    one, _ = consider_resolved(need_after(chain, need), spec, dict(options))
    return replace(one, bridges=chain.bridges, cost=one.cost + chain.cost, seconds=one.seconds + chain.seconds)


def need_after(chain: BridgeChain, need: Need) -> Need:
    """Return what is asked of a backend at the end of a chain."""
    program = chain.program
    added = sum(len(one.tables) for one in chain.lowerings)
    properties = need.properties if not added else frozenset[str]()
    made = program_need(program, need.tasks, need.guarantee, need.abilities, properties)
    why = "hard constraints have become tables"
    return replace(made, doubts=tuple((name, why) for name in sorted(need.properties)) if added else need.doubts)
