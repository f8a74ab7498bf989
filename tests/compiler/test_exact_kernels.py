"""``Kernel``: features whose inner products are a kernel's values, against scikit-learn's support vector machines."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.metrics.pairwise import pairwise_kernels
from sklearn.svm import SVC

from compiler import exact_kernels
from ssvm_dsl import Dim, Factor, Hamming, Input, Kernel, Label, Model, Nystroem, StructuredSVM, chain, ground
from ssvm_dsl.errors import DataError, FileFormatError, ModelError, OptionError
from ssvm_dsl.lang.features.sources import Transform
from ssvm_dsl.testing import training_problem

RNG = np.random.default_rng(0)
ROWS = RNG.normal(size=(60, 3))
NEW = RNG.normal(size=(40, 3))
CLASSES = (np.linalg.norm(ROWS, axis=1) + 0.3 * RNG.normal(size=60) > 1.6).astype(int)


def binary(**options):
    """A support vector machine: the kernel's score of the second class, and an intercept."""

    class Binary(Model):
        x, y = Input(3), Label(2)
        f = Factor(y.is_(1), features=Kernel(x, **options))
        intercept = Factor(y.is_(1))
        loss = Hamming(y)

    return Binary


def features(model, X, fitted=None):
    grounded = ground(model, X, fitted=fitted) if fitted else ground(model, X)
    return grounded.parameters.maps[0].features, grounded.fitted


SETTINGS = [
    ("rbf", {"gamma": 0.7}),
    ("laplacian", {"gamma": 0.3}),
    ("polynomial", {"gamma": 0.5, "degree": 2}),
    ("cosine", {}),
]


@pytest.mark.parametrize(("kernel", "settings"), SETTINGS)
def test_inner_products_are_the_kernels_values(kernel, settings):
    model = binary(kernel=kernel, **settings)
    phi, fitted = features(model, list(ROWS))
    peer = dict(settings) | ({"coef0": 1.0} if kernel == "polynomial" else {})
    np.testing.assert_allclose(phi @ phi.T, pairwise_kernels(ROWS, metric=kernel, **peer), atol=1e-6)
    fresh, _ = features(model, list(NEW), fitted)
    np.testing.assert_allclose(fresh @ phi.T, pairwise_kernels(NEW, ROWS, metric=kernel, **peer), atol=1e-3)


@pytest.mark.parametrize("C", [0.5, 20.0])
@pytest.mark.parametrize(("kernel", "settings"), SETTINGS[:3])
def test_two_classes_are_those_of_scikit_learn(kernel, settings, C):
    model = binary(kernel=kernel, **settings)
    svm = StructuredSVM(model, C=C, trainer="lp-dual-qp", regularization={"intercept": 0.0}, tol=1e-9)
    svm.fit(list(ROWS), CLASSES)
    name = {"rbf": "rbf", "polynomial": "poly"}.get(kernel)
    more = {"coef0": 1.0} if kernel == "polynomial" else {}
    if name is None:
        peer = SVC(C=C, kernel=lambda a, b: pairwise_kernels(a, b, metric=kernel, **settings), tol=1e-9)
    else:
        peer = SVC(C=C, kernel=name, tol=1e-9, **settings, **more)
    peer.fit(ROWS, CLASSES)
    for rows in (ROWS, NEW):
        ours = svm.decision_function(list(rows))
        np.testing.assert_allclose(ours, peer.decision_function(rows), atol=1e-4)
    assert (np.array(svm.predict(list(NEW))) == peer.predict(NEW)).all()


def test_the_rank_is_in_the_report_and_repeated_rows_do_not_count():
    rows = np.tile(ROWS[:20], (3, 1))
    svm = StructuredSVM(binary(gamma=0.7), C=1.0, tol=1e-3).fit(list(rows), np.tile(CLASSES[:20], 3))
    text = svm.report_.chosen["Kernel(x, 'rbf', gamma=0.7)"]
    assert text.startswith("rank 20 of 60 rows, residuals up to")
    assert text in str(svm.report_).replace("\n" + 29 * " ", " ")


def test_tolerance_makes_ranks_smaller_by_what_it_says():
    exact = pairwise_kernels(ROWS, metric="rbf", gamma=0.2)
    ranks = []
    for tolerance in (0.3, 1e-2, 1e-8):
        phi, fitted = features(binary(gamma=0.2, tolerance=tolerance), list(ROWS))
        left = np.diag(exact - phi @ phi.T)
        assert left.max() <= tolerance + 1e-12
        (learnt,) = fitted.values()
        assert learnt["residual"][0] == pytest.approx(max(left.max(), 0.0), abs=1e-10)
        ranks.append(phi.shape[1])
    assert ranks[0] < ranks[1] < ranks[2]


def test_too_many_rows_are_refused_with_numbers():
    message = r"(?s)rank 10 or less at tolerance 1e-08 \(most=10\).*60 rows.*Nystroem\(x, 10\)"
    with pytest.raises(DataError, match=message):
        ground(binary(gamma=5.0, most=10), list(ROWS))


def words_model():
    class Words(Model):
        """Strings as rows of codes."""

        x, y = Input(8), Label(2)
        f = Factor(y.is_(1), features=Kernel(x, exact_kernels.spectrum))
        intercept = Factor(y.is_(1))
        loss = Hamming(y)

    return Words


def codes(words):
    return [np.frombuffer(word.encode().ljust(8, b"\0"), dtype=np.uint8).astype(float) for word in words]


def test_a_kernel_of_strings(tmp_path):
    words = ["banana", "bandana", "cabana", "ananas", "kitten", "sitting", "mitten", "bitten"]
    Words, y = words_model(), [1, 1, 1, 1, 0, 0, 0, 0]
    svm = StructuredSVM(Words, C=10.0, trainer="lp-dual-qp", regularization={"intercept": 0.0}, tol=1e-9)
    svm.fit(codes(words), y)
    peer = SVC(C=10.0, kernel=exact_kernels.spectrum, tol=1e-9).fit(np.array(codes(words)), y)
    new = codes(["ana", "sit", "bananas", "mittens"])
    np.testing.assert_allclose(svm.decision_function(new), peer.decision_function(np.array(new)), atol=1e-4)
    svm.save(tmp_path / "words.npz")
    with pytest.raises(OptionError, match=r"trusted=\['compiler.exact_kernels:spectrum'\]"):
        StructuredSVM.load(tmp_path / "words.npz")
    again = StructuredSVM.load(tmp_path / "words.npz", trusted=["compiler.exact_kernels:spectrum"])
    np.testing.assert_array_equal(again.decision_function(new), svm.decision_function(new))
    assert again.report_.chosen == svm.report_.chosen


def test_saved_models_predict_the_same(tmp_path):
    svm = StructuredSVM(binary(gamma=0.7), C=1.0, tol=1e-3).fit(list(ROWS), CLASSES)
    svm.save(tmp_path / "rings.npz")
    again = StructuredSVM.load(tmp_path / "rings.npz")
    np.testing.assert_array_equal(again.decision_function(list(NEW)), svm.decision_function(list(NEW)))
    assert len(svm.weights_.names("f")[0]) == 60
    assert svm.weights_.names("f")[0][3] == "Kernel(x)#3"


def test_a_chain_of_kernel_machines():
    rng = np.random.default_rng(1)
    X = [rng.normal(size=(int(t), 2)) for t in rng.integers(2, 6, 20)]
    Y = [(np.linalg.norm(x, axis=1) > 1.1).astype(int) for x in X]

    class Rings(Model):
        T = Dim()
        x, y = Input(T, 2), Label(T, 2)
        emit = Factor(y, features=[Kernel(x, gamma=0.5), x])
        trans = Factor(chain(y))
        loss = Hamming(y)

    svm = StructuredSVM(Rings, C=10.0, tol=1e-2, random_state=0).fit(X, Y)
    assert svm.score(X, Y) > 0.95
    assert len(svm.predict([np.zeros((0, 2)), X[0]])[0]) == 0


@pytest.mark.parametrize(
    ("function", "text"),
    [
        (exact_kernels.crooked, "expected a kernel: symmetric, and no negative eigenvalue"),
        (exact_kernels.wide, r"expected finite numbers of shape \(60, 60\), found shape \(60, 61\)"),
        (exact_kernels.failing, "ZeroDivisionError: no kernel today"),
    ],
)
def test_functions_that_are_no_kernels(function, text):
    with pytest.raises(DataError, match=text):
        ground(binary(kernel=function), list(ROWS))


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"kernel": "gauss"}, "the kernel must be one of rbf, .*, or a function, got 'gauss'"),
        ({"gamma": 0}, "gamma must be a positive number or 'scale'"),
        ({"tolerance": 1.0}, "the tolerance must be a number from 0 to below 1"),
        ({"most": 0}, "most: width must be a positive int"),
        ({"degree": 0.5}, "degree must be an int from 1 to 100"),
    ],
)
def test_mistakes_in_declarations(options, text):
    with pytest.raises(ModelError, match=text):
        binary(**options)


def test_damaged_files_are_refused(tmp_path):
    svm = StructuredSVM(binary(gamma=0.7), C=1.0, tol=1e-1).fit(list(ROWS), CLASSES)
    (learnt,) = svm.fitted_.learnt.values()
    learnt["factor"] = learnt["factor"][:-1]
    svm.save(tmp_path / "bad.npz")
    with pytest.raises(FileFormatError, match="expected factor of shape"):
        StructuredSVM.load(tmp_path / "bad.npz")


def test_nothing_to_tell_rows_apart():
    phi, _ = features(binary(gamma=1.0), [np.zeros(3)] * 4)
    np.testing.assert_allclose(phi, np.ones((4, 1)))
    with pytest.raises(DataError, match="features that differ"):
        ground(binary(), [np.zeros(3)] * 4)


class Turned(Transform):
    """Returns a view whose memory lies in the order of columns."""

    width = 3

    def transform(self, rows, learnt):
        return np.asfortranarray(rows[:, :3].T).copy("F").T


def test_features_in_any_order_of_memory_have_the_same_gradient():
    class Views(Model):
        x, y = Input(4), Label(2)
        f = Factor(y.is_(1), features=Turned(x))
        loss = Hamming(y)

    X = list(RNG.normal(size=(20, 4)))
    parameters = training_problem(Views, X, [0, 1] * 10, lam=0.1).parameters
    found = parameters.accumulate(np.ones(20, np.int32), np.ones(20), np.zeros(3))
    np.testing.assert_allclose(found, np.sum(X, axis=0)[:3])


def test_it_is_nystroem_with_all_rows():
    class Landmarks(Model):
        x, y = Input(3), Label(2)
        f = Factor(y.is_(1), features=Nystroem(x, 60, gamma=0.7))
        loss = Hamming(y)

    phi, theirs = features(binary(gamma=0.7), list(ROWS))[0], features(Landmarks, list(ROWS))[0]
    np.testing.assert_allclose(phi @ phi.T, theirs @ theirs.T, atol=1e-6)
