"""``DualLossProblem``: the relaxed risk for trainers that work on messages (Meshi et al. 2010, equations 8, 9 and 13).

For any messages d the dual loss ``g(d; theta_i(w))`` is at least the relaxed risk, equal to it at the best ones, and
convex in messages and weights together.  Where the backend's maxima are soft, at a temperature T, so is the risk:

    risk_i(w) = min_d g_T(d; theta_i(w))
              = max_{mu in L(x_i)} [ loss(y_i, mu) + w . Phi(x_i) mu + T H(mu) ] - w . Phi(x_i, y_i) ,

with H the sum of the entropies of all variables and of all factors: in the dual of the minimum over d, what variables
and factors choose agrees.  It is smooth in w, and lies between the relaxed risk and that plus T times the logarithms of
the numbers of states, of all variables and factors.  Each point of L is a plane below it with T H(mu) for loss, so
that lower bounds of the optimum are made as always.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np

from ssvm_dsl.array_types import F64, I64
from ssvm_dsl.deadline import time_left
from ssvm_dsl.errors import TrainingError
from ssvm_dsl.inference.planning.plans import Plan
from ssvm_dsl.ir.need import Limits
from ssvm_dsl.ir.program import Program
from ssvm_dsl.ir.question import Question
from ssvm_dsl.ir.ragged import owners
from ssvm_dsl.ir.solution import DualBound, Marginals, Messages, Solution
from ssvm_dsl.learning.risks.hinges.relaxed import RelaxedProblem
from ssvm_dsl.plugin_api.protocols import CompiledMessages
from ssvm_dsl.plugin_api.training import Planes
from ssvm_dsl.scores.marginals import consistent, score_marginals

#: Passes over the messages of an evaluation of plain maxima, where the backend would go on to search.
MOST_CALLS = 200

#: Passes over the messages of an evaluation of soft maxima at a time, how often that doubles at most, and the relative
#: distance between a soft bound and its plane at which it ends.
FIRST_PASSES, DOUBLINGS, CLOSE = 8, 10, 1e-10


class DualLossProblem(RelaxedProblem):
    """The relaxed risk, plain or soft, and dual losses by messages.

    Parameters are those of :class:`~ssvm_dsl.learning.risks.hinges.relaxed.RelaxedProblem`.

    Attributes
    ----------
    in_one_call : bool
        Whether the backend lowers bounds and returns slopes in one call.
    temperature : float
        The temperature of the backend's maxima; 0 for plain ones.
    """

    def _prepare(self) -> None:
        super()._prepare()
        self._made_by: WeakKeyDictionary[Messages, Plan] = WeakKeyDictionary()
        self._evaluated: dict[tuple[int, int], Messages] = {}  # messages of the last evaluation of some examples
        first = Question(self._theta, np.zeros(1, np.int64), limits=Limits(iterations=0))
        bound = self.session.dual_bound(first) if self.n else None
        self.in_one_call = bound is not None
        self.temperature = 0.0 if bound is None else bound.temperature

    @cached_property
    def smoothing(self) -> F64:
        """By how much soft risks exceed those of plain maxima at most; ``shape (n,)``, zeros at temperature 0."""
        program = self.program
        variable_owner = owners(program.var_ptr)
        most: F64 = np.bincount(variable_owner, np.log(program.card), self.n).astype(np.float64)
        for group in program.groups:
            most += group.shapes.counts * np.log(group.n_configs)
        most *= self.temperature
        return most

    @property
    def mean_smoothing(self) -> float:
        """By how much the objective exceeds that with plain maxima at most."""
        return float(np.dot(self.objective.weight, self.smoothing)) / self.n

    def risks_at_zero(self) -> F64 | None:
        """Return the most that each risk is at weights of 0: the largest loss, and what soft maxima add."""
        plain = super().risks_at_zero()
        return None if plain is None else plain + self.smoothing

    def tightness(self, w: F64, ask: bool = True) -> float:
        """Return the share of examples with a labelling that is proved a maximum; ``nan`` where maxima are soft."""
        return np.nan if self.temperature > 0.0 else super().tightness(w, ask)

    def dual_losses(self, w: F64, ids: I64, warm: Any, passes: int) -> tuple[Planes, Any]:
        """Return dual losses, upper bounds of the risks, after a few passes of message passing; and the messages.

        ``value`` and ``bound`` are the dual losses g of Meshi et al. (2010), equation 8, at this w, with the soft
        maxima of equation 13 at a temperature, and ``-psi`` is a subgradient of g in w for these messages.  Nothing
        here is below the risks, and marginals are choices, or distributions, that need not agree with each other.

        Parameters
        ----------
        w : ndarray of float64, shape (dim,)
        ids : ndarray of int64
            Distinct examples.
        warm : object
            What an earlier call for these examples returned; ``None`` at first.
        passes : int

        Returns
        -------
        (Planes, warm)

        Raises
        ------
        TrainingError
            The backend has no messages to show.
        """
        begin = self.seconds()
        self.parameters.fill_shared(w, self._theta)
        shift = self._fill(w, ids)
        question = Question(self._theta, ids, warm=warm, limits=Limits(iterations=passes))
        if self.in_one_call:
            self.pause()
            known = self._dual_bound(question)
            marginals, value, messages = known.marginals, known.bound + shift, known.messages
        else:
            found, marginals = self._messages(question, shift)
            value, messages = found.bound + shift, found.warm
        self.n_oracle_calls += len(ids)
        self.oracle_seconds += self.seconds() - begin
        return self._made(ids, marginals, value, value), messages

    def _messages(self, question: Question, shift: F64) -> tuple[Solution, Marginals]:
        """Return messages and the slope at them, of one backend: another one may take over at any call."""
        plan, warm = self.session.plan, question.warm
        if warm is not None and self._made_by.get(warm, plan) is not plan:
            question = question.replace(warm=None)  # messages are laid out as the backend likes that made them
        found = self.ask(question, -shift, whole=True)
        marginals = self.session.slope(question.replace(warm=found.warm, limits=Limits()))
        if marginals is not None:
            self._made_by[found.warm] = self.session.plan
            return found, marginals
        if self.session.plan is not plan:
            return self._messages(question.replace(warm=None), shift)
        raise self._no_messages()

    def _dual_bound(self, question: Question) -> DualBound:
        found = self.session.dual_bound(question)
        if found is None:
            raise self._no_messages()
        return found

    def _no_messages(self) -> TrainingError:
        backend = self.session.plan.title
        text = f"backend '{backend}' does not expose dual messages here: some states or scores are ruled out"
        return TrainingError(f"{text}; use trainer='bcfw', which asks for fractional solutions")

    def compiled_messages(self) -> CompiledMessages | None:
        """Return the backend's compiled message passing, ``None`` without it or where states are ruled out."""
        offer = self.session.compiled_messages()
        return None if offer is not None and offer.soft != (self.temperature > 0.0) else offer

    def _answered(self, question: Question, shift: F64) -> Solution:
        """Return labellings and bounds; of a decomposition those that messages alone give, without a search."""
        if not self.in_one_call:
            return super()._answered(question, shift)
        key = self._key(question.ids(self.program))
        limited = question.replace(warm=self._evaluated.get(key), limits=Limits(iterations=MOST_CALLS))
        solution = super()._answered(limited, shift)
        if isinstance(solution.warm, Messages):
            self._evaluated[key] = solution.warm
        return solution

    def _key(self, ids: I64) -> tuple[int, int]:
        """Return what tells parts of full evaluations apart."""
        return int(ids[0]), len(ids)

    def _part(self, w: F64, ids: I64) -> Planes:
        """Return the planes of one part of a batch; of soft maxima those of marginals that agree."""
        if self.temperature == 0.0:
            return super()._part(w, ids)
        shift, program, key = self._fill(w, ids), self.program, self._key(ids)
        warm: Messages | None = self._evaluated.get(key)
        for doubling in range(DOUBLINGS + 1):
            self.pause()
            limits = Limits(iterations=FIRST_PASSES * 2**doubling)
            found = self._dual_bound(Question(self._theta, ids, warm=warm, limits=limits))
            warm = self._evaluated[key] = found.messages
            bound = found.bound + shift
            marginals = consistent(program, found.marginals, ids)
            entropy = self.temperature * entropies(program, marginals, ids)
            value = score_marginals(program, self._theta, marginals, ids) + shift + entropy
            if (bound - value <= CLOSE * (np.abs(bound) + self.smoothing[ids])).all() or time_left() <= 0.0:
                break
        planes = self._made(ids, marginals, value, np.maximum(bound, value))
        planes.loss[:] += entropy
        return planes


def entropies(program: Program, marginals: Marginals, ids: I64) -> F64:
    """Return the sum of the entropies of the variables and of the factors of each example; ``shape (n,)``."""
    starts, n = program.state_ptr[program.var_ptr], len(ids)
    owner = np.repeat(np.arange(n), starts[ids + 1] - starts[ids])
    total: F64 = np.bincount(owner, _entropy(marginals.node), n).astype(np.float64)
    for group, table in zip(program.groups, marginals.tables, strict=True):
        mine = np.repeat(np.arange(n), group.shapes.counts[ids])
        total += np.bincount(mine, _entropy(table).sum(axis=1), n)
    return total


def _entropy(p: F64) -> F64:
    """Return ``-p log p``, 0 at 0."""
    return -p * np.log(np.where(p > 0.0, p, 1.0))
