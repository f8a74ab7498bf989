"""Join the fitted features of shards to those that all examples together would give.

Vocabularies are joined in the order of the shards, so that every name has the column that it has in one process, and
the pairs of ``weights="observed"`` follow their names.  Means, deviations and largest values of columns are joined,
too.  Whatever else learns (quantiles, principal directions, landmarks) would need more than one pass over the data, and
is refused by name.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ssvm_dsl.array_types import F64, I32, I64
from ssvm_dsl.compiler.features.attributes import require_names
from ssvm_dsl.compiler.features.encode import fitted_keys
from ssvm_dsl.errors import TrainingError
from ssvm_dsl.ir.ragged import pointers
from ssvm_dsl.lang.declaration import Declaration
from ssvm_dsl.lang.features.sources import Hashed, Scaled, Standardized, Transform, walk_sources
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
