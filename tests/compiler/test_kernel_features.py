"""Feature maps of kernels, and polynomials of sparse inputs, against scikit-learn's and closed forms."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.kernel_approximation import Nystroem as SkNystroem
from sklearn.metrics.pairwise import rbf_kernel

from ssvm_dsl import (
    Dim,
    Factor,
    Hamming,
    Input,
    Label,
    Model,
    ModelBuilder,
    Nystroem,
    Polynomial,
    RandomFourier,
    Standardized,
    StructuredSVM,
    estimate,
    ground,
)
from ssvm_dsl.errors import DataError, ModelError

RNG = np.random.default_rng(0)
X = [RNG.normal(size=(n, 5)) for n in (4, 1, 6, 3)]
NEW = [RNG.normal(size=(3, 5))]


def model(make, sparse=False):
    m = ModelBuilder("Kernel")
    T = m.dim("T")
    x = m.input("x", T, 5, sparse=sparse)
    y = m.label("y", T, 2)
    m.factor("f", y, features=make(x))
    m.loss(Hamming(y))
    return m.build()


def rows(grounded):
    (fmap,) = grounded.parameters.maps
    if isinstance(fmap.features, np.ndarray):
        return fmap.features
    values = fmap.features
    return sp.csr_array((values.data, values.indices, values.ptr), shape=values.shape).toarray()


@pytest.mark.parametrize("gamma", ["scale", 0.1])
def test_random_features_approximate_the_gaussian_kernel(gamma):
    grounded = ground(model(lambda x: RandomFourier(x, 4000, gamma=gamma, seed=3)), X)
    together = np.concatenate(X)
    width = 1.0 / (5 * together.var()) if gamma == "scale" else gamma
    found = rows(grounded) @ rows(grounded).T
    assert np.abs(found - rbf_kernel(together, gamma=width)).max() < 0.1
    again = rows(ground(model(lambda x: RandomFourier(x, 4000, gamma=gamma, seed=3)), NEW, fitted=grounded.fitted))
    assert again.shape == (3, 4000)
    assert (again == rows(ground(grounded.declaration, NEW, fitted=grounded.fitted))).all()


@pytest.mark.parametrize(
    ("kernel", "settings"),
    [
        ("rbf", {"gamma": 0.3}),
        ("laplacian", {"gamma": 0.3}),
        ("polynomial", {"gamma": 0.3, "degree": 2}),
        ("cosine", {}),
    ],
)
def test_nystroem_is_that_of_scikit_learn(kernel, settings):
    made = model(lambda x: Nystroem(x, 6, kernel=kernel, seed=1, **settings))
    grounded = ground(made, X)
    peer = SkNystroem(kernel=kernel, n_components=6, random_state=1, **settings, **_coef(kernel)).fit(np.concatenate(X))
    assert rows(grounded) == pytest.approx(peer.transform(np.concatenate(X)))
    assert rows(ground(made, NEW, fitted=grounded.fitted)) == pytest.approx(peer.transform(NEW[0]))


def _coef(kernel):
    return {"coef0": 1.0} if kernel == "polynomial" else {}


@pytest.mark.parametrize("degree", [1, 2, 3])
def test_polynomials_of_sparse_inputs_are_those_of_dense_ones(degree):
    sparse = [sp.csr_array(np.where(np.abs(x) > 0.8, x, 0.0)) for x in X]
    dense = [x.toarray() for x in sparse]
    found = ground(model(lambda x: Polynomial(x, degree), sparse=True), sparse)
    expected = rows(ground(model(lambda x: Polynomial(x, degree)), dense))
    np.testing.assert_allclose(rows(found), expected, rtol=1e-12)
    stored = found.parameters.maps[0].features
    assert len(stored.data) == np.count_nonzero(expected)
    assert (np.diff(stored.indices) > 0)[np.diff(np.repeat(np.arange(14), np.diff(stored.ptr))) == 0].all()


@pytest.mark.sensitive
def test_a_kernel_machine_learns_what_a_linear_model_cannot(tmp_path):
    rng = np.random.default_rng(1)
    rings = [rng.normal(size=(8, 2)) for _ in range(40)]
    classes = [(np.linalg.norm(x, axis=1) > 1.1).astype(int) for x in rings]

    class Ring(Model):
        T = Dim()
        x = Input(T, 2)
        y = Label(T, 2)
        f = Factor(y, features=[RandomFourier(Standardized(x), 100), Nystroem(x, 20)])
        loss = Hamming(y)

    class Line(Ring):
        f = Factor(Ring.y, features=Ring.x)

    svm = StructuredSVM(Ring, C=10.0, tol=0.05, random_state=0).fit(rings[:30], classes[:30])
    flat = StructuredSVM(Line, C=10.0, tol=0.05, random_state=0).fit(rings[:30], classes[:30])
    assert svm.score(rings[30:], classes[30:]) > 0.9 > 0.8 > flat.score(rings[30:], classes[30:])
    svm.save(tmp_path / "ring.npz")
    again = StructuredSVM.load(tmp_path / "ring.npz")
    assert all((a == b).all() for a, b in zip(again.predict(rings), svm.predict(rings), strict=True))
    names = svm.weights_.names("f")[1]
    assert (len(names), names[0], names[100]) == (120, "RandomFourier(Standardized(x))#0", "Nystroem(x)#0")
    assert Model.from_json(Ring.to_json()).declaration == Ring.declaration


def test_too_few_rows_or_none_that_differ():
    with pytest.raises(DataError, match=r"feature Nystroem\(x, 20\): expected at least 20 rows to draw from, found 14"):
        ground(model(lambda x: Nystroem(x, 20)), X)
    with pytest.raises(DataError, match="expected features that differ, found variance 0"):
        ground(model(lambda x: RandomFourier(x, 20)), [np.ones((4, 5))])


@pytest.mark.parametrize(
    ("make", "found"),
    [
        (lambda x: RandomFourier(x, 0), "RandomFourier: width must be a positive int, got 0"),
        (lambda x: RandomFourier(x, 5, gamma=-1), "gamma must be a positive number or 'scale', got -1"),
        (lambda x: RandomFourier(x, 5, seed=0.5), "the seed must be an int from 0 to 2^32 - 1, got 0.5"),
        (lambda x: Nystroem(x, 5, kernel="linear"), "the kernel must be one of rbf, laplacian"),
        (lambda x: Nystroem(x, 5, degree=0), "the degree must be an int from 1 to 100"),
    ],
)
def test_mistakes_are_named(make, found):
    with pytest.raises(ModelError) as caught:
        model(make)
    assert found in str(caught.value)
    with pytest.raises(ModelError, match="must be dense, x is sparse"):
        model(lambda x: Nystroem(x, 5), sparse=True)


def test_sizes_are_estimated_from_what_is_stored():
    sparse = [sp.random_array((50, 5), density=0.5, rng=np.random.default_rng(k)).tocsr() for k in range(4)]
    made = model(lambda x: Polynomial(x, 3), sparse=True)
    stored = len(ground(made, sparse).parameters.maps[0].features.data)
    assert 12 * stored < estimate(made, sparse).ground_bytes < 14 * stored + 20000
