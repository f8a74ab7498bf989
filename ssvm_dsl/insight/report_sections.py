"""What a page about an estimator shows besides its fit: the model, the weights, and where predictions are wrong."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from ssvm_dsl.errors import SsvmError
from ssvm_dsl.report.factor_graph import plot_factor_graph
from ssvm_dsl.report.page import PageTable, Section, fit_sections
from ssvm_dsl.report.plots import plot_confusion, plot_weights

#: A matrix of weights with more rows or columns is shown by its largest weights only.
LARGEST = 150

#: Weights, and examples, that are listed.
WEIGHTS, EXAMPLES = 15, 5

#: Characters of an example's labels that are shown.
SHOWN = 200


def report_sections(svm: Any, X: Any = None, Y: Any = None, found: Sequence[Any] | None = None) -> Iterator[Section]:
    """Yield the sections of a page about a fitted estimator.

    Parameters
    ----------
    svm : StructuredSVM or StructuredRegressor
    X, Y, found : lists, optional
        Examples, their labels, and what is predicted of them.
    """
    model = Section("Model", text=str(svm.model))
    model.draw(lambda ax: plot_factor_graph(svm.model, ax=ax), 8.0, 0.6 + 0.8 * len(svm.model.declaration.factors))
    yield model
    yield from fit_sections(getattr(svm, "report_", None))
    yield from _weights(svm)
    if found is None:
        yield Section("Predictions", "Pass examples with their labels to see which are predicted wrongly, and why.")
    else:
        yield from _mistakes(svm, X, Y, found)


def _weights(svm: Any) -> Iterator[Section]:
    """Yield a section for the weights of each factor."""
    for name in svm.weights_:
        values, section = svm.weights_[name], Section(f"Weights of {name}")
        top = svm.weights_.top(name, k=WEIGHTS)
        columns, rows = top._shown()
        section.tables.append(PageTable(rows, columns, f"the {len(rows)} largest"))
        shape = np.shape(values)
        if len(shape) == 2 and max(shape) <= LARGEST and hasattr(values, "dtype"):
            rows_of, columns_of = (*svm.weights_.names(name), (), ())[:2]
            names = [one if len(one) == size else () for one, size in zip((rows_of, columns_of), shape, strict=True)]
            section.draw(lambda ax, values=values, names=names: plot_weights(values, *names, ax=ax))  # type: ignore[misc]
        yield section


def _mistakes(svm: Any, X: Any, Y: Any, found: Sequence[Any]) -> Iterator[Section]:
    """Yield what is predicted wrongly: confusion of classes, and the examples with most mistakes."""
    outputs = svm.model.declaration.outputs
    plain = len(outputs) == 1 and outputs[0].segments is None and outputs[0].grammar is None and not outputs[0].pointer
    if plain:
        label, confusion = outputs[0], Section("Confusion", "Rows are true classes, columns predicted ones.")
        classes = list(range(label.n_states)) if label.classes is None else list(label.classes)
        confusion.draw(lambda ax: plot_confusion(Y, found, classes, ax=ax), 5.0, 4.0)
        yield confusion
    wrong = np.array([n_mistakes(truth, mine) for truth, mine in zip(Y, found, strict=True)])
    n_right = int((wrong == 0).sum())
    section = Section("Examples with most mistakes", f"{n_right} of {len(wrong)} examples are predicted without one.")
    for i in np.argsort(-wrong, kind="stable")[:EXAMPLES].tolist():
        if wrong[i]:
            rows = [("truth", _short(Y[i])), ("predicted", _short(found[i])), *_why(svm, X[i], Y[i])]
            section.tables.append(PageTable(rows, title=f"example {i}: {int(wrong[i])} wrong"))
    yield section


def n_mistakes(truth: Any, found: Any) -> int:
    """Return how many labels of an example are wrong; 1 where labels cannot be compared one by one."""
    if isinstance(truth, dict) and isinstance(found, dict):
        return sum(n_mistakes(truth[name], found[name]) for name in truth if name in found)
    try:
        a, b = (np.array(list(one) if isinstance(one, str | tuple) else one) for one in (truth, found))
    except ValueError:  # lists of different lengths
        return int(truth != found)
    if a.shape != b.shape or a.dtype == object:
        return int(not np.array_equal(a, b))
    return int((a != b).sum())


def _why(svm: Any, x: Any, y: Any) -> list[tuple[str, str]]:
    """Return why the truth is not predicted, in rows of a table."""
    try:
        answer = svm.why_not(x, y)
    except SsvmError as err:  # such as a truth that the model rules out
        return [("why", str(err))]
    rows = [("why", answer.summary())]
    for one in answer.changes(3):
        rows.append((f"{one.change:+.4g}", f"{one.factor} of {', '.join(one.places)}: {one.predicted} for {one.asked}"))
    return rows


def _short(labels: Any) -> str:
    """Return labels as a short text."""
    text = " ".join(map(str, np.ravel(labels).tolist())) if isinstance(labels, list | np.ndarray) else str(labels)
    return text if len(text) <= SHOWN else f"{text[: SHOWN - 4]} ..."
