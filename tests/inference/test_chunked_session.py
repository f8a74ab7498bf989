"""Large batches of few shapes are answered in chunks, and the answers are those on the whole."""

from __future__ import annotations

import numpy as np
import pytest

from ssvm_dsl.inference.bridging.bridges import BridgedSession
from ssvm_dsl.ir import Limits, Question, Task, Theta, Topology
from ssvm_dsl.ir.analysis import chunks
from ssvm_dsl.ir.analysis.chunks import Chunk, chunk_share
from ssvm_dsl.testing import open_session
from ssvm_dsl.testing.problems import Recipe, random_theta, seeded

RECIPE = Recipe(topology=Topology.LOOPY, max_arity=3, n_examples=3, max_variables=5, max_card=3, tied=True, masks=False)


def batch(seed, recipe=RECIPE, copies=40):
    """A batch in which a few examples come again and again, and its scores."""
    rng = np.random.default_rng(seed)
    few = seeded(recipe, seed).program
    program = few.take(rng.integers(0, few.n_examples, copies)).validate()
    return program, random_theta(rng, program, recipe)


@pytest.fixture
def small(monkeypatch):
    """Chunks of some examples."""
    monkeypatch.setattr(chunks, "LARGE", 1)
    monkeypatch.setattr(chunks, "CHUNK", 60)


def solve(program, question, backend, chunked, monkeypatch=None):
    session = open_session(program, backend, {question.task})
    inner = session.inner.inner if isinstance(session.inner, BridgedSession) else session.inner  # merged factors
    assert (type(inner).__name__ == "ChunkedSession") == chunked
    return session.solve(question)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize(
    ("backend", "task"),
    [
        ("combi", Task.MAP), ("trws", Task.MAP), ("icm", Task.MAP), ("junction-tree", Task.MARGINALS),
        ("junction-tree", Task.KBEST), ("combi", Task.MAP_CLAMPED), ("lp", Task.RELAXED),
    ],
)  # fmt: skip
def test_portions_answer_like_the_whole(backend, task, seed, monkeypatch):
    program, theta = batch(seed)
    rng = np.random.default_rng(seed)
    examples = rng.permutation(program.n_examples)[:25] if seed % 2 else None
    clamp = None
    if task is Task.MAP_CLAMPED:
        clamp = np.where(rng.random(program.n_variables) < 0.3, 0, -1).astype(np.int32)
    question = Question(theta, examples, task=task, clamp=clamp, k=3 if task is Task.KBEST else 1)
    whole = solve(program, question, backend, False)
    monkeypatch.setattr(chunks, "LARGE", 1)
    monkeypatch.setattr(chunks, "CHUNK", 60)
    found = solve(program, question, backend, True)
    np.testing.assert_allclose(found.score, whole.score)
    np.testing.assert_allclose(found.bound, whole.bound, atol=1e-9)
    for name in ("labels", "stop", "primal"):
        np.testing.assert_array_equal(getattr(found, name), getattr(whole, name))
    if task is Task.MARGINALS:
        np.testing.assert_allclose(found.log_partition, whole.log_partition)
        np.testing.assert_allclose(found.marginals.node, whole.marginals.node)
        for mine, other in zip(found.marginals.tables, whole.marginals.tables, strict=True):
            np.testing.assert_allclose(mine, other)


def test_a_large_batch_of_distinct_shapes_is_no_case_for_portions(small):
    program, _ = batch(0)
    assert chunk_share(program) < 1.0
    assert chunk_share(program.representatives) == 1.0
    chains, _ = batch(0, Recipe(topology=Topology.CHAIN, max_variables=5, tied=True))
    assert chunk_share(chains) == 1.0


def test_portions_of_the_same_shapes_have_the_same_structure(small):
    recipe = Recipe(topology=Topology.LOOPY, n_examples=1, max_variables=5, density=1.0)  # a table for each factor
    few = seeded(recipe, 1).program
    program = few.take(np.zeros(30, np.int64))
    assert program.n_examples == 30
    first, second = (Chunk.of(program, np.arange(lo, lo + 5)) for lo in (0, 20))
    assert first.key() == second.key()
    theta = random_theta(np.random.default_rng(0), program, recipe)
    part = second.theta(theta, np.arange(20, 25))
    for mine, whole, given, all_of in zip(
        second.program.groups, program.groups, part.tables, theta.tables, strict=True
    ):
        np.testing.assert_array_equal(given[mine.table], all_of[whole.table_rows(np.arange(20, 25))])


def test_tables_of_examples_are_copied_for_their_portion(small):
    few = seeded(Recipe(topology=Topology.LOOPY, n_examples=6, max_variables=4, same_card=True, density=1.0), 3).program
    program = few.take(np.tile(np.arange(6), 4))
    theta = random_theta(np.random.default_rng(1), program, RECIPE)
    for ids in (np.array([3, 1, 9]), np.array([5]), np.arange(24)):
        chunk = Chunk.of(program, ids)
        chunk.program.validate()
        part = chunk.theta(theta, ids)
        assert isinstance(part, Theta)
        for mine, whole, given, all_of in zip(
            chunk.program.groups, program.groups, part.tables, theta.tables, strict=True
        ):
            np.testing.assert_array_equal(given[mine.table], all_of[whole.table_rows(ids)])


def test_messages_are_kept_from_call_to_call(small):
    program, theta = batch(2, Recipe(topology=Topology.LOOPY, n_examples=3, max_variables=6, tied=True))
    session = open_session(program, "mplp")
    limits = Limits(iterations=1)
    first = session.solve(Question(theta, limits=limits))
    again = session.solve(Question(theta, limits=limits, warm=first.warm))
    assert (again.bound <= first.bound + 1e-9).all()
    assert again.bound.sum() < first.bound.sum() - 1e-6
