"""WCSP files: costs as a naive reader finds them, keyword functions by their definitions, published optima."""

from __future__ import annotations

from itertools import combinations, product

import numpy as np
import pytest

from naive_formats import assert_same_scores, read_wcsp, scores_of, wcsp_text
from ssvm_dsl import read_problem
from ssvm_dsl.errors import FileFormatError
from ssvm_dsl.io.problem_file import FileLimits
from ssvm_dsl.scoring import solve_problem

TINY = "tiny 3 3 2 10\n2 3 2\n2 0 1 0 1\n0 1 5\n1 2 3 1\n1 0\n"


def written(folder, text):
    path = folder / "a.wcsp"
    path.write_text(text)
    return path


@pytest.mark.parametrize("seed", range(24))
def test_scores_are_those_of_a_naive_reader(tmp_path, seed):
    text = wcsp_text(np.random.default_rng(seed))
    problem = read_problem(written(tmp_path, text))
    assert problem.floor == -12
    assert_same_scores(problem, *read_wcsp(text))


def test_shared_functions_are_used_again(tmp_path):
    shared = "s 3 2 4 9  2 2 2  -2 0 1 0 2  0 1 4  1 0 3   2 2 1 0 -1   -1 0 2 1 1 0   1 2 0 -2"
    plain = "s 3 2 4 9  2 2 2  2 0 1 0 2  0 1 4  1 0 3  2 2 1 0 2 0 1 4 1 0 3  1 0 2 1 1 0  1 2 2 1 1 0"
    assert_same_scores(read_problem(written(tmp_path, shared)), *read_wcsp(plain))


def costs(problem, labellings):
    return [-score for score in scores_of(problem, labellings)]


BINARY = {
    ">= 1 2": lambda x, y: max(y + 1 - x, 0) if y + 1 - x <= 2 else np.inf,
    "> 0 9": lambda x, y: max(y + 1 - x, 0),
    "<= 1 1": lambda x, y: max(x - y - 1, 0) if x - y - 1 <= 1 else np.inf,
    "< 1 1": lambda x, y: max(x - y, 0) if x - y <= 1 else np.inf,
    "= -1 2": lambda x, y: abs(x - y + 1) if abs(x - y + 1) <= 2 else np.inf,
    "disj 2 1 5": lambda x, y: 0 if x >= y + 1 or y >= x + 2 else 5,
    "sdisj 2 1 2 3 4 6": lambda x, y: (
        np.inf if x > 2 or y > 3 or not (x == 2 or y == 3 or x >= y + 1 or y >= x + 2) else 4 * (x == 2) + 6 * (y == 3)
    ),
}


@pytest.mark.parametrize("keyword", BINARY)
def test_binary_functions_by_their_definition(tmp_path, keyword):
    problem = read_problem(written(tmp_path, f"k 2 4 1 11  4 -5  2 0 1 -1 {keyword}"))
    labellings = list(product(range(4), range(5)))
    assert costs(problem, labellings) == [BINARY[keyword](x, y) for x, y in labellings]


def n_changes(y, fits):
    """How many variables must change so that ``fits`` holds, by trying everything."""
    near = product(*[range(3)] * len(y))
    return min(sum(a != b for a, b in zip(y, other)) for other in near if fits(other))


def pairs(y):
    return sum(a == b for a, b in combinations(y, 2))


@pytest.mark.parametrize(("measure", "n"), [("var", 3), ("var", 2), ("dec", 4), ("decbi", 3)])
def test_all_different(tmp_path, measure, n):
    scope = " ".join(map(str, range(n)))
    problem = read_problem(written(tmp_path, f"k {n} 3 1 99 {'3 ' * n} {n} {scope} -1 salldiff {measure} 7"))
    for y, cost in zip(product(*[range(3)] * n), costs(problem, product(*[range(3)] * n))):
        assert cost == 7 * (n_changes(y, lambda z: not pairs(z)) if measure == "var" else pairs(y))
    hard = read_problem(written(tmp_path, f"k {n} 3 1 7 {'3 ' * n} {n} {scope} -1 salldiff {measure} 7"))
    assert hard.program.max_arity == 2
    for y, cost in zip(product(*[range(3)] * n), costs(hard, product(*[range(3)] * n))):
        assert (cost == 0) == (pairs(y) == 0)


@pytest.mark.parametrize("rows", [[(0, 1, 1), (1, 1, 1), (2, 1, 2)], [(0, 2, 3)], [(1, 0, 1), (2, 1, 1)], []])
@pytest.mark.parametrize("measure", ["var", "dec"])
def test_cardinalities(tmp_path, measure, rows):
    listed = " ".join(f"{v} {a} {b}" for v, a, b in rows)
    text = f"k 4 3 1 99  3 3 3 3  4 0 1 2 3 -1 sgcc {measure} 5 {len(rows)} {listed}"
    problem = read_problem(written(tmp_path, text))

    def fits(y):
        return all(low <= y.count(value) <= high for value, low, high in rows)

    def misses(y):
        return sum(max(low - y.count(value), 0, y.count(value) - high) for value, low, high in rows)

    labellings = list(product(*[range(3)] * 4))
    for y, cost in zip(labellings, costs(problem, labellings)):
        assert cost == 5 * (n_changes(y, fits) if measure == "var" else misses(y))


def test_a_total_cost_of_the_upper_bound_is_no_solution(tmp_path):
    # every tuple costs less than 10, every labelling at least 10
    problem = read_problem(written(tmp_path, "k 2 2 3 10  2 2  1 0 4 1 0 5  1 1 6 0  2 0 1 0 0"))
    answer = solve_problem(problem, backend="brute-force")
    assert (answer.status, answer.labels) == ("infeasible", None)
    assert "score -10; the file asks for more than -10" in answer.note


MISTAKES = [
    ("", "line 1, column 1: expected the name of the problem, found the end of the file"),
    ("a b", "line 1, column 3: expected the number of variables, an int of at least 0, found 'b'"),
    (TINY[:9], "expected the number of functions"),
    (TINY[:20], "line 1, column 10: expected at most 0 functions, since that many numbers follow, found '2'"),
    (TINY[:27], "expected"),
    (TINY[:-3], "line 6, column 2: expected the 1 tuples of function 1 (2 numbers from token 21 on), found the end"),
    (TINY + "0", "line 7, column 1: expected the end of the file after the 2 functions that were announced, found '0'"),
    (TINY.replace("2 3 2", "2 0 2"), "line 2, column 3: expected a domain of at least one value, found '0'"),
    (TINY.replace("2 3 2", "2 3.5 2"), "line 2, column 3: expected the domain size of each variable, an int"),
    (TINY.replace("2 3 2", "2 3 99999999"), "expected at most 50000000 states together"),
    (TINY.replace("2 0 1 0", "2 0 3 0"), "line 3, column 5: expected the variables of function 0, an int from 0 to 2"),
    (TINY.replace("2 0 1 0", "2 1 1 0"), "line 3, column 5: expected different variables in a function, found variabl"),
    (TINY.replace("2 0 1 0", "4 0 1 0"), "line 3, column 1: expected the scope size of function 0, an int from -3 to"),
    (TINY.replace("2 0 1 0", "2 0 1 -2"), "line 3, column 7: expected the default cost of function 0, an int"),
    (
        TINY.replace("2 0 1 0 1", "2 0 1 0 7"),
        "line 3, column 9: expected at most 6 tuples, since no more exist, found '7",
    ),
    (TINY.replace("2 0 1 0 1", "2 0 1 0 -1"), "line 3, column 9: expected minus the number of one of the 0 shared fun"),
    (TINY.replace("0 1 5", "0 3 5"), "line 4, column 3: expected a state of its variable, found '3'"),
    (TINY.replace("0 1 5", "-1 1 5"), "line 4, column 1: expected a state of its variable, found '-1'"),
    (TINY.replace("0 1 5", "0 1 -5"), "line 4, column 5: expected a cost, an int of at least 0, found '-5'"),
    (TINY.replace("0 1 5", "0 1 5.5"), "line 4, column 5: expected a cost, an int of at least 0, found '5.5'"),
    (TINY.replace("0 1 5", "0 1 nan"), "line 4, column 5: expected the 1 tuples of function 0, a number, found 'nan'"),
    (TINY.replace("0 1 0 1\n0 1 5", "0 1 0 2\n0 1 5\n0 1 6"), "line 4, column 1: expected one cost for each tuple"),
    (
        TINY.replace("3 2 10", "3 1000000000 10"),
        "line 1, column 10: expected at most 14 functions, since that many num",
    ),
    (TINY.replace("2 0 1 0 1\n0 1 5", "2 0 1 -1 ssum 5"), "line 3, column 10: expected a function that can be written"),
    (TINY.replace("2 0 1 0 1\n0 1 5", "2 0 1 -1 7"), "line 3, column 10: expected the keyword of a function"),
    (TINY.replace("2 0 1 0 1\n0 1 5", "2 0 1 -1 salldiff lin 5"), "line 3, column 19: expected how 'salldiff' counts"),
    (TINY.replace("2 0 1 0 1\n0 1 5", "1 0 -1 >= 1 5"), "line 3, column 8: expected two variables in the scope of '>="),
    (TINY.replace("2 0 1 0 1\n0 1 5", "2 0 1 -1 sgcc var 5 1 0 3 3"), "expected bounds that 2 variables can meet"),
    ("k 1 2 1 9 2 0 -1 salldiff var 5", "line 1, column 18: expected variables in the scope of 'salldiff', found none"),
    ("k 3 400 1 9 400 400 400 3 0 1 2 0 0", "line 1, column 25: expected functions of at most 50000000 more table ent"),
    ("k 3 400 1 9 400 400 400 3 0 1 2 -1 salldiff var 1", "expected 'salldiff' over at most 1000000 joint states, or"),
]


@pytest.mark.parametrize(("text", "word"), MISTAKES, ids=range(len(MISTAKES)))
def test_one_line_for_every_mistake(tmp_path, text, word):
    with pytest.raises(FileFormatError) as caught:
        read_problem(written(tmp_path, text))
    assert word in str(caught.value)
    assert "\n" not in str(caught.value)


def test_many_tables_share_one_limit(tmp_path):
    text = "k 1 40 3 9  40 " + "1 0 0 0 " * 3
    assert read_problem(written(tmp_path, text), limits=FileLimits(n_entries=120)).n_variables == 1
    with pytest.raises(FileFormatError, match="at most 39 more table entries"):
        read_problem(written(tmp_path, text), limits=FileLimits(n_entries=119))


# -- real files ------------------------------------------------------------------------------------------


@pytest.mark.data
@pytest.mark.parametrize("name", ["4queens", "cap131", "celar6sub0", "example", "warehouse", "zebra"])
def test_real_files_score_as_a_naive_reader_says(data_dir, name):
    path = data_dir / f"map/wcsp/{name}.wcsp"
    assert_same_scores(read_problem(path), *read_wcsp(path.read_text()))


@pytest.mark.data
@pytest.mark.parametrize("name", ["4queens", "donald", "latin", "sudoku", "warehouse", "zebra"])
def test_published_optima(data_dir, name):
    problem = read_problem(data_dir / f"map/wcsp/{name}.wcsp")
    best = int((data_dir / f"map/wcsp/{name}.ub").read_text())
    backend = "brute-force" if name == "4queens" else "ilp"
    answer = solve_problem(problem, backend=backend)
    assert answer.status == "optimal"
    assert -answer.score == pytest.approx(best)


@pytest.mark.data
def test_disjunctions_over_large_domains(data_dir):
    problem = read_problem(data_dir / "map/wcsp/10_1.wcsp")
    assert problem.theta.pool.size == 11_403_850
    lines = (data_dir / "map/wcsp/10_1.wcsp").read_text().splitlines()[2:]
    posted = [[int(t) for t in line.replace("-1 sdisj", "").split()[1:]] for line in lines if "sdisj" in line]
    assert len(posted) == 45

    def cost(y):
        total = 0
        for i, j, a, b, last_i, last_j, cost_i, cost_j in posted:
            x, z = y[i], y[j]
            if not (x >= z + b or z >= x + a or x == last_i or z == last_j):
                return np.inf
            total += cost_i * (x == last_i) + cost_j * (z == last_j)
        return total

    last = problem.program.card - 1
    labellings = [np.random.default_rng(k).integers(0, last + 1).tolist() for k in range(300)]
    labellings += [np.where(np.arange(10) == k, 0, last).tolist() for k in range(10)]
    expected = [cost(y) for y in labellings]
    assert costs(problem, labellings) == expected
    assert 10 <= np.isfinite(expected).sum() < 310
