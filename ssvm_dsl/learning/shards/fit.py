"""The fit of an estimator on shards: what they learn is joined, they are opened where they are, and a trainer asks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any
from uuid import uuid4

import numpy as np

from ssvm_dsl.deadline import Deadline, within
from ssvm_dsl.errors import DataError, OptionError, OutOfTime, PluginError, TrainingError
from ssvm_dsl.lang.declaration import Declaration
from ssvm_dsl.learning.objective import l1_of, lam_of, regularized_risk, require_labels, require_weight
from ssvm_dsl.learning.shards.learnt import join_learnt, learns
from ssvm_dsl.learning.shards.messages import ShardMessages
from ssvm_dsl.learning.shards.parts import DataPart
from ssvm_dsl.learning.shards.problem import ShardedProblem, no_examples
from ssvm_dsl.learning.shards.recipe import (
    LearningShard,
    NoExamples,
    ShardFacts,
    ShardLearner,
    TrainingShard,
    facts_of,
    facts_with_its_own,
    learnt_of,
)
from ssvm_dsl.plugin_api.executors import THREADS, ShardExecutor, ShardFunction
from ssvm_dsl.plugin_api.hosting.contained import contained
from ssvm_dsl.plugin_api.specs import ExecutorSpec, TrainerSpec
from ssvm_dsl.registry import registry
from ssvm_dsl.scores.parameter_map import ParameterMap


@dataclass(frozen=True, eq=False)
class ShardedData:
    """What is left of a model laid over shards: what its features learnt, and the layout of its weights.

    Parameters
    ----------
    fitted : dict
    parameters : ParameterMap
    n_parts, n_read : int
        How many parts there are, and how many of them time sufficed to read: the problem is that of their examples.
    """

    fitted: dict[str, dict[str, Any]]
    parameters: ParameterMap
    n_parts: int
    n_read: int


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
    if spec.keeps_on_shards and not keeps_shards(executor):
        text = f"trainer '{spec.name}' keeps planes on the shards, which executor '{executor}' closes after each call"
        raise TrainingError(f"{text}: set executor='processes', or trainer='bundle'")


def keeps_shards(executor: str) -> bool:
    """Return whether an executor keeps shards open from one call to the next."""
    return bool(registry().find(ExecutorSpec, executor).keeps)


def open_executor(name: str, options: dict[str, Any] | None) -> ShardExecutor:
    """Return an executor by name.

    Raises
    ------
    PluginError, OptionError
        There is none of that name, or it has no such option.
    """
    try:
        spec = registry().find(ExecutorSpec, name)
    except PluginError as err:
        text = f"{err}\n  '{THREADS}', the default, trains in this process"
        hint = "; 'dask' comes with the package ssvm-dask" if name == "dask" else ""
        raise PluginError(f"{text}{hint}") from None
    given = spec.resolve(options)
    with contained(f"executor '{name}'"):
        made: ShardExecutor = spec.load()(**given)
    return made


def shard_problem(
    executor: ShardExecutor, parts: list[DataPart], learner: ShardLearner, declaration: Declaration, strength: Strength,
    deadline: Deadline | None = None, keeps: bool = True,
) -> tuple[ShardedProblem, ShardedData]:  # fmt: skip
    """Return the training problem of all parts, and what their features learnt.

    Where time is up before all parts are read, the problem is that of the parts that were, and is not complete.

    Parameters
    ----------
    executor : ShardExecutor
        It is started here.
    parts : list of DataPart
    learner : ShardLearner
        An estimator that can be pickled.
    declaration : Declaration
    strength : Strength
    deadline : Deadline, optional
        It ends here where time is up.
    keeps : bool
        Whether the executor keeps shards open.

    Raises
    ------
    DataError
        Bad data; names the part, or the example in the list that was given.
    """
    if not parts:
        raise OptionError("there are no parts of the data")
    deadline = deadline or Deadline()
    messages = ShardMessages(executor, parts)
    read, fitted = _Opening(messages, parts, learner, declaration, deadline).facts()
    whole = len(read) == len(parts)
    if not whole or not all(one.complete for one in read.values()):
        deadline.end()
    known = {number: one for number, one in read.items() if isinstance(one, ShardFacts)}
    _check_same(known)
    messages.ask_only(tuple(known))
    facts = list(known.values())
    n = sum(one.n for one in facts)
    if whole:
        require_labels(sum(one.n_variables for one in facts), n)
        require_weight(any(one.lightest < np.inf for one in facts))
    parameters = no_examples(facts[0].blocks)
    given = strength.C, strength.lam, n
    l1 = l1_of(*given, strength.l1)
    objective = regularized_risk(parameters, lam_of(*given), np.zeros(0), strength.regularization, l1=l1)
    objective = replace(objective, n=n, weight=np.ones(len(facts)))
    problem = ShardedProblem(facts, objective, messages, keeps)
    problem.complete &= whole
    return problem, ShardedData(fitted, problem.parameters, len(parts), len(read))


@dataclass(frozen=True, eq=False)
class _Opening:
    """Opens the shards of a fit, within its time; parameters are those of :func:`shard_problem`.

    One part is read whatever the limit is: what weights there are is not known before.
    """

    messages: ShardMessages
    parts: list[DataPart]
    learner: ShardLearner
    declaration: Declaration
    deadline: Deadline

    def facts(self) -> tuple[dict[int, ShardFacts | NoExamples], dict[str, dict[str, Any]]]:
        """Return what is known of the parts that were read, by number, and what their features learnt.

        Raises
        ------
        DataError
            No part that was read has examples.
        """
        fitted: dict[str, dict[str, Any]] = {}
        last: tuple[ShardFacts, Any] | None = None
        number = 0
        if learns(self.declaration):
            learnt, in_time = self._asked(LearningShard, learnt_of)
            able = [number for number, one in enumerate(learnt) if one is not None and one.n]
            self._require_examples(able, sum(one is not None for one in learnt))
            if not in_time or self.deadline.limit < np.inf:
                number = able[-1]
                last = self.messages.run(facts_with_its_own, [(number, ())])[0]
            if last is not None and not (in_time and all(one.complete for one in learnt)):
                return {number: replace(last[0], complete=False)}, dict(last[1])
            fitted = join_learnt(self.declaration, [learnt[number] for number in able])
            if last is not None and self.deadline.over:
                return {number: replace(last[0], complete=False)}, dict(last[1])
        facts, _ = self._asked(TrainingShard, facts_of, fitted, needed=last is None)
        found = {number: one for number, one in enumerate(facts) if one is not None}
        able = [number for number, one in found.items() if isinstance(one, ShardFacts)]
        if not able and last is not None:
            return {number: replace(last[0], complete=False)}, dict(last[1])
        self._require_examples(able, len(found))
        return found, fitted

    def _require_examples(self, able: Sequence[int], n_read: int) -> None:
        """Refuse parts none of which has examples."""
        if not able:
            found = f"none in the {n_read} of {len(self.parts)} parts that were read"
            raise DataError("X", expected="at least one example to learn from", found=found)

    def _asked(self, recipe: Any, function: ShardFunction, *more: Any, needed: bool = True) -> tuple[list[Any], bool]:
        """Return what a function finds on all shards, ``None`` where time was up before, and whether it never was.

        Where ``needed``, one answer is waited for.
        """
        left, call = self.deadline.left, uuid4().hex
        shards = [recipe(f"{call}/{part.number}", self.learner, part, *more, left) for part in self.parts]
        self.messages.executor.start(shards)
        try:
            with within(self.deadline):
                return self.messages.run(function, [(number, ()) for number in range(len(self.parts))]), True
        except OutOfTime as err:
            found = _of_each(err.found, len(self.parts))
        if needed and all(one is None for one in found):
            found[0] = self.messages.run(function, [(0, ())])[0]
        return found, False


def _of_each(found: Sequence[Any], n: int) -> list[Any]:
    """Return an answer or ``None`` for each of n shards: executors need not tell what they had before time was up."""
    return list(found) if len(found) == n else [None] * n


def _check_same(facts: Mapping[int, ShardFacts]) -> None:
    """Refuse shards of different models.

    Raises
    ------
    DataError
        Names the first part that differs.
    """
    least, first = next(iter(facts.items()))
    for number, one in facts.items():
        if one.blocks != first.blocks:
            expected, found = f"weights {_shapes(first)}, as part {least} has", _shapes(one)
            raise DataError(f"part {number}", expected=expected, found=found)


def _shapes(facts: ShardFacts) -> str:
    """Return the blocks of weights in words."""
    return ", ".join(f"{block.name} {block.shape}" for block in facts.blocks)
