"""The junction tree against brute force, closed forms in plain numpy, and published partition functions."""

from __future__ import annotations

import gzip
import itertools
import json

import numpy as np
import pytest
from lp_problems import complete, grid, pairwise

from combinations import ALL
from ssvm_backends.elimination.junction_tree import JunctionTree
from ssvm_dsl.errors import NoBackendError, TooLargeError
from ssvm_dsl.inference.planning.planner import plan
from ssvm_dsl.io.formats.uai import read_evidence
from ssvm_dsl.io.problem_file import read_problem
from ssvm_dsl.ir import Group, Need, Program, Question, Task, Theta, Topology
from ssvm_dsl.plugin_api import program_need, score_labels
from ssvm_dsl.testing.brute_force import BruteForce
from ssvm_dsl.testing.problems import Problem, Recipe, seeded


def session(problem, max_entries=2**26, marginals="all"):
    return JunctionTree().open(problem.program, {"max_entries": max_entries, "marginals": marginals})


def brute(problem):
    return BruteForce().open(problem.program, {})


def mixed(cards, n_factors, seed):
    """One example of some cardinalities with random factors of two to four variables."""
    rng, n = np.random.default_rng(seed), len(cards)
    scopes = [rng.permutation(n)[: rng.integers(2, 5)] for _ in range(n_factors)]
    groups = []
    for scope in scopes:
        shape = tuple(int(cards[v]) for v in scope)
        row = np.zeros(1, np.int32)
        scopes, var_ptr = scope[None].astype(np.int32), np.array([0, n])
        groups.append(Group.of(f"g{len(groups)}", shape, scopes, np.array([0, 1]), row, 1, var_ptr))
    program = Program(np.array([0, n]), np.array(cards, np.int32), tuple(groups)).validate()
    tables = [rng.normal(size=(1, g.n_configs)) for g in groups]
    return Problem("mixed", program, Theta.of(program, rng.normal(size=program.n_states), tables, [0.7]))


#: Tables larger than a block, axes that parts skip, single states, three and more numbers of states.
LARGE = {
    "complete": complete(17, 2),
    "grid": grid(4, 4, 2),
    "mixed": mixed([2, 3, 1, 4, 2, 5, 2, 3, 2, 2, 3, 2], 14, 0),
    "dense mixed": mixed([3, 2, 4, 2, 3, 2, 2, 4, 3, 2], 30, 1),
    "many states": mixed([11, 2, 13, 17, 1, 19, 2], 9, 2),
}


@pytest.mark.parametrize("name", LARGE)
def test_tables_larger_than_a_block_agree_with_brute_force(name):
    problem = LARGE[name]
    mine, right = session(problem), brute(problem)
    best, true = mine.solve(Question(problem.theta)), right.solve(Question(problem.theta))
    np.testing.assert_allclose(best.score, true.score, rtol=1e-12)
    np.testing.assert_array_equal(best.bound, best.score)
    found, true = (s.solve(Question(problem.theta, task=Task.MARGINALS)) for s in (mine, right))
    np.testing.assert_allclose(found.log_partition, true.log_partition, rtol=1e-12)
    np.testing.assert_allclose(found.marginals.node, true.marginals.node, atol=1e-12)
    for a, b in zip(found.marginals.tables, true.marginals.tables):
        np.testing.assert_allclose(a, b, atol=1e-12)
    alone = session(problem, marginals="none").solve(Question(problem.theta, task=Task.MARGINALS))
    assert alone.marginals is None
    np.testing.assert_allclose(alone.log_partition, found.log_partition, rtol=1e-13)


@pytest.mark.parametrize("blow_up", [1.0, 300.0, 1e5])
def test_scores_that_do_not_fit_into_probabilities(blow_up):
    """Spans beyond the range of doubles switch single steps to logarithms; zeros stay zeros."""
    problem = mixed([2, 3, 2, 4, 2, 3, 2, 2], 12, 3)
    theta = problem.theta.copy()
    theta.node[:] *= blow_up
    theta.pool[:] *= blow_up
    theta.pool[np.random.default_rng(0).random(len(theta.pool)) < 0.1] = -np.inf
    problem = Problem("blown up", problem.program, theta)
    found, true = (s.solve(Question(theta, task=Task.MARGINALS)) for s in (session(problem), brute(problem)))
    np.testing.assert_allclose(found.log_partition, true.log_partition, rtol=1e-12)
    np.testing.assert_allclose(found.marginals.node, true.marginals.node, atol=1e-9)
    for a, b in zip(found.marginals.tables, true.marginals.tables):
        np.testing.assert_allclose(a, b, atol=1e-9)


def test_log_partition_of_a_grid_by_transfer_matrices():
    """Row by row in plain numpy: an independent sum over 2^144 labellings."""
    h = w = 12
    problem = grid(h, w, 2, seed=5)
    node = problem.theta.node.reshape(h, w, 2)
    table = problem.theta.tables[0].reshape(-1, 2, 2)
    across, down = table[: h * (w - 1)].reshape(h, w - 1, 2, 2), table[h * (w - 1) :].reshape(h - 1, w, 2, 2)
    states = np.array(list(itertools.product([0, 1], repeat=w)))
    inside = [
        node[r][np.arange(w), states].sum(1) + across[r][np.arange(w - 1), states[:, :-1], states[:, 1:]].sum(1)
        for r in range(h)
    ]
    total, weight = inside[0].max(), np.exp(inside[0] - inside[0].max())
    for r in range(1, h):
        weight = weight.reshape((2,) * w)
        for c in range(w):  # one column after the other: sum over its state in the row above
            weight = np.moveaxis(np.tensordot(np.exp(down[r - 1, c]), weight, axes=(0, c)), 0, c)
        weight = weight.ravel() * np.exp(inside[r])
        total += np.log(weight.max())
        weight /= weight.max()
    found = session(problem, marginals="none").solve(Question(problem.theta, task=Task.MARGINALS))
    assert found.log_partition[0] == pytest.approx(total + np.log(weight.sum()), rel=1e-12)


def test_messages_over_the_same_variables_share_memory():
    """A complete bipartite graph: sums over 2^12 labellings of one side, the other side in closed form."""
    n = 12
    problem = pairwise(2 * n, 2, [(u, v) for u in range(n) for v in range(n, 2 * n)], np.random.default_rng(1))
    node, table = problem.theta.node.reshape(-1, 2), problem.theta.tables[0].reshape(n, n, 2, 2)
    left = np.array(list(itertools.product([0, 1], repeat=n)))
    given = node[None, n:] + table[np.arange(n), :, left].sum(1)  # (labellings of the left, right variable, state)
    own = node[np.arange(n), left].sum(1)
    best = (own + given.max(2).sum(1)).max()
    log_z = np.logaddexp.reduce(own + np.logaddexp.reduce(given, axis=2).sum(1))
    few = session(problem, max_entries=40_000, marginals="none")  # twelve messages of 4096 would not fit
    assert few.solve(Question(problem.theta)).score[0] == pytest.approx(best, rel=1e-12)
    assert few.solve(Question(problem.theta, task=Task.MARGINALS)).log_partition[0] == pytest.approx(log_z, rel=1e-12)


def test_more_than_256_states():
    problem = pairwise(3, 300, [(0, 1), (1, 2), (2, 0)], np.random.default_rng(2))
    problem.theta.node.reshape(3, 300)[:, 257:] += 2.0  # best states that take two bytes
    node, table = problem.theta.node.reshape(3, 300), problem.theta.tables[0].reshape(3, 300, 300)
    # best over y of x-y-z, then over x and z
    middle = np.array([(table[0][x][:, None] + node[1][:, None] + table[1]).max(0) for x in range(300)])
    best = (middle + node[0][:, None] + node[2][None] + table[2].T).max()
    found = session(problem).solve(Question(problem.theta))
    assert found.score[0] == pytest.approx(best, rel=1e-12)
    assert score_labels(problem.program, problem.theta, found.labels)[0] == pytest.approx(best, rel=1e-12)
    assert (found.labels > 256).any()


def test_evidence_makes_a_graph_simple():
    """A grid too wide for the limit; a clamped row in the middle cuts it in two."""
    problem = grid(13, 13, 2)
    small = session(problem, max_entries=20_000)
    with pytest.raises(TooLargeError, match=r"clique table of 1\.6e\+04 entries and .* numbers .*allowed are 2e\+04"):
        small.solve(Question(problem.theta))
    clamp = np.full(169, -1, np.int32)
    clamp[::13] = clamp[6::13] = 1
    found = small.solve(Question(problem.theta, task=Task.MAP_CLAMPED, clamp=clamp))
    exact = session(problem).solve(Question(problem.theta, task=Task.MAP_CLAMPED, clamp=clamp))
    assert found.score[0] == pytest.approx(exact.score[0], rel=1e-12)
    assert (found.labels[clamp >= 0] == 1).all()


def test_what_is_kept_of_a_question_is_right_for_the_next_one():
    """Masks, clamps, hard tables and the choice of examples change from call to call of one session."""
    problem, rng = seeded(Recipe(n_examples=4, max_variables=5), 3), np.random.default_rng(0)
    held, alone = session(problem), brute(problem)
    for turn in range(8):
        theta = problem.theta.copy()
        theta.pool[rng.random(len(theta.pool)) < 0.3 * (turn % 2)] = -np.inf
        theta.node[rng.random(len(theta.node)) < 0.2 * (turn // 2 % 2)] = -np.inf
        clamp = np.where(rng.random(problem.program.n_variables) < 0.3, 0, -1).astype(np.int32)
        examples = None if turn % 3 else rng.permutation(4)[:2]
        for _ in range(2):  # then with other numbers where there are any
            question = Question(theta, examples, Task.MAP_CLAMPED, clamp=clamp)
            np.testing.assert_allclose(held.solve(question).score, alone.solve(question).score)
            theta.pool[:] *= 2.0
            theta.node[:] *= 2.0
    assert 1 < len(held.plans.remainders) <= 8


def test_too_wide_graphs_are_refused_when_planning_and_when_solving():
    problem = grid(30, 30, 4)
    need = program_need(problem.program)
    verdict = JunctionTree().check(need)
    assert not verdict.ok
    assert "clique table of at least" in verdict.reasons[0]
    with pytest.raises(NoBackendError, match="clique table of at least"):
        plan(need, "junction-tree")
    with pytest.raises(TooLargeError, match="at least"):
        session(problem).solve(Question(problem.theta))
    wide = Need(topology=Topology.LOOPY, max_clique_table=27.0)
    assert JunctionTree().check(wide).reasons[0].startswith("exact elimination meets a clique table of 1.3e+08 entries")


def test_the_planner_knows_the_memory_that_was_asked_for():
    wide = Need(topology=Topology.LOOPY, max_clique_table=27.0)
    with pytest.raises(NoBackendError, match=r"allowed are 6.7e\+07 numbers"):
        plan(wide, "junction-tree")
    assert plan(wide, "junction-tree", {"max_entries": 2**28}).options["max_entries"] == 2**28
    small = program_need(grid(11, 11, 2).program)
    assert plan(small, "junction-tree").backend == "junction-tree"
    with pytest.raises(NoBackendError, match=r"allowed are 1e\+02 numbers"):
        plan(small, "junction-tree", {"max_entries": 100})


def test_marginals_need_more_memory_than_log_z():
    problem = grid(11, 11, 2)
    with pytest.raises(TooLargeError, match="marginals='none'"):
        session(problem, max_entries=60_000).solve(Question(problem.theta, task=Task.MARGINALS))
    log_z = session(problem, 60_000, "none").solve(Question(problem.theta, task=Task.MARGINALS)).log_partition
    full = session(problem).solve(Question(problem.theta, task=Task.MARGINALS)).log_partition
    np.testing.assert_allclose(log_z, full, rtol=1e-13)


FAMILIES = {
    "Alchemy": (11,),
    "CSP": (13,),
    "DBN": (12, 14, 16),
    "Grids": (12, 14),
    "Promedus": (13, 16, 22, 26, 29, 31, 33, 36),
    "Segmentation": (12, 14),
}
REAL = [f"{family}_{k}" for family, numbers in FAMILIES.items() for k in numbers]

#: They take as long as all others together.
LONG = ("CSP_13", "DBN_14")


def published(folder, name):
    """(log10 Z, marginals of all states)."""
    listed = json.loads((folder / "partition_functions.json").read_text())
    numbers = gzip.decompress((folder / f"{name}.uai.MAR.gz").read_bytes()).split()[1:]
    out, at = [], 1
    for _ in range(int(numbers[0])):
        count = int(numbers[at])
        out += [float(x) for x in numbers[at + 1 : at + 1 + count]]
        at += 1 + count
    return next(one["log10_Z"] for one in listed if one["file"] == f"{name}.uai"), np.array(out)


@pytest.mark.data
@pytest.mark.parametrize("name", [name for name in REAL if ALL or name not in LONG])
def test_published_partition_functions_and_marginals(data_dir, name):
    folder = data_dir / "map" / "pr2014"
    problem = read_problem(folder / f"{name}.uai.gz")
    clamp = read_evidence(folder / f"{name}.uai.evid", problem)
    log10_z, marginals = published(folder, name)
    only_z = name in ("DBN_12", "DBN_16")  # the messages of all marginals would take 0.7 and 1.5 GB
    one = session(problem, marginals="none" if only_z else "all")
    found = one.solve(Question(problem.theta, task=Task.MARGINALS, clamp=clamp))
    assert found.log_partition[0] / np.log(10) == pytest.approx(log10_z, abs=1e-9)
    if only_z:
        with pytest.raises(TooLargeError, match="clique table of"):
            session(problem).solve(Question(problem.theta, task=Task.MARGINALS, clamp=clamp))
    else:
        np.testing.assert_allclose(found.marginals.node, marginals, atol=1e-6)  # six digits are published
