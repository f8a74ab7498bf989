"""UAI files: scores as a naive reader finds them, evidence in both layouts, and one clear line for every mistake."""

from __future__ import annotations

import gzip
import json
import math
import tracemalloc
from itertools import product

import numpy as np
import pytest

from counted_calls import calls_of
from naive_formats import assert_same_scores, read_uai, scores_of, uai_text
from ssvm_dsl import read_problem, solve_problem
from ssvm_dsl.errors import DataError, FileFormatError, OptionError
from ssvm_dsl.inference.planning.planner import plan
from ssvm_dsl.inference.session import open_plan
from ssvm_dsl.io.formats.uai import read_evidence
from ssvm_dsl.io.problem_file import FileLimits
from ssvm_dsl.ir import Question, Task
from ssvm_dsl.plugin_api import program_need

TINY = "MARKOV\n3\n2 2 3\n2\n2 0 1\n2 1 2\n4  0.1 0.9 0.5 0.5\n6  1 0 2  2 0 1\n"


def written(folder, text, name="a.uai"):
    path = folder / name
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return path


@pytest.fixture
def tiny(tmp_path):
    return read_problem(written(tmp_path, TINY))


@pytest.mark.parametrize("kind", ["MARKOV", "BAYES"])
@pytest.mark.parametrize("seed", range(12))
def test_scores_are_those_of_a_naive_reader(tmp_path, seed, kind):
    text = uai_text(np.random.default_rng(seed), kind)
    problem = read_problem(written(tmp_path, text))
    assert problem.program.validate().n_examples == 1
    assert_same_scores(problem, *read_uai(text))


def test_zipped_files_are_unpacked_whatever_their_name(tmp_path):
    packed = gzip.compress(TINY[:20].encode()) + gzip.compress(TINY[20:].encode())
    for name in ("a.uai.gz", "a.uai"):
        assert_same_scores(read_problem(written(tmp_path, packed, name)), *read_uai(TINY))


def test_factors_of_equal_shape_share_a_group(tmp_path):
    text = "MARKOV 3 2 2 3 6  1 0  2 0 1  2 1 2  2 1 0  0  1 0 " + "2 1 2 4 1 2 3 4 6 1 2 3 4 5 6 4 5 6 7 8 1 3 2 1 1"
    problem = read_problem(written(tmp_path, text))
    assert [group.cards for group in problem.program.groups] == [(2, 2), (2, 3)]
    assert problem.program.groups[0].scope.tolist() == [[0, 1], [1, 0]]
    np.testing.assert_allclose(np.exp(problem.theta.node[:2]), [1.0, 2.0])
    np.testing.assert_allclose(problem.theta.const, np.log(3.0))
    assert_same_scores(problem, *read_uai(text))


def test_a_constant_of_zero_makes_everything_impossible(tmp_path):
    problem = read_problem(written(tmp_path, "MARKOV 1 2 1 0 1 0"))
    assert scores_of(problem, [(0,), (1,)]) == [-np.inf, -np.inf]
    assert np.isfinite(problem.theta.const).all()


@pytest.mark.parametrize("text", ["0", "0\n", "1\n0", "2 2 1 0 0", "2\n2 1\n0 0", "1\n2 2 1 0 0", "1\n2 2 1\n0 0\n"])
def test_evidence_in_every_layout(tmp_path, tiny, text):
    clamp = read_evidence(written(tmp_path, text, "a.evid"), tiny)
    assert clamp.dtype == np.int32
    assert clamp.tolist() == ([0, -1, 1] if "2 1" in text else [-1, -1, -1])


def test_evidence_and_forbidden_states_say_the_same(tiny):
    clamp = tiny.clamp([(2, 0)])
    session = open_plan(plan(program_need(tiny.program, frozenset({Task.MAP_CLAMPED}))), tiny.program)
    clamped = session.solve(Question(tiny.theta, task=Task.MAP_CLAMPED, clamp=clamp))
    given = session.solve(Question(tiny.given(clamp)))
    best = max((score, y) for y in product(range(2), range(2), [0]) for score in scores_of(tiny, [y]))
    assert clamped.score[0] == given.score[0] == pytest.approx(best[0])
    assert clamped.labels[2] == given.labels[2] == 0
    assert tiny.theta.node[-1] == 0.0


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("", "line 1, column 1: expected the number of observed variables, found the end of the file"),
        ("2 0 1", "line 1, column 1: expected pairs for 2 variables, or one sample, found 2 more numbers"),
        ("1", "expected pairs of variable and state (2 numbers from token 2 on), found the end of the file"),
        ("1 0 1 7", "line 1, column 7: expected the end of the file after 1 pairs"),
        ("3\n1 0 1\n1 0 0\n0", "expected pairs for 3 variables, or one sample, found 7 more numbers"),
        ("1 9 0", "expected variables from 0 to 2, found variable 9"),
        ("1 2 3", "expected states from 0 to 2 for variable 2, found state 3"),
        ("2 0 1 0 0", "expected one state for variable 0, found states 1 and 0"),
        ("1 0 x", "line 1, column 5: expected pairs of variable and state, a number, found 'x'"),
        ("1 0 0.5", "expected pairs of variable and state, an int of at least 0, found '0.5'"),
        ("1 -1 0", "found '-1'"),
    ],
)
def test_wrong_evidence(tmp_path, tiny, text, word):
    with pytest.raises(FileFormatError) as caught:
        read_evidence(written(tmp_path, text, "a.evid"), tiny)
    assert word in str(caught.value)
    assert "\n" not in str(caught.value)


def test_states_are_checked_in_calls_too(tiny):
    with pytest.raises(DataError, match="variables from 0 to 2, found variable -1"):
        tiny.clamp([(-1, 0)])


#: Calls that a file may take (at most 77 000 when this was written), and each of many factors: numbers come in bulk.
MOST_CALLS, CALLS_A_FACTOR = 150_000, 4

MISTAKES = [
    ("", "line 1, column 1: expected MARKOV or BAYES, found the end of the file"),
    ("MARKOVIAN 1 2 0", "line 1, column 1: expected MARKOV or BAYES, found 'MARKOVIAN'"),
    ("3 2 2 2", "expected MARKOV or BAYES, found '3'"),
    (TINY[:12], "expected the number of states of each variable (3 numbers from token 3 on), found the end of the fil"),
    (TINY.replace("2 2 3", "2 -2 3"), "line 3, column 3: expected the number of states of each variable, an int of at"),
    (TINY.replace("2 2 3", "2 0 3"), "line 3, column 3: expected"),
    (TINY.replace("2 2 3", "2 2.5 3"), "line 3, column 3: expected"),
    (TINY.replace("2 1 2", "2 1 3"), "line 6, column 5: expected a variable, an int from 0 to 2, found '3'"),
    (TINY.replace("2 1 2", "2 1 -1"), "line 6, column 5: expected a variable, an int from 0 to 2, found '-1'"),
    (TINY.replace("2 1 2", "2 1 1"), "line 6, column 5: expected different variables in a factor, found variable 1 ag"),
    (TINY.replace("2 1 2", "9 1 1"), "line 6, column 1: expected the number of variables of factor 1, an int from 0 t"),
    (TINY.replace("2 1 2", "-1 1 1"), "line 6, column 1: expected the number of variables of factor 1"),
    (TINY.replace("6  1", "5  1"), "line 8, column 1: expected 6, the length of the table of factor 1 (2x3), found '5"),
    (TINY.replace("2 0 1\n", "2 0\n", 1), "expected"),
    (TINY.replace(" 0.9", " nan"), "line 7, column 8: expected the tables, a number, found 'nan'"),
    (TINY.replace(" 0.9", " inf"), "found 'inf'"),
    (TINY.replace(" 0.9", " -inf"), "found '-inf'"),
    (TINY.replace(" 0.9", " 1e999"), "line 7, column 8: expected a number that fits 64 bits, found '1e999'"),
    (TINY.replace(" 0.9", " 1e-999"), "line 7, column 8: expected zero or a number of at least 5e-324, found '1e-999'"),
    (TINY.replace(" 0.9", " -0.9"), "line 7, column 8: expected a factor value of at least 0, found '-0.9'"),
    (TINY.replace(" 0.9", " 0,9"), "line 7, column 8: expected a number, found '0,9'"),
    (TINY.replace(" 0.9", " 0.9-0.1"), "line 7, column 8: expected a number, found '0.9-0.1'"),
    (TINY.replace(" 0.9", " 0x9"), "line 7, column 8: expected a number, found '0x9'"),
    (TINY.replace(" 0.9", " 0.9\0"), "line 7, column 8: expected a text file, found byte 0"),
    (TINY.replace(" 0.9", " " + "9" * 5000), "expected tokens of at most 4096 characters, found a longer one"),
    (TINY[:-3], "line 8, column 14: expected the 6 entries of the table of factor 1, found the end of the file"),
    (TINY[:60], "expected"),
    (TINY + "1", "line 9, column 1: expected the end of the file after the last table, found '1'"),
    (
        TINY.replace("\n2\n", "\n1000000000\n"),
        "line 4, column 1: expected at most 18 factors, since that many numbers f",
    ),
    (TINY.replace("MARKOV\n3", "MARKOV\n1000000000"), "expected the number of states of each variable (1000000000 num"),
    (TINY.replace("2 2 3", "2 2 1000000000"), "expected at most 50000000 states together"),
    ("MARKOV 3 4000 4000 4000 1 3 0 1 2 1", "expected 64000000000, the length of the table of factor 0"),
    ("MARKOV 40" + " 1000" * 40 + " 1 40 " + " ".join(map(str, range(40))) + " 5 1", "expected 1e+120, the length"),
]


@pytest.mark.parametrize(("text", "word"), MISTAKES, ids=range(len(MISTAKES)))
def test_one_line_for_every_mistake(tmp_path, text, word):
    path = written(tmp_path, text)
    def read():
        with pytest.raises(FileFormatError) as caught:
            read_problem(path)
        return caught

    tracemalloc.start()
    caught, n_calls = calls_of(read)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert word in str(caught.value)
    assert str(caught.value).startswith(str(path))
    assert "\n" not in str(caught.value)
    assert n_calls < MOST_CALLS
    assert peak < 5e6


def test_what_unpacks_to_gigabytes_is_given_up_at_the_limit(tmp_path):
    path = tmp_path / "bomb.uai.gz"
    with gzip.open(path, "wb", compresslevel=1) as file:
        for _ in range(300):
            file.write(b" " * 10**6)
    tracemalloc.start()
    with pytest.raises(FileFormatError, match=r"at most 1\.0 MB of text, found more"):
        read_problem(path, limits=FileLimits(n_bytes=10**6))
    assert tracemalloc.get_traced_memory()[1] < 2e7
    tracemalloc.stop()
    with pytest.raises(FileFormatError, match="at most 100 B of text"):
        read_problem(written(tmp_path, " " * 101), limits=FileLimits(n_bytes=100))


def test_damaged_gzip_files(tmp_path):
    packed = gzip.compress(TINY.encode())
    damaged = bytearray(packed)
    damaged[len(packed) // 2] ^= 0xFF
    for data in (packed[:-9], packed[:5], bytes(damaged), packed + b"rubbish"):
        with pytest.raises(FileFormatError, match="expected a whole gzip file, found a damaged one"):
            read_problem(written(tmp_path, data, "a.uai.gz"))


def test_the_format_is_told_by_the_name_or_named(tmp_path):
    path = written(tmp_path, TINY, "model.txt")
    listed = "uai, wcsp, cfn, fg, bif, wcnf, opb"
    with pytest.raises(FileFormatError, match=f"expected a format out of {listed}, found 'txt'"):
        read_problem(path)
    assert read_problem(path, format="uai").n_variables == 3
    with pytest.raises(FileNotFoundError):
        read_problem(tmp_path / "nowhere.uai")


def test_many_small_factors_are_read_in_bulk(tmp_path):
    n = 100_000
    scopes = "\n".join(f"2 {v} {v + 1}" for v in range(n))
    text = f"MARKOV\n{n + 1}\n{'2 ' * (n + 1)}\n{n}\n{scopes}\n" + "4 0.1 0.2 0.3 0.4\n" * n
    path = written(tmp_path, text)
    problem, n_calls = calls_of(lambda: read_problem(path))
    assert n_calls < CALLS_A_FACTOR * n
    assert problem.program.groups[0].n_factors == n


# -- real files ------------------------------------------------------------------------------------------


@pytest.mark.data
@pytest.mark.parametrize("folder", ["ad3", "uai2014", "pr2014"])
def test_all_real_files_are_read_in_bulk(data_dir, folder):
    files = sorted((data_dir / "map" / folder).glob("*.uai.gz"))
    assert len(files) == {"ad3": 11, "uai2014": 50, "pr2014": 17}[folder]
    for path in files:
        problem, n_calls = calls_of(lambda path=path: read_problem(path))
        assert n_calls < MOST_CALLS, path.name
        evidence = path.with_name(path.name.removesuffix(".gz") + ".evid")
        if evidence.exists():
            n = int(evidence.read_text().split()[0])
            assert (read_evidence(evidence, problem) >= 0).sum() == n


@pytest.mark.data
@pytest.mark.parametrize(
    "name",
    [
        *("ad3/network", "ad3/or_chain_10.fg", "ad3/deer_rescaled_0034.K10.F1.25.model", "uai2014/Promedas_71"),
        *("uai2014/wcsp_15", "uai2014/ProteinFolding_11", "pr2014/CSP_13", "pr2014/Alchemy_11"),
    ],
)
def test_real_files_score_as_a_naive_reader_says(data_dir, name):
    path = data_dir / "map" / f"{name}.uai.gz"
    assert_same_scores(read_problem(path), *read_uai(gzip.decompress(path.read_bytes()).decode()))


@pytest.mark.data
@pytest.mark.parametrize("name", ["grid3x3.uai", "grid4x4.uai"])
def test_published_optima(data_dir, name):
    optima = {one["file"]: one for one in json.loads((data_dir / "map/ad3/optima.json").read_text())}
    problem = read_problem(data_dir / "map/ad3" / f"{name}.gz")
    session = open_plan(plan(program_need(problem.program), "brute-force"), problem.program)
    found = session.solve(Question(problem.theta))
    assert found.score[0] == pytest.approx(optima[name]["best_log_score"], abs=1e-6)


@pytest.mark.filterwarnings("error::RuntimeWarning")
def test_a_problem_with_zeros_is_solved_without_warnings(tmp_path):
    path = tmp_path / "zeros.uai"
    path.write_text("MARKOV\n2\n2 2\n1\n2 0 1\n4  0 1 2 0\n")
    assert solve_problem(read_problem(path)).labels == [1, 0]


def test_a_problem_is_solved_in_one_call(tmp_path):
    path = tmp_path / "two.uai"
    path.write_text("MARKOV\n2\n2 2\n2\n1 0\n2 0 1\n2  1.0 3.0\n4  2.0 1.0 0.5 1.0\n")
    problem = read_problem(path)
    found = solve_problem(problem)
    assert (found.status, found.labels, found.score) == ("optimal", [1, 1], pytest.approx(math.log(3.0)))
    for evidence in ({1: 0}, [-1, 0]):
        assert solve_problem(problem, evidence=evidence, backend="tree").labels == [0, 0]
    assert solve_problem(problem, "marginals").log_partition == pytest.approx(math.log(7.5))
    with pytest.raises(DataError, match="a state for each of 2 variables"):
        solve_problem(problem, evidence=[1])
    with pytest.raises(OptionError, match="a dict of options by name"):
        solve_problem(problem, backend_options=3)
