"""The chosen backend and how it was chosen (what reports and saved models store), and the verdict of each backend."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from ssvm_dsl.deadline import pause
from ssvm_dsl.errors import PluginError, SsvmError
from ssvm_dsl.ir.need import Ability, Need, Task
from ssvm_dsl.memory import SMALL, shortage
from ssvm_dsl.notebook_tables import html_grid, text_rows
from ssvm_dsl.plugin_api.hosting.contained import contained, refusal
from ssvm_dsl.plugin_api.protocols import Backend, Verdict
from ssvm_dsl.plugin_api.specs import BackendSpec
from ssvm_dsl.registry import Registry
from ssvm_dsl.units import bytes_text, seconds_text
from ssvm_dsl.values import Value

#: The name of the choice that is left to the planner.
AUTO = "auto"

#: How backends and bridges are named together.
THROUGH, AND = " through ", " and "


@dataclass(frozen=True, eq=False)
class Candidate(Value):
    """The verdict of one backend on a need.

    Parameters
    ----------
    name : str
    ok : bool
    cost : float
        Estimated elementary operations, as the backend counts them.
    reasons : tuple of str
        Reasons of a refusal, or remarks.
    seconds : float
        Expected time of one answer for every example; ``nan`` where nothing is known.
    n_bytes : float
        Expected memory of its session.
    bridges : tuple of str
        The bridges that rewrite constraints for it, in order.
    """

    name: str
    ok: bool
    cost: float
    reasons: tuple[str, ...]
    seconds: float = np.nan
    n_bytes: float = 0.0
    bridges: tuple[str, ...] = ()

    @property
    def title(self) -> str:
        """The backend, and the bridges on the way to it."""
        return through(self.name, self.bridges)

    def plan(
        self, need: str, why: str, candidates: tuple[Candidate, ...], options: Mapping[str, Any], relaxed: bool
    ) -> Plan:
        """Return the plan that takes it; why, and what there is to know of it, is the reason."""
        reason = "; ".join([why, *self.reasons])
        return Plan(
            self.name, need, reason, candidates, options, seconds=self.seconds, n_bytes=self.n_bytes,
            bridges=self.bridges, relaxed=relaxed,
        )  # fmt: skip


@dataclass(frozen=True, eq=False)
class Plan(Value):
    """The chosen backend and how it was chosen.

    Parameters
    ----------
    backend : str
    need : str
        The request, as text.
    reason : str
        One sentence.
    candidates : tuple of Candidate
        Every backend's answer.
    options : mapping
        Options the backend is opened with.
    components : tuple of Plan
        When different components of a problem take different backends: a plan for each kind of component.
    seconds : float
        Expected time of one answer for every example, ``nan`` where nothing is known: within a few times, as a rule.
    n_bytes : float
        Expected memory of the session, in addition to program and scores.
    bridges : tuple of str
        The bridges that rewrite constraints for the backend, in order.
    relaxed : bool
        Whether the request includes fractional labellings.  Factors over the same variables then stay separate, so that
        the relaxation is the one that trainers which solve it themselves minimise.
    """

    backend: str
    need: str
    reason: str
    candidates: tuple[Candidate, ...] = ()
    options: Mapping[str, Any] = field(default_factory=dict)
    components: tuple[Plan, ...] = ()
    seconds: float = np.nan
    n_bytes: float = 0.0
    bridges: tuple[str, ...] = ()
    relaxed: bool = False

    @property
    def title(self) -> str:
        """The backend, and the bridges on the way to it."""
        return through(self.backend, self.bridges)

    @property
    def depends_on_memory(self) -> bool:
        """Whether it may be another one when more or less memory is free: of its backend, or of a faster one.

        What needs little memory is taken to fit whatever is free.
        """
        large = [one for one in self.candidates if one.n_bytes >= SMALL]
        return any(one.title == self.title or not one.seconds > self.seconds for one in large)

    def following(
        self, err: Exception, plugins: Registry, task: Task | None = None, ability: Ability | None = None
    ) -> Plan | None:
        """Return the plan for the next backend that fits, after this one's has refused; ``None`` without another.

        A plan whose backend was named considered no other, so that there is none.  Where a question was refused, the
        next backend must answer its task, which may be none of those that were planned for, and have the ability that
        was asked for.
        """
        refusal = f"{type(err).__name__}: {err}".splitlines()[0]
        tried = Candidate(self.backend, False, np.inf, (f"fits, but refused: {refusal}",), bridges=self.bridges)
        candidates = tuple(tried if one.title == self.title else one for one in self.candidates)
        fitting = by_cost(one for one in candidates if _answers(one, task, ability, plugins))
        if not fitting:
            return None
        best = fitting[0]
        why = f"{best.title} took over from {self.title}, which refused ({refusal})"
        options = plugins.find(BackendSpec, best.name).resolve(None)
        return best.plan(self.need, why, candidates, options, self.relaxed)

    def __str__(self) -> str:
        """Return the choice with its reason, what was asked for, and the cost, a line each."""
        rows = [("backend", self.title), ("reason", self.reason), ("asked for", self.need)]
        if self.options:
            rows.append(("options", ", ".join(f"{name}={value!r}" for name, value in self.options.items())))
        if np.isfinite(self.seconds):
            memory = f", {bytes_text(self.n_bytes)}" if self.n_bytes else ""
            rows.append(("cost", f"{seconds_text(self.seconds)} expected for all examples{memory}"))
        return text_rows(rows)

    def _repr_html_(self) -> str:
        """Return the plan as notebooks show it: the choice, and what else fits."""
        fitting = [[one.title, "; ".join(one.reasons)] for one in self.candidates if one.ok]
        refused = len(self.candidates) - len(fitting)
        note = f"asked for: {self.need}" + (f"; {refused} other backends do not fit" if refused else "")
        return html_grid(self.reason, ["backends that fit", "remarks"], fitting, note=note)

    def summary(self) -> dict[str, Any]:
        """Return the data for files, as plain values."""
        facts: dict[str, Any] = {
            "backend": self.backend,
            "need": self.need,
            "reason": self.reason,
            "options": dict(self.options),
            "seconds": float(self.seconds) if np.isfinite(self.seconds) else None,
            "n_bytes": float(self.n_bytes),
            "candidates": {c.title: "; ".join([*(["fits"] if c.ok else []), *c.reasons]) for c in self.candidates},
        }
        facts |= {"bridges": list(self.bridges)} if self.bridges else {}
        return facts | {"components": [one.summary() for one in self.components]} if self.components else facts

    @classmethod
    def of_summary(cls, stored: Mapping[str, Any]) -> Plan:
        """Return the plan of a stored summary (costs are not stored)."""
        candidates = tuple(_stored_candidate(name, text) for name, text in stored["candidates"].items())
        inner = stored.get("components", stored.get("parts", ()))  # "parts" in files of earlier versions
        components = tuple(cls.of_summary(one) for one in inner)
        seconds, n_bytes = stored.get("seconds"), float(stored.get("n_bytes", 0.0))
        return cls(
            stored["backend"], stored["need"], stored["reason"], candidates, stored["options"], components,
            np.nan if seconds is None else float(seconds), n_bytes, tuple(stored.get("bridges", ())),
        )  # fmt: skip


def by_cost(candidates: Iterable[Candidate]) -> list[Candidate]:
    """Return the candidates that fit, those of least expected time first."""
    return sorted((one for one in candidates if one.ok), key=lambda one: (one.seconds, len(one.bridges), one.title))


def through(name: str, bridges: Sequence[str]) -> str:
    """Return the name of a backend behind bridges: ``"junction-tree through counts-to-states"``."""
    return f"{name}{THROUGH}{AND.join(bridges)}" if bridges else name


def named_in(title: str) -> list[str]:
    """Return the backend of a title and the bridges that it is reached through."""
    name, _, bridges = title.partition(THROUGH)
    return [name, *filter(None, bridges.split(AND))]


def _stored_candidate(title: str, text: str) -> Candidate:
    """Return a candidate from its words in a summary: ``fits``, perhaps with what there is to know, or reasons."""
    name, _, bridges = title.partition(THROUGH)
    first, _, rest = text.partition("; ")
    ok = first == "fits"
    reasons = (rest if ok else text,)
    texts = tuple(filter(None, reasons))
    return Candidate(name, ok, np.nan, texts, bridges=tuple(bridges.split(AND)) if bridges else ())


def _answers(candidate: Candidate, task: Task | None, ability: Ability | None, plugins: Registry) -> bool:
    caps = plugins.find(BackendSpec, candidate.name).caps
    return task in (None, *caps.tasks) and ability in (None, *caps.abilities)


def joined_plan(need: str, plans: Sequence[Plan], n_components: Sequence[int]) -> Plan:
    """Return the plan of a program whose parts, of so many components each, have plans of their own."""
    facts = [f"{n} components to {one.reason}" for n, one in zip(n_components, plans, strict=True)]
    seconds, n_bytes = sum(one.seconds for one in plans), sum(one.n_bytes for one in plans)
    names = " + ".join(one.backend for one in plans)
    return Plan(names, need, "; ".join(facts), components=tuple(plans), seconds=seconds, n_bytes=n_bytes)


def consider(need: Need, spec: BackendSpec, options: dict[str, Any] | None = None) -> tuple[Candidate, Backend | None]:
    """Return the verdict of a backend on a need; its code is loaded only if its ``Caps`` fit.

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
    return consider_resolved(need, spec, spec.resolve(options))


def consider_resolved(
    need: Need, spec: BackendSpec, resolved: dict[str, Any]
) -> tuple[Candidate, Backend | None]:
    """Return the verdict of a backend on a need, for options that are checked and complete."""
    pause()
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
    except SsvmError as err:
        return Candidate(spec.name, False, np.inf, (f"failed: {refusal(err)}",)), None
    return candidate, backend


def _candidate(spec: BackendSpec, verdict: Verdict, share: float) -> Candidate:
    """Return the candidate of a verdict, if it is one; a backend short of memory does not fit.

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
