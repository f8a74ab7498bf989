"""More labellings asked for than there are, or than fit."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

from model_table import hidden_chain, tagger
from ssvm_dsl import (
    Dim,
    Factor,
    Hamming,
    Input,
    Label,
    Latent,
    Model,
    StructuredSVM,
    ZeroOne,
    chain,
    cross,
    pairs,
)
from ssvm_dsl.errors import OptionError, TimeLimitWarning, TooLargeError
from ssvm_dsl.learning import answers

Word = tagger(3, 3)


@pytest.fixture(scope="module")
def fitted():
    rng = np.random.default_rng(0)
    X = [rng.normal(size=(t, 3)) for t in (2, 4, 3)]
    return StructuredSVM(Word, max_passes=5, random_state=0).fit(X, [rng.integers(0, 3, size=len(x)) for x in X])


@pytest.mark.parametrize("backend", ["chain", "junction-tree", "combi"])
@pytest.mark.parametrize("k", [7, 80, 81, 82, 10**9])
def test_all_labellings_and_no_more(fitted, backend, k):
    rng = np.random.default_rng(k)
    X = [rng.normal(size=(t, 3)) for t in (4, 1, 3)]
    for x, ranked in zip(X, fitted.set_params(backend=backend).predict_kbest(X, k), strict=True):
        every = list(product(range(3), repeat=len(x)))
        best = np.sort(fitted.best_score([x] * len(every), every))[::-1]
        assert len({tuple(labels) for labels, _ in ranked}) == len(ranked) == min(k, len(every))
        np.testing.assert_allclose([score for _, score in ranked], best[:k], atol=1e-9)


@pytest.mark.parametrize("backend", ["chain", "junction-tree", "combi"])
def test_lists_that_do_not_fit_are_refused(fitted, backend):
    x = np.zeros((60, 3))
    fitted.set_params(backend=backend)
    with pytest.raises(TooLargeError, match=r"the \d+ best labellings of 60 variables .* ask for at most (\d+)"):
        fitted.predict_kbest([x], 10**9)
    assert len(fitted.predict_kbest([x], 20)[0]) == 20
    for k in (0, -1, 1.5, "2"):
        with pytest.raises(OptionError, match="k must be a positive int"):
            fitted.predict_kbest([x], k)


@pytest.mark.parametrize("zero_one", [False, True])
def test_margins_that_leave_the_truth_out_on_a_grid(zero_one):
    """Risks that need the second best labelling train where elimination takes too much: 20 by 20, three states."""

    class Image(Model):
        H, W = Dim(), Dim()
        x = Input(H, W, 3)
        y = Label(H, W, 3)
        data = Factor(y, features=x)
        horiz = Factor(pairs(y, W))
        vert = Factor(pairs(y, H))
        loss = ZeroOne(y) if zero_one else Hamming(y)

    truth = np.add.outer(np.arange(20), np.arange(20)) // 14
    image = np.eye(3)[truth] + 0.5 * np.random.default_rng(0).normal(size=(20, 20, 3))
    svm = StructuredSVM(Image, risk="margin" if zero_one else "hm", max_passes=2, random_state=0)
    with pytest.warns(ConvergenceWarning):
        svm.fit([image], [truth])
    assert svm.plan_.backend == "combi"
    assert svm.report_.certified
    assert 0.0 <= svm.report_.dual <= svm.report_.primal


class Parts(Model):
    T = Dim()
    x = Input(T, 2)
    h = Latent(T, 3)
    y = Label(T, 2)
    emit = Factor(h, features=x)
    joint = Factor(cross(h, y))
    trans = Factor(chain(h))
    loss = Hamming(y)


def best_outputs(x, w):
    """Return the score of each labelling of :class:`Parts` with its best latent states."""
    best = {}
    for y in product(range(2), repeat=len(x)):
        for h in product(range(3), repeat=len(x)):
            at = np.array(h)
            score = (x @ w["emit"].T)[range(len(x)), at].sum() + w["joint"][at, y].sum()
            best[y] = max(best.get(y, -np.inf), score + w["trans"][at[:-1], at[1:]].sum())
    return best


@pytest.mark.parametrize("k", [1, 2, 5, 100])
def test_latent_variables_do_not_make_a_labelling_twice(k):
    """Against all labellings, each with its best latent states; the same y comes many times in the joint ranking."""
    rng = np.random.default_rng(k)
    w = {"emit": rng.normal(size=(3, 2)), "joint": 0.1 * rng.normal(size=(3, 2)), "trans": rng.normal(size=(3, 3))}
    svm = StructuredSVM.from_weights(Parts, w)
    X = [rng.normal(size=(t, 2)) for t in (1, 3, 2)]
    for x, ranked in zip(X, svm.predict_kbest(X, k), strict=True):
        best = best_outputs(x, w)
        found = [tuple(y.tolist()) for y, _ in ranked]
        assert len(set(found)) == len(found) == min(k, len(best))
        np.testing.assert_allclose([score for _, score in ranked], sorted(best.values(), reverse=True)[:k], atol=1e-9)
        np.testing.assert_allclose([score for _, score in ranked], [best[y] for y in found], atol=1e-9)
    first = [[0] + [None] * (len(x) - 1) for x in X]
    assert all(y[0] == 0 for ranked in svm.predict_kbest(X, 3, given=first) for y, _ in ranked)


@pytest.mark.parametrize("backend", ["auto", "combi"])
def test_each_output_is_asked_for_where_joint_states_repeat_it(monkeypatch, backend):
    """Against all labellings, by a question for each part of the outputs; with labels that are given, too."""
    monkeypatch.setattr(answers, "MOST", 0)
    rng = np.random.default_rng(0)
    w = {"emit": rng.normal(size=(3, 2)), "joint": 0.01 * rng.normal(size=(3, 2)), "trans": rng.normal(size=(3, 3))}
    svm = StructuredSVM.from_weights(Parts, w, backend=backend)
    X = [rng.normal(size=(t, 2)) for t in (4, 1, 5)]
    for given in (None, [[1] + [None] * (len(x) - 1) for x in X]):
        for x, ranked in zip(X, svm.predict_kbest(X, 7, given=given), strict=True):
            best = {y: score for y, score in best_outputs(x, w).items() if given is None or y[0] == 1}
            found = [tuple(y.tolist()) for y, _ in ranked]
            assert len(set(found)) == len(found) == min(7, len(best))
            expected = sorted(best.values(), reverse=True)[:7]
            np.testing.assert_allclose([score for _, score in ranked], expected, atol=1e-9)
            np.testing.assert_allclose([score for _, score in ranked], [best[y] for y in found], atol=1e-9)


Mood = hidden_chain(2, 3, 4)


def test_long_latent_chains_have_all_their_labellings():
    """One label of a chain of 300: each beside 3^300 joint states; against the best score with each label given."""
    rng = np.random.default_rng(1)
    w = {"emit": rng.normal(size=(3, 2)), "joint": 0.3 * rng.normal(size=(3, 4)), "trans": rng.normal(size=(3, 3))}
    svm = StructuredSVM.from_weights(Mood, w)
    x = rng.normal(size=(300, 2))
    (ranked,) = svm.predict_kbest([x], 5)
    assert sorted(y for y, _ in ranked) == [0, 1, 2, 3]
    scores = [svm.best_score([x], [y])[0] for y, _ in ranked]
    np.testing.assert_allclose([score for _, score in ranked], scores, atol=1e-9)
    assert scores == sorted(scores, reverse=True)


def test_time_ends_the_list_of_outputs_with_what_was_found(monkeypatch):
    monkeypatch.setattr(answers, "MOST", 0)
    svm = StructuredSVM.from_weights(Mood, {"emit": np.eye(3, 2), "joint": np.eye(3, 4), "trans": np.eye(3)})
    seen = []
    solve = answers._Outputs.solve

    def late(self, space, floor):
        seen.append(space)
        if len(seen) > 2:
            self.deadline.end()
        return solve(self, space, floor)

    monkeypatch.setattr(answers._Outputs, "solve", late)
    with pytest.warns(TimeLimitWarning, match="before the 3 best labellings of 1 of 1 examples were found"):
        (ranked,) = svm.predict_kbest([np.ones((40, 2))], 3, time_limit=60.0)
    assert 1 <= len(ranked) < 3
