"""``as_json``: what estimators return, as plain data that JSON holds."""

from __future__ import annotations

from collections.abc import Mapping, Set
from typing import Any

import numpy as np

from ssvm_dsl.calls import checked_call
from ssvm_dsl.lang.frames import is_frame, is_gap, is_series


@checked_call
def as_json(value: Any) -> Any:
    """Return predictions, probabilities or scores as lists, dicts, numbers and texts, which ``json.dumps`` writes.

    Arrays and series become lists, sets sorted lists, data frames lists of a dict for each row, graphs of networkx
    dicts with their ``nodes`` and ``edges``, parse trees their text; what is not known is ``None``, and so are numbers
    that are not finite, which JSON does not have.

    Examples
    --------
    >>> json.dumps(as_json(tagger.predict(X)))
    >>> as_json({"labels": tagger.predict(X), "probabilities": tagger.predict_proba(X)})
    """
    return _plain(value)


def _plain(value: Any) -> Any:
    if value is None or isinstance(value, str | bool):
        return str(value) if isinstance(value, str) else value
    if isinstance(value, np.ndarray | np.generic):
        return _plain(value.tolist())
    if isinstance(value, int):
        return value
    if isinstance(value, float):
        return value if np.isfinite(value) else None
    if is_frame(value):
        columns = {str(name): _plain(value[name]) for name in value.columns}
        return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
    if is_series(value):
        return _plain(value.to_numpy())
    if isinstance(value, Mapping):
        return {str(name): _plain(one) for name, one in value.items()}
    if isinstance(value, Set):
        return sorted(map(_plain, value), key=str)
    if isinstance(value, list | tuple):
        return list(map(_plain, value))
    if hasattr(value, "nodes") and hasattr(value, "edges"):
        nodes = [{"id": _plain(node), **_plain(more)} for node, more in value.nodes(data=True)]
        edges = [{"source": _plain(a), "target": _plain(b), **_plain(more)} for a, b, more in value.edges(data=True)]
        return {"nodes": nodes, "edges": edges}
    return None if is_gap(value) else str(value)
