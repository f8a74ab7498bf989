"""Loss terms against plain loops over the definition."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from ssvm_dsl import Cost, CountLoss, CustomLoss, Dim, Factor, Hamming, Input, Label, Model, NoLoss, ZeroOne, ground
from ssvm_dsl.compiler.losses import count_loss
from ssvm_dsl.errors import PluginError, TooLargeError
from ssvm_dsl.plugin_api import LossSpec
from ssvm_dsl.registry import packed_loss

COST = np.array([[0, 1, 4], [2, 0, 0.5], [3, 1, 0]])


class Base(Model):
    T = Dim()
    x = Input(T, 1)
    y = Label(T, 3)
    z = Label(T, 2)
    k = Label("ab")
    emit = Factor(y, features=x)


def hamming(label, weights=None, normalize=False, ignore=None):
    """sum_v weights[y_v] [yhat_v != y_v], divided by the number of counted v."""

    def value(truth, guess):
        pairs = [(a, b) for a, b in zip(np.ravel(truth[label]), np.ravel(guess[label])) if a != ignore]
        total = sum((1.0 if weights is None else weights[a]) for a, b in pairs if a != b)
        return total / max(len(pairs), 1) if normalize else total

    return value


def cost(label, matrix, normalize=False):
    def value(truth, guess):
        pairs = list(zip(np.ravel(truth[label]), np.ravel(guess[label])))
        total = sum(matrix[a][b] for a, b in pairs)
        return total / max(len(pairs), 1) if normalize else total

    return value


def zero_one(*labels):
    return lambda truth, guess: float(any((np.ravel(truth[n]) != np.ravel(guess[n])).any() for n in labels))


def counted(measure, label, *positive, ignore=None):
    """A function of counts of true and false answers to the question "is it c?", of all variables and positive c."""

    def value(truth, guess):
        pairs = [(a, b) for a, b in zip(np.ravel(truth[label]), np.ravel(guess[label])) if a != ignore]
        asked = [(a == c, b == c) for c in positive for a, b in pairs]
        tp, fp, fn, tn = (asked.count(kind) for kind in [(True, True), (False, True), (True, False), (False, False)])
        return measure(tp, fp, fn, tn)

    return value


def f1(tp, fp, fn, tn):
    return 1 - 2 * tp / (2 * tp + fp + fn) if tp + fp + fn else 0.0


def iou(tp, fp, fn, tn):
    return 1 - tp / (tp + fp + fn) if tp + fp + fn else 0.0


def f_third(tp, fp, fn, tn):
    return 1 - (10 / 9) * tp / ((10 / 9) * tp + fn / 9 + fp) if tp + fp + fn else 0.0


def informedness(tp, fp, fn, tn):
    return fn / np.maximum(tp + fn, 1) + fp / np.maximum(fp + tn, 1)


def weighted(*terms):
    return lambda truth, guess: sum(weight * term(truth, guess) for weight, term in terms)


CASES = {
    "hamming": (Hamming(Base.y), hamming("y")),
    "normalised": (Hamming(Base.y, normalize=True), hamming("y", normalize=True)),
    "weights": (Hamming(Base.y, weights=[1, 0, 2.5]), hamming("y", [1, 0, 2.5])),
    "ignore": (Hamming(Base.y, ignore=9), hamming("y", ignore=9)),
    "ignore, normalised": (Hamming(Base.y, ignore=9, normalize=True), hamming("y", ignore=9, normalize=True)),
    "ignore a class": (Hamming(Base.y, ignore=2), hamming("y", ignore=2)),
    "single": (Hamming(Base.k), hamming("k")),
    "cost": (Cost(Base.y, COST), cost("y", COST)),
    "cost, normalised": (Cost(Base.y, COST, normalize=True), cost("y", COST, normalize=True)),
    "zero-one": (ZeroOne(Base.y, Base.z, Base.k), zero_one("y", "z", "k")),
    "3 zero-one": (3 * ZeroOne(Base.y, Base.z, Base.k), weighted((3, zero_one("y", "z", "k")))),
    "none": (NoLoss(), lambda truth, guess: 0.0),
    "f1": (CountLoss(Base.y, positive=2), counted(f1, "y", 2)),
    "f1, two states": (CountLoss(Base.z), counted(f1, "z", 1)),
    "f1, single": (CountLoss(Base.k, "f1"), counted(f1, "k", 1)),
    "f1, ignore": (CountLoss(Base.y, positive=[0, 2], ignore=9), counted(f1, "y", 0, 2, ignore=9)),
    "f1, all classes": (CountLoss(Base.y, positive=[0, 1, 2]), counted(f1, "y", 0, 1, 2)),
    "iou": (CountLoss(Base.y, "iou", positive=[1]), counted(iou, "y", 1)),
    "f_beta": (CountLoss(Base.y, "f_beta", beta=1 / 3, positive=(1, 2)), counted(f_third, "y", 1, 2)),
    "function of counts": (CountLoss(Base.y, informedness, positive=[0, 1]), counted(informedness, "y", 0, 1)),
    "sum with counts": (
        0.5 * CountLoss(Base.y, "iou", positive=1) + 2 * Hamming(Base.z),
        weighted((0.5, counted(iou, "y", 1)), (2, hamming("z"))),
    ),
    "sum": (
        Hamming(Base.y) + 0.5 * Cost(Base.y, COST) + 2 * Hamming(Base.k),
        weighted((1, hamming("y")), (0.5, cost("y", COST)), (2, hamming("k"))),
    ),
    "sum by Python": (
        sum(Hamming(getattr(Base, name)) for name in "yzk"),
        weighted((1, hamming("y")), (1, hamming("z")), (1, hamming("k"))),
    ),
    "sum of one": (sum([Hamming(Base.z)]) + np.float64(0.0), hamming("z")),
    "sum of sums": (
        2 * (Hamming(Base.z, normalize=True) + NoLoss() + Hamming(Base.y) * 0.25),
        weighted((2, hamming("z", normalize=True)), (0.5, hamming("y"))),
    ),
}


def labelling(rng, t, ignore):
    y = rng.integers(0, 3, size=t)
    if ignore is not None:
        y = np.where(rng.random(t) < 0.4, ignore, y)
    return {"y": y, "z": rng.integers(0, 2, size=t), "k": int(rng.integers(2))}


def packed(labels):
    return np.concatenate([np.ravel(one[name]) for one in labels for name in ("y", "z", "k")]).astype(np.int32)


@pytest.mark.parametrize("name", CASES)
def test_loss_by_loops(name):
    loss, by_loops = CASES[name]
    model = type(Base)("Lossy", (Base,), {"loss": loss})
    ignore = {"ignore a class": None}.get(name, 9 if "ignore" in name else None)
    rng = np.random.default_rng(0)
    truth = [labelling(rng, t, ignore) for t in (1, 4, 3, 6)]
    Y = [{**one, "k": "ab"[one["k"]]} for one in truth]
    g = ground(model, [np.zeros((len(one["y"]), 1)) for one in truth], Y)
    for _ in range(5):
        guess = [labelling(rng, len(one["y"]), None) for one in truth]
        expected = [by_loops(a, b) for a, b in zip(truth, guess)]
        np.testing.assert_allclose(g.loss.value(g.program, packed(guess)), expected, rtol=1e-12)
        picked = np.array([3, 1])
        some = g.loss.value(g.program, packed([guess[i] for i in picked]), picked)
        np.testing.assert_allclose(some, np.array(expected)[picked], rtol=1e-12)
    np.testing.assert_array_equal(g.loss.value(g.program, g.truth), 0)
    assert (g.loss.value(g.program, packed(guess)) <= g.loss.largest(g.program) + 1e-12).all()


def test_the_largest_loss_of_counts():
    """For each example, over all labellings."""
    model = type(Base)("Lossy", (Base,), {"loss": CountLoss(Base.y, informedness, positive=[0, 1])})
    by_loops = counted(informedness, "y", 0, 1)
    rng = np.random.default_rng(0)
    truth = [labelling(rng, t, None) for t in (0, 1, 2, 3)]
    truth.append(truth[-1])
    g = ground(model, [np.zeros((len(one["y"]), 1)) for one in truth], [{**one, "k": "ab"[one["k"]]} for one in truth])
    largest = [max(by_loops(one, {"y": y}) for y in product(range(3), repeat=len(one["y"]))) for one in truth]
    np.testing.assert_allclose(g.loss.largest(g.program), largest)
    tables = g.loss.tables
    assert tables.start[3] == tables.start[4]  # equal numbers share a table
    own = tables.own()
    np.testing.assert_array_equal(own.start, np.cumsum(own.n_cells) - own.n_cells)
    for i, (lo, size) in enumerate(zip(own.start, own.n_cells)):
        mine = tables.offset[tables.start[i] :][:size]
        np.testing.assert_array_equal(own.offset[lo : lo + size], mine)


def test_counts_of_too_many_variables_are_refused(monkeypatch):
    monkeypatch.setattr(count_loss, "MAX_ENTRIES", 20)
    model = type(Base)("Lossy", (Base,), {"loss": CountLoss(Base.y, positive=0)})
    with pytest.raises(TooLargeError, match=r"are 25 numbers \(examples of up to 8 variables\), 20 are allowed"):
        ground(model, [np.zeros((8, 1))], [{"y": [0] * 4 + [1] * 4, "z": [0] * 8, "k": "a"}])


def test_no_loss_declared_or_no_truth_given():
    X = [np.zeros((2, 1))]
    assert ground(Base, X, [{"y": [0, 1], "z": [0, 1], "k": "a"}]).loss is None
    assert ground(type(Base)("L", (Base,), {"loss": Hamming(Base.y)}), X).loss is None


# -- losses from plug-ins ------------------------------------------------------------------------------------


def ordinal(*classes, **more):
    class Ordinal(Model):
        T = Dim()
        x = Input(T, 1)
        y = Label(T, *classes, **more)
        emit = Factor(y, features=x)
        loss = 0.5 * CustomLoss("distance", y, power=2)

    return Ordinal


Ordinal = ordinal(4)


def distance(truth, n_states, ptr, *, power):
    return np.abs(np.arange(n_states) - truth[:, None]).astype(float) ** power


def test_custom_loss():
    X, Y = [np.zeros((3, 1)), np.zeros((1, 1))], [[0, 3, 1], [2]]
    g = ground(Ordinal, X, Y, custom_losses={"distance": distance}.__getitem__)
    guess = np.array([3, 3, 0, 0], dtype=np.int32)
    np.testing.assert_allclose(g.loss.value(g.program, guess), [0.5 * (9 + 0 + 1), 0.5 * 4])


@pytest.mark.parametrize(
    ("function", "text"),
    [
        (lambda *a, **o: np.zeros((1, 4)), r"prices of shape \(4, 4\), got \(1, 4\)"),
        (lambda *a, **o: [[0.0], [1.0, 2.0]], r"an array of real numbers of shape \(4, 4\), got list"),
        (lambda *a, **o: np.full((4, 4), 1j), "an array of real numbers"),
        (lambda *a, **o: "prices", "an array of real numbers"),
        (lambda *a, **o: np.full((4, 4), np.inf), r"finite.* got inf \(example 0, variable 0, state 0, true state 0"),
        (lambda *a, **o: np.full((4, 4), np.nan), "prices are finite"),
        (lambda *a, **o: np.eye(4)[[1, 3, 1, 2]], r"zero at the truth, got 1 \(example 0, variable 1, state 3"),
        (lambda *a, **o: -distance(*a, **o), r"not negative .* got -1 \(example 0, variable 0, state 1, true state 0"),
    ],
)
def test_custom_losses_are_checked(function, text):
    X, Y = [np.zeros((3, 1)), np.zeros((1, 1))], [[0, 3, 1], [2]]
    with pytest.raises(PluginError, match=f"loss 'distance' of label 'y': .*{text}"):
        ground(Ordinal, X, Y, custom_losses=lambda name: function)


def test_custom_losses_cannot_change_the_truth():
    kept = []

    def spoils(truth, n_states, ptr, **options):
        kept.append(distance(truth, n_states, ptr, **options))
        with pytest.raises(ValueError, match="read-only"):
            truth[:] = 0
        with pytest.raises(ValueError, match="read-only"):
            ptr[:] = 0
        return kept[0]

    g = ground(Ordinal, [np.zeros((3, 1))], [[0, 3, 1]], custom_losses=lambda name: spoils)
    before = g.loss.node.copy()
    kept[0][:] = 9.0
    np.testing.assert_array_equal(g.loss.node, before)
    np.testing.assert_array_equal(g.loss.truth, [0, 3, 1])


def test_a_loss_of_a_plugin_sees_one_example_at_a_time_and_which_states_are_not_known():
    asked = []

    def mean(truth, n_states, power):
        asked.append(truth.tolist())
        return (truth[:, None] != np.arange(n_states)) * float(power) / max(1, (truth >= 0).sum())

    X, Y = [np.zeros((n, 1)) for n in (3, 1, 2)], [[0, 3, -1], [2], [-1, -1]]
    losses = [packed_loss(LossSpec("m", "m:m", packed=packed), mean) for packed in (False, True)]
    g = ground(ordinal(4, unknown=-1), X, Y, custom_losses=lambda name: losses[0])
    assert asked == [[0, 3, -1], [2], [-1, -1]]
    expected = np.zeros((6, 4))
    expected[0], expected[1], expected[3] = [0, 0.5, 0.5, 0.5], [0.5, 0.5, 0.5, 0], [1, 1, 0, 1]
    np.testing.assert_allclose(g.loss.node.reshape(6, 4), expected)
    assert losses[1] is mean  # gets many at once, with ptr


def test_where_no_state_is_right_a_loss_of_a_plugin_charges_the_most_it_can():
    X, Y = [np.zeros((2, 1)), np.zeros((1, 1))], [["a", "z"], ["d"]]
    g = ground(ordinal("abcd"), X, Y, custom_losses=lambda name: distance, whole=True, unseen=True)
    np.testing.assert_allclose(g.loss.node.reshape(3, 4), 0.5 * np.array([[0, 1, 4, 9], [9, 4, 4, 9], [9, 4, 1, 0]]))


def test_custom_loss_without_plugins():
    with pytest.raises(PluginError, match="the loss 'distance' comes from a plug-in"):
        ground(Ordinal, [np.zeros((1, 1))], [[0]])
