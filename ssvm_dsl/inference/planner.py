"""Choose a backend for a need, and say why: the plan is stored in reports and saved models."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from ssvm_dsl.array_types import I8
from ssvm_dsl.errors import NoBackendError, PluginError, SsvmError
from ssvm_dsl.inference.parts import SEPARABLE, one_kind, parts_of
from ssvm_dsl.ir.analysis.properties import METRIC, SEMIMETRIC, SUBMODULAR, doubts
from ssvm_dsl.ir.analysis.topology import Topology
from ssvm_dsl.ir.features import NODE, FeatureMap
from ssvm_dsl.ir.loss import COUNT, ZERO_ONE, LossFactors
from ssvm_dsl.ir.need import Ability, Guarantee, Need, Task
from ssvm_dsl.ir.parameters import ParameterMap
from ssvm_dsl.ir.program import AUXILIARY, Program
from ssvm_dsl.memory import SMALL, shortage
from ssvm_dsl.plugin_api.contained import contained
from ssvm_dsl.plugin_api.protocols import Backend, Verdict
from ssvm_dsl.plugin_api.specs import BackendSpec
from ssvm_dsl.registry import Registry, registry

AUTO = "auto"

#: What auxiliary variables would falsify.
_OF_OUTPUTS_ALONE = frozenset({Task.MARGINALS, Task.KBEST})

#: Plans kept by a registry: asking all backends takes a third of a single prediction.
MOST_PLANS = 256


@dataclass(frozen=True)
class Candidate:
    """What one backend says to a need.

    Parameters
    ----------
    name : str
    ok : bool
    cost : float
        Estimated elementary operations.
    reasons : tuple of str
        Why it refuses, or what there is to know.
    seconds : float
        Expected time of one answer for every example; ``nan`` where nothing is known.
    n_bytes : float
        Expected memory of its session.
    """

    name: str
    ok: bool
    cost: float
    reasons: tuple[str, ...]
    seconds: float = np.nan
    n_bytes: float = 0.0


@dataclass(frozen=True)
class Plan:
    """The chosen backend and how it was chosen.

    Parameters
    ----------
    backend : str
    need : str
        What was asked for, in words.
    reason : str
        One sentence.
    candidates : tuple of Candidate
        Every backend's answer.
    options : mapping
        Options the backend is opened with.
    parts : tuple of Plan
        When different components of a problem take different backends: a plan for each part.
    seconds : float
        Expected time of one answer for every example, ``nan`` where nothing is known: within a few times, as a rule.
    n_bytes : float
        Expected memory of the session, beside program and scores.
    """

    backend: str
    need: str
    reason: str
    candidates: tuple[Candidate, ...] = ()
    options: Mapping[str, Any] = field(default_factory=dict)
    parts: tuple[Plan, ...] = ()
    seconds: float = np.nan
    n_bytes: float = 0.0

    def following(self, err: Exception, plugins: Registry) -> Plan | None:
        """Return the plan for the next backend that fits, after this one's has refused; ``None`` without another.

        A plan whose backend was named considered no other, so that there is none.
        """
        refusal = f"{type(err).__name__}: {err}".splitlines()[0]
        tried = Candidate(self.backend, False, np.inf, (f"fits, but refused: {refusal}",))
        candidates = tuple(tried if one.name == self.backend else one for one in self.candidates)
        fitting = [one for one in by_cost(candidates) if one.name != self.backend]
        if not fitting:
            return None
        name = fitting[0].name
        reason = "; ".join([f"{name} took over from {self.backend}, which refused ({refusal})", *fitting[0].reasons])
        options = plugins.find(BackendSpec, name).resolve(None)
        seconds, n_bytes = fitting[0].seconds, fitting[0].n_bytes
        return replace(
            self, backend=name, reason=reason, candidates=candidates, options=options, seconds=seconds, n_bytes=n_bytes
        )

    def summary(self) -> dict[str, Any]:
        """Return what is worth storing, as plain data."""
        facts = {
            "backend": self.backend,
            "need": self.need,
            "reason": self.reason,
            "options": dict(self.options),
            "seconds": float(self.seconds) if np.isfinite(self.seconds) else None,
            "n_bytes": float(self.n_bytes),
            "candidates": {c.name: "; ".join([*(["fits"] if c.ok else []), *c.reasons]) for c in self.candidates},
        }
        return facts | {"parts": [part.summary() for part in self.parts]} if self.parts else facts

    @classmethod
    def of_summary(cls, stored: Mapping[str, Any]) -> Plan:
        """Return the plan of a stored summary (costs are not stored)."""
        candidates = tuple(_stored_candidate(name, text) for name, text in stored["candidates"].items())
        parts = tuple(cls.of_summary(part) for part in stored.get("parts", ()))
        seconds, n_bytes = stored.get("seconds"), float(stored.get("n_bytes", 0.0))
        return cls(
            stored["backend"], stored["need"], stored["reason"], candidates, stored["options"], parts,
            np.nan if seconds is None else float(seconds), n_bytes,
        )  # fmt: skip


def by_cost(candidates: Iterable[Candidate]) -> list[Candidate]:
    """Return the candidates that fit, cheapest first."""
    return sorted((one for one in candidates if one.ok), key=lambda one: (one.cost, one.name))


def _stored_candidate(name: str, text: str) -> Candidate:
    """Return a candidate from its words in a summary: ``fits``, perhaps with what there is to know, or reasons."""
    first, _, rest = text.partition("; ")
    ok = first == "fits"
    reasons = (rest if ok else text,)
    return Candidate(name, ok, np.nan, tuple(filter(None, reasons)))


def consider(need: Need, spec: BackendSpec, options: dict[str, Any] | None = None) -> tuple[Candidate, Backend | None]:
    """Return what a backend says to a need; its code is loaded only when its ``Caps`` fit.

    Parameters
    ----------
    need : Need
    spec : BackendSpec
    options : dict, optional
        What the user gave; the backend sees them as ``need.options``, defaults filled in.

    Raises
    ------
    OptionError
        An unknown option or a value outside the choices.
    """
    return _consider(need, spec, spec.resolve(options))


def _consider(need: Need, spec: BackendSpec, resolved: dict[str, Any]) -> tuple[Candidate, Backend | None]:
    """Return what a backend says to a need, for options that are checked and complete."""
    reasons = spec.caps.refusals(need)
    missing = spec.missing()
    if missing:
        hint = f" ({spec.install_hint})" if spec.install_hint else ""
        reasons.append(f"needs {', '.join(missing)}{hint}")
    if reasons:
        return Candidate(spec.name, False, np.inf, tuple(reasons)), None
    try:
        with contained(f"backend '{spec.name}'", PluginError):
            backend: Backend = spec.load()()
            candidate = _candidate(spec, backend.check(replace(need, options=dict(resolved))), need.share)
    except SsvmError as err:  # a plug-in must not take the host down while others are considered
        why = " ".join(str(err).removeprefix("it failed with ").split())
        return Candidate(spec.name, False, np.inf, (f"failed: {why}",)), None
    return candidate, backend


def _candidate(spec: BackendSpec, verdict: Verdict, share: float) -> Candidate:
    """Return what a verdict says, if it is one; what is short of memory does not fit.

    ``share`` is which share of the factors the backend has before it at a time.
    """
    if not isinstance(verdict, Verdict):
        raise PluginError(f"check returned a {type(verdict).__name__}, expected a Verdict")
    ok, cost, reasons = verdict.ok, verdict.cost, verdict.reasons
    if not isinstance(ok, bool | np.bool_):
        raise PluginError(f"check returned Verdict(ok={ok!r:.40}), expected True or False")
    if not isinstance(cost, int | float | np.number) or isinstance(cost, bool) or not cost >= 0.0:
        raise PluginError(f"check returned Verdict(cost={cost!r:.40}), expected a number of operations")
    if not isinstance(reasons, tuple | list) or not all(isinstance(reason, str) for reason in reasons):
        raise PluginError(f"check returned Verdict(reasons={reasons!r:.40}), expected a tuple of texts")
    n_bytes = verdict.n_bytes
    if not isinstance(n_bytes, int | float | np.number) or isinstance(n_bytes, bool) or not n_bytes >= 0.0:
        raise PluginError(f"check returned Verdict(n_bytes={n_bytes!r:.40}), expected a number of bytes")
    n_bytes = float(n_bytes) * share
    facts, seconds = tuple(" ".join(reason.split()) for reason in reasons), float(cost) / spec.speed
    if ok and (lacking := shortage(float(n_bytes))):
        return Candidate(spec.name, False, np.inf, (lacking,), seconds, float(n_bytes))
    return Candidate(spec.name, bool(ok), float(cost), facts, seconds, float(n_bytes))


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
    ranked = [spec for spec in known.specs(BackendSpec) if known.owner(spec).allowed]
    candidates = tuple(consider(need, spec)[0] for spec in ranked)
    fitting = by_cost(candidates)
    if not fitting:
        raise NoBackendError(str(need), [(c.name, c.reasons) for c in candidates], _outsiders(need, known))
    best = fitting[0]
    others = ", ".join(f"{c.name} ({c.cost:.2g})" for c in fitting[1:])
    reason = f"{best.name} is the cheapest that fits {need} (about {best.cost:.2g} operations"
    reason += f"; next: {others})" if others else ")"
    reason = "; ".join([reason, *best.reasons])
    resolved = known.find(BackendSpec, best.name).resolve(None)
    return Plan(best.name, str(need), reason, candidates, resolved, seconds=best.seconds, n_bytes=best.n_bytes)


def need_of(
    parameters: ParameterMap,
    tasks: frozenset[Task],
    guarantee: Guarantee,
    abilities: frozenset[Ability] = frozenset(),
    first: int = 0,
    priced: Sequence[LossFactors] = (),
) -> Need:
    """Return the need of a model laid over data: that of its program, with what its weights can make of tables.

    ``first`` is the number of the first example, for messages about a part of a longer list; ``priced`` are
    joint states that a loss adds to.

    Raises
    ------
    NoBackendError
        Sums over labellings, or several of them, are asked for where auxiliary variables stand for tables.
    """
    unsure = doubts(parameters, first, priced)
    known = frozenset({SUBMODULAR, METRIC, SEMIMETRIC} - set(unsure))
    need = Need.of(parameters.program, tasks, guarantee, abilities, known)
    role = parameters.program.role
    if tasks & _OF_OUTPUTS_ALONE and role is not None and (role == AUXILIARY).any():
        names = [m.block.name for m in parameters.maps if m.group != NODE and _joins_auxiliary(m, role)]
        raise NoBackendError(
            str(need),
            [(name, ("its auxiliary variables would be summed over or listed, too",)) for name in dict.fromkeys(names)],
            "a factor has a table instead where its form is an array: form=[[...]] in place of POTTS",
        )
    return replace(need, doubts=tuple(sorted(unsure.items())))


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
        What is asked of it: ``Need.of(program, ...)``.
    backend, options, plugins
        As for :func:`plan`.

    Raises
    ------
    NoBackendError, PluginError, OptionError
        As for :func:`plan`.
    """
    whole = backend != AUTO or bool(options) or need.topology < Topology.LOOPY or bool(need.abilities)
    if whole or not need.tasks <= SEPARABLE or need.constraint_kinds:
        return plan(need, backend, options, plugins)
    if one_kind(program):
        return plan(need, plugins=plugins)
    parts = parts_of(program)
    needs = [Need.of(part.program, need.tasks, need.guarantee, properties=need.properties) for part in parts]
    plans = [plan(one, plugins=plugins) for one in needs]
    if len({one.backend for one in plans}) == 1:
        return plan(need, plugins=plugins)
    return joined_plan(str(need), plans, [part.program.n_examples for part in parts])


def joined_plan(need: str, plans: Sequence[Plan], n_components: Sequence[int]) -> Plan:
    """Return the plan of a program whose parts, of so many components each, have plans of their own."""
    facts = [f"{n} components to {one.reason}" for n, one in zip(n_components, plans, strict=True)]
    seconds, n_bytes = sum(one.seconds for one in plans), sum(one.n_bytes for one in plans)
    names = " + ".join(one.backend for one in plans)
    return Plan(names, need, "; ".join(facts), parts=tuple(plans), seconds=seconds, n_bytes=n_bytes)


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
        What the user wants of ``auto``; exact answers by default.
    weakest : Guarantee
        What those who use the answers (a trainer, a risk) cannot do without.
    """
    return asked if backend == AUTO and asked.covers(weakest) else weakest


def _named(need: Need, spec: BackendSpec, options: dict[str, Any] | None, known: Registry) -> Plan:
    resolved = spec.resolve(options)
    candidate, _ = _consider(need, spec, resolved)
    if not candidate.ok:
        others = [consider(need, other)[0] for other in known.specs(BackendSpec) if other.name != spec.name]
        fits = [c.name for c in others if c.ok]
        hint = f"these would fit: {', '.join(fits)}" if fits else "no other backend would fit either"
        raise NoBackendError(str(need), [(spec.name, candidate.reasons)], hint)
    reason = "; ".join([f"{spec.name} was asked for", *candidate.reasons])
    seconds, n_bytes = candidate.seconds, candidate.n_bytes
    return Plan(spec.name, str(need), reason, (candidate,), resolved, seconds=seconds, n_bytes=n_bytes)


def _outsiders(need: Need, known: Registry) -> str:
    """Return a hint about fitting backends that ``auto`` does not choose from."""
    foreign = [spec for spec in known.specs(BackendSpec) if not known.owner(spec).allowed]
    fits = [spec.name for spec in foreign if consider(need, spec)[0].ok]
    if fits:
        return f"'auto' takes only bundled and allow-listed backends; these installed ones would fit: {', '.join(fits)}"
    if Ability.COUNTS in need.abilities:
        text = "take a loss that adds up over variables (Hamming, Cost), or a model whose graphs are forests, without "
        return text + "hard constraints, or one of a single label of segments"
    return "make the model smaller, ask for a weaker guarantee, or install a backend (ssvm plugins list)"


def tasks_for_training(loss_kind: str) -> tuple[frozenset[Task], frozenset[Ability]]:
    """Return (tasks, abilities) that loss-augmented inference needs.

    The zero-one loss is answered exactly from the two best labellings (one of them differs from the truth),
    so it needs ``kbest`` and nothing else; losses of counts need best labellings by counts.
    """
    if loss_kind == ZERO_ONE:
        return frozenset({Task.KBEST}), frozenset()
    return frozenset({Task.MAP}), frozenset({Ability.COUNTS} if loss_kind == COUNT else ())
