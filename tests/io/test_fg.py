"""libDAI factor graphs: as a naive reader reads them, and the exact marginals that libDAI itself printed."""

from __future__ import annotations

import re

import numpy as np
import pytest

from naive_formats import assert_same_scores, fg_text, read_fg
from ssvm_dsl import read_problem
from ssvm_dsl.errors import FileFormatError
from ssvm_dsl.inference.planning.planner import plan
from ssvm_dsl.inference.session import open_plan
from ssvm_dsl.io.formats.uai import read_evidence
from ssvm_dsl.io.problem_file import FileLimits
from ssvm_dsl.ir import Question, Task
from ssvm_dsl.plugin_api import program_need

TINY = "# two factors\n2\n\n2\n7 3\n2 3\n2\n1 0.5\n4 2\n\n1\n3\n3\n1\n2 8\n"


def written(folder, text, name="a.fg"):
    path = folder / name
    path.write_text(text)
    return path


@pytest.mark.parametrize("seed", range(20))
def test_scores_are_those_of_a_naive_reader(tmp_path, seed):
    text = fg_text(np.random.default_rng(seed))
    labels, cards, factors = read_fg(text)
    problem = read_problem(written(tmp_path, text))
    assert problem.names == tuple(map(str, labels))
    assert_same_scores(problem, cards, factors)


def test_the_first_variable_varies_fastest(tmp_path):
    problem = read_problem(written(tmp_path, TINY))
    assert problem.names == ("3", "7")
    assert problem.program.groups[0].scope.tolist() == [[1, 0]]
    # entry 1 is x7 = 1, x3 = 0; entry 4 is x7 = 0, x3 = 2
    np.testing.assert_array_equal(np.exp(problem.theta.tables[0].reshape(2, 3)), [[0, 0, 2], [0.5, 0, 0]])
    np.testing.assert_allclose(np.exp(problem.theta.node), [0, 0, 8, 1, 1])


def test_evidence_names_variables_by_label(tmp_path):
    problem = read_problem(written(tmp_path, TINY))
    assert read_evidence(written(tmp_path, "1 7 0", "e"), problem).tolist() == [-1, 0]
    with pytest.raises(FileFormatError, match="variable"):
        read_evidence(written(tmp_path, "1 0 0", "e"), problem)


MISTAKES = [
    ("", "line 1, column 1: expected the number of factors, an int of at least 0, found the end of the file"),
    (TINY[:24], "expected"),
    (TINY[:-4], "line 14, column 2: expected the 1 entries of factor 1 (2 numbers from token 16 on), found the end of"),
    (TINY + "x", "line 16, column 1: expected the end of the file after the last factor, found 'x'"),
    (TINY.replace("7 3", "7 7"), "line 5, column 3: expected different variables in a factor, found variable 7 again"),
    (TINY.replace("2 3", "2 0"), "line 6, column 3: expected the numbers of states of factor 0, an int of at least 1"),
    (TINY.replace("2 3", "2 4"), "expected 4 states for variable 3 in all factors, found 3 in factor 1"),
    (TINY.replace("4 2", "6 2"), "line 9, column 1: expected the index of an entry, an int from 0 to 5, found '6'"),
    (TINY.replace("4 2", "-4 2"), "line 9, column 1: expected the index of an entry, an int from 0 to 5, found '-4'"),
    (TINY.replace("4 2", "4 -2"), "line 9, column 3: expected a factor value of at least 0, found '-2'"),
    (TINY.replace("4 2", "4 nan"), "line 9, column 3: expected the 2 entries of factor 0, a number, found 'nan'"),
    (TINY.replace("4 2", "1 2"), "line 8, column 1: expected one value for each entry, found index 1 with another val"),
    (TINY.replace("3\n2\n1", "3\n9\n1"), "line 7, column 1: expected the number of listed entries of factor 0, an int"),
    (
        "1000000000 1 2",
        "line 1, column 1: expected at most 2 factors, since that many numbers follow, found '1000000000'",
    ),
    ("1\n3\n1 2 3\n9999 9999 9999\n0", "expected a table of at most 50000000 entries"),
    ("1\n33\n" + "1 " * 80, "expected the number of variables of factor 0, an int from 0 to 32, found '33'"),
]


@pytest.mark.parametrize(("text", "word"), MISTAKES, ids=range(len(MISTAKES)))
def test_one_line_for_every_mistake(tmp_path, text, word):
    with pytest.raises(FileFormatError) as caught:
        read_problem(written(tmp_path, text))
    assert word in str(caught.value)
    assert "\n" not in str(caught.value)


def test_many_tables_share_one_limit(tmp_path):
    text = "3\n" + "1\n0\n40\n0\n" * 3
    assert read_problem(written(tmp_path, text), limits=FileLimits(n_entries=120)).n_variables == 1
    with pytest.raises(FileFormatError, match="line 12, column 1: expected a table of at most 39 entries"):
        read_problem(written(tmp_path, text), limits=FileLimits(n_entries=119))


# -- real files ------------------------------------------------------------------------------------------


@pytest.mark.data
def test_all_real_files_score_as_a_naive_reader_says(data_dir):
    files = sorted((data_dir / "map/libdai").glob("*.fg"))
    assert len(files) == 12
    for path in files:
        labels, cards, factors = read_fg(path.read_text())
        problem = read_problem(path)
        assert problem.names == tuple(map(str, labels))
        assert_same_scores(problem, cards, factors)


@pytest.mark.data
def test_marginals_are_those_that_libdai_printed(data_dir):
    problem = read_problem(data_dir / "map/libdai/testfast.fg")
    need = program_need(problem.program, frozenset({Task.MARGINALS}))
    solution = open_plan(plan(need, "brute-force"), problem.program).solve(Question(problem.theta, task=Task.MARGINALS))
    printed = (data_dir / "map/libdai/testfast.out").read_text().split("\nJTREE")[0]
    rows = re.findall(r"\{x(\d+)\}, \(([^)]*)\)", printed)
    assert [int(name) for name, _ in rows] == list(range(16))
    exact = np.array([[float(p) for p in row.split(",")] for _, row in rows])
    np.testing.assert_allclose(solution.marginals.node.reshape(16, 2), exact, rtol=1e-3)
