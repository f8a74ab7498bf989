"""The fit of an estimator on shards: what they learn is joined, they are opened where they are, and a trainer asks.

Fitted features of shards are joined to those that all examples together would give.  Vocabularies are joined in the
order of the shards, so that every name has the column that it has in one process, and the pairs of
``weights="observed"`` follow their names.  Means, deviations and largest values of columns are joined, too.  Whatever
else learns (quantiles, principal directions, landmarks) would need more than one pass over the data, and is refused by
name.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any
from uuid import uuid4

import numpy as np

from ssvm_dsl.array_types import F64, I32, I64
from ssvm_dsl.compiler.features.attributes import require_names
from ssvm_dsl.compiler.features.encode import fitted_keys
from ssvm_dsl.deadline import Deadline, within
from ssvm_dsl.errors import DataError, OptionError, OutOfTime, PluginError, TrainingError
from ssvm_dsl.ir.ragged import pointers
from ssvm_dsl.lang.declaration import Declaration
from ssvm_dsl.lang.features.sources import Hashed, Scaled, Standardized, Transform, walk_sources
from ssvm_dsl.lang.inputs import Attributes
from ssvm_dsl.learning.objective import l1_of, lam_of, regularized_risk, require_labels, require_weight
from ssvm_dsl.learning.shards.messages import ShardMessages
from ssvm_dsl.learning.shards.parts import DataPart
from ssvm_dsl.learning.shards.problem import ShardedProblem, no_examples
from ssvm_dsl.learning.shards.recipe import (
    LearningShard,
    Learnt,
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

#: What the pairs of a factor are kept as.
PAIRS = {"ptr", "state"}


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


def learns(declaration: Declaration) -> bool:
    """Return whether anything of a model is learnt before its weights are.

    Raises
    ------
    TrainingError
        Something that cannot be joined from shards; names it.
    """
    for source in declaration.sources:
        if isinstance(source, Transform) and source.learns and not _joins(source):
            raise _needs_all(source.name or repr(source))
    observed = any(factor.observed for factor in declaration.factors)
    return observed or any(source.learns for source in declaration.sources)


def join_learnt(declaration: Declaration, shards: Sequence[Learnt]) -> dict[str, dict[str, Any]]:
    """Return the fitted features of all shards.

    Raises
    ------
    TrainingError
        A feature learns something that cannot be joined; names it.
    DataError
        No shard has a named feature.
    """
    joined: dict[str, dict[str, Any]] = {}
    columns: dict[str, list[I64]] = {}
    for key in dict.fromkeys(key for shard in shards for key in shard.fitted):
        learnt = [shard.fitted[key] for shard in shards]
        if all(set(one) == {"names"} for one in learnt):
            joined[key], columns[key] = _join_names(learnt)
        elif all(set(one) == {"columns"} for one in learnt):  # of data frames, which were encoded before
            joined[key] = dict(learnt[0])
    for source, key in fitted_keys(declaration).items():
        if isinstance(source, Scaled) and _joins(source):
            named = source.source.name or ""
            largest = _join_largest([one.spreads[key][1] for one in shards], columns.get(named))
            joined[key] = {"scale": np.where(largest > 0, largest, 1.0)}
        elif isinstance(source, Standardized) and _joins(source):
            joined[key] = _join_moments([one.fitted[key] for one in shards], [one.spreads[key] for one in shards])
    for factor in declaration.factors:
        if factor.observed and factor.name is not None:
            read = factor.features
            learnt = [shard.fitted[factor.name] for shard in shards]
            if isinstance(read, Attributes):
                name = read.name
                joined[factor.name] = _join_pairs(learnt, columns[name], len(joined[name]["names"]))
            else:
                same = [np.arange(len(one["ptr"]) - 1) for one in learnt]
                if len({len(one) for one in same}) == 1 and not _holds_names(read):
                    joined[factor.name] = _join_pairs(learnt, same, len(same[0]))
    missing = [key for shard in shards for key in shard.fitted if key not in joined]
    if missing:
        raise _needs_all(missing[0])
    require_names(joined)
    return joined


def _joins(source: Transform) -> bool:
    """Whether a feature learns what shards can join, from columns that are the same in all of them, or have names."""
    inside = [one for one in walk_sources(source) if one is not source and one.learns]
    named = isinstance(source, Scaled) and inside == [source.source] and isinstance(source.source, Attributes)
    return isinstance(source, Standardized | Scaled) and (not inside or named)


def _join_moments(learnt: Sequence[Mapping[str, Any]], spreads: Sequence[tuple[int, F64]]) -> dict[str, Any]:
    """Return mean and deviation of all rows; a column that is constant everywhere is one of deviation 1."""
    share = np.array([n for n, _ in spreads], dtype=np.float64)
    share /= share.sum()
    means, apart = np.stack([one["mean"] for one in learnt]), np.stack([one for _, one in spreads])
    mean = share @ means
    spread = np.sqrt(share @ (apart**2 + (means - mean) ** 2))
    constant = (apart == 0).all(axis=0) & (means == means[0]).all(axis=0)
    return {"mean": np.where(constant, means[0], mean), "scale": np.where(constant | (spread <= 0), 1.0, spread)}


def _join_largest(shards: Sequence[F64], columns: Sequence[I64] | None) -> F64:
    """Return the largest absolute value of each column; those of names are where ``columns`` say."""
    if columns is None:
        return np.asarray(np.stack(shards).max(axis=0))
    out = np.zeros(1 + max((int(mine.max(initial=-1)) for mine in columns), default=-1))
    for largest, mine in zip(shards, columns, strict=True):
        np.maximum.at(out, mine, largest)
    return out


def _needs_all(name: str) -> TrainingError:
    """Return the error about something that learns in another way."""
    text = f"{name} learns from all examples at once, which shards of the data cannot give it"
    return TrainingError(f"{text}: set executor='threads', or compute it before and declare an Input")


def _holds_names(source: Any) -> bool:
    """Whether columns of a source depend on a vocabulary."""
    walked = list(walk_sources(source))
    hashed = {one.source for one in walked if isinstance(one, Hashed)}
    return any(isinstance(one, Attributes) and one not in hashed for one in walked)


def _join_names(learnt: Sequence[Mapping[str, Any]]) -> tuple[dict[str, Any], list[I64]]:
    """Return the vocabulary of all shards, and the columns in it of each shard's names."""
    numbers: dict[str, int] = {}
    columns = [
        np.array([numbers.setdefault(name, len(numbers)) for name in one["names"]], dtype=np.int64) for one in learnt
    ]
    return {"names": list(numbers)}, columns


def _join_pairs(learnt: Sequence[Mapping[str, Any]], columns: Sequence[I64], n_features: int) -> dict[str, Any]:
    """Return the pairs that any shard has seen, by feature and state."""
    features, states = [], []
    for one, mine in zip(learnt, columns, strict=True):
        features.append(np.repeat(mine, np.diff(one["ptr"])))
        states.append(one["state"])
    pairs = np.unique(np.stack([np.concatenate(features), np.concatenate(states)]), axis=1)
    counts = np.bincount(pairs[0], minlength=n_features)
    state: I32 = pairs[1].astype(np.int32)
    return {"ptr": pointers(counts), "state": state}
