"""Predictions and scores of parts of the data, made where the parts are."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Protocol
from uuid import uuid4

import numpy as np

from ssvm_dsl.callers import warn_caller
from ssvm_dsl.deadline import Deadline, time_left, within
from ssvm_dsl.errors import DataError, MissingAnswerError, NoLabellingError, OutOfTime, TimeLimitWarning
from ssvm_dsl.learning.shards.messages import ShardMessages
from ssvm_dsl.learning.shards.parts import DataPart, PartitionedDataset, has_examples
from ssvm_dsl.plugin_api.executors import ShardExecutor, ShardFunction

#: Called with a part and its labellings, where the part is; what it returns travels back.
Write = Callable[[Any, list[Any]], Any]


class PartPredictor(Protocol):
    """A fitted estimator, as workers have it."""

    def predict(self, X: Any, *, on_missing: str, time_limit: float | None) -> list[Any]:
        """Return the best labelling of each example."""

    def _losses(
        self, X: Any, Y: Any, sample_weight: Any, time_limit: float | None, part: bool
    ) -> tuple[float, float]:
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


@dataclass(frozen=True, eq=False)
class PartAnswer:
    """The results for a part.

    Parameters
    ----------
    found : object
    late : bool
        Whether time ended the search before all of it was proved best.
    missing : str
        Why examples have no labelling; empty where all have one.
    """

    found: Any
    late: bool = False
    missing: str = ""


@dataclass(frozen=True, eq=False)
class Share:
    """The time of one part: what its worker has for it, or, where all parts run here, its share of what is left.

    Parameters
    ----------
    seconds : float
    n_left : int
        Parts to come, this one included.
    """

    seconds: float
    n_left: int

    def begin(self) -> Deadline:
        """Return when the part must end."""
        return Deadline(min(self.seconds, time_left() / self.n_left))


def labellings_of(shard: PredictionShard, share: Share, on_missing: str, write: Write | None) -> PartAnswer:
    """Return the labellings of a part, or what ``write`` makes of them."""
    deadline = share.begin()
    X, _, _ = shard.part.read()
    with shard._located(), _noticing_limits() as late:
        try:
            limit = _limit(deadline)
            found = shard.predictor.predict(X, on_missing=on_missing, time_limit=limit) if has_examples(X) else []
        except MissingAnswerError as err:
            return PartAnswer(err.found, bool(late), str(err))
    return PartAnswer(found if write is None else write(shard.part.what, found), bool(late))


def losses_of(shard: PredictionShard, share: Share) -> PartAnswer:
    """Return the sums of the losses, of the largest losses and of the weights of a part."""
    deadline = share.begin()
    X, Y, weight = shard.part.read()
    if not has_examples(X):
        return PartAnswer((0.0, 0.0, 0.0))
    with shard._located(), _noticing_limits() as late:
        lost, most = shard.predictor._losses(X, Y, weight, _limit(deadline), part=True)
        heavy = float(len(X) if weight is None else np.sum(weight))
    return PartAnswer((lost, most, heavy), bool(late))


def _limit(deadline: Deadline) -> float | None:
    """Return the limit of a prediction, which ends in starting labellings where nothing is left."""
    return None if deadline.limit == np.inf else max(deadline.left, 1e-3)


@contextmanager
def _noticing_limits() -> Iterator[list[Any]]:
    """Collect warnings of time limits, which are told once for all parts; pass the others on."""
    late: list[Any] = []
    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        yield late
        late += [one for one in heard if issubclass(one.category, TimeLimitWarning)]
    for one in heard:
        if not issubclass(one.category, TimeLimitWarning):
            warnings.warn_explicit(one.message, one.category, one.filename, one.lineno)


def ask_parts(
    executor: ShardExecutor, data: PartitionedDataset, predictor: PartPredictor, function: ShardFunction, *given: Any,
    deadline: Deadline,
) -> list[PartAnswer | None]:  # fmt: skip
    """Return the results of a function on each part, in order; ``None`` for parts that were not read in time."""
    call, parts = uuid4().hex, [data.part(number) for number in range(len(data))]
    executor.start([PredictionShard(f"{call}/{part.number}", predictor, part) for part in parts])
    rounds = -(-len(parts) // max(getattr(executor, "n_workers", 1), 1))
    seconds = deadline.left / rounds if rounds < len(parts) else np.inf
    calls = [(part.number, (Share(seconds, len(parts) - part.number), *given)) for part in parts]
    try:
        with within(deadline):
            found: list[PartAnswer | None] = ShardMessages(executor, parts).run(function, calls)
    except OutOfTime as err:
        found = list(err.found) if len(err.found) == len(parts) else [None] * len(parts)
    return found


def answers_of(method: str, found: Sequence[PartAnswer | None], on_missing: str) -> list[Any]:
    """Return the answers, ``None`` for parts without; warn of those that time cut short.

    Raises
    ------
    NoLabellingError
        A part was not read, or an example of it has no labelling, and ``on_missing`` is ``"raise"``.
    """
    answers = [None if one is None else one.found for one in found]
    unread = [number for number, one in enumerate(found) if one is None]
    missing = [(number, one.missing) for number, one in enumerate(found) if one is not None and one.missing]
    if (unread or missing) and on_missing == "raise":
        error = NoLabellingError(_without(method, unread, missing, len(found)))
        error.found = answers
        raise error
    late = sum(one is not None and one.late for one in found)
    if late or unread:
        text = f"{method}: time ended the search before all labellings of {late} of {len(found)} parts were proved best"
        text = text if late else f"{method}: time was up"
        text += f", and before {len(unread)} parts were read (the first is number {unread[0]})" if unread else ""
        warn_caller(f"{text}; raise time_limit", TimeLimitWarning)
    return answers


def _without(method: str, unread: list[int], missing: list[tuple[int, str]], n: int) -> str:
    """Return which parts have no labellings, why, and what to do."""
    if not unread:
        number, why = missing[0]
        return f"{method}: part {number} of {n}: {why}"
    text = f"{method}: time was up before {len(unread)} of {n} parts were read (the first is number {unread[0]})"
    hint = "raise time_limit, or call predict_parts(..., on_missing='none'), which has None in their places"
    return f"{text}\n  hint: {hint}; .found of this error holds the answers found, part by part"
