"""CFN, WCNF, OPB and BIF files: the best labelling and the sums are those of enumeration by what the text means."""

from __future__ import annotations

import math
from itertools import product

import numpy as np
import pytest

from naive_formats import bif_parts, cfn_parts, opb_parts, wcnf_cost, wcnf_parts
from ssvm_dsl import read_problem, solve_problem, to_networkx, write_uai
from ssvm_dsl.cli.main import main
from ssvm_dsl.errors import DataError, FileFormatError, OptionError
from ssvm_dsl.io.formats.uai import read_evidence
from ssvm_dsl.io.problem_file import FileLimits
from ssvm_dsl.plugin_api import score_labels

SEEDS = range(25)


def written(folder, text, name):
    path = folder / name
    path.write_text(text)
    return path


def check_best(problem, costs, sign=-1.0, backend="auto"):
    """The answer is the best of the labellings that have a cost."""
    answer = solve_problem(problem, backend=backend)
    possible = {y: cost for y, cost in costs.items() if cost is not None}
    if not possible:
        assert answer.status == "infeasible"
        assert answer.labels is None
        return
    best = max(sign * cost for cost in possible.values())
    assert answer.status == "optimal"
    assert answer.score == pytest.approx(best, abs=1e-9)
    assert sign * possible[tuple(answer.labels)] == pytest.approx(best, abs=1e-9)


@pytest.mark.parametrize("seed", SEEDS)
def test_cost_networks(seed, tmp_path):
    text, (cards, cost, sign, bound) = cfn_parts(np.random.default_rng(seed))
    problem = read_problem(written(tmp_path, text, "a.cfn"))
    assert problem.program.card.tolist() == cards
    assert list(problem.names) == [f"x{v}" for v in range(len(cards))]
    factor = -1.0 if sign == "<" else 1.0
    costs = {y: cost(y) for y in product(*map(range, cards))}
    kept = {y: c if c is not None and factor * c > factor * bound else None for y, c in costs.items()}
    check_best(problem, kept, factor)


@pytest.mark.parametrize("seed", SEEDS)
def test_maxsat(seed, tmp_path):
    text, (n, clauses) = wcnf_parts(np.random.default_rng(seed))
    problem = read_problem(written(tmp_path, text, "a.wcnf"))
    assert problem.n_given == n
    costs = {y: wcnf_cost(clauses, y) for y in product(range(2), repeat=n)}
    check_best(problem, costs)
    if n and any(cost is not None for cost in costs.values()):
        answer = solve_problem(problem, "marginals", backend="brute-force")
        expected = math.log(sum(math.exp(-cost) for cost in costs.values() if cost is not None))
        assert answer.log_partition == pytest.approx(expected)
        assert len(answer.node) == 2 * n


@pytest.mark.parametrize("seed", SEEDS)
def test_pseudo_boolean(seed, tmp_path):
    text, (used, cost) = opb_parts(np.random.default_rng(seed))
    problem = read_problem(written(tmp_path, text, "a.opb"))
    assert list(problem.names[: problem.n_given]) == [f"x{v + 1}" for v in used]
    costs = {}
    for y in product(range(2), repeat=len(used)):
        full = dict(zip(used, y, strict=True))
        costs[y] = cost(full)
    check_best(problem, costs)


@pytest.mark.parametrize("seed", SEEDS)
def test_bayesian_networks(seed, tmp_path):
    text, (names, states, tables) = bif_parts(np.random.default_rng(seed))
    problem = read_problem(written(tmp_path, text, "a.bif"))
    assert list(problem.names) == names
    assert [list(one) for one in problem.states] == states
    for y in product(*(range(len(one)) for one in states)):
        p = math.prod(table[(*(y[u] for u in parents), y[v])] for v, parents, table in tables)
        score = float(score_labels(problem.program, problem.theta, np.array(y, np.int32))[0])
        assert score == pytest.approx(math.log(p) if p else -math.inf)
    rng = np.random.default_rng(seed)
    v = int(rng.integers(len(names)))
    k = int(rng.integers(len(states[v])))
    p = sum(
        math.prod(table[(*(y[u] for u in parents), y[w])] for w, parents, table in tables)
        for y in product(*(range(len(one)) for one in states)) if y[v] == k
    )  # fmt: skip
    answer = solve_problem(problem, "marginals", evidence={names[v]: states[v][k]})
    if p:
        assert answer.log_partition == pytest.approx(math.log(p), abs=1e-9)
    else:
        assert answer.status == "infeasible"


CHAIN = "network n {}\nvariable a { type discrete [ 2 ] { yes, no }; }\nvariable b { type discrete [ 2 ] { 1, 0 }; }\n"
CHAIN += "probability ( a ) { table 0.9, 0.1; }\nprobability ( b | a ) { (yes) 0.8, 0.2; (no) 0.3, 0.7; }\n"


def test_names_of_variables_and_states(tmp_path, capsys):
    path = written(tmp_path, CHAIN, "a.bif")
    problem = read_problem(path)
    answer = solve_problem(problem)
    assert (answer.labels, answer.named) == ([0, 0], {"a": "yes", "b": "1"})
    for evidence in ({"b": "0"}, {"b": 1}, {1: 1}, {1: "0"}, [-1, 1], {"1": "0"}):
        assert solve_problem(problem, evidence=evidence).named == {"a": "yes", "b": "0"}
    wrong = (({"c": 0}, "a variable"), ({"a": "maybe"}, "a state of a"), ({"a": 2}, "states from 0 to 1"))
    for evidence, words in wrong:
        with pytest.raises(DataError, match=words):
            solve_problem(problem, evidence=evidence)
    assert read_evidence(written(tmp_path, "1 1 1", "e"), problem).tolist() == [-1, 1]
    assert main(["solve", str(path), "--labels", "--observe", "b=0"]) == 0
    assert "a=yes b=0" in capsys.readouterr().out
    assert main(["solve", str(path), "--task", "marginals", "--labels"]) == 0
    with pytest.raises(SystemExit):
        main(["solve", str(path), "--observe", "b"])
    assert "expected NAME=STATE, got 'b'" in capsys.readouterr().err


def test_directions_bounds_and_values(tmp_path):
    form = '{{problem: {{name: p, mustbe: "{}"}}, variables: {{x: [l, r], 2}}, '
    form += "functions: {{f: {{scope: [x 1], costs: {}}}}}}}"
    for bound, costs, expected in (
        ("<10.0", "[3 1.5 2 4]", ("optimal", -1.5)),
        ("<1.5", "[3 1.5 2 4]", ("infeasible", None)),
        (">3", "[3 1.5 2 4]", ("optimal", 4.0)),
        (">4", "[3 1.5 2 4]", ("infeasible", None)),
        ("<0.3", "[0.3 1 1 1]", ("infeasible", None)),
        ("<-1", "[-1.25 1 1 1]", ("optimal", 1.25)),
    ):
        answer = solve_problem(read_problem(written(tmp_path, form.format(bound, costs), "a.cfn")))
        assert answer.status == expected[0]
        assert expected[1] is None or answer.score == pytest.approx(expected[1])


def test_long_clauses_are_rules_and_stay_hidden(tmp_path):
    n = 40
    literals = " ".join(str(v * (-1) ** v) for v in range(1, n + 1))
    text = f"h {literals} 0\n7 {literals} 0\n" + "".join(f"2 {-v * (-1) ** v} 0\n" for v in range(1, n + 1))
    problem = read_problem(written(tmp_path, text, "a.wcnf"))
    assert (problem.n_given, problem.n_auxiliary) == (n, 1)
    assert problem.name(0) == "1"
    assert problem.name(n) == "clause 2 fails"
    answer = solve_problem(problem)
    assert (answer.score, len(answer.labels), len(answer.named)) == (-2.0, n, n)
    with pytest.raises(OptionError, match="tables only"):
        write_uai(tmp_path / "b.uai", problem)
    with pytest.raises(OptionError, match="tables only"):
        to_networkx(problem)


def test_keywords_of_cost_networks(tmp_path):
    form = '{{problem:{{name:p mustbe:"<90"}} variables:{{x:3 y:3 z:3}} '
    form += "functions:{{f:{{scope:[x y{}] type:{}}}}}}}"
    each = {
        '">=", params:[1 5]': ("", lambda x, y, z: max(y + 1 - x, 0) if y + 1 - x <= 5 else None),
        '"<", params:[0 2]': ("", lambda x, y, z: max(x + 1 - y, 0) if x + 1 - y <= 2 else None),
        "disj, params:[1 1 7]": ("", lambda x, y, z: 7 * (x == y)),
        'salldiff, params:{"metric":"var" "cost":7}': (" z", lambda x, y, z: 7 * (3 - len({x, y, z}))),
        'sgcc, params:{metric:dec, cost:7, bounds:[[0 0 1],[1,1,2]]}': (
            " z", lambda x, y, z: 7 * (max([x, y, z].count(0) - 1, 0) + max(1 - [x, y, z].count(1), 0)
                                       + max([x, y, z].count(1) - 2, 0))),
    }  # fmt: skip
    for text, (more, cost) in each.items():
        problem = read_problem(written(tmp_path, form.format(more, text), "a.cfn"))
        for y in product(range(3), repeat=3):
            score = float(score_labels(problem.program, problem.theta, np.array(y, np.int32))[0])
            expected = cost(*y)
            assert score == (-math.inf if expected is None else -expected), (text, y)


CFN = '{problem: {name: p, mustbe: "<9"}, variables: {x: 2, y: [a b]}, '
CFN += "functions: {f: {scope: [x y], costs: [1 2 3 4]}}}"
KNAPSACK = "type: knapsack params: {capacity: 1 weights: [1]}"
WCNF = "p wcnf 2 2 9\n9 1 2 0\n3 -1 0\n"
OPB = "min: +1 x1 +2 x2;\n+1 x1 +1 x2 >= 1;\n"
MISTAKES = [
    ("a.cfn", CFN.replace("problem", "trouble"), "column 2: expected 'problem', found 'trouble'"),
    ("a.cfn", CFN.replace("<9", "9"), "expected a bound such as <10.5 or >-3, found '9'"),
    ("a.cfn", CFN.replace("[x y]", "[x z]"), "expected a variable that is declared, found 'z'"),
    ("a.cfn", CFN.replace("[x y]", "[x x]"), "different variables in a function, found x again"),
    ("a.cfn", CFN.replace("3 4", "3"), "expected 4 costs, found 3"),
    ("a.cfn", CFN.replace("3 4", "3 4 5"), "expected 4 costs, found more"),
    ("a.cfn", CFN.replace("3 4", "3 b"), "expected a cost, a number, found 'b'"),
    ("a.cfn", CFN.replace("[1 2 3 4]", "g"), "shared tables are not read"),
    ("a.cfn", CFN.replace("costs: [1 2 3 4]", "type: sregular"), "found 'sregular'"),
    ("a.cfn", CFN.replace("costs: [1 2 3 4]", KNAPSACK), "a weight for each"),
    ("a.cfn", CFN.replace("x: 2", "x: 0"), "the number of values of x, an int from 1"),
    ("a.cfn", CFN.replace("[a b]", "[a a]"), "expected different values of y"),
    ("a.cfn", CFN[:-1], "expected the closing bracket of the file, found the end of the file"),
    ("a.cfn", CFN + "x", "expected the end of the file"),
    ("a.wcnf", WCNF.replace("2 2 9", "2 3 9"), "expected 3 clauses, as the header says, found 2"),
    ("a.wcnf", WCNF.replace("9 1 2", "9 1 3"), "expected variables from 1 to 2 in each clause, found variable 3"),
    ("a.wcnf", WCNF.replace("3 -1 0", "3 -1"), "expected 0 behind the literals of the last clause"),
    ("a.wcnf", WCNF.replace("3 -1", "0 -1"), "the weight of a clause, an int from 1"),
    ("a.wcnf", WCNF.replace("3 -1", "h -1"), "know no h"),
    ("a.wcnf", WCNF.replace("-1 0", "-1.5 0"), "line 3, column 3: expected a literal"),
    ("a.wcnf", WCNF.replace("wcnf", "cnf"), "expected 'p wcnf VARIABLES CLAUSES"),
    ("a.wcnf", "q 1 0\n", "line 1, column 1: expected a clause: its weight or h"),
    ("a.wcnf", "3 1 h 0\n", "line 1, column 5: expected a literal, or 0"),
    ("a.wcnf", "9007199254740992 1 0\n9007199254740992 2 0\n", "sum to at most 2^53"),
    ("a.opb", OPB.replace(">= 1", "1"), "line 2, column 14: expected a variable such as x1"),
    ("a.opb", OPB.replace("+2 x2;", "+2;"), "expected a variable such as x1, found ';'"),
    ("a.opb", OPB.replace("+1 x1 +1", "+500000000 x1 +3"), "coefficients of a constraint that sum to at most"),
    ("a.opb", OPB.replace("x2;", "x2"), "line 2"),
    ("a.opb", OPB.replace(">= 1", ">= 1.5"), "the right side of a constraint, an int"),
    ("a.bif", CHAIN.replace("b | a", "a | b"), "expected one probability for each variable, found that of a again"),
    ("a.bif", CHAIN.replace("[ 2 ] { yes", "[ 3 ] { yes"), "expected 3 different states of a, found 2 names"),
    ("a.bif", CHAIN.replace("0.9", "0.7"), "probabilities of a of at least 0 that sum to 1"),
    ("a.bif", CHAIN.replace("(no) 0.3, 0.7;", ""), "a row for all states of the parents of b, found 1 without one"),
    ("a.bif", CHAIN.replace("(no)", "(yes)"), "expected each row once"),
    ("a.bif", CHAIN.replace("(no)", "(perhaps)"), "expected a state of a: yes, no, found 'perhaps'"),
    ("a.bif", CHAIN.replace("b | a", "b | c"), "line 5, column 19: expected a variable that is declared, found 'c'"),
    ("a.bif", CHAIN.replace("probability ( a ) { table 0.9, 0.1; }\n", ""), "expected a probability of variable a"),
    ("a.bif", CHAIN.replace("0.8, 0.2", "0.8"), "expected 2 numbers, the probabilities of b, found 1"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "text", "words"), MISTAKES)
def test_mistakes(name, text, words, tmp_path):
    with pytest.raises(FileFormatError) as caught:
        read_problem(written(tmp_path, text, name))
    assert words in str(caught.value)
    assert str(caught.value).startswith(str(tmp_path / name))
    assert "\n" not in str(caught.value)


LIMITED = [
    ("a.wcnf", "3 400000 0\n"),
    ("a.cfn", CFN.replace("x: 2", "x: 400000")),
    ("a.cfn", CFN.replace("x: 2, y: [a b]", "x: 3000, y: 3000")),
    ("a.bif", CHAIN + "".join(
        f"variable c{k} {{ type discrete [ 30 ] {{ {', '.join(f's{j}' for j in range(30))} }}; }}\n" for k in range(6)
    ) + "probability ( c0 | c1, c2, c3, c4, c5 ) { }"),
    ("a.opb", "min: " + " ".join(f"+1 x{k}" for k in range(300_000)) + ";"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "text"), LIMITED)
def test_limits(name, text, tmp_path):
    with pytest.raises(FileFormatError, match=r"at most [0-9]+ .*\(FileLimits\.n_entries raises this\)"):
        read_problem(written(tmp_path, text, name), limits=FileLimits(n_entries=100_000))


def test_an_empty_objective_and_negated_literals(tmp_path):
    path = written(tmp_path, "* none\n+1 x2 +2 ~x1 >= 3 ;\n-3*x2 <= -1;", "a.opb")
    answer = solve_problem(read_problem(path))
    assert (answer.status, answer.score, answer.named) == ("optimal", 0.0, {"x1": "0", "x2": "1"})
