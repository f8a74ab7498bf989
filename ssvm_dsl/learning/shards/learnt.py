"""Join the fitted features of shards to those that all examples together would give.

Vocabularies are joined in the order of the shards, so that every name has the column that it has in one process, and
the pairs of ``weights="observed"`` follow their names.  Whatever else learns (means, quantiles, principal directions,
landmarks) would need more than one pass over the data, and is refused by name.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ssvm_dsl.array_types import I32, I64
from ssvm_dsl.compiler.features.attributes import require_names
from ssvm_dsl.errors import TrainingError
from ssvm_dsl.ir.ragged import pointers
from ssvm_dsl.lang.declaration import Declaration
from ssvm_dsl.lang.features.sources import Hashed, Transform, walk_sources
from ssvm_dsl.lang.inputs import Attributes
from ssvm_dsl.learning.shards.recipe import Learnt

#: What the pairs of a factor are kept as.
PAIRS = {"ptr", "state"}


def learns(declaration: Declaration) -> bool:
    """Return whether anything of a model is learnt before its weights are.

    Raises
    ------
    TrainingError
        Something that cannot be joined from shards; names it.
    """
    for source in declaration.sources:
        if isinstance(source, Transform) and source.learns:
            raise _needs_all(source.name or repr(source))
    observed = any(factor.observed for factor in declaration.factors)
    return observed or any(isinstance(source, Attributes) for source in declaration.sources)


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
    for factor in declaration.factors:
        if factor.observed and factor.name is not None:
            source = factor.features
            learnt = [shard.fitted[factor.name] for shard in shards]
            if isinstance(source, Attributes):
                name = source.name
                joined[factor.name] = _join_pairs(learnt, columns[name], len(joined[name]["names"]))
            else:
                same = [np.arange(len(one["ptr"]) - 1) for one in learnt]
                if len({len(one) for one in same}) == 1 and not _holds_names(source):
                    joined[factor.name] = _join_pairs(learnt, same, len(same[0]))
    missing = [key for shard in shards for key in shard.fitted if key not in joined]
    if missing:
        raise _needs_all(missing[0])
    require_names(joined)
    return joined


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
