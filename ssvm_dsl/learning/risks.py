"""The risks a model can be trained with: what each asks of a backend, and the training problem it makes.

With ``Delta`` the declared loss, ``s(y) = w . Phi(x_i, y)`` and y_i the truth, the risk of example i is

    margin          max_y [Delta(y) + s(y)] - s(y_i)              Taskar et al. 2003, Tsochantaridis et al. 2005
    slack           max_y Delta(y) (1 + s(y) - s(y_i))            Tsochantaridis et al. 2005
    hm              max_{y != y_i} [1 + s(y)] - s(y_i), or 0      Altun et al. 2003 (HM-SVM); the unstructured margin
    perceptron      max_y s(y) - s(y_i)                           Collins 2002
    log             log sum_y exp s(y) - s(y_i)                   Lafferty et al. 2001 (conditional random field)
    softmax-margin  log sum_y exp(Delta(y) + s(y)) - s(y_i)       Gimpel and Smith 2010
    relaxed         max_{mu} [Delta(mu) + s(mu)] - s(y_i)         over the local polytope: Finley and Joachims 2008
    weston-watkins  sum_{y != y_i} max(0, Delta(y) + s(y) - s(y_i))   models of one label: Weston and Watkins 1999
    smooth-hinge    the same of smooth hinges                     models of one label: Rennie and Srebro 2005

and any power q >= 1 of it (q = 2: squared slacks).  The first four are maxima of *planes*, one for each labelling,
``relaxed`` of one for each point of the polytope; the others but ``weston-watkins`` are smooth.

The risk of structured regression (:mod:`ssvm_dsl.learning.regression_problem`) needs values, and is made for them:
:func:`regression_risk`.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray

from ssvm_dsl.errors import OptionError, TrainingError
from ssvm_dsl.inference.planner import tasks_for_training
from ssvm_dsl.inference.session import PlannedSession
from ssvm_dsl.ir.loss import ADDITIVE, ZERO_ONE, LossTerm
from ssvm_dsl.ir.need import Guarantee, Task, Topology
from ssvm_dsl.ir.parameters import ParameterMap
from ssvm_dsl.ir.program import Program
from ssvm_dsl.learning.gradient_problem import GradientProblem
from ssvm_dsl.learning.mixture_problem import MixtureProblem
from ssvm_dsl.learning.objective import RegularizedRisk
from ssvm_dsl.learning.other_names import advice
from ssvm_dsl.learning.problem import MarginProblem
from ssvm_dsl.learning.regression_problem import RegressionProblem
from ssvm_dsl.learning.relaxed_problem import RelaxedProblem
from ssvm_dsl.learning.single_label import SmoothHinge, WestonWatkins, is_one_label
from ssvm_dsl.learning.slack_problem import SlackProblem
from ssvm_dsl.learning.smooth_problem import SmoothProblem
from ssvm_dsl.plugin_api.protocols import Executor
from ssvm_dsl.plugin_api.specs import TrainerNeeds, TrainerSpec
from ssvm_dsl.registry import Registry, registry

Problem = MarginProblem | GradientProblem
ProblemMaker = Callable[[ParameterMap, LossTerm, RegularizedRisk, PlannedSession, Executor], Problem]

#: The risk of structured regression.
REGRESSION = "regression"


@dataclass(frozen=True)
class Risk:
    """A risk.

    Parameters
    ----------
    name : str
    summary : str
    loss : callable
        Turns the declared loss into the one that is added to the scores.
    make : callable
        The training problem.
    """

    name: str
    summary: str
    loss: Callable[[LossTerm], LossTerm]
    make: ProblemMaker = MarginProblem

    def asks(
        self, loss: LossTerm, messages: bool = False, marginals: bool = False
    ) -> tuple[frozenset[Task], frozenset[str]]:
        """Return (tasks, loss kinds) that a backend must cover, for the declared loss.

        With ``messages`` the trainer works on dual bounds, with ``marginals`` on distributions over labellings
        (:class:`~ssvm_dsl.plugin_api.TrainerNeeds`).
        """
        used = self.loss(loss)
        if not self.takes(loss):
            able = ", ".join(one.name for one in RISKS.values() if one.loss is declared and one.of_maxima)
            blind = ", ".join(one.name for one in RISKS.values() if one.loss is not declared)
            text = f"risk '{self.name}' needs a loss that adds up over variables, not {used.called}"
            raise OptionError(f"{text}; these risks take it: {able}; these do without the declared loss: {blind}")
        if self.relaxed:
            return frozenset({Task.MAP if messages else Task.RELAXED}), frozenset()
        if self.of_maxima:
            tasks, kinds = tasks_for_training(used.kind)
            return tasks | ({Task.MARGINALS} if marginals else frozenset()), kinds
        # regression asks for the best labelling; risks of one label ask nothing
        return frozenset({Task.MARGINALS if self.of_sums else Task.MAP}), frozenset()

    def takes(self, loss: LossTerm) -> bool:
        """Return whether the loss adds up over variables, where the risk needs that."""
        return not (self.relaxed or self.of_sums) or self.loss(loss).kind == ADDITIVE

    @property
    def of_maxima(self) -> bool:
        """Whether it is a maximum over labellings."""
        return self.make in (MarginProblem, SlackProblem)

    @property
    def of_products(self) -> bool:
        """Whether that maximum is of products of loss and margin, which are searched by their bounds."""
        return self.make is SlackProblem

    @property
    def of_sums(self) -> bool:
        """Whether it is (the logarithm of) a sum over labellings, whose gradient are marginals."""
        return self.make is SmoothProblem

    @property
    def relaxed(self) -> bool:
        """Whether it is a maximum over the local polytope."""
        return self.make is RelaxedProblem

    @property
    def is_of_one_label(self) -> bool:
        """Whether it is for models of one label, all whose classes are looked at without the backend."""
        return self.make in (WestonWatkins, SmoothHinge)

    def weakest(self, asked: Guarantee) -> Guarantee:
        """Return the weakest guarantee that will do: a relaxation has no exact answers to ask for, only bounds."""
        return Guarantee.BOUND if self.relaxed else asked

    def problem(
        self,
        parameters: ParameterMap,
        loss: LossTerm,
        objective: RegularizedRisk,
        session: PlannedSession,
        executor: Executor,
        marginals: bool = False,
    ) -> Problem:
        """Return the training problem; with ``marginals`` one that mixes planes of labellings, where it has any.

        Raises
        ------
        TrainingError
            The risk is for models of one label, and this one is not; names those that take it.
        """
        if self.is_of_one_label and not is_one_label(parameters.program, loss):
            able = ", ".join(one.name for one in RISKS.values() if not one.is_of_one_label and one.takes(loss))
            text = f"risk '{self.name}' is for models of one label without axes, whose loss is Hamming or Cost"
            raise TrainingError(f"{text}; these risks take this model: {able}")
        make = MixtureProblem if marginals and self.make is MarginProblem else self.make
        return make(parameters, self.loss(loss), objective, session, executor)


def no_loss(loss: LossTerm) -> LossTerm:
    """Return a loss of zero everywhere."""
    return LossTerm(loss.truth, np.zeros(len(loss.node)), np.zeros(len(loss.const)))


def constant_margin(loss: LossTerm) -> LossTerm:
    """Return the loss that is 1 for every labelling but the truth."""
    return LossTerm(loss.truth, np.zeros(len(loss.node)), np.zeros(len(loss.const)), ZERO_ONE, 1.0)


def declared(loss: LossTerm) -> LossTerm:
    """Return the loss of the model."""
    return loss


RISKS = {
    risk.name: risk
    for risk in (
        Risk("margin", "margin rescaling: the declared loss is the margin", declared),
        Risk("slack", "slack rescaling: the declared loss scales the violation", declared, SlackProblem),
        Risk("hm", "a margin of 1 to every labelling but the truth (HM-SVM)", constant_margin),
        Risk("perceptron", "no margin: the best labelling against the truth", no_loss),
        Risk("relaxed", "margin rescaling over the local polytope: an upper bound of margin", declared, RelaxedProblem),
        Risk("log", "negative log-likelihood (conditional random field)", no_loss, SmoothProblem),
        Risk("softmax-margin", "log-loss of scores with the declared loss added", declared, SmoothProblem),
        Risk("weston-watkins", "the sum of the hinges of all wrong classes (one label)", declared, WestonWatkins),
        Risk("smooth-hinge", "the sum of the smooth hinges of all wrong classes (one label)", declared, SmoothHinge),
    )
}


def find_risk(name: str) -> Risk:
    """Return a risk by name.

    Raises
    ------
    OptionError
        There is no such risk; names those there are, and what to write for a name that is used elsewhere.
    """
    if name == REGRESSION:
        raise OptionError(f"risk {name!r} needs values to fit; use StructuredRegressor")
    if name not in RISKS:
        trainers = [spec.name for spec in registry().specs(TrainerSpec)]
        known = advice(name, risk=RISKS, trainer=trainers)
        close = difflib.get_close_matches(str(name), RISKS, n=1)
        meant = f"; write {known}" if known else f"; did you mean '{close[0]}'?" if close else ""
        raise OptionError(f"there is no risk {name!r}{meant}\n  known: {', '.join(RISKS)}")
    return RISKS[name]


def regression_risk(values: NDArray[np.float64], epsilon: tuple[float, float]) -> Risk:
    """Return the risk of structured regression on values v_i.

    Parameters
    ----------
    values : ndarray of float64, shape (n,)
    epsilon : tuple (below, above)
        How far a score may be off for free.
    """
    make = partial(RegressionProblem, values=values, epsilon=epsilon)
    return Risk(REGRESSION, "scores are to be values, up to epsilon (MMSR)", no_loss, make)


def weakest_oracle(spec: TrainerSpec, risk: Risk, tasks: frozenset[Task]) -> tuple[Guarantee, str]:
    """Return the weakest guarantee of answers to some tasks that training can do with, and why."""
    if Task.MARGINALS in tasks:
        return Guarantee.EXACT, "marginals come without bounds, so that only exact ones will do"
    if risk.of_products and spec.needs.guarantee is Guarantee.HEURISTIC:
        return Guarantee.BOUND, "a product of loss and margin is searched by its bounds"
    return spec.needs.guarantee, f"the trainer needs answers that are {spec.needs.guarantee.value} or better"


def minimisers(
    risk: Risk, power: float, known: Registry, also: Callable[[TrainerNeeds], bool] = lambda needs: True
) -> list[str]:
    """Return the trainers that minimise a power of a risk, and of whose needs something else is true."""
    specs = [spec for spec in known.specs(TrainerSpec) if spec.needs.covers(risk.name, power)]
    return [spec.name for spec in specs if also(spec.needs)]


def check_pairing(spec: TrainerSpec, risk: Risk, power: float, default: bool = False) -> None:
    """Refuse a trainer that does not minimise a risk, before anything is computed.

    Parameters
    ----------
    spec : TrainerSpec
    risk : Risk
    power : float
    default : bool
        Whether the trainer is the default one, for the message.

    Raises
    ------
    TrainingError
        Names the trainers that do.
    """
    if spec.needs.covers(risk.name, power):
        return
    asked = f"risk '{risk.name}'" + (f" to the power {power:g}" if power != 1.0 else "")
    able = ", ".join(minimisers(risk, power, registry())) or "none"
    powers = "any" if spec.needs.any_power else " or ".join(f"{one:g}" for one in sorted(spec.needs.powers))
    mine = f"'{spec.name}'{', the default,' if default else ''} minimises {', '.join(sorted(spec.needs.risks))}"
    hint = f"set trainer= to one of them; {mine} (powers: {powers})"
    raise TrainingError(f"trainer '{spec.name}' does not minimise {asked}; these do: {able}\n  hint: {hint}")


def check_factored(spec: TrainerSpec, risk: Risk, power: float, program: Program, loss: LossTerm) -> None:
    """Refuse a trainer that works on marginals, or on distributions over labellings, where it cannot.

    Marginals do not tell all that matters of a distribution where graphs have cycles; neither knows of losses that do
    not add up over variables.

    Raises
    ------
    TrainingError
        Says what is in the way, and names the risk's other trainers.
    """
    needs = spec.needs
    if not risk.of_maxima or not (needs.factored or needs.asks_marginals):
        return
    used, shape = risk.loss(loss), program.hardest_topology
    found = {
        f"a loss that adds up over variables, not {used.called}": used.kind != ADDITIVE,
        "a model without hard constraints": needs.factored and bool(program.constraints),
        f"chains or forests, not {shape.word}": needs.factored and shape > Topology.FOREST,
    }
    reasons = [reason for reason, there in found.items() if there]
    if reasons:
        sums = used.kind == ADDITIVE
        able = minimisers(risk, power, registry(), lambda n: not (n.factored or (n.asks_marginals and not sums)))
        what = "marginals" if needs.factored else "distributions over labellings"
        text = f"trainer '{spec.name}' works on {what}, and needs {' and '.join(reasons)}"
        raise TrainingError(f"{text}; others for this risk: {', '.join(able) or 'none'}")
