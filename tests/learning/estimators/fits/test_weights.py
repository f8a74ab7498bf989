"""Weights of examples (data-scaled risks), of classes and of variables, as users meet them."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from sklearn.svm import LinearSVC
from test_every_trainer import check_optimal, fitted

import naive
from optima import least_over_planes, objective_of_planes
from small import Case, Word
from ssvm_dsl import Cost, Dim, Factor, Feature, Hamming, Input, Label, Model, StructuredSVM, chain, ground
from ssvm_dsl.errors import DataError, ModelError

# -- of examples: sum_i beta_i risk_i^q (Ratliff et al. 2007, footnote 3) --------------------------------------


@pytest.mark.parametrize(("trainer", "power"), [("bcfw", 1), ("n-slack", 2), ("one-slack", 2), ("bundle", 2)])
def test_risks_are_scaled_after_the_power(trainer, power):
    case = Case(Word, n=7, ragged=(1, 2, 4))
    data = case.make(0)
    beta = np.array([1.0 / len(x) for x in data.X])
    best, w = least_over_planes(data.planes, case.C, beta, data.scale, data.nonneg, power)
    svm = StructuredSVM(Word, trainer=trainer, power=power, tol=1e-7, max_passes=3000, random_state=0)
    svm.fit(data.X, data.Y, sample_weight=beta)
    of_w = objective_of_planes(data.planes, data.flat(svm.weights_), case.C, beta, data.scale, power)
    assert svm.report_.primal == pytest.approx(of_w, rel=1e-9)
    assert best - 1e-7 <= svm.report_.primal <= best + 1e-6 * max(best, 0.1)
    assert np.abs(data.flat(svm.weights_) - w).max() < 1e-2


class Two(Model):
    x = Input(5)
    y = Label(2)
    score = Factor(y.is_(1), features=x)
    loss = Hamming(y)


def test_a_weight_for_each_class_of_one_label_is_a_sample_weight_and_a_price():
    """What scikit-learn calls class_weight scales the slack of the examples of a class."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 5))
    y = (X @ rng.normal(size=5) + rng.normal(size=60) > 0.5).astype(int)
    prices = {0: 1.0, 1: 4.0}
    other = LinearSVC(loss="hinge", C=0.5, fit_intercept=False, class_weight=prices, tol=1e-9, max_iter=10**6).fit(X, y)
    weight = np.array([prices[one] for one in y])
    svm = StructuredSVM(Two, C=0.5, tol=1e-8, max_passes=3000, random_state=0)
    svm.fit(list(X), y.tolist(), sample_weight=weight)
    np.testing.assert_allclose(svm.coef_, other.coef_.ravel(), atol=2e-3)
    margins = 1.0 - (2 * y - 1) * (X @ other.coef_.ravel())
    best = 0.5 * np.sum(other.coef_**2) + 0.5 * weight @ np.maximum(margins, 0.0)
    assert svm.report_.primal == pytest.approx(best, rel=1e-5)


# -- of classes --------------------------------------------------------------------------------------------------


class Prices(Word):
    loss = Hamming(Word.y, weights=[1.0, 4.0, 0.25])


def test_a_price_for_each_class_scales_the_margins():
    data = Case(Prices, n=7).make(0)
    best, w = data.optimum()
    check_optimal(data, fitted(data, tol=1e-7, max_passes=3000), best, w)
    assert best != pytest.approx(Case(Word, n=7).make(0).optimum()[0], rel=1e-2)


# -- of variables --------------------------------------------------------------------------------------------------

COST = np.array([[0, 1, 4], [2, 0, 0.5], [3, 1, 0]])


class Areas(Model):
    T = Dim()
    x = Input(T, 2)
    area = Input(T)
    y = Label(T, 3)
    emit = Factor(y, features=x)
    trans = Factor(chain(y))
    loss = Hamming(y, node_weights=area)


class Shares(Areas):
    loss = Hamming(Areas.y, node_weights=Areas.area, weights=[1.0, 2.0, 0.5], normalize=True, ignore=9)


class Costs(Areas):
    loss = 0.5 * Cost(Areas.y, COST, node_weights=Areas.area, normalize=True) + Hamming(Areas.y)


def by_loops(model, area, truth, guess):
    """The loss of one labelling, variable by variable."""
    seen = [(float(s), int(a), int(b)) for s, a, b in zip(area, truth, guess) if a != 9]
    total = sum(s for s, _, _ in seen) or 1.0
    if model is Areas:
        return sum(s * (a != b) for s, a, b in seen)
    if model is Shares:
        return sum(s * [1.0, 2.0, 0.5][a] * (a != b) for s, a, b in seen) / total
    return 0.5 * sum(s * COST[a, b] for s, a, b in seen) / total + sum(a != b for _, a, b in seen)


def regions(seed: int = 0, ignore: bool = False):
    rng = np.random.default_rng(seed)
    lengths = [1, 3, 2, 4, 3, 2]
    X = [{"x": rng.normal(size=(t, 2)), "area": rng.choice([0.0, 1.0, 5.0], size=t)} for t in lengths]
    Y = [rng.integers(0, 3, size=t) for t in lengths]
    return X, [np.where(rng.random(len(y)) < 0.3, 9, y) if ignore else y for y in Y]


@pytest.mark.parametrize("model", [Areas, Shares, Costs], ids=lambda model: model.__name__)
def test_losses_weigh_each_variable(model):
    X, Y = regions(ignore=model is Shares)
    grounded, rng = ground(model, X, Y), np.random.default_rng(1)
    for _ in range(5):
        guess = [rng.integers(0, 3, size=len(y)) for y in Y]
        expected = [by_loops(model, x["area"], y, g) for x, y, g in zip(X, Y, guess)]
        found = grounded.loss.value(grounded.program, np.concatenate(guess).astype(np.int32))
        np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-12)
    lost = [by_loops(model, x["area"], y, g) for x, y, g in zip(X, Y, guess)]
    largest = [
        max(by_loops(model, x["area"], y, g) for g in itertools.product(range(3), repeat=len(y))) for x, y in zip(X, Y)
    ]
    np.testing.assert_allclose(grounded.loss.largest(grounded.program), largest)
    known = StructuredSVM(model, tol=0.5).fit(X, Y)
    lost = [by_loops(model, x["area"], y, g) for x, y, g in zip(X, Y, known.predict(X))]
    assert known.score(X, Y) == pytest.approx(1.0 - sum(lost) / sum(largest))


@pytest.mark.parametrize("trainer", ["bcfw", "bundle"])
@pytest.mark.parametrize("model", [Areas, Costs], ids=lambda model: model.__name__)
def test_training_finds_the_optimum_for_weighed_variables(model, trainer):
    X, Y = regions(3)
    grounded = ground(model, X, Y)
    shapes = {block.name: block.shape for block in grounded.parameters.blocks}
    planes = []
    for x, y in zip(X, Y):
        _, psi = naive.all_planes(model.declaration, x, {"y": y}, grounded.fitted, shapes)
        losses = [by_loops(model, x["area"], y, g) for g in naive.all_labellings([3] * len(y))]
        planes.append((np.array(losses), psi))
    best, _ = least_over_planes(planes, 1.0)
    report = StructuredSVM(model, trainer=trainer, tol=1e-7, max_passes=3000, random_state=0).fit(X, Y).report_
    assert best - 1e-7 <= report.primal <= best * (1 + 1e-6)
    assert report.dual <= best + 1e-7


def test_weights_of_one_are_none_and_files_keep_them():
    X, Y = regions()
    ones = [{**x, "area": np.ones(len(y))} for x, y in zip(X, Y)]
    plain = type(Areas)("Plain", (Areas,), {"loss": Hamming(Areas.y)})
    found = [StructuredSVM(model, random_state=0, tol=1e-4).fit(ones, Y).coef_ for model in (Areas, plain)]
    np.testing.assert_array_equal(*found)
    again = Model.from_json(Shares.to_json())
    assert again.declaration == Shares.declaration
    shown = "Hamming(y, weights=[1.0, 2.0, 0.5], ignore=9, normalize=True, node_weights=area)"
    assert repr(again.declaration.loss) == shown


def test_inputs_that_only_the_loss_reads_are_not_needed_to_predict():
    X, Y = regions()
    svm = StructuredSVM(Areas, random_state=0).fit(X, Y)
    bare = [x["x"] for x in X]
    for given in ([{"x": x} for x in bare], bare):
        for found, expected in zip(svm.predict(given), svm.predict(X), strict=True):
            np.testing.assert_array_equal(found, expected)
    with pytest.raises(DataError, match=r"X, example 0: expected a dict with the inputs x, area, found no area"):
        svm.score([{"x": x} for x in bare], Y)
    with pytest.raises(DataError, match=r"X, example 0: expected a dict with the inputs x, found unknown area_"):
        svm.predict([{**x, "area_": 1} for x in X])


def test_inputs_are_needed_that_tell_a_size_or_that_functions_read():
    class Sized(Model):
        T = Dim()
        g, area = Input(2), Input(T)
        y = Label(T, 3)
        emit = Factor(y, features=g)
        loss = Hamming(y, node_weights=area)

    def doubled(area):
        return 2 * area[:, None]

    def everything(**inputs):
        return inputs["area"][:, None]

    readers = [Feature(function, Areas.T, width=1) for function in (doubled, everything)]
    models = [type(Areas)("Reads", (Areas,), {"own": Factor(Areas.y, features=one)}) for one in readers]
    for model in (Sized, *models):
        assert "area" in [given.name for given in model.declaration.scored_inputs]
    assert [given.name for given in Areas.declaration.scored_inputs] == ["x"]


def test_a_label_without_axes_has_a_weight_for_each_example():
    class One(Model):
        x = Input(2)
        size = Input()
        y = Label(2)
        score = Factor(y, features=x)
        loss = Hamming(y, node_weights=size)

    X = [{"x": np.ones(2), "size": 3.0}, {"x": np.zeros(2), "size": 0.5}]
    grounded = ground(One, X, [0, 1])
    np.testing.assert_array_equal(grounded.loss.value(grounded.program, np.array([1, 0], np.int32)), [3.0, 0.5])


def test_weights_that_do_not_fit_are_refused():
    T, N = Dim(), Dim()
    y = Label(T, 3)
    for wrong in (Input(T, 2), Input(N), Input(), [1.0, 2.0]):
        assert any("node_weights must be an Input with the axes" in (m() if callable(m) else m) for m in
                   Hamming(y, node_weights=wrong).mistakes)  # fmt: skip
        assert Cost(y, COST, node_weights=wrong).mistakes
    with pytest.raises(ModelError, match="loss: the input an unnamed Input is not an attribute of this model"):
        type(Areas)("Lost", (Areas,), {"loss": Hamming(Areas.y, node_weights=Input(Areas.T))})
    X, Y = regions()
    X[2]["area"] = np.array([1.0, -2.0])
    with pytest.raises(DataError, match=r"input 'area', example 2: expected finite non-negative numbers.*found -2.0"):
        StructuredSVM(Areas).fit(X, Y)
