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
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from ssvm_dsl.errors import OptionError, TrainingError
from ssvm_dsl.inference.planner import tasks_for_training
from ssvm_dsl.inference.session import PlannedSession
from ssvm_dsl.ir.loss import ADDITIVE, ZERO_ONE, LossTerm
from ssvm_dsl.ir.need import Guarantee, Task
from ssvm_dsl.ir.parameters import ParameterMap
from ssvm_dsl.learning.objective import RegularizedRisk
from ssvm_dsl.learning.problem import MarginProblem
from ssvm_dsl.learning.relaxed_problem import RelaxedProblem
from ssvm_dsl.learning.single_label import SmoothHinge, WestonWatkins
from ssvm_dsl.learning.slack_problem import SlackProblem
from ssvm_dsl.learning.smooth_problem import SmoothProblem
from ssvm_dsl.plugin_api.protocols import Executor
from ssvm_dsl.plugin_api.specs import TrainerSpec
from ssvm_dsl.registry import registry

Problem = MarginProblem | SmoothProblem | WestonWatkins
ProblemMaker = Callable[[ParameterMap, LossTerm, RegularizedRisk, PlannedSession, Executor], Problem]


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

    def asks(self, loss: LossTerm, messages: bool = False) -> tuple[frozenset[Task], frozenset[str]]:
        """Return (tasks, loss kinds) that a backend must cover, for the declared loss.

        With ``messages`` the trainer works on dual bounds (:class:`~ssvm_dsl.plugin_api.TrainerNeeds`).
        """
        used = self.loss(loss)
        if self.make is RelaxedProblem:
            return frozenset({Task.MAP if messages else Task.RELAXED}), frozenset()
        if self.make in (MarginProblem, SlackProblem):
            return tasks_for_training(used.kind)
        if self.make is not SmoothProblem:  # nothing is asked
            return frozenset({Task.MAP}), frozenset()
        if used.kind != ADDITIVE:
            raise OptionError(f"risk '{self.name}' needs a loss that adds up over variables, not {used.kind}")
        return frozenset({Task.MARGINALS}), frozenset()

    def weakest(self, asked: Guarantee) -> Guarantee:
        """Return the weakest guarantee that will do: a relaxation has no exact answers to ask for, only bounds."""
        return Guarantee.BOUND if self.make is RelaxedProblem else asked

    def problem(
        self,
        parameters: ParameterMap,
        loss: LossTerm,
        objective: RegularizedRisk,
        session: PlannedSession,
        executor: Executor,
    ) -> Problem:
        """Return the training problem."""
        return self.make(parameters, self.loss(loss), objective, session, executor)


def no_loss(loss: LossTerm) -> LossTerm:
    """Return a loss of zero everywhere."""
    return LossTerm(loss.truth, np.zeros_like(loss.node), np.zeros_like(loss.const))


def constant_margin(loss: LossTerm) -> LossTerm:
    """Return the loss that is 1 for every labelling but the truth."""
    return LossTerm(loss.truth, np.zeros_like(loss.node), np.zeros_like(loss.const), ZERO_ONE, 1.0)


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
        There is no such risk; names those there are.
    """
    if name not in RISKS:
        raise OptionError(f"there is no risk {name!r}; the risks are: {', '.join(RISKS)}")
    return RISKS[name]


def check_pairing(spec: TrainerSpec, risk: Risk, power: float) -> None:
    """Refuse a trainer that does not minimise a risk, before anything is computed.

    Raises
    ------
    TrainingError
        Names the trainers that do.
    """
    if spec.needs.covers(risk.name, power):
        return
    able = [other.name for other in registry().specs(TrainerSpec) if other.needs.covers(risk.name, power)]
    asked = f"risk '{risk.name}'" + (f" to the power {power:g}" if power != 1.0 else "")
    raise TrainingError(f"trainer '{spec.name}' does not minimise {asked}; these do: {', '.join(able) or 'none'}")
