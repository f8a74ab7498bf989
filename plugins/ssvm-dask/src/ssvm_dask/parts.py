"""Dask bags and delayed objects as parts of the data, computed where the shard is."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any


def delayed_parts(X: Any, Y: Any = None) -> list[tuple[Any, Any]]:
    """Return the parts of bags or of delayed objects, which :func:`computed` reads.

    Each partition of a bag, and each delayed object, is a part: the graph that makes it travels to the worker that has
    the shard, and is computed there, again if that worker is lost.

    Parameters
    ----------
    X : dask.bag.Bag, or list of delayed objects
        Examples; without ``Y``, pairs (example, label).
    Y : dask.bag.Bag, or list of delayed objects, optional
        Their labels, in partitions as those of X.

    Raises
    ------
    ValueError
        X and Y have different numbers of partitions.

    Examples
    --------
    >>> words = dask.bag.read_text("words/*.jsonl").map(json.loads)
    >>> data = PartitionedDataset(delayed_parts(words.map(lambda one: (one["x"], one["y"]))), computed)
    >>> StructuredSVM(Tagger, risk="log", trainer="lbfgs", executor="dask").fit(data)
    """
    examples = _delayed(X, "X")
    labels = [None] * len(examples) if Y is None else _delayed(Y, "Y")
    if len(labels) != len(examples):
        raise ValueError(f"Y has {len(labels)} partitions, and X has {len(examples)}; both must have the same")
    return list(zip(examples, labels, strict=True))


def _delayed(given: Any, name: str) -> Sequence[Any]:
    """Return the delayed objects of partitions."""
    listed = given.to_delayed() if hasattr(given, "to_delayed") else given
    if not isinstance(listed, list) or not all(hasattr(one, "__dask_graph__") for one in listed):
        raise ValueError(f"{name}: expected a Dask bag or a list of delayed objects, got {type(given).__name__}")
    return listed


def computed(part: tuple[Any, Any]) -> tuple[list[Any], list[Any]]:
    """Compute the examples and labels of a part, in this thread."""
    from dask import compute

    examples, labels = compute(*part, scheduler="synchronous")
    if part[1] is not None:
        return list(examples), list(labels)
    pairs = list(examples)
    return [x for x, _ in pairs], [y for _, y in pairs]
