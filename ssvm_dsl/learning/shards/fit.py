"""The fit of an estimator on shards: what they learn is joined, they are opened where they are, and a trainer asks."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any
from uuid import uuid4

import numpy as np

from ssvm_dsl.errors import DataError, OptionError, TrainingError
from ssvm_dsl.ir.parameters import ParameterMap
from ssvm_dsl.lang.declaration import Declaration
from ssvm_dsl.learning.objective import l1_of, lam_of, regularized_risk
from ssvm_dsl.learning.shards.learnt import join_learnt, learns
from ssvm_dsl.learning.shards.parts import DataPart
from ssvm_dsl.learning.shards.problem import ShardedProblem, no_examples
from ssvm_dsl.learning.shards.recipe import (
    LearningShard,
    ShardFacts,
    ShardLearner,
    TrainingShard,
    facts_of,
    learnt_of,
)
from ssvm_dsl.plugin_api.hosting.contained import contained
from ssvm_dsl.plugin_api.kinds.executors import ShardExecutor
from ssvm_dsl.plugin_api.specs import ExecutorSpec, TrainerSpec
from ssvm_dsl.registry import registry

#: Trains in this process: examples are not cut into shards.
THREADS = "threads"


@dataclass(frozen=True, eq=False)
class ShardedData:
    """What is left of a model laid over shards: what its features learnt, and the layout of its weights."""

    fitted: dict[str, dict[str, Any]]
    parameters: ParameterMap


@dataclass(frozen=True, eq=False)
class Strength:
    """How an estimator regularises: its parameters of these names."""

    C: float
    lam: float | None
    regularization: Any
    l1: float = 0.0


def check_shards(declaration: Declaration, spec: TrainerSpec, executor: str) -> None:
    """Refuse what cannot be trained on shards.

    Raises
    ------
    TrainingError
        Says what to change.
    """
    if declaration.latents:
        text = f"model {declaration.name} has latent variables, which are completed in one process"
        raise TrainingError(f"{text}: set executor='{THREADS}'")
    if not spec.distributes:
        able = [other.name for other in registry().specs(TrainerSpec) if other.distributes]
        text = f"trainer '{spec.name}' works on examples in its own process; these train on shards: {', '.join(able)}"
        raise TrainingError(f"{text} (for risk='log': trainer='lbfgs')")
    if spec.keeps_on_shards and not registry().find(ExecutorSpec, executor).keeps:
        text = f"trainer '{spec.name}' keeps planes on the shards, which executor '{executor}' closes after each call"
        raise TrainingError(f"{text}: set executor='processes', or trainer='bundle'")


def open_executor(name: str, options: dict[str, Any] | None) -> ShardExecutor:
    """Return an executor by name.

    Raises
    ------
    PluginError, OptionError
        There is none of that name, or it has no such option.
    """
    spec = registry().find(ExecutorSpec, name)
    given = spec.resolve(options)
    with contained(f"executor '{name}'"):
        made: ShardExecutor = spec.load()(**given)
    return made


def shard_problem(
    executor: ShardExecutor, parts: list[DataPart], learner: ShardLearner, declaration: Declaration, strength: Strength
) -> tuple[ShardedProblem, ShardedData]:
    """Return the training problem of all parts, and what their features learnt.

    Parameters
    ----------
    executor : ShardExecutor
        It is started here.
    parts : list of DataPart
    learner : ShardLearner
        An estimator that can be pickled.
    declaration : Declaration
    strength : Strength

    Raises
    ------
    DataError
        Bad data; names the part, or the example in the list that was given.
    """
    fit, fitted = uuid4().hex, dict[str, dict[str, Any]]()
    each = [(number, ()) for number in range(len(parts))]
    if learns(declaration):
        executor.start([LearningShard(f"{fit}/learn/{part.number}", learner, part) for part in parts])
        fitted = join_learnt(declaration, executor.run(learnt_of, each))
    executor.start([TrainingShard(f"{fit}/{part.number}", learner, part, fitted) for part in parts])
    facts: list[ShardFacts] = executor.run(facts_of, each)
    _check_same(facts)
    n = sum(one.n for one in facts)
    parameters = no_examples(facts[0].blocks)
    given = strength.C, strength.lam, n
    l1 = l1_of(*given, strength.l1)
    objective = regularized_risk(parameters, lam_of(*given), np.zeros(0), strength.regularization, l1=l1)
    objective = replace(objective, n=n, weight=np.ones(len(facts)))
    problem = ShardedProblem(facts, objective, executor)
    return problem, ShardedData(fitted, problem.parameters)


def _check_same(facts: list[ShardFacts]) -> None:
    """Refuse shards of different models.

    Raises
    ------
    DataError
        Names the first part that differs.
    """
    if not facts:
        raise OptionError("there are no parts of the data")
    first = facts[0]
    for number, one in enumerate(facts):
        if one.blocks != first.blocks:
            expected, found = f"weights {_shapes(first)}, as part 0 has", _shapes(one)
            raise DataError(f"part {number}", expected=expected, found=found)


def _shapes(facts: ShardFacts) -> str:
    """Return the blocks of weights in words."""
    return ", ".join(f"{block.name} {block.shape}" for block in facts.blocks)
