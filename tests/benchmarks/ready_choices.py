"""What each choice of ready models is worth: their defaults beside the same model without the choice.

Rows are data of ``ready`` with the setting that turns a choice off; means over the same draws.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from ready import judged, rows
from rich.console import Console
from rich.table import Table

from ssvm_dsl.errors import DataError


@dataclass(frozen=True)
class Choice:
    """A choice, a row of ``ready``, its measure, and the settings without the choice."""

    what: str
    data: str
    measure: str
    without: dict[str, Any]


CHOICES = (
    Choice("risk", "chains: rare events", "event f1", {"risk": "margin"}),
    Choice("risk", "tables: customers, 82 % of one class", "accuracy score", {"risk": "margin"}),
    Choice("scale", "tables: wine, unscaled", "accuracy score", {"scale": False}),
    Choice("scale", "labels: Reuters, 53 topics", "macro f1", {"scale": False}),
    Choice("C", "labels: scene", "macro f1", {"C": 1.0}),
    Choice("C", "segments: words in a signal", "segment f1", {"C": 1.0}),
    Choice("structure", "segments: chunks, 300 sentences", "span f1", {"begins": False}),
    Choice("structure", "labels: scene", "exact sets", {"together": False}),
    Choice("structure", "chains: letters of words", "label accuracy", {"order": 0}),
    Choice("rules of tags", "chains: chunks, 300 sentences", "span f1", {"bio": False}),
    Choice("sets or labels", "labels: one after the other", "macro f1", {"each": False}),
)


def main() -> None:
    """Print the table."""
    table = Table("choice", "data", "measure", "default", "without", "setting", "default [s]", "without [s]")
    for one in CHOICES:
        (row,) = (other for other in rows() if (other.name, other.measured_by) == (one.data, one.measure))
        bare = replace(row, model=lambda row=row, one=one: row.model().set_params(**one.without))  # type: ignore[misc]
        try:
            tasks = [row.task(seed) for seed in range(row.draws)]
        except DataError as err:
            print(f"{one.data}: left out, {err}")
            continue
        found = [[(got.ours, got.seconds) for got in (judged(row, task), judged(bare, task))] for task in tasks]
        (ours, seconds), (other, other_seconds) = np.mean(found, axis=0).tolist()
        setting = ", ".join(f"{name}={value!r}" for name, value in one.without.items())
        cells = (
            one.what, one.data, one.measure, f"{ours:.3f}", f"{other:.3f}", setting, f"{seconds:.1f}",
            f"{other_seconds:.1f}",
        )  # fmt: skip
        print(" | ".join(cells), flush=True)
        table.add_row(*cells)
    Console(width=150).print(table)
