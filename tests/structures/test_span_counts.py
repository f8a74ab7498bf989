"""Losses of counts of segments: the oracle that counts against every segmentation, training, and what is refused."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

from ssvm_constraints.segmentation import model_problem
from ssvm_dsl import (
    CountLoss,
    Dim,
    Factor,
    Hamming,
    Input,
    Label,
    Model,
    SpanSum,
    StructuredSVM,
    chain,
    ground,
    spans,
    starts,
)
from ssvm_dsl.errors import ModelError, NoBackendError
from ssvm_dsl.inference.planning.planner import plan_program
from ssvm_dsl.ir import Ability, CountTables, Guarantee, Question, Task
from ssvm_dsl.lang.serial import from_json, to_json
from ssvm_dsl.learning.objective import RegularizedRisk
from ssvm_dsl.learning.risks.kinds import find_risk
from ssvm_dsl.plugin_api import program_need
from ssvm_dsl.testing import open_session

CLASSES = ("O", "PER", "LOC")


class OneThread:
    """An executor that runs everything here and now."""

    def map(self, function, parts):
        return [function(part) for part in parts]


class Found(Model):
    T = Dim()
    x = Input(T, 2)
    y = Label(T, CLASSES, segments=3)
    emit = Factor(y, features=x)
    first = Factor(starts(y), features=x)
    whole = Factor(spans(y), features=SpanSum(x, spans(y)))
    trans = Factor(chain(y))
    loss = CountLoss(spans(y), "f1", outside="O")


def few(tp, fp, fn, tn):
    """A loss that looks at all four counts: every span of each positive class is one question."""
    return (fp + 2.0 * fn) / np.maximum(tp + fp + fn + tn, 1)


def all_segmentations(n, names=CLASSES, longest=3):
    if n == 0:
        return [[]]
    lasts = [(n - l, n, name) for l in range(1, min(longest, n) + 1) for name in names]
    return [[*rest, last] for last in lasts for rest in all_segmentations(last[0], names, longest)]


def expected_loss(measure, truth, found, positive, longest=3):
    """The measure of sets of (start, end, class), from its definition."""
    right, given = ({one for one in segments if one[2] in positive} for segments in (truth, found))
    tp, fp, fn = len(right & given), len(given - right), len(right - given)
    n = truth[-1][1] if truth else 0
    all_ = sum(min(longest, n - s) for s in range(n)) * len(positive)
    if callable(measure):
        return float(measure(*(np.array([c]) for c in (tp, fp, fn, all_ - tp - fp - fn)))[0])
    if not right and not given:
        return 0.0
    if measure == "iou":
        return 1 - tp / (tp + fp + fn)
    b = 4.0 if measure == "f_beta" else 1.0
    return 1 - (1 + b) * tp / ((1 + b) * tp + fp + b * fn)


def data(seed, sizes=(4, 0, 1, 3, 5)):
    rng = np.random.default_rng(seed)
    X = [rng.normal(size=(n, 2)) for n in sizes]
    every = [all_segmentations(n) for n in sizes]
    return X, [one[rng.integers(len(one))] for one in every]


def test_best_by_count_is_that_of_brute_force():
    """Counts of any states, also of classes and beginnings; tables that are too small; masks; examples in any order."""
    seen, asked = set(), 0
    for seed in range(45):
        rng = np.random.default_rng(seed)
        program, theta = model_problem(rng)
        need = program_need(program, frozenset({Task.MAP}), Guarantee.EXACT, frozenset({Ability.COUNTS}))
        if need.free_variables or need.max_constraints > 1:
            with pytest.raises(NoBackendError, match=r"counts in a model whose only label is one label of segments"):
                plan_program(program, need, "semi-markov")
            continue
        counts = rng.integers(0, 3, (program.n_states, 2)) * (rng.random((program.n_states, 2)) < rng.choice([0.2, 1]))
        shape = 1 + rng.integers(0, 2 + program.n_variables, (program.n_examples, 2))
        cells = shape.prod(axis=1)
        offset, scale = rng.normal(size=cells.sum()), rng.choice([0.0, 0.5, 2.0], cells.sum())
        offset[rng.random(len(offset)) < 0.1] = -np.inf
        some = rng.permutation(program.n_examples)[:3]
        tables = CountTables(counts, shape, np.cumsum(cells) - cells, offset, scale).select(some)
        mine, right = (
            open_session(program, name, abilities={Ability.COUNTS}).best_by_count(Question(theta, some), tables)
            for name in ("semi-markov", "brute-force")
        )
        np.testing.assert_allclose(mine.score, right.score, atol=1e-9)
        seen.update(mine.primal.tolist())
        asked += 1
    assert seen == {0, 3}  # feasible, infeasible
    assert asked > 20


def hamming(truth, found):
    """Positions of a wrong class, and those where a segment begins in one only."""
    rows = [[(name, t == s) for s, e, name in one for t in range(s, e)] for one in (truth, found)]
    return sum((a != b) + (p != q) for (a, p), (b, q) in zip(*rows))


class Listed:
    """Every segmentation of every example with its loss; risks by looking at them all."""

    def __init__(self, model, X, Y, loss):
        self.grounded = ground(model, X, Y)
        self.every = [all_segmentations(len(x)) for x in X]
        self.loss = [np.array([loss(y, one) for one in every]) for y, every in zip(Y, self.every)]
        self.many = [ground(model, [x] * len(every), every) for x, every in zip(X, self.every)]

    def risks(self, w, slack=False):
        of_truth = self.grounded.parameters.dot(w, self.grounded.truth)
        margins = [m.parameters.dot(w, m.truth) - own for m, own in zip(self.many, of_truth)]
        worst = [d * (1 + m) if slack else d + m for d, m in zip(self.loss, margins)]
        return np.array([one.max() for one in worst])


def problem_of(model, X, Y, backend="auto", risk="margin"):
    made, grounded = find_risk(risk), ground(model, X, Y)
    parameters = made.asked_about(grounded.parameters, grounded.loss)
    tasks, abilities, *_ = made.asks(grounded.loss)
    session = open_session(parameters.program, backend, tasks, abilities=abilities)
    objective = RegularizedRisk(1.0, len(X), np.ones(len(X)), np.ones(parameters.dim), parameters.lower_bound, 1.0)
    return made.problem(parameters, grounded.loss, objective, session, OneThread())


MEASURES = [("f1", CLASSES[1:]), ("iou", CLASSES[2:]), ("f_beta", CLASSES), (few, CLASSES[1:]), (few, CLASSES)]


@pytest.mark.parametrize(("measure", "positive"), MEASURES)
def test_the_oracle_finds_the_best_segmentation(measure, positive):
    beta = {"beta": 2.0} if measure == "f_beta" else {}

    class Measured(Found):
        loss = 1.5 * CountLoss(spans(Found.y), measure, positive=positive, **beta) + 0.1 * Hamming(Found.y)

    def loss(truth, found):
        return 1.5 * expected_loss(measure, truth, found, positive) + 0.1 * hamming(truth, found)

    X, Y = data(len(positive))
    listed, problem, rng = Listed(Measured, X, Y, loss), problem_of(Measured, X, Y), np.random.default_rng(0)
    assert problem.session.plan.backend == "semi-markov"
    for size in (0.0, 0.2, 2.0):
        w = np.round(size * rng.normal(size=problem.dim), 1 if size < 1 else 0)  # ties
        planes = problem.oracle(w)
        np.testing.assert_allclose(planes.value, listed.risks(w), atol=1e-9)
        np.testing.assert_allclose(planes.bound, planes.value, atol=1e-9)
        psi = problem.accumulate(planes, np.ones(len(X)), np.zeros(problem.dim))
        assert planes.loss.sum() - psi @ w == pytest.approx(planes.value.sum(), abs=1e-9)


def f1_loss(truth, found):
    return expected_loss("f1", truth, found, CLASSES[1:])


@pytest.mark.parametrize("trainer", ["bcfw", "one-slack", "n-slack", "subgradient"])
def test_trainers_certify_the_objective(trainer):
    X, Y = data(7, sizes=(4, 3, 1, 4, 2, 0))
    listed = Listed(Found, X, Y, f1_loss)
    report = {}
    for name in ("bundle", trainer):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            passes = 20 if name == "subgradient" else 400
            svm = StructuredSVM(Found, C=0.5, trainer=name, tol=1e-6, random_state=0, max_passes=passes).fit(X, Y)
        w, report[name] = svm.coef_, svm.report_
        assert svm.report_.certified
        assert svm.report_.primal == pytest.approx(0.5 * w @ w + 0.5 * listed.risks(w).sum(), rel=1e-9)
    assert report["bundle"].converged
    best = report["bundle"].primal
    assert report[trainer].dual - 1e-9 <= best <= report[trainer].primal + 1e-6 * best
    assert trainer == "subgradient" or report[trainer].primal == pytest.approx(best, rel=1e-5)
    mean = np.mean([1 - f1_loss(y, found) for y, found in zip(Y, svm.predict(X)) if y])  # nothing is lost of nothing
    assert svm.score(X, Y) == pytest.approx(mean)


@pytest.mark.parametrize("loss", [CountLoss(spans(Found.y), "f1", outside="O"), Hamming(Found.y)])
def test_slack_rescaling_counts(loss):
    model = type(Found)("Rescaled", (Found,), {"loss": loss})
    of = f1_loss if isinstance(loss, CountLoss) else hamming
    X, Y = data(3)
    listed, problem = Listed(model, X, Y, of), problem_of(model, X, Y, risk="slack")
    assert problem.by_count
    for size in (0.0, 0.3, 2.0):
        w = size * np.random.default_rng(1).normal(size=problem.dim)
        np.testing.assert_allclose(problem.oracle(w).value, listed.risks(w, slack=True), atol=1e-9)


def test_two_labels_of_segments_are_not_counted_in():
    """Neither by losses of counts, which say why, nor by slack rescaling, which goes another way."""

    class Two(Found):
        z = Label(Found.T, 2, segments=2)
        other = Factor(spans(z), features=SpanSum(Found.x, spans(z)))

    class Both(Two):
        loss = Hamming(Two.y)

    X, Y = data(0, sizes=(2, 1))
    Y = [{"y": y, "z": [(0, len(x), 1)]} for x, y in zip(X, Y)]
    with pytest.raises(NoBackendError, match=r"whose only label is one label of segments(.|\n)*adds up over variables"):
        StructuredSVM(Two, backend="auto").fit(X, Y)
    assert not problem_of(Both, X, Y, backend="semi-markov", risk="slack").by_count


def test_segments_that_are_not_known_are_not_counted():
    X = [np.zeros((5, 2))]
    truth = [[(0, 2, "PER"), (2, 4, None), (4, 5, "LOC")]]
    grounded = ground(Found, X, truth)
    found = [[(0, 2, "PER"), (2, 3, "LOC"), (3, 4, "PER"), (4, 5, "O")]]
    labels, *_ = grounded.layout.encode(found)
    assert grounded.loss.value(grounded.program, labels)[0] == pytest.approx(1 - 2 * 1 / (2 + 1))


def test_how_it_reads():
    loss = Found.declaration.loss
    assert repr(loss) == "CountLoss(spans(y), 'f1', positive=['PER', 'LOC'])"
    assert repr(CountLoss(spans(Found.y))) == "CountLoss(spans(y), 'f1')"
    assert repr(CountLoss(Found.y, outside=["O", "PER"])) == "CountLoss(y, 'f1', positive='LOC')"
    assert from_json(to_json(Found.declaration)) == Found.declaration


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda y: CountLoss(spans(y), ignore="X"), "segments have no ignore="),
        (lambda y: CountLoss(chain(y)), "the first argument must be a Label or spans.y., got chain.y."),
        (lambda y: CountLoss(spans(y), outside="X"), "outside names classes of .*, got 'X'"),
        (lambda y: CountLoss(spans(y), outside=CLASSES), "outside leaves no class to find"),
        (lambda y: CountLoss(Label(2**31 - 1), outside=0), "outside leaves more than 1048576 classes to find"),
        (lambda y: CountLoss(spans(y), outside="O", positive="PER"), "the positive classes or those outside, not both"),
    ],
)
def test_mistakes(make, text):
    with pytest.raises(ModelError, match=text):

        class Bad(Found):
            loss = make(Found.y)
