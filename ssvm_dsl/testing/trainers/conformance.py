"""Runs the conformance checks on a trainer: everything it claims, against a reference trainer and brute force."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from typing import Any, Unpack

from ssvm_dsl.errors import NoBackendError
from ssvm_dsl.plugin_api import TrainerSpec
from ssvm_dsl.registry import registry
from ssvm_dsl.testing.contract import TRAINER
from ssvm_dsl.testing.kit import HowToRun, Kit, Rule
from ssvm_dsl.testing.report import ConformanceReport
from ssvm_dsl.testing.trainers.cases import cases_of
from ssvm_dsl.testing.trainers.checks import TRAINER_RULES, TrainerTrial


def check_trainer(
    trainer: str | TrainerSpec,
    *,
    seed: int = 0,
    options: dict[str, Any] | None = None,
    risks: Collection[str] = (),
    **how: Unpack[HowToRun],
) -> ConformanceReport:
    """Check a trainer in everything it claims.

    Parameters
    ----------
    trainer : str or TrainerSpec
        A registered name, or a description that need not be registered.
    seed : int
        The same seed gives the same problems.
    options : dict, optional
        Options of the trainer.
    risks : collection of str, optional
        The risks to test; by default the first of each form that the trainer minimises.
    **how
        Which checks run, and how: :class:`~ssvm_dsl.testing.kit.HowToRun`.

    Raises
    ------
    PluginError, OptionError
        Unknown trainer; unknown option or check.  (Faults of the trainer are in the report.)
    """
    spec = trainer if isinstance(trainer, TrainerSpec) else registry().find(TrainerSpec, trainer)
    return TrainerKit(spec, seed=seed, options=spec.resolve(options), risks=risks).run(**how)


class TrainerKit(Kit[TrainerSpec, Rule[TrainerSpec, TrainerTrial], TrainerTrial]):
    """The kit of trainers; a case is a training problem.

    Parameters
    ----------
    risks : collection of str
        The risks of the problems, all kinds of them if empty.
    """

    kind, methods, rules = "trainer", TRAINER, TRAINER_RULES

    def __init__(self, spec: TrainerSpec, *, risks: Collection[str], seed: int, **settings: Any) -> None:
        self.problems = list(cases_of(spec.needs, seed, frozenset(risks)))
        super().__init__(spec, seed=seed, n_problems=len(self.problems), **settings)

    def arguments(self) -> dict[str, Any]:
        """Return the trainer's options and a seed."""
        return {**self.options, "random_state": 0}

    def prepare(self) -> None:
        """Keep the cases that installed backends can answer for, and find their optima."""
        refusals = Counter[str]()
        for case in self.problems:
            try:
                case.problem(self.spec)
            except NoBackendError as err:
                refusals.update([str(err).splitlines()[0]])
                continue
            self.cases.append(TrainerTrial(self.spec, self.options, case, *case.optimum(self.spec.name)))
        self.report.refusals = dict(refusals)
