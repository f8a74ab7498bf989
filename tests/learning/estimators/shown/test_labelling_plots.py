"""Plots of labellings draw what was predicted, what is wrong, and what is missing."""

from __future__ import annotations

import numpy as np
import pytest

from ssvm_dsl.errors import OptionError
from ssvm_dsl.report import (
    plot_heads,
    plot_label_maps,
    plot_links,
    plot_marginals,
    plot_segments,
    plot_transitions,
)
from ssvm_dsl.report.labellings import MISSING, RIGHT, WRONG

matplotlib = pytest.importorskip("matplotlib")
matplotlib.use("Agg")


@pytest.fixture(autouse=True)
def close():
    yield
    matplotlib.pyplot.close("all")


def colours(patches):
    return sorted(matplotlib.colors.to_hex(patch.get_edgecolor()) for patch in patches)


def texts(ax):
    return [text.get_text() for text in ax.texts]


def test_marginals_stand_at_their_class_and_position():
    shares = np.array([[0.9, 0.1], [0.2, 0.8], [0.5, 0.5]])
    ax = plot_marginals(shares, ["sun", "rain"], ["a", "b", "c"])
    assert np.array_equal(ax.images[0].get_array(), shares.T)
    assert [tick.get_text() for tick in ax.get_yticklabels()] == ["sun", "rain"]
    assert [tick.get_text() for tick in ax.get_xticklabels()] == ["a", "b", "c"]


def test_segments_are_bars_from_start_to_end():
    ax = plot_segments({"true": [(0, 2, "A"), (2, 5, "O")], "predicted": list("AAABB")}, list("vwxyz"), outside="O")
    bars = [(round(bar.get_x() + 0.45), round(bar.get_width() + 0.1)) for bar in ax.patches if bar.get_width()]
    assert bars == [(0, 2), (0, 3), (3, 2)]
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["A", "B"]


def test_the_legend_is_within_the_picture():
    figure = plot_segments({"true": [(0, 2, "a company of a long name")]}).figure
    figure.draw_without_rendering()
    assert figure.axes[0].get_legend().get_window_extent().x1 <= figure.bbox.x1


def test_wrong_and_missing_arcs_have_their_colours():
    ax = plot_heads(["the", "cat", "sleeps"], [1, None, 1], truth=[1, 2, -1])
    assert colours(ax.patches) == sorted([RIGHT, WRONG, MISSING, WRONG, MISSING])
    assert texts(ax) == ["the", "cat", "sleeps"]


def test_wrong_and_missing_links_have_their_colours():
    ax = plot_links(["a", "b"], ["x", "y", "z"], [(0, 0), (1, 1)], truth=[(0, 0), (1, 2)])
    drawn = {tuple(line.get_xdata()): line.get_color() for line in ax.lines}
    assert drawn == {(0, 0): RIGHT, (1, 1): WRONG, (1, 2): MISSING}


def test_maps_share_their_colours():
    maps = {"image": np.zeros((2, 3, 3)), "true": np.array([[0, 1, 1]]), "predicted": np.array([[0, 0, 2]])}
    axes = plot_label_maps(maps)
    assert isinstance(axes, np.ndarray)
    assert [ax.get_title() for ax in axes] == list(maps)
    assert axes[1].images[0].get_clim() == axes[2].images[0].get_clim() == (0, 2)


def test_transitions_draw_the_largest_weights():
    weights = np.array([[2.0, -1.0, 0.1], [0.0, 0.5, 0.2], [0.0, 0.0, 0.0]])
    ax = plot_transitions(weights, "abc", n_edges=3)
    assert len(ax.patches) == 3
    assert texts(ax) == ["a", "b", "c"]
    assert not plot_transitions(np.zeros((2, 2)), "ab").patches


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: plot_marginals(np.ones((3, 2)), "abc"),
            r"expected shape \(n_positions, 3\), no empty axis, got \(3, 2\)",
        ),
        (lambda: plot_marginals(np.ones((3, 2)), "ab", "x"), "words: expected one for each of 3 positions, got 1"),
        (lambda: plot_marginals(np.ones((0, 2)), "ab"), "no empty axis"),
        (lambda: plot_label_maps({"x": np.ones((0, 3))}), "x: .* no empty axis"),
        (lambda: plot_segments({}), "at least one labelling"),
        (lambda: plot_segments({"y": "ab"}, ["v"]), "each of 2 positions, got 1"),
        (lambda: plot_heads("ab", [5, None]), "expected a position below 2"),
        (lambda: plot_heads("ab", [0]), "for each of 2 words"),
        (lambda: plot_links("ab", "cd", [(0, 2)]), r"\(0, 2\) is not a pair"),
        (lambda: plot_label_maps({"x": np.ones(3)}), r"x: expected shape \(height, width\)"),
        (lambda: plot_transitions(np.ones((2, 3)), "ab"), r"expected shape \(2, 2\), got \(2, 3\)"),
    ],
)
def test_what_does_not_fit_is_said(call, message):
    with pytest.raises(OptionError, match=message):
        call()


@pytest.mark.parametrize("n", [0, 1])
def test_empty_and_single_things_are_drawn(n):
    plot_segments({"y": [(0, 1, "A")] * n})
    plot_heads("a" * n, [None] * n)
    plot_links("a" * n, "b" * n, [(0, 0)] * n)
    plot_transitions(np.ones((n, n)), "a" * n)
