"""What results print: numbers as people write them, lines of at most 80 characters."""

from __future__ import annotations

import numpy as np
import pytest

from model_table import tagger
from ssvm_dsl import (
    StructuredSVM,
    bracket_scores,
    grid_scores,
    nested_scores,
    regularization_path,
)
from ssvm_dsl.datasets import make_chains
from ssvm_dsl.learning.page import MOST_TICKS, round_numbers
from ssvm_dsl.units import ratio_text, seconds_text

Word = tagger(5, 3)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.0, "< 1 us"), (1e-8, "< 1 us"), (1e-6, "1 us"), (2.51e-6, "2.5 us"), (1.8e-4, "180 us"), (2.5e-4, "250 us"),
        (9.994e-4, "999 us"), (9.999e-4, "1 ms"), (0.0083, "8.3 ms"), (0.083, "83 ms"), (0.361, "361 ms"),
        (0.9999, "1.0 s"), (4.2, "4.2 s"), (200.0, "3 min 20 s"), (540e3, "150 h"),
    ],
)  # fmt: skip
def test_times_are_written_as_people_write_them(seconds, text):
    assert seconds_text(seconds) == text


def test_ratios_are_written_as_people_write_them():
    assert [ratio_text(r) for r in (1.0, 1.23, 9.96, 53.2, 999, 1234, 1e5)] == [
        "1 x", "1.2 x", "10 x", "53 x", "999 x", "1 000 x", "100 000 x",
    ]  # fmt: skip


@pytest.mark.parametrize("log", [False, True])
def test_marks_of_axes_are_round_numbers_inside(log):
    rng = np.random.default_rng(0)
    for _ in range(300):
        low = 10.0 ** rng.uniform(-8, 8)
        high = low * (1.0 + 10.0 ** rng.uniform(-3, 4))
        marks = round_numbers(low, high, log)
        assert 1 <= len(marks) <= MOST_TICKS
        assert all(low <= one <= high for one in marks)
        if not log:
            step = np.diff(marks).min() if len(marks) > 1 else marks[0]
            assert float(f"{step:.0e}") == pytest.approx(step, rel=1e-6)  # one digit
    assert round_numbers(1.22, 8.66, True) == [2.0, 5.0]
    assert round_numbers(1.0, 30.0, True) == [1.0, 2.0, 5.0, 10.0, 20.0]


def test_results_fit_a_terminal_and_say_what_they_are():
    X, Y = make_chains(20, noise=1.0, random_state=0)
    svm = StructuredSVM(Word, C=0.1, random_state=0, tol=0.01).fit(X, Y)
    for shown in (svm.report_, svm.plan_, svm.prediction_plan(X)):
        assert max(map(len, str(shown).splitlines())) <= 80
    assert str(svm.plan_).splitlines()[0].split() == ["backend", "chain"]

    grid = grid_scores(svm, {"C": [0.01, 0.1]}, X, Y, folds=2)
    lines = [line.split() for line in str(grid).splitlines()]
    assert lines[0] == ["C", "mean", "sd", "seconds"]
    assert [line[0] for line in lines if line[-1] == "best"] == [str(grid.best["C"])]
    nested = nested_scores(svm, {"C": [0.01, 0.1]}, X, Y, outer=2, inner=2)
    assert str(nested).startswith(f"mean {nested.scores.mean():.4f}, sd ")

    point = next(iter(regularization_path(svm, X, Y, 0.01, 0.1)))[0]
    assert str(point).startswith(f"C = 0.01 to {point.C_end:.4g}: relative gap ")


def test_bracket_scores_print_f1_precision_and_recall():
    true, found = ["(S (NP (D the) (N cat)) (V sleeps))"], ["(S (D the) (VP (N cat) (V sleeps)))"]
    assert str(bracket_scores(true, found)) == (
        "F1 0.5000, precision 0.5000, recall 0.5000 (1 of 2 brackets found are right, 2 are true; "
        "0 of 1 trees are entirely right)"
    )
