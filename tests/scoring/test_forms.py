"""Masks, lengths, kept programs, and what the scorer refuses, by name."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from scored_structures import STRUCTURES, Chain, Pieces, Pixels, Structure, Tags

from ssvm_dsl import Dim, Factor, Hamming, Input, Label, Latent, Model, ZeroOne, cross
from ssvm_dsl.errors import DataError, InfeasibleError, ModelError, OptionError
from ssvm_dsl.scoring import Scorer

CHAIN: Structure = STRUCTURES["chain"]


def batch(n: int = 2, size: int = 5, seed: int = 0) -> dict[str, Any]:
    rng = np.random.default_rng(seed)
    return {
        "emit": rng.normal(size=(n, size, 3)), "trans": rng.normal(size=(3, 3)), "first": rng.normal(size=(n, 3)),
    }  # fmt: skip


def test_positions_are_left_out_of_the_middle():
    scores, mask = batch(), np.array([[1, 0, 1, 1, 0], [0, 1, 1, 0, 1]], dtype=bool)
    scorer = Scorer(Chain)
    found = scorer.answer(scores, mask=mask, truth=np.where(mask, 1, -100), augmented=True)
    kept = [scores["emit"][i][mask[i]] for i in range(2)]
    other = scorer.answer(scores | {"emit": kept}, truth=[[1, 1, 1]] * 2, augmented=True)
    assert np.array_equal(found.score, other.score)
    counts = found.counts()["emit"]
    assert not counts[~mask].any()
    assert np.array_equal(counts[mask], np.concatenate(other.counts()["emit"]))
    shown = found.padded("y")
    assert shown.shape == mask.shape
    assert (shown[~mask] == -1).all()
    assert np.array_equal(shown[mask], np.concatenate(found.labels))


def test_steps_into_kept_positions_count():
    rng = np.random.default_rng(1)
    scores = batch() | {"trans": rng.normal(size=(2, 4, 3, 3))}
    mask = np.array([[1, 0, 1, 1, 0], [1, 1, 1, 0, 1]], dtype=bool)
    steps = [scores["trans"][0][[1, 2]], scores["trans"][1][[0, 1, 3]]]
    kept = [scores["emit"][i][mask[i]] for i in range(2)]
    scorer = Scorer(Chain)
    found = scorer.answer(scores, mask=mask)
    assert np.array_equal(found.score, scorer.answer(scores | {"emit": kept, "trans": steps}).score)


def test_single_precision_and_weights():
    scores = {name: value.astype(np.float32) for name, value in batch().items()}
    scorer = Scorer(Chain)
    weights = np.array([0.5, 3.0])
    summed = scorer.answer(scores, task="log_z", weights=weights)
    alone = [{name: value if name == "trans" else value[i : i + 1] for name, value in scores.items()} for i in (0, 1)]
    each, other = (scorer.answer(one, task="log_z") for one in alone)
    expected = 0.5 * each.counts()["trans"] + 3.0 * other.counts()["trans"]
    assert summed.counts()["trans"] == pytest.approx(expected)
    assert summed.log_z == pytest.approx([each.log_z[0], other.log_z[0]])


@pytest.mark.parametrize("name", ["chain", "grid", "matching", "segments"])
@pytest.mark.parametrize("task", ["best", "log_z", "marginals"])
def test_weights_multiply_counts(name, task):
    structure = STRUCTURES[name]
    scores, scorer = structure.draw(np.random.default_rng(0)), Scorer(structure.model)
    weights = np.arange(1.0, 1.0 + len(structure.sizes))
    plain, weighed = (scorer.answer(scores, task=task, weights=w).counts() for w in (None, weights))
    for key in set(scores) - set(structure.tied):
        for weight, one, other in zip(weights, plain[key], weighed[key], strict=True):
            assert other == pytest.approx(weight * one)


def test_answers_do_not_depend_on_what_was_asked_before():
    scorer = Scorer(Chain)
    for asked in ({"seed": 1}, {"seed": 2}, {"size": 6}, {"seed": 2}):
        assert np.array_equal(scorer.answer(batch(**asked)).score, Scorer(Chain).answer(batch(**asked)).score)


@pytest.mark.parametrize("backend", ["auto", "lp", "ad3"])
def test_relaxed_bounds_the_best(backend):
    rng = np.random.default_rng(0)
    scores = {"unary": rng.normal(size=(2, 4, 2)), "pair": rng.normal(size=(2, 6, 2, 2)), "triple": np.zeros((2, 2, 2))}
    scores["pair"][0] = 5.0 - 5.0 * np.eye(2)  # all differ, which two of three cannot
    relaxed = Scorer(Tags, backend=backend, guarantee="bound").answer(scores, task="relaxed")
    best = Scorer(Tags).answer(scores)
    assert (relaxed.bound >= best.score - 1e-6).all()
    assert relaxed.bound[0] > best.score[0] + 1.0


def wrong(match: str, error: type[Exception] = DataError, model: Any = Chain, **changes: Any) -> None:
    scores: Any = batch() | changes.pop("scores", {})
    with pytest.raises(error, match=re.escape(match)):
        Scorer(model).answer({k: v for k, v in scores.items() if v is not None}, **changes)


def test_scores_of_known_shapes_are_looked_at():
    scorer = Scorer(Chain)
    first = scorer.answer(batch()).score
    for bad, found in ((np.nan, "nan"), (np.inf, "inf")):
        scores = batch()
        scores["emit"][1, 2, 0], scores["emit"][0, 0, 0] = bad, -np.inf
        with pytest.raises(DataError, match=f"scores of 'emit', example 1: .*found {found} in factor 2"):
            scorer.answer(scores)
        scores = batch()
        scores["trans"][1, 1] = bad
        with pytest.raises(DataError, match=f"scores of 'trans': .*found {found}"):
            scorer.answer(scores)
    huge = np.full(batch()["emit"].shape, 1e307)  # the sum of all of them is no number
    assert scorer.answer(batch() | {"emit": huge}).score == pytest.approx([5e307, 5e307])
    assert np.array_equal(scorer.answer(batch()).score, first)


def test_refusals():
    nan, out = batch()["emit"], batch()["emit"]
    nan[1, 2, 0], out[1, 3] = np.nan, -np.inf
    wrong("scores of 'emit', example 1: expected numbers, or -inf for forbidden states, found nan in factor 2",
          scores={"emit": nan})  # fmt: skip
    wrong("found inf", scores={"emit": -nan * np.inf})
    wrong("example 1 has no labelling", InfeasibleError, scores={"emit": out})
    wrong("did you mean 'emit'?", scores={"emitt": out})
    wrong("those of 'trans', (T - 1, 3, 3) for each example, or (3, 3) for all factors", scores={"trans": None})
    wrong("scores padded (B, T, 3), packed (n, 3)", scores={"emit": np.zeros((2, 5, 4))})
    wrong("scores of 'emit', example 1: expected an array of shape (T, 3)",
          scores={"emit": [np.zeros((5, 3)), np.zeros(3)]})  # fmt: skip
    wrong("scores of 'trans', example 0: expected at least 4 positions along T - 1, found 3 (padded)",
          scores={"trans": np.zeros((2, 3, 3, 3))})  # fmt: skip
    wrong("scores of 'first': expected 2 examples, as in scores of 'emit', found 3", scores={"first": np.zeros((3, 3))})
    wrong("scores of 'emit', example 1: expected at least 6 positions along T", lengths=[5, 6])
    wrong("lengths of T: expected 2 examples, as in scores of 'emit', found 1", lengths=[5])
    wrong("lengths of T, example 1: expected a length of at least 0, found -1", lengths=[5, -1])
    wrong("lengths of T: expected 2 whole numbers, found an array of shape (2,), float64", lengths=[5.0, 5.0])
    wrong("mask of T: expected an array of bools, shape (2, width), found an array of shape (2, 5), float64",
          mask=np.ones((2, 5)))  # fmt: skip
    wrong("mask of T, example 1: expected no position beyond its length 2, found position 2",
          mask=np.ones((2, 5), dtype=bool), lengths=[5, 2])  # fmt: skip
    wrong("ragged axes: T, found 'N'", lengths={"N": [1, 2]})
    wrong("mask of T: expected an array with an entry for each example, found a list of 2", mask=[[1, 0], [1]])
    wrong("lengths of T: expected an array with an entry for each example, found int 3", lengths=3)
    wrong("data: expected a dict by the name of the input, found 'ab'", data="ab")
    wrong("time_limit must be None or a positive number of seconds, got 'soon'", OptionError, time_limit="soon")
    wrong("augmented must be True or False", OptionError, augmented=np.ones(2))
    wrong("weights: expected 2 numbers", weights={})
    wrong("weights: expected 2 numbers, found [ 1. nan]", weights=[1.0, np.nan])
    wrong("the inputs that structures come from: none, found 'x'", data={"x": [1, 2]})
    wrong("task must be one of best, kbest", OptionError, task="map")
    wrong("k must be a positive int", OptionError, task="kbest", k=0)
    wrong("augmented=True needs the truth", OptionError, augmented=True)
    wrong("numbers of states from 0 to 2 where there are positions, found 3", truth=np.full((2, 5), 3))
    wrong("an int in 0..2, found 7", truth=[[0, 1, 2, 0, 7]] * 2)
    wrong("labels that are all known", truth=[[0, 1, None, 0, 1]] * 2)
    wrong("weights: expected 2 numbers", weights=[1.0])
    wrong("lengths: expected the size of axis T", scores={"emit": np.zeros((10, 3)), "first": np.zeros((2, 3))})


@pytest.mark.parametrize("width", [2, 4, 6, 9])
@pytest.mark.parametrize("gaps", [False, True])
def test_masks_are_as_wide_as_padded_arrays(width, gaps):
    mask = np.ones((2, width), dtype=bool)
    mask[:, 1 if gaps else -1] = False
    wrong(f"scores of 'emit': expected {width} positions along T, as in the mask of T, found 5 (padded)", mask=mask)
    mask = np.ones((2, 5), dtype=bool)
    mask[:, 1 if gaps else -1] = False
    wrong(f"truth: expected 5 positions along T, as in the mask of T, found {width} (padded)",
          mask=mask, truth=np.zeros((2, width), dtype=int))  # fmt: skip
    found = Scorer(Chain).answer(batch(), mask=mask)
    assert found.padded("y").shape == (2, 5)
    with pytest.raises(DataError, match="width: expected 5 positions"):
        found.padded("y", (width,))


def test_forms_that_must_not_be_negative():
    scores = STRUCTURES["grid"].draw(np.random.default_rng(0))
    scores["any_"][1][2] = -1.0
    with pytest.raises(DataError, match="scores of 'any_', example 1: expected scores of at least 0"):
        Scorer(Pixels).answer(scores)


def test_spans_that_do_not_fit_are_not_looked_at():
    scores = {"whole": np.full((1, 2, 2, 2), np.nan), "step": np.zeros((2, 2)), "head": np.zeros((1, 2, 2)),
              "inside": np.zeros((1, 2, 2))}  # fmt: skip
    scores["whole"][0, 0] = scores["whole"][0, 1, :1] = [1.0, 2.0]
    found = Scorer(Pieces).answer(scores)
    assert found.score == pytest.approx([4.0])
    assert found.counts()["whole"][0].tolist() == [[[0, 1], [0, 0]], [[0, 1], [0, 0]]]


def test_what_is_not_there_says_so():
    found = Scorer(Chain).answer(batch())
    for ask in (lambda: found.marginals, lambda: found.truth_score, lambda: found.loss, found.truth_counts):
        with pytest.raises(OptionError):
            ask()
    with pytest.raises(OptionError, match="no label 'z'"):
        found.padded("z")
    with pytest.raises(OptionError, match="marginals have no labels"):
        assert Scorer(Chain).answer(batch(), task="log_z").labels
    with pytest.raises(OptionError, match="guarantee must be one of"):
        Scorer(Chain, guarantee="best")
    with pytest.raises(OptionError, match="the model must be a Model class"):
        Scorer(3)  # type: ignore[arg-type]


def test_losses_that_do_not_add_up_are_refused_by_name():
    class Whole(Model):
        T = Dim()
        x = Input(T, 2)
        y = Label(T, 3)
        emit = Factor(y, features=x)
        loss = ZeroOne(y)

    with pytest.raises(OptionError, match="ZeroOne"):
        Scorer(Whole).answer({"emit": np.zeros((1, 2, 3))}, truth=[[0, 1]], augmented=True)

    class Bare(Model):
        x = Input(2)
        y = Label(3)
        emit = Factor(y, features=x)

    with pytest.raises(OptionError, match="has no loss"):
        Scorer(Bare).answer({"emit": np.zeros((1, 3))}, truth=[0], augmented=True)

    class Hidden(Model):
        x = Input(2)
        h = Latent(2)
        y = Label(3)
        emit = Factor(h, features=x)
        both = Factor(cross(h, y))
        loss = Hamming(y)

    scores = {"emit": np.zeros((1, 2)), "both": np.arange(6.0).reshape(1, 2, 3)}
    assert Scorer(Hidden).answer(scores).labels == [2]
    with pytest.raises(OptionError, match=r"latent variables \(h\), which no truth covers"):
        Scorer(Hidden).answer(scores, truth=[0])

    class Nothing(Model):
        y = Label(3)
        x = Input(2)
        loss = Hamming(y)

    with pytest.raises(ModelError, match="no Factor"):
        Scorer(Nothing)
