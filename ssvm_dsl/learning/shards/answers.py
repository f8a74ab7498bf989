"""Predictions and scores of parts of the data, made where the parts are."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Protocol
from uuid import uuid4

from ssvm_dsl.errors import DataError
from ssvm_dsl.learning.shards.parts import DataPart, PartitionedDataset
from ssvm_dsl.plugin_api.kinds.executors import ShardExecutor, ShardFunction

#: Called with a part and its labellings, where the part is; what it returns travels back.
Write = Callable[[Any, list[Any]], Any]


class PartPredictor(Protocol):
    """A fitted estimator, as workers have it."""

    def predict(self, X: Any, *, on_missing: str) -> list[Any]:
        """Return the best labelling of each example."""

    def _losses(self, X: Any, Y: Any, sample_weight: Any) -> tuple[float, float]:
        """Return the sums of the losses and of the largest losses."""


@dataclass(frozen=True, eq=False)
class PredictionShard:
    """A part of the data to be predicted, with what predicts it.

    Parameters
    ----------
    key : str
    predictor : PartPredictor
    part : DataPart
    """

    key: str
    predictor: PartPredictor
    part: DataPart

    def open(self) -> PredictionShard:
        """Return the shard itself: its examples are read in the one call that is made, and not kept."""
        return self

    @contextmanager
    def _located(self) -> Iterator[None]:
        """Name the part in errors about its examples."""
        try:
            yield
        except DataError as err:
            raise self.part.located(err) from err.__cause__


def labellings_of(shard: PredictionShard, on_missing: str, write: Write | None) -> Any:
    """Return the labellings of a part, or what ``write`` makes of them."""
    X, _, _ = shard.part.read()
    with shard._located():
        found = shard.predictor.predict(X, on_missing=on_missing)
    return found if write is None else write(shard.part.what, found)


def losses_of(shard: PredictionShard) -> tuple[float, float]:
    """Return the sums of the losses and of the largest losses of a part."""
    X, Y, weight = shard.part.read()
    with shard._located():
        return shard.predictor._losses(X, Y, weight)


def ask_parts(
    executor: ShardExecutor, data: PartitionedDataset, predictor: PartPredictor, function: ShardFunction, *given: Any
) -> list[Any]:
    """Return what a function finds on each part, in order."""
    call, parts = uuid4().hex, [data.part(number) for number in range(len(data))]
    executor.start([PredictionShard(f"{call}/{part.number}", predictor, part) for part in parts])
    return executor.run(function, [(part.number, given) for part in parts])
