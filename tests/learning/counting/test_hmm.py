"""Hidden Markov models by counting against closed forms; grids and nested cross-validation against scikit-learn."""

from __future__ import annotations

from itertools import pairwise, product

import numpy as np
import pytest
from scipy.stats import norm
from sklearn.base import BaseEstimator
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV, cross_val_score

from model_table import tagger
from ssvm_dsl import (
    Dim,
    Factor,
    Hamming,
    Input,
    Label,
    MaximumLikelihoodHMM,
    Model,
    PLiF,
    Quantiles,
    StructuredSVM,
    chain,
    grid_scores,
    nested_scores,
)
from ssvm_dsl.errors import DataError, OptionError
from ssvm_papers.experiments.sequences import true_hmm, with_squares
from ssvm_papers.generators import make_blocks, make_gaussian_hmm

X = [np.array([[0.0], [1.0], [0.5]]), np.array([[2.0], [0.0]]), np.array([[1.0]])]
Y = [[0, 1, 1], [1, 0], [0]]


class Small(Model):
    T = Dim()
    x = Input(T, 1)
    y = Label(T, 2)
    emit = Factor(y, features=PLiF(x, [0.0, 1.0, 2.0]))
    trans = Factor(chain(y))
    start = Factor(y.at(0))
    stop = Factor(y.at(-1))
    loss = Hamming(y)


class WithoutEnds(Model):
    T = Dim()
    x = Input(T, 1)
    y = Label(T, 2)
    emit = Factor(y, features=PLiF(x, Quantiles(3)))
    trans = Factor(chain(y))
    loss = Hamming(y)


@pytest.mark.parametrize("a", [1.0, 0.1])
def test_weights_are_logarithms_of_relative_frequencies(a):
    weights = MaximumLikelihoodHMM(Small, smoothing=a).fit(X, Y).weights_
    emit = np.array([[2 + a, 1 + a, a], [0.5 + a, 1.5 + a, 1 + a]])  # 0.5 is half at the knot 0, half at 1
    np.testing.assert_allclose(np.exp(weights["emit"]), emit / emit.sum(axis=1, keepdims=True))
    np.testing.assert_allclose(np.exp(weights["start"]), np.array([2 + a, 1 + a]) / (3 + 2 * a))
    leave = np.array([[a, 1 + a, 2 + a], [1 + a, 1 + a, 1 + a]])  # to 0, to 1, the end
    leave /= leave.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(np.exp(weights["trans"]), leave[:, :2])
    np.testing.assert_allclose(np.exp(weights["stop"]), leave[:, 2])


def test_without_smoothing_frequencies_are_as_counted():
    weights = MaximumLikelihoodHMM(Small, smoothing=0.0).fit(X, Y).weights_
    np.testing.assert_allclose(np.exp(weights["emit"]), [[2 / 3, 1 / 3, 0], [0.5 / 3, 1.5 / 3, 1 / 3]], atol=1e-300)
    np.testing.assert_allclose(np.exp(weights["trans"]), [[0, 1 / 3], [1 / 3, 1 / 3]], atol=1e-300)
    assert weights["trans"][0, 0] == weights["emit"][0, 2] == np.log(np.finfo(float).tiny)  # -708, not -infinity


def test_rows_are_probabilities_without_ends_and_knots_are_learnt():
    hmm = MaximumLikelihoodHMM(WithoutEnds).fit(X, Y)
    np.testing.assert_allclose(np.exp(hmm.weights_["trans"]), [[1 / 3, 2 / 3], [1 / 2, 1 / 2]])
    np.testing.assert_allclose(np.exp(hmm.weights_["emit"]).sum(axis=1), 1.0)
    assert hmm.score(X, Y) == hmm.svm_.score(X, Y)
    assert len(hmm.predict(X)[0]) == 3


def test_the_true_model_predicts_the_most_probable_states():
    data, _, hmm = make_gaussian_hmm(3, 6, random_state=1, variances=(3.0, 9.0))
    svm = true_hmm(hmm)
    for x, found in zip(data, svm.predict(with_squares(data))):

        def log_probability(states, x=x):
            s = np.array(states)
            emitted = norm.logpdf(x, hmm.means[s], np.sqrt(hmm.variances[s])).sum()
            return np.log(hmm.start[s[0]]) + np.log(hmm.transitions[s[:-1], s[1:]]).sum() + emitted

        best = max(product(range(2), repeat=6), key=log_probability)
        assert tuple(found) == best
        score = svm.best_score(with_squares([x]))
        assert score[0] == pytest.approx(log_probability(best))


def test_what_is_no_hidden_markov_model_is_refused():
    Plain = tagger(1, 2)

    class NoChain(Model):
        T = Dim()
        x = Input(T, 1)
        y = Label(T, 2)
        emit = Factor(y, features=PLiF(x, [0.0, 1.0]))
        loss = Hamming(y)

    with pytest.raises(OptionError, match="'emit' is none of these"):
        MaximumLikelihoodHMM(Plain).fit(X, Y)
    with pytest.raises(OptionError, match="no factor for transitions"):
        MaximumLikelihoodHMM(NoChain).fit(X, Y)
    for senseless in (-1.0, np.inf, "none"):
        with pytest.raises(OptionError, match="smoothing must be a number of 0 or more"):
            MaximumLikelihoodHMM(Small, smoothing=senseless).fit(X, Y)
    with pytest.raises(OptionError, match=r"'trans' has no counts for some state.*set smoothing above 0"):
        MaximumLikelihoodHMM(WithoutEnds, smoothing=0.0).fit([X[0]] * 2, [[0, 0, 0]] * 2)
    with pytest.raises(DataError, match="all known"):
        MaximumLikelihoodHMM(Small).fit(X, [[0, None, 1], *Y[1:]])
    with pytest.raises(NotFittedError):
        MaximumLikelihoodHMM(Small).predict(X)


def test_given_weights_of_a_model_with_fitted_features():
    weights = {"emit": np.ones((2, 3)), "trans": np.zeros((2, 2))}
    with pytest.raises(OptionError, match="fitted_on=X"):
        StructuredSVM.from_weights(WithoutEnds, weights)
    svm = StructuredSVM.from_weights(WithoutEnds, weights, fitted_on=X)
    assert svm.best_score(X, Y) == pytest.approx([3.0, 2.0, 1.0])  # hat functions sum to 1


class Mean(BaseEstimator):
    """Predicts the mean of what it has seen times its parameter."""

    def __init__(self, times=1.0):
        self.times = times

    def fit(self, X, Y):
        self.mean_ = self.times * np.mean(Y)
        return self

    def score(self, X, Y):
        return -np.abs(np.array(Y) - self.mean_).mean()


def test_grids_and_nested_cross_validation_are_those_of_scikit_learn():
    values, grid = list(np.random.default_rng(0).normal(1.0, 1.0, 23)), {"times": [0.0, 0.5, 1.0, 2.0]}
    found = grid_scores(Mean(), grid, values, values, folds=4)
    other = GridSearchCV(Mean(), grid, cv=4).fit(values, values)
    np.testing.assert_allclose(found.scores.mean(axis=1), other.cv_results_["mean_test_score"])
    assert found.best == other.best_params_
    nested = nested_scores(Mean(), grid, values, values, outer=3, inner=4)
    np.testing.assert_allclose(nested.scores, cross_val_score(GridSearchCV(Mean(), grid, cv=4), values, values, cv=3))
    assert len(nested.chosen) == len(nested.inner) == 3
    with pytest.raises(OptionError, match="folds: an int from 2 to the number of examples, 3"):
        grid_scores(Mean(), grid, values[:3], values[:3])


def test_blocks_are_drawn_as_the_listing_of_the_thesis_draws():
    limits = {"n_blocks": (0, 3), "block_length": (5, 10)}
    data, truth = make_blocks(200, 50, 3, distortion=0.25, noise=0.0, n_noise_features=1, **limits)
    features, states = np.concatenate(data), np.concatenate(truth)
    np.testing.assert_allclose((features[:, :2] != 2.0 * states[:, None] - 1.0).mean(axis=0), 0.25)
    assert not features[:, 2].any()
    borders = [np.flatnonzero(np.diff(np.concatenate([[0], y, [0]]))) for y in truth]
    assert {len(one) // 2 for one in borders} == {0, 1, 2}, "one less than the upper limit"
    lengths = [one[1] - one[0] for one in borders if len(one) == 4]  # of two blocks apart the first
    assert (min(lengths), max(lengths)) == (6, 10), "both ends of rp:rp+rl belong to a block"
    assert {one[0] for one in borders if len(one)} >= {0, 20}


def test_the_hidden_markov_model_stays_and_spreads_as_it_says():
    data, truth, hmm = make_gaussian_hmm(50, 200, 2)
    states, features = np.concatenate(truth), np.concatenate(data)
    stays = [np.mean([b == a for y in truth for a, b in pairwise(y) if a == s]) for s in (0, 1)]
    np.testing.assert_allclose(stays, np.diag(hmm.transitions), atol=0.02)
    for s in (0, 1):
        np.testing.assert_allclose(features[states == s].mean(axis=0), hmm.means[s], atol=0.1)
        np.testing.assert_allclose(features[states == s].var(axis=0), hmm.variances[s], rtol=0.1)
    np.testing.assert_allclose(hmm.transitions.sum(axis=1), 1.0)
