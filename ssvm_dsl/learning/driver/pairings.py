"""Which trainer minimises which risk with answers of which guarantee, and what is certified: the whole table.

What is told here is what happens in ``fit``, which asks the same questions of the registry: whether a trainer minimises
a risk (:meth:`~ssvm_dsl.plugin_api.TrainerNeeds.covers`), the weakest answers both can do with
(:meth:`~ssvm_dsl.learning.risks.kinds.Risk.asks`), and whether an installed backend gives them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from ssvm_dsl.ir.loss import LossTerm
from ssvm_dsl.ir.need import Guarantee, Need
from ssvm_dsl.learning.risks.kinds import Risk, minimisers
from ssvm_dsl.plugin_api.specs import BackendSpec, RiskSpec, TrainerNeeds, TrainerSpec
from ssvm_dsl.registry import Registry, registry

#: What is certified: a duality gap; the same through the oracle's bounds; nothing.
GAP, BOUNDED, NONE = "gap", "gap from bounds", "none"


@dataclass(frozen=True)
class Pairing:
    """What happens to a trainer, a risk, and an oracle of a guarantee.

    Parameters
    ----------
    trainer, risk, oracle : str
        The oracle by the guarantee of its answers: ``"exact"``, ``"bound"`` or ``"heuristic"``.
    works : bool
        Whether they go together; otherwise ``fit`` refuses them.
    powers : tuple of float or None
        The powers of the risk that are minimised; ``None`` for any of at least 1.
    certificate : str
        The kind of certificate: ``"gap"`` (objective and lower bound), ``"gap from bounds"`` (an upper bound of the
        objective stands for it: the gap closes as far as answers are proved), or ``"none"``.
    reason : str
        Why they do not go together, or why nothing is certified.
    conditions : tuple of str
        What else must hold.
    backends : tuple of str
        The installed backends that answer.
    """

    trainer: str
    risk: str
    oracle: str
    works: bool
    powers: tuple[float, ...] | None = ()
    certificate: str = NONE
    reason: str = ""
    conditions: tuple[str, ...] = ()
    backends: tuple[str, ...] = ()


def pairings(plugins: Registry | None = None) -> list[Pairing]:
    """Return the table: every trainer with every risk and every guarantee, for a loss that adds up over variables.

    Parameters
    ----------
    plugins : Registry, optional
        The installed plug-ins by default.
    """
    known = registry() if plugins is None else plugins
    risks = [Risk(spec) for spec in known.specs(RiskSpec)]
    return [pairing for spec in known.specs(TrainerSpec) for risk in risks for pairing in _row(spec, risk, known)]


def _row(spec: TrainerSpec, risk: Risk, known: Registry) -> Iterator[Pairing]:
    """Yield the pairings of a trainer and a risk."""
    needs = spec.needs
    for oracle in Guarantee:
        cell = Pairing(spec.name, risk.name, oracle.value, False)
        if not needs.minimises(risk.spec):
            others = ", ".join(minimisers(risk, 1.0, known)) or "none"
            yield replace(cell, reason=f"the trainer does not minimise this risk; these do: {others}")
            continue
        tasks, abilities, weakest, why = risk.asks(_nothing(), needs)
        if not oracle.covers(weakest):
            yield replace(cell, reason=why)
            continue
        need = Need(tasks=tasks, abilities=abilities)
        able = {one.name: one.caps.guarantee for one in _backends(replace(need, guarantee=weakest), known)}
        mine = tuple(name for name, guarantee in able.items() if guarantee is oracle)
        if not mine:
            asked = " and ".join([*sorted(tasks), *sorted(abilities)])
            others = ", ".join(f"{name} ({guarantee.value})" for name, guarantee in able.items()) or "none"
            text = f"no installed backend with such answers gives {asked}; these do: {others}"
            yield replace(cell, reason=text)
            continue
        certificate, why = _certificate(spec, risk, oracle)
        yield replace(
            cell, works=True, powers=_powers(needs, risk), certificate=certificate,
            reason=why, conditions=tuple(_conditions(spec, risk)), backends=mine,
        )  # fmt: skip


def _powers(needs: TrainerNeeds, risk: Risk) -> tuple[float, ...] | None:
    """Return the powers that trainer and risk both take; ``None`` for any."""
    if needs.any_power:
        return tuple(sorted(risk.spec.powers)) or None
    return tuple(power for power in sorted(needs.powers) if needs.covers(risk.spec, power))


def _backends(need: Need, known: Registry) -> list[BackendSpec]:
    """Return the installed backends that give what is asked on some graph."""
    return [spec for spec in known.specs(BackendSpec) if not spec.missing() and not spec.caps.refusals(need)]


def _certificate(spec: TrainerSpec, risk: Risk, oracle: Guarantee) -> tuple[str, str]:
    """Return (what is certified, why nothing is)."""
    if not spec.certifies:
        return NONE, "the trainer gives no lower bound"
    if risk.spec.one_label:
        return GAP, ""
    if oracle is Guarantee.HEURISTIC:
        return NONE, "without bounds the objective is only known from below"
    return (GAP if oracle is Guarantee.EXACT else BOUNDED), ""


def _conditions(spec: TrainerSpec, risk: Risk) -> Iterator[str]:
    """Yield what else must hold."""
    if spec.needs.strongly_convex:
        yield "every factor regularised"
    if spec.needs.factored and not risk.relaxed:
        more = ", submodular tables, or constraints with exact linear rows" if spec.needs.hulls else ""
        yield f"graphs of small treewidth{more}"
    if risk.spec.one_label:
        yield "models of one label"
    if risk.spec.bounded:
        yield "proved maxima on chains and forests, elsewhere as far as a search proves them"
    if risk.spec.values:
        yield "StructuredRegressor"


def _nothing() -> LossTerm:
    """Return a loss of no examples that adds up over variables."""
    return LossTerm(np.zeros(0, np.int32), np.zeros(0), np.zeros(0))
