"""Risks by name: what each asks of a backend, and the training problem it makes.

Risks are plug-ins (``ssvm_risks``).  The bundled ones are described in ``ssvm_trainers``; their training problems
are in the folders ``hinges`` and ``gradients`` here.
What a fit needs to know of a risk beforehand is data of its :class:`~ssvm_dsl.plugin_api.RiskSpec`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ssvm_dsl.errors import OptionError, PluginError, TrainingError
from ssvm_dsl.inference.planned import PlannedSession
from ssvm_dsl.inference.planning.planner import tasks_for_training
from ssvm_dsl.ir.loss import ADDITIVE, JOINT, ZERO_ONE, LossTerm
from ssvm_dsl.ir.need import Ability, Guarantee, Task
from ssvm_dsl.learning.objective import RegularizedRisk
from ssvm_dsl.learning.risks.base import BaseProblem
from ssvm_dsl.learning.risks.custom import custom_risk
from ssvm_dsl.learning.risks.gradients.gradient import GradientProblem
from ssvm_dsl.learning.risks.gradients.single_label import is_one_label
from ssvm_dsl.learning.risks.hinges.margin import MarginProblem
from ssvm_dsl.memory import fresh_zeros
from ssvm_dsl.plugin_api.protocols import Executor
from ssvm_dsl.plugin_api.specs import AddedLoss, RiskForm, RiskSpec, TrainerNeeds, TrainerSpec
from ssvm_dsl.registry import Registry, registry
from ssvm_dsl.scores.parameter_map import ParameterMap

Problem = MarginProblem | GradientProblem

#: Of a trainer that asks for nothing but best labellings.
PLAIN = TrainerNeeds()


class OracleNeed(NamedTuple):
    """What a backend must give for training.

    Parameters
    ----------
    tasks : frozenset of Task
    abilities : frozenset of Ability
    weakest : Guarantee
        The weakest guarantee of its answers that will do.
    why : str
        The reason.
    """

    tasks: frozenset[Task]
    abilities: frozenset[Ability]
    weakest: Guarantee
    why: str


class Risk:
    """A risk.

    Parameters
    ----------
    spec : RiskSpec
    settings : mapping, optional
        Arguments of its factory in addition to the context of a fit.

    Attributes
    ----------
    name : str
        What users write.
    of_maxima : bool
        Whether it is a maximum over labellings.
    relaxed : bool
        Whether it is a maximum over the local polytope.
    """

    def __init__(self, spec: RiskSpec, settings: Mapping[str, Any] | None = None) -> None:
        self.spec, self.settings, self.name = spec, settings or {}, spec.name
        self.of_maxima = spec.form in (RiskForm.PLANES, RiskForm.SCALED)
        self.relaxed = spec.form is RiskForm.FRACTIONAL

    def loss(self, loss: LossTerm) -> LossTerm:
        """Return the loss that it looks at, for the declared one."""
        if self.spec.loss is AddedLoss.DECLARED:
            return loss
        kind = ZERO_ONE if self.spec.loss is AddedLoss.ZERO_ONE else ADDITIVE
        return LossTerm(loss.truth, fresh_zeros(len(loss.node)), np.zeros(len(loss.const)), kind, 1.0)

    def asks(self, loss: LossTerm, needs: TrainerNeeds = PLAIN) -> OracleNeed:
        """Return what a backend must give a trainer of some needs, for the declared loss.

        Trainers may work on dual bounds, or on distributions over labellings
        (:class:`~ssvm_dsl.plugin_api.TrainerNeeds`).
        """
        used, tasks = self.loss(loss), self.spec.tasks
        if not self.takes(loss):
            every = [one for one in risks().values() if one.of_maxima]
            able = ", ".join(one.name for one in every if one.spec.loss is AddedLoss.DECLARED)
            blind = ", ".join(one.name for one in risks().values() if one.spec.loss is not AddedLoss.DECLARED)
            text = f"risk '{self.name}' needs a loss that adds up over variables, not {used.called}"
            raise OptionError(f"{text}; these risks take it: {able}; these do without the declared loss: {blind}")
        abilities: frozenset[Ability] = frozenset()
        if self.of_maxima and Task.MAP in tasks:
            augmented, abilities = tasks_for_training(used.kind)
            tasks = tasks - {Task.MAP} | augmented
        if self.of_maxima and needs.asks_marginals:
            tasks |= {Task.MARGINALS}
        if self.relaxed and needs.messages:
            tasks, abilities = tasks - {Task.RELAXED} | {Task.MAP}, frozenset({Ability.MESSAGES})
        weakest, why = needs.guarantee, f"the trainer needs answers that are {needs.guarantee.value} or better"
        if Task.MARGINALS in tasks:
            weakest, why = Guarantee.EXACT, "marginals come without bounds, so that only exact ones will do"
        elif self.spec.bounded and weakest is Guarantee.HEURISTIC:
            weakest, why = Guarantee.BOUND, f"risk '{self.name}' is searched by bounds"
        return OracleNeed(tasks, abilities, weakest, why)

    def takes(self, loss: LossTerm) -> bool:
        """Return whether the loss adds up over variables, where the risk needs that."""
        kind = self.loss(loss).kind
        return not self.spec.additive or kind == ADDITIVE or (kind == JOINT and self.spec.joint)

    def asked_about(self, parameters: ParameterMap, loss: LossTerm) -> ParameterMap:
        """Return the map to the scores that its problem asks about: with the factors of its loss, if it has any.

        Parameters
        ----------
        parameters : ParameterMap
            Those of the model.
        loss : LossTerm
            The declared loss.
        """
        return parameters.with_groups(self.loss(loss).groups)

    def problem(
        self,
        parameters: ParameterMap,
        loss: LossTerm,
        objective: RegularizedRisk,
        session: PlannedSession,
        executor: Executor,
        needs: TrainerNeeds = PLAIN,
    ) -> Problem:
        """Return the training problem.

        For trainers that ask for marginals it is one that mixes planes of labellings, for those that work on messages
        one of dual losses, where the risk has any (:class:`~ssvm_dsl.plugin_api.TrainerNeeds`).

        ``parameters`` are what :meth:`asked_about` returned, and the session is opened on their program.

        Raises
        ------
        TrainingError
            The risk is for models of one label, and this one is not; names those that take it.
        """
        if self.spec.one_label and not is_one_label(parameters.program, loss):
            able = ", ".join(one.name for one in risks().values() if not one.spec.one_label and one.takes(loss))
            text = f"risk '{self.name}' is for models of one label without axes, whose loss is Hamming or Cost"
            raise TrainingError(f"{text}; these risks take this model: {able}")
        known = registry()
        mixtures = needs.asks_marginals and self.spec.mixtures
        factory = mixtures or (needs.messages and self.spec.dual_losses) or self.spec.factory
        spec = replace(self.spec, factory=factory)
        make: Any = spec.load(known.describe_owner(self.spec))
        own = isinstance(make, type) and issubclass(make, BaseProblem)
        used = self.loss(loss)
        if parameters.constants is not None:
            parameters, used = self._with_given(parameters, used, own)
        world = (parameters, used, objective, session, executor)
        if own:
            made: Any = make(*world, **self.settings)
            return made  # type: ignore[no-any-return]
        return custom_risk(make, self.spec, known.describe_owner(self.spec), *world)

    def _with_given(self, parameters: ParameterMap, loss: LossTerm, own: bool) -> tuple[ParameterMap, LossTerm]:
        """Return parameters and loss of the problem: where losses add up, given scores of states are part of the loss.

        Raises
        ------
        TrainingError
            The risk cannot be minimised with them.
        """
        constants = parameters.constants
        assert constants is not None
        if self.relaxed and constants.tables:
            text = "needs joint states that all have weights (no Forbid or Given of several variables)"
            raise TrainingError(f"risk '{self.name}' {text}; risk='margin' does without")
        subtracts = self.spec.form not in (RiskForm.SMOOTH, RiskForm.CONVEX)
        if not parameters.has_varying_constants or not subtracts:
            return parameters, loss
        if not own:
            raise TrainingError(f"risk '{self.name}' knows nothing of given scores (Given); risk='margin' does")
        if constants.node is None or loss.kind not in (ADDITIVE, JOINT) or self.spec.form is RiskForm.SCALED:
            return parameters, loss
        rest = replace(parameters, constants=constants.without_nodes())
        return rest, loss.with_given(parameters.program, constants.node)


def risks(known: Registry | None = None) -> dict[str, Risk]:
    """Return the risks of labellings by name; those that need values are for ``StructuredRegressor``."""
    specs = (registry() if known is None else known).specs(RiskSpec)
    return {spec.name: Risk(spec) for spec in specs if not spec.values}


def find_risk(name: str) -> Risk:
    """Return a risk by name.

    Raises
    ------
    OptionError
        There is no such risk; lists the known ones, and translates names used elsewhere.
    """
    for spec in registry().specs(RiskSpec):
        if isinstance(name, str) and spec.name == name and not spec.values:
            return Risk(spec)
    try:
        registry().find(RiskSpec, name)
    except PluginError as err:
        raise OptionError(str(err)) from None
    raise OptionError(f"risk {name!r} needs values to fit; use StructuredRegressor")


def regression_risk(values: NDArray[np.float64], epsilon: tuple[float, float]) -> Risk:
    """Return the risk of structured regression on values v_i.

    Parameters
    ----------
    values : ndarray of float64, shape (n,)
    epsilon : tuple (below, above)
        How far a score may be off for free.
    """
    spec = next(one for one in registry().specs(RiskSpec) if one.values)
    return Risk(spec, {"values": values, "epsilon": epsilon})


def minimisers(
    risk: Risk, power: float, known: Registry, also: Callable[[TrainerSpec], bool] = lambda spec: True
) -> list[str]:
    """Return the trainers that minimise a power of a risk and meet a further condition."""
    specs = [spec for spec in known.specs(TrainerSpec) if spec.needs.covers(risk.spec, power)]
    return [spec.name for spec in specs if also(spec)]


def minimised(needs: TrainerNeeds, known: Registry) -> list[str]:
    """Return the names of the risks that a trainer minimises."""
    return sorted(spec.name for spec in known.specs(RiskSpec) if needs.minimises(spec))


def check_pairing(spec: TrainerSpec, risk: Risk, power: float, sparse: bool = False, hard: bool = False) -> None:
    """Refuse a trainer that does not minimise a risk, before anything is computed.

    Parameters
    ----------
    spec : TrainerSpec
    risk : Risk
    power : float
    sparse : bool
        Whether there is an L1 penalty.
    hard : bool
        Whether margins are hard.

    Raises
    ------
    TrainingError
        Names the trainers that do.
    """
    if spec.needs.covers(risk.spec, power):
        if sparse and not spec.needs.l1:
            able = ", ".join(minimisers(risk, power, registry(), lambda other: other.needs.l1)) or "none"
            raise TrainingError(f"trainer '{spec.name}' takes no L1 penalty (l1=); these do: {able}")
        if hard and not spec.needs.hard:
            able = ", ".join(minimisers(risk, power, registry(), lambda other: other.needs.hard)) or "none"
            text = f"trainer '{spec.name}' finds no hard margins (C = inf) of risk '{risk.name}'; these do: {able}"
            raise TrainingError(f"{text}; the others come close with a large C, such as C=1e4")
        return
    asked = f"risk '{risk.name}'" + (f" to the power {power:g}" if power != 1.0 else "")
    able = ", ".join(minimisers(risk, power, registry())) or "none"
    powers = "any" if spec.needs.any_power else " or ".join(f"{one:g}" for one in sorted(spec.needs.powers))
    its_own = ", ".join(minimised(spec.needs, registry()))
    hint = f"leave trainer= out, or set it to one of them; '{spec.name}' minimises {its_own} (powers: {powers})"
    raise TrainingError(f"trainer '{spec.name}' does not minimise {asked}; these do: {able}\n  hint: {hint}")


def check_convex(spec: TrainerSpec, risk: Risk, objective: RegularizedRisk) -> None:
    """Refuse weights that are not regularised by their squares, for trainers that need that.

    Raises
    ------
    TrainingError
        Names the trainers that do without.
    """
    if not spec.needs.strongly_convex or objective.strongly_convex:
        return
    sparse, power = objective.l1 > 0.0, objective.power
    able = minimisers(
        risk, power, registry(), lambda other: not other.needs.strongly_convex and (other.needs.l1 or not sparse)
    )
    what = "every factor regularised (regularization above 0)" if objective.lam else "lam above 0 beside l1"
    text = f"trainer '{spec.name}' needs {what}"
    raise TrainingError(f"{text}; set trainer= to one that does not: {', '.join(able) or 'none'}")
