"""Experiments of single families: what does not depend on the machine's speed, on small data."""

from __future__ import annotations

import json

import numpy as np
import pytest
from foreign import inside

from ssvm_dsl.datasets.terrains import make_plans
from ssvm_dsl.reproduce import counting, value_functions
from ssvm_dsl.reproduce.experiment import Verdict
from ssvm_dsl.reproduce.running import saved_result


def quiet(doing, share):
    """Progress that nobody looks at."""


def drawn(experiment, arrays):
    figures = pytest.importorskip("matplotlib.figure")
    figure = figures.Figure()
    experiment.draw(arrays, figure)
    return len(figure.axes)


def test_an_experiment_runs_through_the_command(capsys, monkeypatch, tmp_path):
    monkeypatch.setattr(counting, "REPEATS", 1)
    centre, page = counting.EXPERIMENTS[1], tmp_path / "page.md"
    arguments = ("reproduce", centre.name, "--quick", "--results", str(tmp_path), "--page", str(page), "--json")
    status, out, _ = inside(capsys, *arguments)
    (told,) = json.loads(out)["results"]
    assert (status, told["name"], told["quick"]) == (0, centre.name, True)
    assert [row["verdict"] for row in told["rows"][:2]] == ["agrees"] * 2  # the rest are times
    kept = saved_result(tmp_path, centre.name, quick=True)
    assert kept.findings.as_json()["rows"] == told["rows"]
    assert drawn(centre, kept.findings.arrays) == 2
    section = page.read_text().partition(f"## {centre.name}")[2]
    assert all(f"| {row['what']} | {row['published']} | {row['ours']} |" in section for row in told["rows"])


def test_figures_of_counting():
    left, _, right = counting.EXPERIMENTS
    assert drawn(left, {"sizes": np.array([10, 20]), "curves": np.ones((3, 2, 2))}) == 2
    assert drawn(right, {"sizes": np.array([10, 20]), "curves": np.ones((2, 2, 4))}) == 2


def test_statements_about_dicycles():
    batch = [(0.5, 1.0, 0.6, 0.9), (0.5, 50.0, 0.5, 0.9)]  # objective, seconds, test risk, cosine
    rows = counting.dicycle_rows((10, 100), np.array([batch, [(0.6, 1.0, 0.7, 0.8), (0.6, 2.0, 0.7, 0.8)]]))
    assert [row.verdict for row in rows] == [Verdict.AGREES] * 3 + [Verdict.OURS] * 3
    assert rows[2].ours == "-40.0 (SGD, n = 100), -5.0 (NCG, n = 10)"
    rows = counting.dicycle_rows((10, 100), np.array([[(0.6, 1.0, 0.7, 0.8), (0.6, 2.0, 0.7, 0.8)], batch]))
    assert [row.verdict for row in rows[:2]] == [Verdict.MISSES] * 2


@pytest.mark.parametrize(
    ("level", "text"), [(0.4, "0.30 n"), (0.05, "none: NCG is faster at any tau"), (1.5, "none: SGD is faster")]
)
def test_where_times_cross(level, text):
    assert counting.crossing(np.array([0.0, 0.5, 1.0]), np.array([0.1, 0.6, 1.1]), level).startswith(text)


def test_value_functions(monkeypatch):
    monkeypatch.setattr(
        value_functions, "make_plans", lambda n, **more: make_plans(min(n, 12), shape=(6, 6), **more)
    )
    monkeypatch.delenv("SSVM_DATA", raising=False)
    (experiment,) = value_functions.EXPERIMENTS
    found = experiment.run(True, quiet)
    assert found.arrays["errors"].shape == (4, 1)
    assert (found.arrays["curves"] > 0).all()
    assert np.isfinite(found.arrays["errors"]).all()
    assert any("left out" in note for note in found.notes)
    assert drawn(experiment, found.arrays) == 1
