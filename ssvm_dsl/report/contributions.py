"""Bars of what speaks for a labelling, and what against it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ssvm_dsl.report.labellings import RIGHT, WRONG
from ssvm_dsl.report.plots import axes_for


def plot_contributions(sums: Mapping[str, float], k: int = 15, ax: Any = None) -> Any:
    """Draw parts of a score as bars, the largest on top; green ones raise it, red ones lower it.

    Parameters
    ----------
    sums : mapping of names to numbers
        For example ``svm.explain(x).by("feature")``, or ``svm.why_not(x, y).by("feature")``.
    k : int
        The number of bars; all further parts are added up in one more.
    ax : matplotlib axes, optional

    Returns
    -------
    matplotlib axes
    """
    ranked = sorted(sums.items(), key=lambda item: -abs(item[1]))
    shown, rest = ranked[:k], ranked[k:]
    if rest:
        shown.append((f"{len(rest)} more", sum(value for _, value in rest)))
    names, values = [name for name, _ in shown], [value for _, value in shown]
    ax = axes_for(ax)
    ax.barh(range(len(values)), values, color=[RIGHT if value > 0 else WRONG for value in values])
    ax.set_yticks(range(len(names)), names)
    ax.invert_yaxis()
    ax.axvline(0.0, color="grey", linewidth=0.8)
    ax.set_xlabel("part of the score")
    return ax
