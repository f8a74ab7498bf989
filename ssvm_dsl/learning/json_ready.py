"""``as_json``: what estimators return, as plain data that JSON holds."""

from __future__ import annotations

from collections.abc import Mapping, Set
from typing import Any

import numpy as np

from ssvm_dsl.calls import checked_call
from ssvm_dsl.lang.frames import is_frame, is_gap, is_series


@checked_call
def as_json(found: Any) -> Any:
    """Return predictions, probabilities or scores as lists, dicts, numbers and texts, which ``json.dumps`` writes.

    Arrays and series become lists, sets sorted lists, data frames lists of a dict for each row, graphs of networkx
    dicts with their ``nodes`` and ``edges``, parse trees their text; what is not known is ``None``, and so are numbers
    that are not finite, which JSON does not have.

    Examples
    --------
    >>> json.dumps(as_json(tagger.predict(X)))
    >>> as_json({"labels": tagger.predict(X), "probabilities": tagger.predict_proba(X)})
    """
    return _plain(found)


def _plain(found: Any) -> Any:
    if found is None or isinstance(found, str | bool):
        return str(found) if isinstance(found, str) else found
    if isinstance(found, np.ndarray | np.generic):
        return _plain(found.tolist())
    if isinstance(found, int):
        return found
    if isinstance(found, float):
        return found if np.isfinite(found) else None
    if is_frame(found):
        columns = {str(name): _plain(found[name]) for name in found.columns}
        return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
    if is_series(found):
        return _plain(found.to_numpy())
    if isinstance(found, Mapping):
        return {str(name): _plain(one) for name, one in found.items()}
    if isinstance(found, Set):
        return sorted(map(_plain, found), key=str)
    if isinstance(found, list | tuple):
        return list(map(_plain, found))
    if hasattr(found, "nodes") and hasattr(found, "edges"):
        nodes = [{"id": _plain(node), **_plain(more)} for node, more in found.nodes(data=True)]
        edges = [{"source": _plain(a), "target": _plain(b), **_plain(more)} for a, b, more in found.edges(data=True)]
        return {"nodes": nodes, "edges": edges}
    return None if is_gap(found) else str(found)
