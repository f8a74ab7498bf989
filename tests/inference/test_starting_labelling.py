"""The labelling that every search begins with, against trying all labellings: of every kind, of tables, of both."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from constraints.constraint_cases import group_of, unlinked
from ssvm_dsl.inference.rules import with_rules
from ssvm_dsl.inference.starting import labelling
from ssvm_dsl.inference.starting.labelling import starting_labelling, trivial_bound
from ssvm_dsl.ir import ConstraintGroup, Group, Program, Question, Task, Theta, pointers
from ssvm_dsl.ir.constraints import broken_constraints
from ssvm_dsl.plugin_api import score_labels
from ssvm_dsl.registry import registry
from ssvm_dsl.testing.brute_force import BruteForceSession
from ssvm_dsl.testing.kind_problems import VARIED, kind_problem

#: Kinds, and whether their problems have a labelling wherever the kind finds none by itself.
KINDS = {
    "count": False, "linear": False, "matching": True, "arborescence": True, "projective-tree": True, "path": False,
    "segmentation": False, "circuit": False, "transport": True,
    "equivalence": False, "linear-order": False, "transitive": False, "acyclic": False,
}  # fmt: skip


def compared(program, theta, clamp=None):
    """Return (best scores, scores of first labellings); whatever these are, they are honest."""
    task = Task.MAP if clamp is None else Task.MAP_CLAMPED
    question = Question(theta, task=task, clamp=clamp)
    best, found = BruteForceSession(program).solve(question).score, starting_labelling(program, question)
    there, ids = found.score > -np.inf, np.arange(program.n_examples)
    assert (found.score <= best + 1e-9).all()
    assert (trivial_bound(program, question) >= best - 1e-9).all()
    assert not (found.impossible & (best > -np.inf)).any()
    broken = broken_constraints(program.constraints, found.labels, program.var_ptr, ids)
    assert not (broken & there).any()
    scores = score_labels(program, theta, found.labels)
    assert np.allclose(scores[there], found.score[there])
    masked_node = question.masked_node(program)[program.state_ptr[:-1] + found.labels]
    assert (masked_node[np.repeat(there, np.diff(program.var_ptr))] > -np.inf).all()
    return best, found.score


@pytest.mark.parametrize("kind", KINDS)
def test_kinds_know_a_labelling_wherever_there_is_one(kind, monkeypatch):
    missed = feasible = 0
    for seed in range(40):
        problem = kind_problem(kind, seed)
        with monkeypatch.context() as patched:
            if KINDS[kind] and seed % VARIED != VARIED - 1:  # literals as the kind makes them: no search is needed
                patched.setattr(labelling, "by_rows", lambda *_: None)
            best, found = compared(problem.program, problem.theta)
        feasible += int((best > -np.inf).sum())
        missed += int(((best > -np.inf) & (found == -np.inf)).sum())
    assert feasible > 30
    assert missed == 0


@pytest.mark.parametrize("kind", KINDS)
def test_clamps_are_kept(kind):
    rng = np.random.default_rng(0)
    for seed in range(15):
        problem = kind_problem(kind, seed)
        fixed = rng.random(problem.program.n_variables) < 0.3
        states = rng.integers(0, problem.program.card)
        best, found = compared(problem.program, problem.theta, np.where(fixed, states, -1).astype(np.int32))
        assert ((found > -np.inf) == (best > -np.inf)).all()


def tabled(rng, edges, n, card, share):
    """Return a program of pairs, a share of whose joint states are ruled out."""
    scope = np.array(edges, np.int32).reshape(-1, 2)
    ends = np.array([0, n], dtype=np.int64)
    table = np.arange(len(scope), dtype=np.int32)
    group = Group.of("pair", (card, card), scope, pointers(np.array([len(scope)])), table, len(scope), ends)
    allowed = rng.random(n * card) < 0.9 if rng.random() < 0.5 else None
    program = Program(ends, np.full(n, card, np.int32), (group,), allowed=allowed).validate()
    tables = rng.normal(size=(len(scope), card * card))
    tables[rng.random(tables.shape) < share] = -np.inf
    return program, Theta.of(program, rng.normal(size=n * card), (tables,))


def test_forests_of_tables_never_need_a_search(monkeypatch):
    monkeypatch.setattr(labelling, "by_rows", lambda *_: None)
    rng, both = np.random.default_rng(1), set()
    for _ in range(60):
        n = int(rng.integers(1, 8))
        edges = [(int(rng.integers(v)), v) for v in range(1, n)]
        best, found = compared(*tabled(rng, edges, n, 3, 0.5))
        assert ((found > -np.inf) == (best > -np.inf)).all()
        both.add(bool(best[0] > -np.inf))
    assert both == {True, False}


def test_graphs_with_cycles_are_repaired():
    rng, both = np.random.default_rng(2), set()
    for _ in range(40):
        n = int(rng.integers(3, 8))
        edges = [(u, v) for v in range(n) for u in range(v) if rng.random() < 0.6]
        best, found = compared(*tabled(rng, edges, n, 3, 0.35))
        assert ((found > -np.inf) == (best > -np.inf)).all()
        both.add(bool(best[0] > -np.inf))
    assert both == {True, False}


def test_a_long_chain_of_tags_takes_no_search():
    """Inside a chunk only after its beginning, and the scores ask for the inside everywhere."""
    n, card = 3000, 3
    scope = np.stack([np.arange(n - 1), np.arange(1, n)], axis=1).astype(np.int32)
    ends = np.array([0, n], dtype=np.int64)
    group = Group.of("tags", (card, card), scope, pointers(np.array([n - 1])), np.zeros(n - 1, np.int32), 1, ends)
    program = Program(ends, np.full(n, card, np.int32), (group,)).validate()
    table = np.zeros((1, 9))
    table[0, 2] = -np.inf  # out, inside
    theta = Theta.of(program, np.tile([0.0, -1.0, 1.0], n), (table,))
    theta.node[:6] = [3.0, 0.0, -np.inf, 0.0, 5.0, 1.0]
    found = starting_labelling(program, Question(theta))
    assert found.labels[:4].tolist() == [0, 1, 2, 2]
    assert found.score[0] == 3.0 + 5.0 + n - 2


def counted(n, lower, upper, name):
    literals = np.arange(n, dtype=np.int32)
    return ConstraintGroup(
        "count", name, pointers(np.array([1])), pointers(np.array([n])), literals, np.ones(n, np.int32),
        np.zeros(n, dtype=bool), {"lower": np.array([lower]), "upper": np.array([upper])},
    )  # fmt: skip


def test_constraints_that_share_variables_are_kept_together():
    rng = np.random.default_rng(3)
    for seed in range(30):
        for kind in ("matching", "arborescence", "path"):
            problem = kind_problem(kind, seed)
            for i in range(problem.program.n_examples):
                one = problem.program.example(i)
                n, lo = one.n_variables, problem.program.state_ptr[problem.program.var_ptr[i]]
                if n == 0 or not (one.card == 2).all():
                    continue
                lower = int(rng.integers(0, 3))
                groups = (*one.constraints, counted(n, lower, lower + int(rng.integers(0, 4)), "sum"))
                mixed = with_rules(replace(one, constraints=groups), registry())
                theta = Theta.of(mixed, problem.theta.node[lo : lo + one.n_states])
                best, found = compared(mixed, theta)
                assert ((found > -np.inf) == (best > -np.inf)).all()


def test_nothing_and_a_single_variable():
    empty = Program(np.array([0, 0, 1], dtype=np.int64), np.array([2], np.int32))
    assert compared(empty, Theta.of(empty, [1.0, 2.0]))[1].tolist() == [0.0, 2.0]
    none = replace(empty, allowed=np.zeros(2, dtype=bool))
    found = starting_labelling(none, Question(Theta.of(none, [1.0, 2.0])))
    assert found.impossible.tolist() == [False, True]


def test_some_examples_in_any_order():
    problem = kind_problem("matching", 3)
    order = np.array([2, 0], dtype=np.int64)
    every = starting_labelling(problem.program, Question(problem.theta))
    some = starting_labelling(problem.program, Question(problem.theta, order))
    assert some.score.tolist() == every.score[order].tolist()


def routes(kind, rng, acyclic, all_nodes=False):
    """A random graph of five nodes, a variable for each arc; some arcs must be taken, some cannot be."""
    n = 5
    arcs = [(u, v) for u in range(n) for v in range(n) if (u < v if acyclic else u != v) and rng.random() < 0.55]
    name = rng.permutation(n)
    literals = [(k, 1, False, name[u], name[v]) for k, (u, v) in enumerate(arcs)]
    ends = {"source": [name[0]], "target": [name[-1]]} if kind == "path" else {"all_nodes": [all_nodes]}
    group = group_of(kind, [[literals]], literal_meta=["tail", "head"], n_nodes=[n], **ends)
    program = with_rules(unlinked([[2] * len(arcs)], group), registry())
    node = rng.normal(size=(len(arcs), 2))
    node[rng.random(len(arcs)) < 0.1, 1] = -np.inf
    return program, node


@pytest.mark.parametrize("must", [0.0, 0.1])
def test_paths_of_graphs_without_circuits_are_the_best_ones(monkeypatch, must):
    monkeypatch.setattr(labelling, "by_rows", lambda *_: None)
    rng, both = np.random.default_rng(4), set()
    for _ in range(40):
        program, node = routes("path", rng, acyclic=True)
        node[(rng.random(len(node)) < must) & (node[:, 1] > -np.inf), 0] = -np.inf
        best, found = compared(program, Theta.of(program, node.ravel()))
        np.testing.assert_allclose(found, best)
        both.add(bool(best[0] > -np.inf))
    assert both == {True, False}


@pytest.mark.parametrize(("kind", "all_nodes"), [("path", False), ("circuit", False), ("circuit", True)])
def test_routes_of_graphs_with_circuits_are_found_wherever_there_is_one(monkeypatch, kind, all_nodes):
    monkeypatch.setattr(labelling, "by_rows", lambda *_: None)
    rng, missed, both = np.random.default_rng(5), 0, set()
    for _ in range(40):
        program, node = routes(kind, rng, acyclic=False, all_nodes=all_nodes)
        best, found = compared(program, Theta.of(program, node.ravel()))
        missed += int(((found == -np.inf) & (best > -np.inf)).sum())
        both.add(bool(best[0] > -np.inf))
    assert both == {True, False}
    assert missed <= 4 * all_nodes  # whether there is one through all nodes is a hard question
