"""Plots draw what they are given."""

from __future__ import annotations

import sys
from itertools import pairwise
from types import SimpleNamespace

import networkx
import numpy as np
import pytest
from scipy.sparse import csr_array

import small
from small import Case
from ssvm_dsl import (
    POTTS,
    Dim,
    Factor,
    Input,
    Label,
    Model,
    StructuredSVM,
    complete,
    cross,
    from_networkx,
    grid,
    ground,
    regularization_path,
    report,
    to_networkx,
)
from ssvm_dsl.errors import OptionError
from ssvm_dsl.plugin_api import TrainingEvent
from ssvm_dsl.report import confusion, labellings, parse_trees, plots
from ssvm_dsl.report.curves import estimated

matplotlib = pytest.importorskip("matplotlib")
matplotlib.use("Agg")

DATA = Case(small.Word, n=8).make(0)


@pytest.fixture(autouse=True)
def close():
    yield
    matplotlib.pyplot.close("all")


@pytest.fixture(scope="module")
def reports():
    settings = {"max_passes": 12, "tol": 0.0, "random_state": 0}
    with pytest.warns():
        return {name: StructuredSVM(small.Word, trainer=name, **settings).fit(DATA.X, DATA.Y).report_
                for name in ("bcfw", "subgradient")}  # fmt: skip


@pytest.fixture(scope="module", params=["C", "lam"])
def stopped(request):
    """A fit that ends by a callback, before a certificate; it is asked for after the last event."""
    settings = {"tol": 0.0, "random_state": 0, "callbacks": [lambda event: event.n_passes > 6.0]}
    strength = {"C": 1.0} if request.param == "C" else {"lam": 1.0 / DATA.grounded.program.n_examples}
    return StructuredSVM(small.Word, **strength, **settings).fit(DATA.X, DATA.Y).report_


def drawn(ax, kind):
    """Return (x, y) of the lines of a kind."""
    return [line.get_xydata().T for line in ax.get_lines() if line.get_gid() == kind]


def said(ax):
    return [text.get_text() for text in ax.get_legend().get_texts()]


def history(*rows, certified=True, validation_score=np.nan, **end):
    """Return a report of rows (passes, best primal, best dual, estimate of the gap, estimate of the dual)."""
    events = []
    for k, (passes, estimate, dual, gap, guess) in enumerate(rows):
        primal = estimate if certified else np.nan
        extra = {"gap_estimate": gap, "dual_estimate": guess} if np.isfinite(gap) else {}
        relative = (primal - dual) / primal
        events.append(TrainingEvent(k + 1, passes, passes, primal, dual, primal - dual, relative, primal, dual,
                                    int(10 * passes), 0.0, extra, estimate))  # fmt: skip
    last = events[-1]
    end = {"primal": last.best_primal, "dual": last.best_dual, "relative_gap": last.relative_gap} | end
    end |= {"estimate": estimate}
    end |= {"certified": certified, "validation_score": validation_score, "history": tuple(events)}
    return SimpleNamespace(trainer="made", seconds=last.seconds, n_passes=last.n_passes, n_oracle_calls=0, **end)


NAN = np.nan


@pytest.mark.parametrize("over", plots.OVER)
def test_objectives_of_several_trainers_on_one_axis(reports, over):
    ax = plots.plot_training(reports, over=over)
    x, best = drawn(ax, "value")[1]
    events = [event for event in reports["subgradient"].history if np.isfinite(event.best_primal)]
    np.testing.assert_array_equal(x, [getattr(event, over) for event in events])
    np.testing.assert_array_equal(best, [event.best_primal for event in events])
    for _, bounds in drawn(ax, "bound"):
        assert np.max(bounds) <= np.min(best) + 1e-9
    assert said(ax) == [*reports, "lower bound", "estimate, not certified"]


@pytest.mark.parametrize("over", plots.OVER)
def test_estimates_are_drawn_up_to_the_certificate(stopped, over):
    for what, wanted, end in (("objective", 2, stopped.primal), ("gap", 1, stopped.relative_gap)):
        ax = plots.plot_training(stopped, over=over, what=what)
        guesses = drawn(ax, "estimate")
        assert len(guesses) == wanted
        assert len(guesses[0][0]) == len(stopped.history)
        ((x, y),) = drawn(ax, "value")
        assert (x[-1], y[-1]) == (getattr(stopped, over), end)
        lines = {line.get_gid(): line for line in ax.get_lines() if line.get_gid()}
        assert lines["estimate"].get_linewidth() < lines["value"].get_linewidth()
        assert len({line.get_color() for line in lines.values()}) == 1


def test_estimates_are_in_the_units_of_the_objective(stopped):
    """The lower bound that ``bcfw`` keeps is exact up to rounding, and the certificate's pass adds little to it."""
    primal, dual, gap = estimated(stopped.history[-1])
    assert dual == pytest.approx(stopped.dual, rel=1e-6)
    assert stopped.dual <= primal < 2.0 * stopped.primal
    assert gap == pytest.approx((primal - dual) / primal)


def test_gaps_on_a_given_axis(reports):
    given = matplotlib.figure.Figure().subplots()
    ax = plots.plot_training(reports["subgradient"], what="gap", ax=given)
    assert ax is given
    assert ax.get_yscale() == "log"
    assert len(drawn(ax, "value")) == 1
    before = ax.get_ylim()
    plots.plot_training(reports["bcfw"], what="gap", ax=given)
    assert said(ax) == [*reversed(reports), "estimate, not certified"]
    assert ax.get_ylim()[0] <= before[0]
    assert ax.get_ylim()[1] >= before[1]


def test_outliers_do_not_rule_the_axes():
    good = history((1, 200, -100, NAN, NAN), (10, 100, 60, NAN, NAN), (100, 90, 85, NAN, NAN))
    steep = history((1, 1e6, 0, NAN, NAN), (1.1, 150, 20, NAN, NAN), (50, 95, 60, NAN, NAN))
    bad = history((5, 7e4, 0, NAN, NAN))
    deep = history((3, 90, 90 * (1 - 1e-10), NAN, NAN))
    ax = plots.plot_training({"good": good, "steep": steep, "bad": bad, "deep": deep}, over="n_passes")
    assert ax.get_xscale() == "log"
    bottom, top = ax.get_ylim()
    assert -20 < bottom < 0
    assert 200 < top < 500
    assert [line.get_marker() for line in ax.get_lines() if line.get_gid() == "value"] == ["o", "o", "^", "o"]
    ax = plots.plot_training({"good": good, "steep": steep, "deep": deep}, what="gap")
    bottom, top = ax.get_ylim()
    assert 1e-6 < bottom < 1e-2
    assert 1 < top < 2
    assert [line.get_marker() for line in ax.get_lines() if line.get_gid() == "value"] == ["o", "o", "v"]


def test_axes_are_linear_where_little_changes_and_objectives_logarithmic_where_much_does():
    near = history((5, 100, 60, NAN, NAN), (10, 90, 80, NAN, NAN))
    ax = plots.plot_training(near, over="n_passes")
    assert (ax.get_xscale(), ax.get_yscale()) == ("linear", "linear")
    far = history((1, 1e4, 0, NAN, NAN), (10, 9e3, 1, NAN, NAN), (30, 5, 4, NAN, NAN))
    ax = plots.plot_training(far, over="n_passes")
    assert (ax.get_xscale(), ax.get_yscale()) == ("log", "log")
    assert ax.get_ylim()[0] < 5
    assert ax.get_ylim()[1] > 1e4


def test_objectives_of_a_heuristic_are_estimates_and_what_has_no_gap_says_so():
    found = history((1, 30, NAN, NAN, NAN), (2, 20, NAN, NAN, NAN), certified=False)
    ax = plots.plot_training({"icm": found, "made": history((1, 30, 5, NAN, NAN), (2, 25, 10, NAN, NAN))})
    np.testing.assert_array_equal(drawn(ax, "estimate")[0][1], [30, 20])
    assert len(drawn(ax, "value")) == 1
    assert said(plots.plot_training(found, what="gap")) == ["made (no gap is known)"]


@pytest.mark.parametrize("n", [1, 2, 6])
def test_the_legend_covers_no_curve_of_many(n):
    rows = [(k, 200.0 / k, 2.0 * k, NAN, NAN) for k in range(1, 6)]
    ax = plots.plot_training({f"trainer{k}": history(*rows, (9.0 - k / 9, 30, 14, 10, 20)) for k in range(n)})
    ax.figure.canvas.draw()
    legend = ax.get_legend().get_window_extent()
    inside = [ax.transData.transform(line.get_xydata()) for line in ax.get_lines() if line.get_gid()]
    assert not any(legend.contains(*point) for points in inside for point in points)
    assert len(said(ax)) == n + 2


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


def test_names_are_thinned_out_where_there_are_many():
    def names(axis):
        return [text.get_text() for text in axis.get_ticklabels()]

    many = [f"x[{k}]" for k in range(128)]
    ax = plots.plot_weights(np.zeros((26, 128)), "abcdefghijklmnopqrstuvwxyz", many)
    assert names(ax.xaxis) == many[::20]
    assert list(ax.get_xticks()) == list(range(0, 128, 20))
    assert names(ax.yaxis) == list("abcdefghijklmnopqrstuvwxyz")
    ax.figure.canvas.draw()
    boxes = [text.get_window_extent() for text in ax.xaxis.get_ticklabels()]
    assert all(one.x1 < other.x0 for one, other in pairwise(boxes))
    words = ["northwest", "northeast", "southwest", "southeast", "anywhere", "nowhere"]
    ax = plots.plot_weights(np.zeros((1000, 6)), [str(k) for k in range(1000)], words)
    assert names(ax.xaxis) == words
    assert ax.xaxis.get_ticklabels()[0].get_rotation() == 90
    assert 10 <= len(names(ax.yaxis)) <= 30


def test_plots_are_at_hand_in_the_package():
    assert report.plot_training is plots.plot_training
    modules = (plots, labellings, labellings, parse_trees, confusion)
    drawn = {name for module in modules for name in vars(module) if name.startswith("plot_")}
    assert {name for name in dir(report) if name.startswith("plot_")} == drawn | {"plot_factor_graph"}
    with pytest.raises(AttributeError, match="plot_nothing"):
        report.plot_nothing  # noqa: B018


def test_wrong_input(reports, monkeypatch):
    with pytest.raises(OptionError, match="over must be one of"):
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
    ((x, y),) = drawn(plots.plot_training(svm.report_, over="n_passes", what="validation"), "value")
    told = [(event.n_passes, event.extra["validation_score"]) for event in svm.report_.history
            if "validation_score" in event.extra]  # fmt: skip
    assert list(zip(x, y, strict=True)) == told
    with pytest.raises(OptionError, match="the fit of 'bcfw' had no validation examples"):
        plots.plot_training(reports, what="validation")


# -- graphs --------------------------------------------------------------------------------------------------


class Sketch(Model):
    H, W = Dim(), Dim()
    x = Input(H, W, 2)
    y = Label(H, W, "abcde")
    z = Label(2)
    data = Factor(y, features=x)
    net = Factor(grid(y), form=POTTS)
    both = Factor(cross(z, y))


def marks(ax):
    """Return how many nodes are drawn under each name of the legend."""
    return {one.get_label(): len(one.get_offsets()) for one in ax.collections if one.get_label()[0] != "_"}


def test_a_model_is_drawn_with_its_weights():
    ax = report.plot_factor_graph(Sketch)
    said = "\n".join(text.get_text() for text in ax.texts)
    weights = ("w[5, 2]", "a, b, c ...  by  x[0], x[1]")
    for word in ("y[H, W]", "5 states", "data: y, x", *weights, "net: grid(y)", "2 times"):
        assert word in said


def test_an_example_is_drawn_as_its_factor_graph():
    grounded = ground(Sketch, [np.ones((1, 1, 2)), np.ones((3, 4, 2))])
    ax = report.plot_factor_graph(grounded, 1)
    assert marks(ax) == {"y\n  data  w[5, 2]": 12, "z": 1, "net  w (one number)": 17, "both  w[2, 5]": 12}
    assert {text.get_text() for text in ax.texts} == {"z", *(f"y[{r}, {c}]" for r in range(3) for c in range(4))}
    places = {t.get_text(): t.get_position() for t in ax.texts}
    assert places["y[1, 2]"][0] == places["y[0, 2]"][0]
    assert places["y[1, 2]"][1] == places["y[1, 3]"][1] < places["y[0, 3]"][1]


def test_problems_and_graphs_are_drawn_too():
    graph = networkx.Graph()
    graph.add_nodes_from([("a", {"scores": [0, 1]}), ("b", {"scores": [0, 0]})])
    graph.add_edge("a", "b", table=np.eye(2))
    problem = from_networkx(graph)
    for what in (problem, to_networkx(problem)):
        assert marks(report.plot_factor_graph(what)) == {"variables": 2, "2x2": 1}


def test_complete_graphs_are_not_drawn_on_a_line():
    class Pairs(Model):
        K = Dim(6)
        x = Input(1)
        y = Label(K, 2)
        pair = Factor(complete(y))

    ax = report.plot_factor_graph(ground(Pairs, [np.ones(1)]))
    assert len({round(text.get_position()[1], 3) for text in ax.texts}) > 2


def test_large_graphs_are_refused():
    with pytest.raises(OptionError, match="too large to draw"):
        report.plot_factor_graph(ground(Sketch, [np.ones((40, 40, 2))]))
