"""What people see of a fit: the report at 80 columns and in a notebook, and the progress bar."""

from __future__ import annotations

from dataclasses import replace
from io import StringIO

import numpy as np
import pytest
from rich.console import Console

from model_table import tagger
from ssvm_dsl import StructuredSVM
from ssvm_dsl.datasets import make_chains
from ssvm_dsl.notebook_tables import html_table
from ssvm_dsl.plugin_api import TrainingEvent
from ssvm_dsl.report.progress import FitProgress
from ssvm_dsl.report.tables import plain_table, two_columns

Word = tagger(5, 3)


@pytest.fixture(scope="module")
def report():
    X, Y = make_chains(20, random_state=0)
    return StructuredSVM(Word, tol=0.01, random_state=0).fit(X, Y).report_


def drawn(thing, width=80):
    out = Console(file=StringIO(), width=width)
    out.print(thing)
    return out.file.getvalue()


def event(n_passes, relative_gap=np.nan, best_primal=246.4, seconds=0.0, **extra):
    nothing = dict.fromkeys(("primal", "dual", "gap", "best_dual"), np.nan)
    return TrainingEvent(1, n_passes, seconds, best_primal=best_primal, n_oracle_calls=0, oracle_seconds=0.5,
                         relative_gap=relative_gap, extra=extra, **nothing)  # fmt: skip


def test_the_report_fits_80_columns_and_says_everything(report):
    lines = drawn(report).splitlines()
    assert max(map(len, lines)) <= 80
    told = " ".join(" ".join(lines).split())
    for name, text in report.rows():
        assert name in told
        assert " ".join(text.split()) in told
    assert "(certified)" in told


def test_the_report_in_a_notebook(report):
    page = report._repr_html_()
    assert page.count("<tr>") == len(report.rows())
    assert "<b>" not in html_table("a <b>", [("<b>", "x & <b>")])
    assert "x &amp; &lt;b&gt;" in html_table("a <b>", [("<b>", "x & <b>")])


def test_tables_take_brackets_literally():
    assert "[bold]x[/bold]" in drawn(two_columns("t", [("name", "[bold]x[/bold]")]))
    assert "[red]" in drawn(plain_table("", ["a"], [["[red]"]]))
    assert drawn(plain_table("", ["a"], [["b"]])).splitlines()[0].strip() == "a"


@pytest.fixture
def bar():
    made = FitProgress(0.01, 100, console=Console(file=StringIO(), width=100))
    return made, lambda: made._bar.tasks[0]


def test_the_bar_follows_the_logarithm_of_the_gap(bar):
    progress, task = bar
    shares = []
    for gap in (1.0, 0.1, 0.05, 0.2, 0.01, 0.001):
        progress.update(event(3, gap))
        shares.append(task().completed)
    assert shares == pytest.approx([0.0, 0.5, np.log(20) / np.log(100), np.log(5) / np.log(100), 1.0, 1.0])
    assert task().fields["text"] == "3 passes, primal 246.4, gap 1.0e-03"


def test_estimates_are_marked_until_there_is_a_certificate(bar):
    progress, task = bar
    guess = {"gap_estimate": 1.0, "dual_estimate": 9.0}
    progress.update(event(2.5, best_primal=np.nan, **guess))
    assert task().fields["text"] == "2.5 passes, primal ~10, gap ~1.0e-01"
    assert task().completed == 0.0
    progress.update(event(3, 0.2, **guess))
    assert task().fields["text"] == "3 passes, primal 246.4, gap 2.0e-01, now ~1e-01"


def test_the_share_of_the_oracle_is_shown(bar):
    progress, task = bar
    progress.update(event(3, 0.1, seconds=2.0))
    assert task().fields["text"] == "3 passes, primal 246.4, gap 1.0e-01, oracle 25%"


def test_without_a_terminal_there_are_plain_lines_at_once():
    file = StringIO()
    with FitProgress(0.01, 100, console=Console(file=file, width=20)) as progress:
        assert file.getvalue() == "fit first pass (the first run compiles)\n"
        for seconds in (0.1, 0.2, 0.9, 1.5, 1.6, 300.0, 310.0):
            progress.update(event(3, 0.1, seconds=seconds))
        lines = file.getvalue().splitlines()
    assert [line.rpartition(", ")[2] for line in lines[1:]] == ["100 ms", "1.5 s", "5 min 0 s"]
    assert lines[1].startswith("fit 3 passes, primal 246.4, gap 1.0e-01, oracle ")
    assert len(file.getvalue().splitlines()) == 5  # the last one in any case
    assert "\x1b" not in file.getvalue()


def test_on_a_terminal_the_line_is_live():
    file = StringIO()
    with FitProgress(0.01, 100, console=Console(file=file, width=80, force_terminal=True)) as progress:
        progress.update(event(3, 0.1, seconds=300.0))
    assert "\x1b" in file.getvalue()


def test_the_line_fits_80_columns():
    progress = FitProgress(0.01, 100, console=Console(file=StringIO(), width=80))
    progress.update(event(12.3, best_primal=np.nan, seconds=2.0, gap_estimate=0.987654, dual_estimate=114.7837))
    (line,) = drawn(progress._bar.get_renderable()).splitlines()
    assert "12.3 passes, primal ~115.77, gap ~8.5e-03, oracle 25%" in line
    assert line.startswith("fit")
    assert "0:00:00" in line


def test_the_last_score_on_held_out_examples_is_shown(bar):
    progress, task = bar
    progress.update(event(2, 0.1, validation_score=0.875))
    progress.update(event(3, 0.1))
    assert task().fields["text"] == "3 passes, primal 246.4, gap 1.0e-01, validation 0.875"


def test_without_a_gap_the_bar_counts_passes(bar):
    progress, task = bar
    progress.update(event(25))
    assert task().completed == 0.25
    assert task().fields["text"] == "25 passes, primal 246.4"


def test_what_the_labellings_of_a_heuristic_are_worth_is_an_estimate(bar):
    progress, task = bar
    progress.update(replace(event(25, best_primal=np.nan), estimate=246.4))
    assert task().fields["text"] == "25 passes, primal ~246.4"


def test_progress_goes_to_standard_error(capsys):
    X, Y = make_chains(10, random_state=0)
    StructuredSVM(Word, tol=0.01, random_state=0, verbose=True).fit(X, Y)
    out, err = capsys.readouterr()
    assert out == ""
    assert "passes, primal" in err
    assert "oracle " in err
