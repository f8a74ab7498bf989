"""A fit whose gap is that of the backend's bounds ends, and says so, in place of taking all passes."""

from __future__ import annotations

import numpy as np
import pytest

from model_table import graph
from ssvm_dsl import StructuredSVM

Coloured = graph(2, 3)


def colourings(n_graphs=8, n=14):
    """Return dense graphs with neighbours of different colours, and features that say little."""
    rng, X, Y = np.random.default_rng(0), [], []
    for _ in range(n_graphs):
        y = rng.integers(0, 3, n)
        edges = [(i, j) for i in range(n) for j in range(i + 1, n) if y[i] != y[j] and rng.random() < 0.5]
        X.append({"x": np.eye(3)[y][:, :2] + 3 * rng.normal(size=(n, 2)), "e": np.array(edges)})
        Y.append(y)
    return X, Y


@pytest.mark.parametrize("trainer", ["bcfw", "one-slack"])
def test_a_gap_of_bounds_ends_the_fit(trainer):
    X, Y = colourings()
    svm = StructuredSVM(Coloured, C=3.0, guarantee="bound", backend="mplp", trainer=trainer, tol=0.01, random_state=0)
    with pytest.warns(match="backend 'mplp'.*a backend with tighter bounds, or an exact one"):
        report = svm.fit(X, Y).report_
    assert report.reason == "bounds"
    assert report.n_passes < 100 < svm.max_passes
    assert report.relative_gap > svm.tol
    assert not report.converged
    assert "the rest of the gap is that of the backend's bounds" in " ".join(str(report).split())
    newest = report.history[-1]
    assert newest.primal - newest.estimate > svm.tol * newest.primal  # its bounds are above its answers
    assert newest.estimate - report.dual <= 0.1 * svm.tol * newest.primal  # and nothing is left to learn from these
    with pytest.warns(match="stopped at"):
        longer = svm.set_params(tol=1e-9, max_passes=60).fit(X, Y).report_
    assert longer.relative_gap >= 0.5 * report.relative_gap  # more passes hardly help


def test_exact_answers_are_not_taken_for_loose():
    X, Y = colourings(3, 7)
    report = StructuredSVM(Coloured, guarantee="bound", tol=0.01, random_state=0).fit(X, Y).report_
    exact = StructuredSVM(Coloured, backend="junction-tree", tol=0.01, random_state=0).fit(X, Y).report_
    assert exact.reason == "tolerance"
    if report.reason == "tolerance":
        assert report.primal == pytest.approx(exact.primal, rel=0.03)
