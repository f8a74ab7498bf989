"""Fitted features against closed forms; what they learn on training data is used, unchanged, on new data."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.preprocessing import PolynomialFeatures

import model_table
from ssvm_dsl import (
    Attributes,
    Dim,
    Factor,
    Feature,
    Hashed,
    Input,
    Label,
    Model,
    PLiF,
    Polynomial,
    Quantiles,
    Standardized,
    StructuredSVM,
    Whitened,
    ground,
)
from ssvm_dsl.ir.features import SparseRows


class Plain(Model):
    T = Dim()
    x = Input(T, 3)
    y = Label(T, 2)


def data(seed, n=6, scale=1.0):
    rng = np.random.default_rng(seed)
    mix = np.array([[2.0, 0.5, 0.0], [0.0, 1.0, -1.0], [0.0, 0.0, 0.3]])
    return [scale * rng.normal(size=(t, 3)) @ mix + [5.0, -1.0, 100.0] for t in rng.integers(1, 9, size=n)]


def with_features(source) -> type[Model]:
    return type(Plain)("Fitting", (Plain,), {"emit": Factor(Plain.y, features=source)})


def rows(grounded) -> np.ndarray:
    (fmap,) = grounded.parameters.maps
    if isinstance(fmap.features, SparseRows):
        out = np.zeros(fmap.features.shape)
        owner = np.repeat(np.arange(len(out)), np.diff(fmap.features.ptr))
        out[owner, fmap.features.indices] = fmap.features.data
        return out
    return fmap.features


# -- closed forms --------------------------------------------------------------------------------------------


def test_whitened_has_identity_covariance():
    z = rows(ground(with_features(Whitened(Plain.x)), data(0, n=40)))
    np.testing.assert_allclose(z.mean(axis=0), 0, atol=1e-10)
    np.testing.assert_allclose(z.T @ z / len(z), np.eye(3), atol=1e-9)


def test_whitened_drops_directions_without_variance():
    X = [np.c_[x, x[:, :1]][:, [0, 1, 3]] for x in data(1, n=20)]  # the last column repeats the first
    z = rows(ground(with_features(Whitened(Plain.x)), X))
    values = np.linalg.eigvalsh(z.T @ z / len(z))
    np.testing.assert_allclose(values, [0, 1, 1], atol=1e-6)


def test_whitening_is_symmetric():
    """ZCA: the matrix is the symmetric root of the inverse covariance."""
    X = data(2, n=30)
    g = ground(with_features(Whitened(Plain.x)), X)
    matrix = g.fitted["Whitened(x)"]["matrix"]
    covariance = np.cov(np.concatenate(X).T, bias=True)
    np.testing.assert_allclose(matrix, matrix.T, atol=1e-12)
    np.testing.assert_allclose(matrix @ covariance @ matrix, np.eye(3), atol=1e-9)


def test_standardized():
    X = data(3)
    stacked = np.concatenate(X)
    z = rows(ground(with_features(Standardized(Plain.x)), X))
    np.testing.assert_allclose(z, (stacked - stacked.mean(axis=0)) / stacked.std(axis=0), rtol=1e-12)


def test_standardized_constant_column_is_only_shifted():
    X = [np.c_[np.full(4, 7.0), np.arange(4.0), np.full(4, -2.0)]]
    z = rows(ground(with_features(Standardized(Plain.x)), X))
    np.testing.assert_array_equal(z[:, [0, 2]], 0)


@pytest.mark.parametrize("knots", [[-1.0, 0.5], [0.0, 1.0, 2.5, 2.6, 90.0]])
def test_plif_is_piecewise_linear_interpolation(knots):
    X = [np.array([[-5.0, 0.5, 0.7], [2.55, 95.0, 90.0], [1.0, 0.0, -1.0]])]
    coordinates = rows(ground(with_features(PLiF(Plain.x, knots)), X)).reshape(3, 3, len(knots))
    np.testing.assert_allclose(coordinates.sum(axis=2), 1)
    assert ((coordinates > 0).sum(axis=2) <= 2).all()
    heights = np.random.default_rng(0).normal(size=len(knots))
    np.testing.assert_allclose(coordinates @ heights, np.interp(X[0], knots, heights), rtol=1e-12)


def test_declared_knots_are_not_learnt():
    model, X = with_features(PLiF(Plain.x, [0.0, 1.0])), data(3)
    assert ground(model, X).fitted == {}
    weights = np.arange(12.0).reshape(2, 6) % 5
    scores = StructuredSVM.from_weights(model, {"emit": weights}).best_score(X)
    expected = [(rows(ground(model, [x])) @ weights.T).max(axis=1).sum() for x in X]
    np.testing.assert_allclose(scores, expected)


def test_plif_learns_quantiles():
    X = data(4, n=30)
    stacked = np.concatenate(X)
    g = ground(with_features(PLiF(Plain.x, Quantiles(5))), X)
    coordinates = rows(g).reshape(len(stacked), 3, 5)
    heights = np.random.default_rng(0).normal(size=5)
    for p in range(3):
        knots = np.quantile(stacked[:, p], [0, 0.25, 0.5, 0.75, 1])
        np.testing.assert_allclose(coordinates[:, p] @ heights, np.interp(stacked[:, p], knots, heights), rtol=1e-9)


def test_plif_with_equal_quantiles_stays_finite():
    X = [np.c_[np.zeros(9), np.r_[np.zeros(8), 1.0], np.arange(9.0)]]
    coordinates = rows(ground(with_features(PLiF(Plain.x, Quantiles(4))), X)).reshape(9, 3, 4)
    np.testing.assert_allclose(coordinates.sum(axis=2), 1)


@pytest.mark.parametrize("degree", [1, 2, 3])
def test_polynomial(degree):
    X = data(5)
    expected = PolynomialFeatures(degree, include_bias=False).fit_transform(np.concatenate(X))
    np.testing.assert_allclose(rows(ground(with_features(Polynomial(Plain.x, degree)), X)), expected, rtol=1e-12)


def test_transforms_nest():
    X = data(6)
    stacked = np.concatenate(X)
    z = (stacked - stacked.mean(axis=0)) / stacked.std(axis=0)
    expected = PolynomialFeatures(2, include_bias=False).fit_transform(z)
    found = rows(ground(with_features(Polynomial(Standardized(Plain.x), 2)), X))
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-12)


# -- hashing -------------------------------------------------------------------------------------------------


class Hash(Model):
    T = Dim()
    t = Attributes(T)
    y = Label(T, 2)
    emit = Factor(y, features=Hashed(t, 32))


def murmur3(text: str) -> int:
    """MurmurHash3, 32 bits, seed 0, written from its published description."""
    mask, data, h = 0xFFFFFFFF, text.encode(), 0

    def mixed(k):
        k = k * 0xCC9E2D51 & mask
        return ((k << 15 | k >> 17) & mask) * 0x1B873593 & mask

    whole = len(data) // 4 * 4
    for i in range(0, whole, 4):
        h ^= mixed(int.from_bytes(data[i : i + 4], "little"))
        h = ((h << 13 | h >> 19) & mask) * 5 + 0xE6546B64 & mask
    if len(data) > whole:
        h ^= mixed(int.from_bytes(data[whole:], "little"))
    h ^= len(data)
    for shift, factor in ((16, 0x85EBCA6B), (13, 0xC2B2AE35), (16, 1)):
        h = (h ^ h >> shift) * factor & mask
    return h


def test_hashed_columns_depend_on_the_name_only():
    X = [[{"w=the": 2.0, "cap": 1}, ["w=cat", "é", "w=cat"]], [["suffix=ing"]]]
    expected = np.zeros((3, 32))
    for row, name, value in [(0, "w=the", 2), (0, "cap", 1), (1, "w=cat", 2), (1, "é", 1), (2, "suffix=ing", 1)]:
        expected[row, murmur3(name) % 32] += value
    g = ground(Hash, X)
    np.testing.assert_array_equal(rows(g), expected)
    np.testing.assert_array_equal(rows(ground(Hash, X[::-1])), expected[[2, 0, 1]])
    assert g.fitted == {}


# -- what was learnt is kept ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("source", "learns"),
    [
        (Standardized(Plain.x), True),
        (Whitened(Plain.x), True),
        (PLiF(Plain.x, Quantiles(4)), True),
        (PLiF(Plain.x, [0.0, 1.0]), False),
    ],
    ids=repr,
)
def test_new_data_does_not_change_what_was_learnt(source, learns):
    model, X_train, X_test = with_features(source), data(7), data(8, scale=3.0)
    trained = ground(model, X_train)
    together = rows(ground(model, X_test, fitted=trained.fitted))
    alone = [rows(ground(model, [x], fitted=trained.fitted)) for x in X_test]
    np.testing.assert_allclose(together, np.concatenate(alone), rtol=1e-9, atol=1e-9)
    again = rows(ground(model, X_train, fitted=trained.fitted))
    np.testing.assert_array_equal(again, rows(trained))
    assert model.declaration.fitted is learns
    assert np.allclose(together, rows(ground(model, X_test))) is not learns


def test_standardized_uses_the_training_mean_and_scale():
    X_train, X_test = data(9), data(10)
    model, stacked = with_features(Standardized(Plain.x)), np.concatenate(X_train)
    found = rows(ground(model, X_test, fitted=ground(model, X_train).fitted))
    np.testing.assert_allclose(found, (np.concatenate(X_test) - stacked.mean(axis=0)) / stacked.std(axis=0), rtol=1e-12)


def test_unseen_attributes_are_ignored():
    X_train = [[["a", "b"], {"b": 3.0, "c": -1.0}]]
    trained = ground(model_table.Tokens, X_train)
    assert trained.fitted["t"]["names"] == ["a", "b", "c"]
    tested = ground(model_table.Tokens, [[["new", "c"]], [["newer"], []]], fitted=trained.fitted)
    features = tested.parameters.maps[0].features
    assert features.shape == (3, 3)
    assert features.ptr.tolist() == [0, 1, 1, 1]
    assert features.indices.tolist() == [2]
    assert trained.fitted["t"]["names"] == ["a", "b", "c"]
    assert tested.parameters.dim == trained.parameters.dim


def test_repeated_attributes_add_up():
    g = ground(model_table.Tokens, [[["a", "b", "a"]]])
    features = g.parameters.maps[0].features
    assert dict(zip(features.indices.tolist(), features.data.tolist())) == {0: 2.0, 1: 1.0}


# -- features that read alike --------------------------------------------------------------------------------


def test_features_that_read_alike_keep_their_own_statistics():
    class Alike(Model):
        T = Dim()
        x = Input(T, 3)
        y = Label(T, 2)
        a = Factor(y, features=Standardized(Feature(lambda x: x[:, :1], T, width=1)))
        b = Factor(y, features=Standardized(Feature(lambda x: x[:, 1:2], T, width=1)))
        c = Factor(y, features=PLiF(x, [0.0, *np.linspace(1, 2, 9), 3.0]))
        d = Factor(y, features=PLiF(x, [0.0, *np.linspace(1, 2.5, 9), 3.0]))

    X_train, X_test = data(11), data(12)
    trained = ground(Alike, X_train)
    tested = ground(Alike, X_test, fitted=trained.fitted)
    stacked, new = np.concatenate(X_train), np.concatenate(X_test)
    for fmap, column in zip(tested.parameters.maps, (0, 1)):
        expected = (new[:, column] - stacked[:, column].mean()) / stacked[:, column].std()
        np.testing.assert_allclose(fmap.features[:, 0], expected, rtol=1e-9)
    for fmap, source in zip(tested.parameters.maps[2:], (Alike.c.features, Alike.d.features)):
        heights = np.random.default_rng(0).normal(size=len(source.knots))
        found = fmap.features.reshape(len(new), 3, -1) @ heights
        np.testing.assert_allclose(found, np.interp(new, source.knots, heights), rtol=1e-9)
