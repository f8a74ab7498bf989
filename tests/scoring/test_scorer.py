"""The scorer against all labellings of small examples, written down by hand: answers, sums, counts, and forms."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scored_structures import STRUCTURES, Scores, Structure

from ssvm_dsl.errors import NoBackendError
from ssvm_dsl.scoring import Scorer

NAMES = list(STRUCTURES)
STEP = 1e-6

#: Auxiliary variables stand for the table of one of its factors: sums and rankings would be of these, too.
AUXILIARY = "all alike"
SUMMED = [name for name in NAMES if name != AUXILIARY]


def same(a: Any, b: Any) -> bool:
    """Whether two labellings of the user are equal."""
    if isinstance(a, dict):
        return all(same(a[name], b[name]) for name in b)
    return list(a) == list(b) if isinstance(a, list) else np.array_equal(a, b)


def drawn(name: str, seed: int = 0) -> tuple[Structure, Scores, Scorer]:
    structure = STRUCTURES[name]
    return structure, structure.draw(np.random.default_rng(seed)), Scorer(structure.model)


def log_sum(values: list[float]) -> float:
    return float(np.logaddexp.reduce(values))


def moved(structure: Structure, scores: Scores, name: str, rng: np.random.Generator) -> tuple[Scores, Any]:
    """Scores moved in a random direction, and that direction."""
    value = scores[name]
    tied = name in structure.tied
    way = rng.normal(size=value.shape) if tied else [rng.normal(size=one.shape) for one in value]
    new = value + STEP * way if tied else [a + STEP * b for a, b in zip(value, way, strict=True)]
    return scores | {name: new}, way


def inner(structure: Structure, name: str, counts: Any, way: Any) -> float:
    if name in structure.tied:
        return float((counts * way).sum())
    return float(sum((a * b).sum() for a, b in zip(counts, way, strict=True)))


@pytest.mark.parametrize("name", NAMES)
def test_best(name):
    structure, scores, scorer = drawn(name)
    found = scorer.answer(scores, data=structure.data, lengths=structure.lengths(structure.sizes))
    for i in range(len(structure.sizes)):
        known = structure.all(scores, i)
        labels, best = max(known, key=lambda one: one[1])
        assert found.score[i] == pytest.approx(best)
        assert same(found.labels[i], labels)


@pytest.mark.parametrize("name", NAMES)
def test_counts_of_the_best_give_its_score(name):
    structure, scores, scorer = drawn(name, 1)
    found = scorer.answer(scores, data=structure.data, lengths=structure.lengths(structure.sizes))
    counts = found.counts()
    assert sum(inner(structure, key, counts[key], scores[key]) for key in scores) == pytest.approx(found.score.sum())


@pytest.mark.parametrize("name", NAMES)
def test_truth_and_augmentation(name):
    structure, scores, scorer = drawn(name, 2)
    known = [structure.all(scores, i) for i in range(len(structure.sizes))]
    rng = np.random.default_rng(3)
    truth = [one[int(rng.integers(len(one)))] for one in known]
    asked: dict[str, Any] = {"data": structure.data, "lengths": structure.lengths(structure.sizes)}
    plain = scorer.answer(scores, truth=[y for y, _ in truth], **asked)
    assert plain.truth_score == pytest.approx([score for _, score in truth])
    found = scorer.answer(scores, truth=[y for y, _ in truth], augmented=True, **asked)
    assert found.truth_score == pytest.approx(plain.truth_score)
    counts = found.truth_counts()
    total = sum(inner(structure, key, counts[key], scores[key]) for key in scores)
    assert total == pytest.approx(found.truth_score.sum())
    for task in ("best", "log_z"):
        if task == "log_z" and name not in SUMMED:
            continue
        weights = np.arange(1.0, 1.0 + len(known))
        of = scorer.answer(scores, truth=[y for y, _ in truth], task=task, weights=weights, **asked)
        apart, both = of.counts(less_truth=True), (of.counts(), of.truth_counts(weights))
        for key, value in scores.items():
            own, other = (inner(structure, key, one[key], value) for one in both)
            assert inner(structure, key, apart[key], value) == pytest.approx(own - other)
    for i, labellings in enumerate(known):
        worth = []
        for y, _ in labellings:
            of_y = [y if j == i else one for j, (one, _) in enumerate(truth)]
            at = scorer.answer(scores, truth=of_y, **asked)
            worth.append(at.truth_score[i] + _loss(structure, truth[i][0], y))
        assert found.score[i] == pytest.approx(max(worth))


def _loss(structure: Structure, truth: Any, y: Any) -> float:
    """The Hamming loss of a labelling, by hand."""
    if isinstance(y, dict):
        return float(sum(np.sum(np.asarray(truth[key]) != np.asarray(y[key])) for key in y))
    if isinstance(y, list):  # segments: classes of positions, and where segments begin
        size = y[-1][1]
        one, two = ([(t == s, c) for s, e, c in z for t in range(s, e)] for z in (truth, y))
        return float(sum((one[t][0] != two[t][0]) + (one[t][1] != two[t][1]) for t in range(size)))
    return float((np.asarray(truth) != np.asarray(y)).sum())


@pytest.mark.parametrize("name", SUMMED)
def test_k_best(name):
    structure, scores, scorer = drawn(name, 4)
    found = scorer.answer(scores, task="kbest", k=4, data=structure.data, lengths=structure.lengths(structure.sizes))
    for i in range(len(structure.sizes)):
        known = sorted((score for _, score in structure.all(scores, i)), reverse=True)[:4]
        assert [score for _, score in found.labels[i]] == pytest.approx(known)


@pytest.mark.parametrize("task", ["marginals", "log_z"])
@pytest.mark.parametrize("name", SUMMED)
def test_log_z_and_its_gradient(name, task):
    structure, scores, scorer = drawn(name, 5)
    asked: dict[str, Any] = {"data": structure.data, "lengths": structure.lengths(structure.sizes)}
    found = scorer.answer(scores, task=task, **asked)
    log_z = [log_sum([score for _, score in structure.all(scores, i)]) for i in range(len(structure.sizes))]
    assert found.log_z == pytest.approx(log_z)
    rng, counts = np.random.default_rng(6), found.counts()
    for key in scores:
        new, way = moved(structure, scores, key, rng)
        ahead = [log_sum([score for _, score in structure.all(new, i)]) for i in range(len(structure.sizes))]
        slope = (sum(ahead) - sum(log_z)) / STEP
        assert inner(structure, key, counts[key], way) == pytest.approx(slope, rel=1e-4, abs=1e-4)


def test_marginals_by_label():
    structure, scores, scorer = drawn("chain", 7)
    found = scorer.answer(scores, task="marginals")
    for i, size in enumerate(structure.sizes):
        expected = np.zeros((size, 3))
        for y, score in structure.all(scores, i):
            expected[np.arange(size), y] += np.exp(score - found.log_z[i])
        assert found.marginals[i] == pytest.approx(expected)


def test_marginals_that_nobody_sums_are_refused_by_name():
    scores = {"sim": np.random.default_rng(0).normal(size=(1, 9, 9))}
    with pytest.raises(NoBackendError, match="marginals"):
        Scorer(STRUCTURES["matching"].model).answer(scores, task="marginals")
    _, scores, scorer = drawn(AUXILIARY)
    for task in ("log_z", "kbest"):
        with pytest.raises(NoBackendError, match="auxiliary variables would be summed over or listed"):
            scorer.answer(scores, task=task)


def padded(structure: Structure, scores: Scores) -> Scores:
    """The scores in arrays with an axis for the examples, nan where there are none."""
    out = {}
    for name, value in scores.items():
        if name in structure.tied:
            out[name] = value
            continue
        width = np.max([one.shape for one in value], axis=0)
        out[name] = np.full((len(value), *width), np.nan)
        for i, one in enumerate(value):
            out[name][(i, *map(slice, one.shape))] = one
    return out


def packed(structure: Structure, scores: Scores, scorer: Scorer) -> Scores:
    """The scores one factor after the other, of segments those that fit."""
    out = {}
    for name, value in scores.items():
        if name in structure.tied:
            out[name] = value
        elif name == "whole":
            fits = [[one[t, n] for t in range(len(one)) for n in range(2) if t + n < len(one)] for one in value]
            out[name] = np.concatenate(fits)
        else:
            tail = scorer.templates[name].shape
            out[name] = np.concatenate([one.reshape(-1, *tail) for one in value])
    return out


@pytest.mark.parametrize("name", NAMES)
def test_padded_packed_and_lists_are_the_same(name):
    structure, scores, scorer = drawn(name, 8)
    asked: dict[str, Any] = {"data": structure.data, "lengths": structure.lengths(structure.sizes)}
    first = scorer.answer(scores, **asked)
    counts = first.counts()
    of_padded = scorer.answer(padded(structure, scores), **asked)
    of_packed = scorer.answer(packed(structure, scores, scorer), **asked)
    assert np.array_equal(of_padded.score, first.score)
    assert np.array_equal(of_packed.score, first.score)
    for key, expected in padded(structure, counts).items():
        assert np.array_equal(of_padded.counts()[key], np.nan_to_num(expected))
    for key, expected in packed(structure, counts, scorer).items():
        assert np.array_equal(of_packed.counts()[key].ravel(), expected.ravel())
