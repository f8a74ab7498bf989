"""Choose a backend for a need, and say why: the plan is stored in reports and saved models."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ssvm_dsl.array_types import I8
from ssvm_dsl.deadline import Deadline, time_left, within
from ssvm_dsl.errors import NoBackendError, OutOfTime, PluginError
from ssvm_dsl.inference.bridging.bridges import ABILITIES, TASKS, behind, bridge_chain_through, bridged
from ssvm_dsl.inference.planning.components import SEPARABLE, component_groups, one_kind
from ssvm_dsl.inference.planning.plans import AUTO as AUTO
from ssvm_dsl.inference.planning.plans import (
    Candidate,
    Plan,
    by_cost,
    consider,
    consider_resolved,
    joined_plan,
    named_in,
    through,
)
from ssvm_dsl.ir.analysis.topology import Topology
from ssvm_dsl.ir.features import NODE, FeatureMap
from ssvm_dsl.ir.loss import COUNT, ZERO_ONE, LossFactors
from ssvm_dsl.ir.need import Ability, Guarantee, Need, Task
from ssvm_dsl.ir.program import AUXILIARY, Program
from ssvm_dsl.memory import SMALL
from ssvm_dsl.plugin_api.specs import BackendSpec, BridgeSpec
from ssvm_dsl.registry import Registry, registry
from ssvm_dsl.requirements.programs import program_need
from ssvm_dsl.requirements.properties import METRIC, SEMIMETRIC, SUBMODULAR, doubts
from ssvm_dsl.scores.parameter_map import ParameterMap
from ssvm_dsl.units import ratio_text

#: What auxiliary variables would falsify.
_OF_OUTPUTS_ALONE = frozenset({Task.MARGINALS, Task.KBEST})

#: Plans kept by a registry: asking all backends takes a third of a single prediction.
MOST_PLANS = 256


def plan(
    need: Need, backend: str = AUTO, options: dict[str, Any] | None = None, plugins: Registry | None = None
) -> Plan:
    """Return the plan for a need.

    Parameters
    ----------
    need : Need
    backend : str
        A backend's name, or ``"auto"``: the cheapest fitting one among bundled and allow-listed backends.
    options : dict, optional
        Options of the backend; not with ``"auto"``.
    plugins : Registry, optional
        The installed plug-ins by default.

    Raises
    ------
    NoBackendError
        Nothing fits; lists every backend's reasons.
    PluginError, OptionError
        Unknown backend; unknown option.
    """
    known = registry() if plugins is None else plugins
    if backend != AUTO:
        return _named(need, known.find(BackendSpec, backend), options, known)
    if options:
        given = ", ".join(f"{key}={value!r}" for key, value in options.items())
        text = f"options belong to one backend; name it instead of 'auto' to give it {given}"
        raise PluginError(f"{text} (estimators: backend='...' beside backend_options)")
    need = need.rounded()
    made: Plan | None = known.plans.get(need)
    if made is None:
        made = _cheapest(need, known)
        if all(one.n_bytes < SMALL for one in made.candidates):  # what is free now is not asked for
            if len(known.plans) >= MOST_PLANS:
                known.plans.clear()
            known.plans[need] = made
    return made


def _cheapest(need: Need, known: Registry) -> Plan:
    """Return the plan of the cheapest backend that fits."""
    candidates = tuple(consider(need, spec)[0] for spec in _ranked(known))
    fitting = by_cost(candidates)
    if not fitting:
        raise NoBackendError(str(need), [(c.name, c.reasons) for c in candidates], _cure(need, candidates, known))
    best, why = fitting[0], _cheapest_of(candidates, need, known)
    if need.guarantee is Guarantee.BOUND:
        best, why = _exact_or_sure(fitting, why, need, known)
    options = known.find(BackendSpec, best.name).resolve(None)
    return best.plan(str(need), why, candidates, options, Task.RELAXED in need.tasks)


#: How many times as long as the cheapest a candidate may take that gives more: exact answers, or a sure end.
LONGER = 4.0


def _exact_or_sure(fitting: Sequence[Candidate], why: str, need: Need, known: Registry) -> tuple[Candidate, str]:
    """Return the candidate to take where bounds are enough, the cheapest by default, and why.

    Exact answers are preferred where they take little longer: bounds leave a gap that further passes of a fit do not
    close, and fits to rounded labellings take more passes.  Bounds are preferred to a search, which may not end; not
    under hard constraints, where bounds of any kind are loose and slow (clusterings of 40 items: ``ad3`` leaves 14 %
    after ten seconds, ``relations`` proves the best one in half a second).
    """
    caps, cheapest = {c.name: known.find(BackendSpec, c.name).caps for c in fitting}, fitting[0]
    near = [c for c in fitting if c.seconds <= LONGER * cheapest.seconds]
    if not need.constraint_kinds:
        near = [c for c in near if not caps[c.name].searches]
    exact = [c for c in near if caps[c.name].guarantee is Guarantee.EXACT]
    best = next(iter(exact or near), cheapest)
    if best is cheapest:
        return best, why
    ratio, gives = ratio_text(best.seconds / cheapest.seconds), "exact" if exact else "with bounds"
    method = "search" if caps[cheapest.name].searches else "bounds"
    return best, f"{best.title}: {gives}, and takes little longer ({ratio}) than the {method} of {cheapest.title}"


def _ranked(known: Registry) -> list[BackendSpec]:
    """Return the backends that ``auto`` chooses from."""
    return [spec for spec in known.specs(BackendSpec) if known.owner(spec).allowed]


#: Candidates that a plan's reason names beside the one that is taken.
MOST_NEXT = 2

_ADJECTIVE = {Guarantee.EXACT: "exact", Guarantee.BOUND: "with bounds", Guarantee.HEURISTIC: "heuristic"}
_QUESTION = {
    Task.MARGINALS: "marginals", Task.KBEST: "k best", Task.MAP_CLAMPED: "with known labels", Task.RELAXED: "relaxed"
}  # fmt: skip


def _cheapest_of(candidates: Sequence[Candidate], need: Need, known: Registry) -> str:
    """Return what the cheapest candidate is good for, and how many times as long the next ones take.

    For example ``"chain: exact for disjoint chains; next best tree (1.2 x), junction-tree (6 x)"``.
    """
    best, *rest = by_cost(candidates)
    asked = ", ".join(_QUESTION[task] for task in sorted(need.tasks) if task in _QUESTION)
    kinds = f" with constraints {', '.join(sorted(need.constraint_kinds))}" if not need.declared else ""
    text = f"{best.title}: {_ADJECTIVE[known.find(BackendSpec, best.name).caps.guarantee]}"
    text += f"{f' ({asked})' if asked else ''} for {need.structure}{kinds if need.constraint_kinds else ''}"
    if not rest:
        return text
    known_time = 0.0 < best.seconds < np.inf
    shown = [f"{c.title} ({ratio_text(c.seconds / best.seconds)})" if known_time else c.title for c in rest[:MOST_NEXT]]
    more = len(rest) - len(shown)
    others = f" and {more} other{'s' if more > 1 else ''}" if more else ""
    return f"{text}; next best {', '.join(shown)}{others}"


def need_of(
    parameters: ParameterMap,
    tasks: frozenset[Task],
    guarantee: Guarantee,
    abilities: frozenset[Ability] = frozenset(),
    first: int = 0,
    priced: Sequence[LossFactors] = (),
) -> Need:
    """Return the need of a grounded model: that of its program, with the possible properties of its tables.

    ``first`` is the number of the first example, for messages about a part of a longer list; ``priced`` are
    joint states that a loss adds to.

    Raises
    ------
    NoBackendError
        Sums over labellings, or several labellings, are requested if auxiliary variables represent tables.
    """
    unsure = doubts(parameters, first, priced)
    known = frozenset({SUBMODULAR, METRIC, SEMIMETRIC} - set(unsure))
    need = program_need(parameters.program, tasks, guarantee, abilities, known)
    role = parameters.program.role
    if tasks & _OF_OUTPUTS_ALONE and role is not None and (role == AUXILIARY).any():
        names = [m.block.name for m in parameters.maps if m.group != NODE and _joins_auxiliary(m, role)]
        raise NoBackendError(
            str(need),
            [(name, ("its auxiliary variables would be summed over or listed, too",)) for name in dict.fromkeys(names)],
            "a factor has a table instead where its form is an array: form=[[...]] in place of POTTS",
        )
    return replace(need, doubts=tuple(sorted(unsure.items())), declared=parameters.declared, joined=parameters.joined)


def _joins_auxiliary(fmap: FeatureMap, role: I8) -> bool:
    """Whether the factors of a map join auxiliary variables with others."""
    return bool((role[fmap.shapes.variables()[:, 0]] == AUXILIARY).any())


def plan_program(
    program: Program,
    need: Need,
    backend: str = AUTO,
    options: dict[str, Any] | None = None,
    plugins: Registry | None = None,
) -> Plan:
    """Return the plan for a program; ``auto`` may give its parts to different backends.

    Parameters
    ----------
    program : Program
    need : Need
        The need: ``program_need(program, ...)``.
    backend, options, plugins
        As for :func:`plan`; bridges may be named as well, as plans print them: ``"junction-tree through
        counts-to-states"``.

    Raises
    ------
    NoBackendError, PluginError, OptionError
        As for :func:`plan`.
    """
    name, *bridges = named_in(backend)
    if bridges:
        return _through(program, need, name, bridges, options, registry() if plugins is None else plugins)
    if need.constraint_kinds:
        return _constrained(program, need, backend, options, registry() if plugins is None else plugins)
    whole = backend != AUTO or bool(options) or need.topology < Topology.LOOPY or bool(need.abilities)
    if whole or not need.tasks <= SEPARABLE:
        return plan(need, backend, options, plugins)
    if one_kind(program):
        return plan(need, plugins=plugins)
    parts = component_groups(program)
    needs = [program_need(part.program, need.tasks, need.guarantee, properties=need.properties) for part in parts]
    plans = [plan(one, plugins=plugins) for one in needs]
    if len({one.backend for one in plans}) == 1:
        return plan(need, plugins=plugins)
    return joined_plan(str(need), plans, [part.program.n_examples for part in parts])


def _constrained(program: Program, need: Need, backend: str, options: dict[str, Any] | None, known: Registry) -> Plan:
    """Return the plan for a program with constraints: a native oracle, else what is cheapest.

    Oracles that know the kinds come first.  Those that take all kinds (by their linear rows, by trying labellings)
    compete with the backends behind bridges.
    """
    refused, made = None, None
    try:
        made = plan(need, backend, options, known)
    except NoBackendError as err:
        refused = err
    named = backend != AUTO
    if made is not None and (named or not known.find(BackendSpec, made.backend).caps.every_constraint):
        return made
    taken = set() if made is None else {one.name for one in made.candidates if one.ok}  # these need no bridge
    specs = [known.find(BackendSpec, backend)] if named else [one for one in _ranked(known) if one.name not in taken]
    choice = [(one, one.resolve(options)) for one in specs]
    try:
        with within(Deadline(time_left() / 2.0 if made is not None else np.inf)):  # bridges are not all there is
            behind = bridged(program, need, choice, known, strangers=named)
    except OutOfTime:
        if made is None or time_left() <= 0.0:
            raise
        return replace(made, reason=f"{made.reason}; bridges were left out, for the limit of the call")
    fitting = behind.fitting
    if refused is not None and not fitting:
        hint = _others(program, need, backend, known) if named else refused.hint
        tried = [*refused.refusals, *behind.bridges, *(behind.backends if named else ())]
        raise NoBackendError(refused.question, tried, hint)
    native = () if made is None else made.candidates
    if made is not None and (not fitting or by_cost(native)[0].seconds <= by_cost(fitting)[0].seconds):
        return replace(made, candidates=(*native, *fitting))
    best = by_cost(fitting)[0]
    why = f"{backend} was asked for; constraints reach it through {', '.join(best.bridges)}"
    candidates, resolved = (*native, *fitting), known.find(BackendSpec, best.name).resolve(options)
    why = why if named else _cheapest_of(candidates, need, known)
    return best.plan(str(need), why, candidates, resolved, Task.RELAXED in need.tasks)


def _through(
    program: Program, need: Need, name: str, bridges: Sequence[str], options: dict[str, Any] | None, known: Registry
) -> Plan:
    """Return the plan of a backend behind bridges that are named; a batch without any constraint needs none."""
    spec, title = known.find(BackendSpec, name), through(name, bridges)
    resolved = spec.resolve(options)
    for one in bridges:
        known.find(BridgeSpec, one)
    if not program.constraints:
        refusal = "there are no hard constraints to rewrite"
        raise NoBackendError(str(need), [(title, (refusal,))], f"write backend='{name}'")
    if not need.constraint_kinds:
        return _named(need, spec, options, known)
    reasons: tuple[str, ...] = tuple(f"bridges do not pass on the task '{task}'" for task in sorted(need.tasks - TASKS))
    reasons += tuple(f"bridges do not pass on the ability '{one}'" for one in sorted(need.abilities - ABILITIES))
    chain = None
    if not reasons:
        try:
            chain = bridge_chain_through(program, bridges, known)
        except PluginError as err:
            reasons = (str(err),)
    if chain is not None:
        match = behind(chain, need, spec, resolved)
        if match.ok:
            return match.plan(str(need), f"{title} was asked for", (match,), resolved, Task.RELAXED in need.tasks)
        reasons = match.reasons
    raise NoBackendError(str(need), [(title, reasons)], _others(program, need, title, known))


def accepted_guarantee(
    backend: str, asked: Guarantee = Guarantee.EXACT, weakest: Guarantee = Guarantee.HEURISTIC
) -> Guarantee:
    """Return the weakest guarantee that a backend may have to be taken.

    A backend that is named need only give ``weakest``: its user chose it.  ``auto`` picks among those that give what
    was asked for, or ``weakest`` where that is the stronger of the two.

    Parameters
    ----------
    backend : str
        A backend's name, or ``"auto"``.
    asked : Guarantee
        The weakest guarantee for ``auto``; exact by default.
    weakest : Guarantee
        What those who use the answers (a trainer, a risk) cannot do without.
    """
    return asked if backend == AUTO and asked.covers(weakest) else weakest


def _named(need: Need, spec: BackendSpec, options: dict[str, Any] | None, known: Registry) -> Plan:
    resolved = spec.resolve(options)
    candidate, _ = consider_resolved(need, spec, resolved)
    if not candidate.ok:
        hint = _fitting(_native(need, spec.name, known))
        raise NoBackendError(str(need), [(spec.name, candidate.reasons)], hint)
    why = f"{spec.name} was asked for"
    return candidate.plan(str(need), why, (candidate,), resolved, Task.RELAXED in need.tasks)


def _others(program: Program, need: Need, title: str, known: Registry) -> str:
    """Return a hint that names the other backends that fit, natively or behind bridges."""
    fits = {one: one for one in _native(need, title, known)}
    others = [(one, one.resolve(None)) for one in known.specs(BackendSpec) if one.name != title]
    for match in by_cost(bridged(program, need, others, known).fitting):
        if match.title != title:
            fits.setdefault(match.name, match.title)
    return _fitting(list(fits.values()))


def _native(need: Need, name: str, known: Registry) -> list[str]:
    """Return the backends other than one that fit."""
    others = (consider(need, other)[0] for other in known.specs(BackendSpec) if other.name != name)
    return [one.name for one in others if one.ok]


def _fitting(fits: Sequence[str]) -> str:
    return f"these would fit: {', '.join(fits)}" if fits else "no other backend would fit either"


def _cure(need: Need, candidates: Sequence[Candidate], known: Registry) -> str:
    """Return a hint about what would answer: other backends, a weaker guarantee, an option, or another question."""
    foreign = [spec for spec in known.specs(BackendSpec) if not known.owner(spec).allowed]
    fits = [spec.name for spec in foreign if consider(need, spec)[0].ok]
    if fits:
        return f"'auto' takes only bundled and allow-listed backends; these installed ones would fit: {', '.join(fits)}"
    if Ability.COUNTS in need.abilities:
        text = "take a loss that adds up over variables (Hamming, Cost), or a model whose graphs are forests, without "
        return text + "hard constraints, or one of a single label of segments"
    cures = []
    for weaker in (Guarantee.BOUND, Guarantee.HEURISTIC):
        if weaker.covers(need.guarantee):
            continue
        able = [spec.name for spec in _ranked(known) if consider(replace(need, guarantee=weaker), spec)[0].ok]
        if able:
            listed = f"{', '.join(able[:3])}{' and others' if len(able) > 3 else ''}"
            cures.append(f"guarantee='{weaker}' has answers ({listed})")
            break
    for one in candidates:
        named = [_OPTION.search(reason) for reason in one.reasons]
        if len(named) == 1 and named[0] is not None:
            option = named[0].group(1)
            with_more = f"backend='{one.title}', backend_options={{'{option}': ...}}"
            cures.append(f"{with_more} has, with a limit that is large enough")
    if Task.MARGINALS in need.tasks:
        cures.append("predict, predict_kbest and best_score ask for no sums over labellings")
    other = "make the model smaller, or install a backend (ssvm plugins list)"
    return "; ".join([*cures, f"else {other}" if cures else other])


#: An option that a backend's reason for refusing names.
_OPTION = re.compile(r": option (\w+)$")


def tasks_for_training(loss_kind: str) -> tuple[frozenset[Task], frozenset[Ability]]:
    """Return (tasks, abilities) that loss-augmented inference needs.

    The zero-one loss is answered exactly from the two best labellings (one of them differs from the truth),
    so it needs ``kbest`` and nothing else; losses of counts need best labellings by counts.
    """
    if loss_kind == ZERO_ONE:
        return frozenset({Task.KBEST}), frozenset()
    return frozenset({Task.MAP}), frozenset({Ability.COUNTS} if loss_kind == COUNT else ())
