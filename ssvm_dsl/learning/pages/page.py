"""Write a fitted model as one self-contained page: no script, no font, nothing read from elsewhere.

Names of classes, features and files come from data: jinja2 escapes every text (autoescape), in drawings, too.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any

from ssvm_dsl.array_types import F64
from ssvm_dsl.errors import OptionError
from ssvm_dsl.io.atomic import write_atomically
from ssvm_dsl.learning.estimators.weights import Weights
from ssvm_dsl.learning.pages import sections
from ssvm_dsl.learning.pages.drawing import model_boxes
from ssvm_dsl.version import __version__

#: Bytes of a page.
MOST_BYTES = 2_000_000

NO_DATA = "No data were given: pass examples and labels, svm.to_html(path, X, Y)."
NO_HISTORY = (
    "The history of training is not known: model files do not hold it. Write the page after fit, in the same process."
)
NO_REPORT = "The weights were given, not learnt: there is no report of a fit."


def model_page(model: Any, weights: Weights, report: Any, data: dict[str, Any] | None = None) -> str:
    """Return the page of a model.

    Parameters
    ----------
    model : Model class
    weights : Weights
    report : FitReport or None
        ``None`` where the weights were given.
    data : dict, optional
        What :func:`examined` returns.

    Raises
    ------
    OptionError
        The page would be larger than 2 MB.
    """
    from jinja2 import Environment, StrictUndefined

    declaration = model.declaration
    facts = {
        "name": declaration.name,
        "version": __version__,
        "symbols": [(one.name, one.short, one.note) for one in declaration.symbols],
        "boxes": model_boxes(declaration),
        "plan": None if report is None else _plan(report.plan),
        "certificate": None if report is None else report.rows(),
        "certified": report is not None and report.certified,
        "curves": [] if report is None or not report.history else sections.curves(report),
        "weights": sections.weight_maps(weights),
        "left_out": max(len(weights) - sections.FACTORS, 0),
        "data": data,
        "no_data": NO_DATA,
        "no_history": NO_HISTORY if report is not None else NO_REPORT,
        "no_report": NO_REPORT,
    }
    made = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    text = made.from_string(files(__package__).joinpath("page.html").read_text("utf-8")).render(facts)
    if len(text.encode()) > MOST_BYTES:
        raise OptionError(
            f"the page would have {len(text.encode())} bytes, more than {MOST_BYTES}; pass fewer or smaller examples"
        )
    return text


def _plan(plan: Any) -> dict[str, Any]:
    candidates = [(one.title, "fits" if one.ok else "no", "; ".join(one.reasons)) for one in plan.candidates]
    return {"backend": plan.title, "reason": plan.reason, "need": plan.need, "candidates": candidates}


def examined(
    svm: Any, X: Sequence[Any], Y: Sequence[Any], lost: F64, time_limit: float | None = None
) -> dict[str, Any]:
    """Return what a page says of data: the confusion of classes, and the examples that cost most."""
    predicted = svm.predict(X, time_limit=time_limit)
    return {
        "n": len(lost),
        "mean": f"{float(lost.mean()):.4g}" if len(lost) else "0",
        "wrong": int((lost > 0.0).sum()),
        "confusion": sections.confusion(svm.model, Y, predicted),
        "costly": sections.costly(svm, X, Y, predicted, lost),
    }


def write_page(path: Path, text: str) -> None:
    """Write a page: the old file stays until the new one is complete.

    Raises
    ------
    OptionError
        No file can be written there.
    """
    try:
        write_atomically(path, lambda file: _write(file, text))
    except OSError as err:
        raise OptionError(f"to_html: cannot write {path}: {err.strerror or err}") from err


def _write(file: Any, text: str) -> None:
    file.write(text.encode("utf-8", "replace"))
