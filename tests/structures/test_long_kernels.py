"""Kernels that nothing can cut short are not begun where there is too little time for them."""

from __future__ import annotations

import numpy as np
import pytest

from clocks import ticking
from model_table import tagger
from ssvm_backends.graphs.deadline import chunks_until
from ssvm_backends.structures.segmentations import semi_markov
from ssvm_backends.structures.spanning_trees import spanning_trees
from ssvm_backends.structures.spanning_trees.spanning_trees import TreesSession
from ssvm_dsl import Arborescence, Dim, Factor, Hamming, Input, Label, Model, ProjectiveTree
from ssvm_dsl.compiler import ground
from ssvm_dsl.ir import Limits, Question, Stop, Task, Theta
from ssvm_dsl.testing import open_session

#: More than any machine needs for what is begun here.
LONG = 60.0


class Nested(Model):
    T = Dim()
    x = Input(T, T)
    head = Label(T, over=T, null=True)
    arc = Factor(head, features=x)
    root = Factor(head.is_(None))
    tree = ProjectiveTree(head)
    loss = Hamming(head)


class Free(Nested):
    tree = Arborescence(Nested.head)


@pytest.mark.parametrize("model", [Nested, Free])
@pytest.mark.parametrize("task", [Task.MAP, Task.MARGINALS])
def test_sentences_too_long_for_the_time_left_are_not_begun(monkeypatch, model, task):
    for name in ("BEST_PROJECTIVE", "BEST_ARBORESCENCE", "SUM_PROJECTIVE", "SUM_ARBORESCENCES"):
        monkeypatch.setattr(spanning_trees, name, LONG / 100.0)
    sizes, rng = (3, 4, 12, 3), np.random.default_rng(0)
    program = ground(model, [rng.normal(size=(n, n)) for n in sizes]).program
    session = TreesSession(program, projective=model is Nested)
    theta = Theta.of(program, rng.normal(size=program.n_states), ())
    whole = session.solve(Question(theta, task=task))
    cut = session.solve(Question(theta, task=task, limits=Limits(time=LONG)))
    assert not (whole.stop == Stop.TIME).any()
    assert (cut.stop == Stop.TIME).tolist() == [False, False, True, True]
    of = "log_partition" if task is Task.MARGINALS else "score"
    np.testing.assert_array_equal(getattr(cut, of)[:2], getattr(whole, of)[:2])


Tags = tagger(2, 2)


class Segments(Model):
    T = Dim()
    x = Input(T, 2)
    y = Label(T, 2, segments=3)
    word = Factor(y, features=x)
    loss = Hamming(y)


@pytest.mark.parametrize(
    ("backend", "model", "width"),
    [
        ("chain", Tags, 2), ("tree", Tags, 2), ("junction-tree", Tags, 2), ("semi-markov", Segments, 2),
        ("eisner", Nested, 4), ("arborescence", Free, 4),
    ],
)  # fmt: skip
def test_sums_that_time_cut_short_say_nothing_and_are_no_fault(backend, model, width):
    X, rng = [np.ones((4, width)), np.ones((4, width))], np.random.default_rng(0)
    program = ground(model, X).program
    tables = tuple(rng.normal(size=(group.n_tables, group.n_configs)) for group in program.groups)
    theta = Theta.of(program, rng.normal(size=program.n_states), tables)
    session = open_session(program, backend, {Task.MARGINALS})
    known = np.full(2, -1.0)
    done = session.solve(Question(theta, task=Task.MARGINALS), known)
    assert np.isfinite(done.log_partition).all()
    cut = session.solve(Question(theta, task=Task.MARGINALS, limits=Limits(time=0.0)), known)
    assert (cut.stop == Stop.TIME).all()
    assert np.isnan(cut.log_partition).all()


def test_what_is_expected_to_fit_is_begun():
    seconds = np.array([0.0, LONG / 4, LONG / 4, 0.0, 2 * LONG, 0.0])
    found = list(chunks_until(6, Limits(time=LONG), seconds))
    assert found[0] == (0, 1)
    assert found[-1][1] == 4
    assert [hi for _, hi in found[:-1]] == [lo for lo, _ in found[1:]]
    assert list(chunks_until(6, Limits(), seconds)) == [(0, 6)]


def segmented(seed, sizes):
    rng = np.random.default_rng(seed)
    program = ground(Segments, [rng.normal(size=(n, 2)) for n in sizes]).program
    tables = tuple(rng.normal(size=(group.n_tables, group.n_configs)) for group in program.groups)
    return semi_markov.SemiMarkovSession(program), Theta.of(program, rng.normal(size=program.n_states), tables)


@pytest.mark.parametrize("steps", [1, 50, 400])
def test_segmentations_in_parts_are_those_in_one_go(monkeypatch, steps):
    session, theta = segmented(0, (1, 30, 2, 17))
    tasks = {"task": Task.MAP}, {"task": Task.KBEST, "k": 3}, {"task": Task.MARGINALS}
    whole = [session.solve(Question(theta, **one)) for one in tasks]
    monkeypatch.setattr(semi_markov, "STEPS", steps)
    for one, right in zip(tasks, whole):
        parts = session.solve(Question(theta, **one))
        np.testing.assert_array_equal(parts.labels, right.labels)
        np.testing.assert_array_equal(parts.score, right.score)
        if one["task"] is Task.MARGINALS:
            np.testing.assert_array_equal(parts.log_partition, right.log_partition)
            np.testing.assert_array_equal(parts.marginals.node, right.marginals.node)
    node = np.where(np.arange(len(theta.node)) == 0, -np.inf, theta.node)
    node[1] = -np.inf  # of the first variable no class is left
    none = Theta(node, theta.pool, theta.tables, theta.const)
    for one in tasks:
        found = session.solve(Question(none, **one))
        worth = found.log_partition if one["task"] is Task.MARGINALS else found.score.reshape(-1, 4)[0]
        assert (worth > -np.inf).tolist() == [False, True, True, True]


@pytest.mark.parametrize("task", [Task.MAP, Task.KBEST, Task.MARGINALS])
def test_a_long_segmentation_looks_at_the_clock(monkeypatch, task):
    monkeypatch.setattr(semi_markov, "STEPS", 40)
    session, theta = segmented(0, (3, 400))
    for time in (0.02, 0.1):
        with ticking() as clock:
            k = 2 if task is Task.KBEST else 1
            found = session.solve(Question(theta, limits=Limits(time=time), task=task, k=k))
        assert found.stop.tolist() == [Stop.FINISHED, Stop.TIME]
        assert clock.looks < 1000 * time + 10
