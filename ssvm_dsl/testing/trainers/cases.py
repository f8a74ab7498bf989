"""Small training problems for the conformance kit of trainers, and their optima by a reference trainer.

All are small enough for brute force: chains of at most three variables with two states, and single labels.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from typing import Any

import numpy as np

from ssvm_dsl.array_types import F64
from ssvm_dsl.compiler import ground
from ssvm_dsl.errors import NoBackendError, SsvmError
from ssvm_dsl.inference.planning.planner import AUTO
from ssvm_dsl.lang.dims import Dim
from ssvm_dsl.lang.factors import Factor
from ssvm_dsl.lang.inputs import Input
from ssvm_dsl.lang.losses.label_losses import Hamming
from ssvm_dsl.lang.model import Model
from ssvm_dsl.lang.outputs.labels import Label
from ssvm_dsl.lang.outputs.targets import chain
from ssvm_dsl.learning.driver.fit import train
from ssvm_dsl.learning.objective import RegularizedRisk
from ssvm_dsl.learning.risks.kinds import Problem, Risk, risks
from ssvm_dsl.plugin_api import StopRule, TrainerNeeds, TrainerSpec
from ssvm_dsl.registry import registry
from ssvm_dsl.scores.parameter_map import ParameterMap
from ssvm_dsl.testing.training import Around, problem_of

#: The backend whose answers serve as reference.
REFERENCE = "brute-force"

#: Relative gap of the reference optimum.
GAP = 1e-5


class FreeChain(Model):
    """Chains whose weights have no bounds."""

    T = Dim()
    x = Input(T, 2)
    y = Label(T, 2)
    emit = Factor(y, features=x)
    trans = Factor(chain(y))
    loss = Hamming(y)


class BoundedChain(Model):
    """Chains; weights of pairs are not negative."""

    T = Dim()
    x = Input(T, 2)
    y = Label(T, 2)
    emit = Factor(y, features=x)
    trans = Factor(chain(y), nonneg=True)
    loss = Hamming(y)


class OneLabel(Model):
    """One label of three classes."""

    x = Input(2)
    y = Label(3)
    emit = Factor(y, features=x)
    loss = Hamming(y)


@dataclass(frozen=True, eq=False)
class Case:
    """A training problem, without its trainer.

    Parameters
    ----------
    model : class
    risk : Risk
    power : float
    seed : int
    weighted : bool
        Whether examples have different weights.
    most : int, optional
        Examples at most.
    """

    model: type[Model]
    risk: Risk
    power: float
    seed: int
    weighted: bool
    most: int | None = None

    def __str__(self) -> str:
        power = "" if self.power == 1.0 else f" to the power {self.power:g}"
        return f"{self.model.__name__}, risk '{self.risk.name}'{power}, seed {self.seed}"

    def problem(
        self, spec: TrainerSpec, n_threads: int = 1, backend: str = AUTO, around: Around | None = None
    ) -> Problem:
        """Return the training problem as a fit makes it; ``around`` as for ``training_problem``.

        Raises
        ------
        NoBackendError
            No backend answers the questions of trainer and risk.
        """
        return problem_of(self.grounded, self.risk, spec.needs, self._objective, backend, n_threads, around)

    def _objective(self, parameters: ParameterMap) -> RegularizedRisk:
        n = self.grounded.n_examples
        weight = np.linspace(0.5, 2.0, n) if self.weighted else np.ones(n)
        return RegularizedRisk(1.0 / n, n, weight, np.ones(parameters.dim), parameters.lower_bound, self.power)

    @cached_property
    def grounded(self) -> Any:
        """The model, grounded on its data."""
        return ground(self.model, *self._data())

    def _data(self) -> tuple[list[F64], list[Any]]:
        rng = np.random.default_rng(self.seed)
        if self.model is OneLabel:
            X = list(rng.normal(size=(8, 2)))[: self.most]
            return X, [int(rng.integers(3)) for _ in X]
        lengths = (1, 2, 3, 2, 3, 1, *((2, 1, 3) if self.weighted else ()))  # fewer than usual batches, and more
        X = [rng.normal(size=(length, 2)) for length in lengths[: self.most]]
        return X, [(x.sum(axis=1) + 0.7 * rng.normal(size=len(x)) > 0.0).astype(int) for x in X]

    @cached_property
    def judge(self) -> Problem:
        """The problem without trainer, answered by brute force where possible."""
        spec = TrainerSpec("judge", "none:none", needs=TrainerNeeds(frozenset({self.risk.name}), any_power=True))
        try:
            return self.problem(spec, backend=REFERENCE)
        except NoBackendError:
            return self.problem(spec)

    def objective(self, w: F64) -> float:
        """Return the objective at given weights."""
        return self.judge.value(w)[0]

    def optimum(self, but: str) -> tuple[float, F64]:
        """Return the least objective that a certifying trainer other than ``but`` finds, and its weights."""
        for most, spec in product((200.0, 5000.0), registry().specs(TrainerSpec)):  # some take long on some risks
            fits = registry().owner(spec).bundled and spec.certifies and spec.name != but and not spec.missing()
            if fits and spec.needs.covers(self.risk.spec, self.power):
                trainer = spec.load()(**spec.resolve(None), random_state=0)
                fitted = train(trainer, self.problem(spec), StopRule(GAP, max_passes=most), spec=spec)
                if fitted.relative_gap <= 10.0 * GAP:
                    return self.objective(fitted.w), fitted.w
        raise SsvmError(f"no other trainer certifies the optimum of {self}")


def cases_of(needs: TrainerNeeds, seed: int, only: frozenset[str] = frozenset()) -> Iterator[Case]:
    """Yield training problems that a trainer covers: two for the first risk of each form, unless risks are named.

    Parameters
    ----------
    needs : TrainerNeeds
    seed : int
    only : frozenset of str
        Names of risks.
    """
    seen = set()
    for risk in risks().values():
        powers = sorted({1.0, 2.0} if needs.any_power else needs.powers)
        power = next((one for one in powers if needs.covers(risk.spec, one)), None)
        kind = (risk.spec.form, risk.spec.one_label)
        if power is None or (risk.name not in only if only else kind in seen):
            continue
        seen.add(kind)
        models = [OneLabel, OneLabel] if risk.spec.one_label else [FreeChain, BoundedChain]
        for number, model in enumerate(models):
            yield Case(model, risk, power, seed + number, weighted=bool(number))
