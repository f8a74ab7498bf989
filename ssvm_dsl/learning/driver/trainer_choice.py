"""``trainer="auto"``: the trainer that certifies a fit fastest, by measured rules.

The rules are data of the trainers (:class:`~ssvm_dsl.plugin_api.AutoRule`), measured by ``make bench ARGS=trainers``.
Here is what they are compared with: what a fit asks of a trainer.  As for backends, only bundled and allow-listed ones
are chosen from, so that installing a package changes no results.
"""

from __future__ import annotations

from dataclasses import dataclass
from operator import itemgetter
from typing import Any

from ssvm_dsl.errors import TrainingError
from ssvm_dsl.inference.planning.plans import AUTO
from ssvm_dsl.learning.risks.kinds import Risk, minimisers
from ssvm_dsl.plugin_api.specs import AutoRule, TrainerSpec
from ssvm_dsl.registry import Registry, registry


@dataclass(frozen=True, eq=False)
class TrainerChoice:
    """The trainer of a fit.

    Parameters
    ----------
    spec : TrainerSpec
    options : dict
        All of them, with their values.
    reason : str
        Why ``auto`` took it; empty where it was named.
    """

    spec: TrainerSpec
    options: dict[str, Any]
    reason: str = ""


@dataclass(frozen=True, eq=False)
class FitFacts:
    """What a fit asks of a trainer.

    Parameters
    ----------
    risk : Risk
    power : float
    sparse : bool
        Whether there is an L1 penalty.
    strongly_convex : bool
        Whether the squares of all weights are penalised.
    n_examples, n_weights : int, optional
        Where they are known before the trainer is: on shards, and in streams, they are not.
    single : bool
        Whether each example has one variable.
    shards : bool
        Whether the examples are in shards, elsewhere.
    keeps_shards : bool
        Whether shards stay open from one call to the next.
    stream : bool
        Whether it learns from batches of a stream.
    hard : bool
        Whether margins are hard.
    """

    risk: Risk
    power: float = 1.0
    sparse: bool = False
    strongly_convex: bool = True
    n_examples: int | None = None
    n_weights: int | None = None
    single: bool = False
    shards: bool = False
    keeps_shards: bool = True
    stream: bool = False
    hard: bool = False

    def suits(self, spec: TrainerSpec) -> bool:
        """Whether a trainer can do it."""
        needs = spec.needs
        return (
            needs.covers(self.risk.spec, self.power)
            and (needs.l1 or not self.sparse)
            and (needs.hard or not self.hard)
            and (self.strongly_convex or not needs.strongly_convex)
            and (spec.distributes or not self.shards)
            and (self.keeps_shards or not spec.keeps_on_shards)
            and (spec.incremental or not self.stream)
        )

    def meets(self, rule: AutoRule) -> bool:
        """Whether a rule is for it; sizes that are not known are taken for small."""
        return (
            (not rule.forms or self.risk.spec.form in rule.forms)
            and (not rule.powers or self.power in rule.powers)
            and (not self.shards or rule.on_shards)
            and (self.n_examples or 0) >= rule.least_examples
            and (self.n_weights or 0) >= rule.least_weights
            and (self.n_examples or 0) >= rule.least_ratio * (self.n_weights or 0)
            and (self.single or not rule.single)
        )


def choose(
    trainer: str, options: dict[str, Any] | None, facts: FitFacts, plugins: Registry | None = None
) -> TrainerChoice:
    """Return the trainer of a fit, by its name or by the rules.

    Options that are given are those of one of the trainers with options of these names.

    Parameters
    ----------
    trainer : str
        A name, or ``"auto"``.
    options : dict, optional
        What users set of its options.
    facts : FitFacts
    plugins : Registry, optional
        The installed plug-ins by default.

    Raises
    ------
    PluginError, OptionError
        There is no such trainer, or it has no such option.
    TrainingError
        No trainer with rules can do such a fit.
    """
    known = registry() if plugins is None else plugins
    if trainer != AUTO:
        spec = known.find(TrainerSpec, trainer)
        return TrainerChoice(spec, spec.resolve(options))
    ranked = list[tuple[float, TrainerSpec, AutoRule]]()
    for spec in known.specs(TrainerSpec):
        if known.owner(spec).allowed and not spec.missing() and facts.suits(spec):
            ranked += [(rule.rank, spec, rule) for rule in spec.rules if facts.meets(rule)]
    if not ranked:
        raise TrainingError(_refusal(facts, known))
    ranked.sort(key=itemgetter(0))
    _, spec, rule = best = ranked[0]
    if options:
        able = [one for one in ranked if set(options) <= {option.name for option in one[1].options}]
        _, spec, rule = (able or ranked)[0]
    reason = rule.reason if spec is best[1] else f"it has the options {', '.join(options or {})}"
    return TrainerChoice(spec, spec.resolve(options), reason)


def _refusal(facts: FitFacts, known: Registry) -> str:
    """Return the error for a fit that no trainer with rules can do."""
    asked = f"risk '{facts.risk.name}'" + (f" to the power {facts.power:g}" if facts.power != 1.0 else "")
    able = ", ".join(minimisers(facts.risk, facts.power, known)) or "none"
    text = f"trainer='{AUTO}' takes only bundled and allow-listed trainers, and none of them does this"
    return f"{text}: {asked}; installed trainers that minimise it: {able}; name one"
