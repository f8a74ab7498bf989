"""Plots draw what they are given."""

from __future__ import annotations

import sys

import numpy as np
import pytest
import small
from scipy.sparse import csr_array
from small import Case

from ssvm_dsl import StructuredSVM, regularization_path
from ssvm_dsl.errors import OptionError
from ssvm_dsl.report import plots

matplotlib = pytest.importorskip("matplotlib")
matplotlib.use("Agg")

DATA = Case(small.Word, n=8).make(0)


@pytest.fixture(scope="module")
def reports():
    made = {name: StructuredSVM(small.Word, trainer=name, max_passes=12, tol=0.0) for name in ("bcfw", "subgradient")}
    with pytest.warns():
        return {name: svm.fit(DATA.X, DATA.Y).report_ for name, svm in made.items()}


@pytest.mark.parametrize("over", plots.OVER)
def test_objectives_of_several_trainers_on_one_axis(reports, over):
    ax = plots.plot_training(reports, over=over)
    lines = ax.get_lines()
    assert len(lines) == 4
    history = reports["bcfw"].history
    np.testing.assert_array_equal(lines[0].get_xdata(), [getattr(event, over) for event in history])
    np.testing.assert_array_equal(lines[0].get_ydata(), [event.best_primal for event in history])
    assert np.nanmax(lines[1].get_ydata()) <= np.nanmin(lines[0].get_ydata()) + 1e-9
    assert [text.get_text() for text in ax.get_legend().get_texts()] == list(reports)


def test_gaps_on_a_given_axis(reports):
    given = matplotlib.figure.Figure().subplots()
    ax = plots.plot_training(reports["bcfw"], what="gap", ax=given)
    assert ax is given
    assert ax.get_yscale() == "log"
    assert len(ax.get_lines()) == 1


def test_weights_confusion_and_path():
    image = plots.plot_weights([[1.0, -2.0], [0.0, 0.5]], "ab", "ab").get_images()[0]
    np.testing.assert_array_equal(image.get_array(), [[1.0, -2.0], [0.0, 0.5]])
    assert image.get_clim() == (-2.0, 2.0)
    sparse = csr_array(np.eye(2))  # weights for observed pairs are
    np.testing.assert_array_equal(plots.plot_weights(sparse).get_images()[0].get_array(), np.eye(2))
    counts = plots.confusion_matrix([["a", "b"], ["b"]], [["a", "a"], ["b"]], "ab")
    np.testing.assert_array_equal(counts, [[1, 0], [1, 1]])
    shown = plots.plot_confusion([["a", "b"], ["b"]], [["a", "a"], ["b"]], "ab").get_images()[0]
    np.testing.assert_array_equal(shown.get_array(), [[1.0, 0.0], [0.5, 0.5]])
    points = [point for point, _ in regularization_path(StructuredSVM(small.Word), DATA.X, DATA.Y, 0.1, 1.0, 0.3)]
    (line,) = plots.plot_path(points, np.arange(len(points)), "error").get_lines()
    assert line.get_xdata()[0] == 0.1
    assert line.get_xdata()[-1] == 1.0


def test_wrong_input(reports, monkeypatch):
    with pytest.raises(OptionError, match="over is one of"):
        plots.plot_training(reports, over="hours")
    with pytest.raises(OptionError, match=r"got shape \(3,\)"):
        plots.plot_weights(np.zeros(3))
    with pytest.raises(OptionError, match="not one of the classes"):
        plots.confusion_matrix([["z"]], [["a"]], "ab")
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)
    with pytest.raises(OptionError, match="need matplotlib"):
        plots.plot_weights(np.zeros((2, 2)))


def test_scores_on_held_out_examples_are_drawn_where_they_were_looked_at(reports):
    with pytest.warns():
        svm = StructuredSVM(small.Word, max_passes=6, tol=0.0).fit(DATA.X, DATA.Y, validation=(DATA.X, DATA.Y))
    (line,) = plots.plot_training(svm.report_, over="n_passes", what="validation").get_lines()
    told = [(event.n_passes, event.extra["validation_score"]) for event in svm.report_.history
            if "validation_score" in event.extra]  # fmt: skip
    assert list(zip(line.get_xdata(), line.get_ydata(), strict=True)) == told
    with pytest.raises(OptionError, match="the fit of 'bcfw' had no validation examples"):
        plots.plot_training(reports, what="validation")
