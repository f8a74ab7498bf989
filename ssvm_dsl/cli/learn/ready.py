"""Names of ready models on the command line."""

from __future__ import annotations

from difflib import get_close_matches
from typing import Any

from ssvm_dsl.errors import OptionError

#: Classes of :mod:`ssvm_dsl.models` by name.
READY = {
    "chain-tagger": "ChainTagger",
    "segment-tagger": "SegmentTagger",
    "classifier": "Classifier",
    "multi-label": "MultiLabel",
    "grid-segmenter": "GridSegmenter",
    "graph-labeller": "GraphLabeller",
    "latent-graph": "LatentGraph",
    "matcher": "Matcher",
    "ranker": "Ranker",
    "dependency-parser": "DependencyParser",
}


def ready_class(name: str) -> Any:
    """Return the class of a ready model."""
    from ssvm_dsl import models

    return getattr(models, READY[name])


def require_known(place: str) -> None:
    """Refuse what is neither a ready model nor a Python file.

    Raises
    ------
    OptionError
        Lists the ready models.
    """
    if place in READY or ".py" in place:
        return
    close = get_close_matches(place.lower().replace("_", "-"), READY, n=1)
    meant = f"; did you mean '{close[0]}'?" if close else ""
    listed = ", ".join(READY)
    raise OptionError(f"{place}: expected FILE.py:Model or a ready model{meant}\n  ready models: {listed}")
