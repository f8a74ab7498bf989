"""The same optima as ``combi``, bounds that hold at any scale, limits that are kept, wrong answers that are found."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from time import perf_counter, sleep

import networkx
import numpy as np
import pytest

from ssvm_dsl import Dim, Factor, Hamming, Input, Label, Model, StructuredSVM, complete, from_networkx
from ssvm_dsl.errors import BackendFault
from ssvm_dsl.ir import Limits, Primal, Stop, Task, Theta
from ssvm_dsl.testing import Problem, answer, check_backend
from ssvm_toulbar2 import process
from ssvm_toulbar2.process import Worker


def rough_grid(side, card, seed=0, whole=False):
    """A grid with random scores: hard for a search."""
    rng = np.random.default_rng(seed)
    graph = networkx.grid_2d_graph(side, side)
    for node in graph.nodes.values():
        node["scores"] = rng.integers(-50, 50, card) if whole else rng.normal(size=card)
    for edge in graph.edges.values():
        edge["table"] = rng.integers(-50, 50, (card, card)) if whole else rng.normal(size=(card, card))
    problem = from_networkx(graph)
    return Problem(f"rough grid of {side} x {side}", problem.program, problem.theta)


def patched(monkeypatch, wrong):
    """Let ``wrong(problem, arrays, reply)`` change what the solver answers."""

    def ask(worker, problem, arrays, end):
        reply, reason = asked(worker, problem, arrays, end)
        return wrong(problem, arrays, reply), reason

    asked = Worker.ask
    monkeypatch.setattr(Worker, "ask", ask)


# -- optima --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("vac", [0, 1])
def test_a_larger_problem(vac):
    problem = rough_grid(10, 3)
    found = answer("toulbar2", problem, {"vac": vac})
    assert problem.agree(found.score, answer("combi", problem).score)


# -- rounding ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("power", range(-12, 13, 3))
def test_any_scale_has_the_same_answer(power):
    problem = rough_grid(6, 3, seed=2).scaled(10.0**power)
    found, expected = answer("toulbar2", problem), answer("combi", problem)
    assert problem.agree(found.score, expected.score)
    assert found.bound[0] >= expected.score[0]
    assert problem.agree(found.bound, expected.score)


@pytest.mark.parametrize("size", [1, 2**20, 2**40])
def test_integers_are_exact(size):
    problem = rough_grid(6, 3, seed=3, whole=True).scaled(float(size))
    found = answer("toulbar2", problem)
    assert found.bound[0] == found.score[0] == answer("combi", problem).score[0]


def test_small_scores_beside_a_large_one():
    small = rough_grid(5, 2, seed=4)
    node = small.theta.node.copy()
    node[0] += 1e12
    problem = Problem("one large score", small.program, Theta.of(small.program, node, small.theta.tables))
    found, best = answer("toulbar2", problem), answer("combi", small)
    assert found.bound[0] >= best.score[0] + 1e12 - 1.0  # state 0 of that variable may not be in the best labelling
    assert found.bound[0] - found.score[0] <= 1e-9 * 1e12


# -- limits and warm starts ----------------------------------------------------------------------------------


@pytest.mark.parametrize("seconds", [0.0, 0.3, 1.0])
def test_time_limits_are_kept(seconds):
    problem = rough_grid(40, 5)
    answer("toulbar2", rough_grid(2, 2))  # starts the process
    start = perf_counter()
    found = answer("toulbar2", problem, limits=Limits(time=seconds))
    assert perf_counter() - start < seconds + 60.0  # without it takes hours
    assert found.stop[0] == Stop.TIME
    reference = answer("trws", problem)
    if found.primal[0] == Primal.FEASIBLE:
        assert found.score[0] <= reference.bound[0]
    if not np.isnan(found.bound[0]):
        assert found.bound[0] >= reference.score[0]


def test_iterations_are_backtracks():
    found = answer("toulbar2", rough_grid(20, 5), limits=Limits(iterations=1))
    assert found.stop[0] == Stop.ITERATIONS
    assert found.score[0] <= found.bound[0]
    assert answer("toulbar2", rough_grid(5, 2)).stop[0] == Stop.FINISHED


def test_warm_starts_give_the_search_an_upper_bound(monkeypatch):
    problem, tops = rough_grid(10, 3, seed=5), []
    patched(monkeypatch, lambda problem, arrays, reply: tops.append((problem["top"], reply["low"])) or reply)
    first = answer("toulbar2", problem)
    again = answer("toulbar2", problem, warm=first.warm)
    assert again.score == first.score
    (_, cost), (top, _) = tops
    assert top == cost + 1
    clamp = np.full(100, -1, dtype=np.int32)
    clamp[0] = (first.labels[0] + 1) % 3  # the labelling breaks it
    found = answer("toulbar2", problem, task=Task.MAP_CLAMPED, clamp=clamp, warm=first.warm)
    assert problem.agree(found.score, answer("combi", problem, task=Task.MAP_CLAMPED, clamp=clamp).score)


@pytest.fixture
def interruptible():
    """Ctrl-C as in a program that a person starts: programs in the background begin with it ignored."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def test_ctrl_c_ends_a_search(monkeypatch, interruptible):
    def press(*args):
        os.kill(os.getpid(), signal.SIGINT)
        return waited(*args)

    answer("toulbar2", rough_grid(2, 2))
    waited, start = process.wait, perf_counter()
    monkeypatch.setattr(process, "wait", press)
    try:
        stop = answer("toulbar2", rough_grid(40, 5), limits=Limits(time=60.0)).stop[0]
    except KeyboardInterrupt:
        stop = Stop.INTERRUPTED
    monkeypatch.undo()
    assert stop == Stop.INTERRUPTED
    assert perf_counter() - start < 55.0  # not the limit
    assert answer("toulbar2", rough_grid(2, 2)).stop[0] == Stop.FINISHED


def test_a_search_ends_with_the_program_that_asked(tmp_path):
    """Also where the program is killed and can tidy nothing up."""
    script = tmp_path / "long_search.py"
    script.write_text(
        "import os, sys\n"
        f"sys.path.insert(0, {str(Path(__file__).parent)!r})\n"
        "from test_toulbar2 import answer, process, rough_grid\n"
        "answer('toulbar2', rough_grid(2, 2))\n"
        "print(process._idle[0]._process.pid, flush=True)\n"
        "answer('toulbar2', rough_grid(40, 5))\n"
    )
    with subprocess.Popen([sys.executable, script], stdout=subprocess.PIPE, text=True) as program:
        solver = int(program.stdout.readline())
        sleep(1.5)  # the search has begun
        os.kill(solver, 0)
        program.kill()
    for _ in range(100):
        sleep(0.1)
        try:
            state = Path(f"/proc/{solver}/stat").read_text().rpartition(")")[2].split()[0]
        except OSError:
            return
        if state == "Z":  # ended; nobody has asked for its status
            return
    pytest.fail("the solver runs on")


# -- whose fault it is ---------------------------------------------------------------------------------------


def test_a_crash_of_the_solver_is_a_fault_of_the_backend(monkeypatch):
    def crash(worker, *args):
        worker._process.kill()
        return asked(worker, *args)

    asked = Worker.ask
    monkeypatch.setattr(Worker, "ask", crash)
    with pytest.raises(BackendFault, match=r"toulbar2.*ended with status -9"):
        answer("toulbar2", rough_grid(3, 2))
    monkeypatch.undo()
    assert answer("toulbar2", rough_grid(3, 2)).stop[0] == Stop.FINISHED


def cost(arrays, labels):
    """What a labelling costs in the solver's terms (factors of two variables)."""
    cards, node, *rest = arrays
    total = node[np.cumsum(cards) - cards + labels].sum()
    for scopes, tables in zip(rest[::2], rest[1::2]):
        place = labels[scopes[:, 0]] * cards[scopes[:, 1]] + labels[scopes[:, 1]]
        total += tables[np.arange(len(scopes)), place].sum()
    return int(total)


def test_a_bad_labelling_that_is_called_optimal_is_found(monkeypatch):
    """As toulbar2 1.1.1 did: an optimum is "proved" that another labelling beats."""

    def wrong(problem, arrays, reply):
        cards, node = arrays[:2]
        worst = np.array([part.argmax() for part in np.split(node, np.cumsum(cards)[:-1])])
        return reply | {"labels": worst.tolist(), "low": cost(arrays, worst)}

    patched(monkeypatch, wrong)
    problem = rough_grid(6, 3)
    node = problem.theta.node * 10
    problem = Problem("strong nodes", problem.program, Theta.of(problem.program, node, problem.theta.tables))
    with pytest.raises(BackendFault, match="toulbar2"):
        answer("toulbar2", problem)


def test_a_labelling_of_probability_zero_is_found(monkeypatch):
    """As toulbar2 1.4 did with files: a solution that contains what is forbidden."""
    problem = rough_grid(4, 3)
    problem.theta.node[0] = -np.inf
    patched(monkeypatch, lambda problem, arrays, reply: reply | {"labels": [0, *reply["labels"][1:]]})
    with pytest.raises(BackendFault, match=r"toulbar2.*score -inf"):
        answer("toulbar2", problem)


def test_a_bound_below_its_own_labelling_is_found(monkeypatch):
    patched(monkeypatch, lambda problem, arrays, reply: reply | {"low": reply["low"] + problem["top"] // 4})
    with pytest.raises(BackendFault, match="is below the score"):
        answer("toulbar2", rough_grid(4, 3))


def test_the_kit_finds_a_labelling_that_is_almost_optimal(monkeypatch):
    """What no verifier can see: a consistent answer that is not the best one."""

    def wrong(problem, arrays, reply):
        cards = arrays[0]
        if reply["labels"] is None or len(arrays) != 4 or arrays[2].shape[1] != 2:
            return reply
        best = np.array(reply["labels"])
        others = [np.where(np.arange(len(cards)) == v, (best + 1) % cards, best) for v in np.flatnonzero(cards > 1)]
        prices = [cost(arrays, other) for other in others]
        if not prices or min(prices) >= problem["top"]:
            return reply
        return reply | {"labels": others[int(np.argmin(prices))].tolist(), "low": min(prices)}

    patched(monkeypatch, wrong)
    report = check_backend("toulbar2", only=["map"], n_problems=20)
    assert not report.ok


def test_an_answer_without_the_given_labelling_is_refused(monkeypatch):
    problem = rough_grid(4, 3)
    first = answer("toulbar2", problem)
    patched(monkeypatch, lambda problem, arrays, reply: reply | {"labels": None})
    with pytest.raises(BackendFault, match="no labelling as good as the one that it was given"):
        answer("toulbar2", problem, warm=first.warm)


# -- training ------------------------------------------------------------------------------------------------


class Scene(Model):
    K = Dim(5)
    x = Input(4)
    y = Label(K, 2)
    unary = Factor(y, features=x, per=K)
    pair = Factor(complete(y), per="edge")
    loss = Hamming(y)


def test_training_reaches_the_same_optimum():
    rng = np.random.default_rng(0)
    X = list(rng.normal(size=(12, 4)))
    Y = [(x[:1] + rng.normal(size=5) > 0).astype(int) for x in X]
    found, expected = (
        StructuredSVM(Scene, C=0.5, backend=name, trainer="one-slack", tol=1e-4).fit(X, Y).report_
        for name in ("toulbar2", "combi")
    )
    assert found.certified
    assert found.primal == pytest.approx(expected.primal, rel=1e-3)
    assert found.dual <= expected.primal * (1 + 1e-9)
