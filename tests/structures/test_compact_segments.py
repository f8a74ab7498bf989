"""Segments whose spans are no variables: against brute force, the form with spans as variables, and definitions."""

from __future__ import annotations

from contextlib import contextmanager, nullcontext

import numpy as np
import pytest

from ssvm_constraints.segmentation import compact_problem
from ssvm_dsl import (
    Cost,
    CountLoss,
    Dim,
    Factor,
    Feature,
    Forbid,
    Given,
    Hamming,
    Input,
    Label,
    Model,
    SpanLength,
    SpanMean,
    SpanSum,
    StructuredSVM,
    chain,
    estimate,
    ground,
    pairs,
    spans,
    starts,
)
from ssvm_dsl.errors import DataError, ModelError, OptionError
from ssvm_dsl.inference.planning.planner import plan_program
from ssvm_dsl.ir import SPANS, Question, Task, Theta
from ssvm_dsl.lang.declaration import Declaration
from ssvm_dsl.plugin_api import add_marginals, program_need, score_labels
from ssvm_dsl.testing import open_session

CLASSES = ["O", "PER", "LOC"]


class Compact(Model):
    T = Dim()
    x = Input(T, 2)
    y = Label(T, CLASSES, segments=4)
    emit = Factor(y, features=x)
    first = Factor(starts(y), features=x)
    trans = Factor(chain(y))
    turn = Factor(chain(y), features=x)
    near = Factor(pairs(y, T))
    long = Factor(spans(y), features=SpanLength(spans(y)))
    total = Factor(spans(y), features=SpanSum(x, spans(y)))
    each = Factor(spans(y))
    no = Forbid(chain(y), [("PER", "PER")])
    loss = Hamming(y)


class WithSpans(Compact):
    """Shared weights ask for spans as variables."""

    again = Factor(spans(Compact.y), tie=Compact.each)


class Counted(Compact):
    loss = CountLoss(spans(Compact.y), "f1", outside="O")


def ends(x, start, end):
    return np.c_[x[start], x[end - 1]]


class Rows(Model):
    """Spans have features, given scores and prices."""

    T = Dim()
    x = Input(T, 2)
    y = Label(T, CLASSES, segments=4)
    emit = Factor(y, features=x)
    trans = Factor(chain(y))
    mean = Factor(spans(y), features=SpanMean(x, spans(y)))
    both = Factor(spans(y), features=[SpanLength(spans(y)), Feature(ends, spans(y), width=4)])
    given = Given(spans(y), scores=[0.3, -0.2, 0.7])
    no = Forbid(chain(y), [("PER", "PER")])
    loss = Hamming(y) + 0.5 * Cost(spans(y), "wrong")


class CountedRows(Rows):
    loss = Rows.loss + 2.0 * CountLoss(spans(Rows.y), "iou", outside="O")


class Sliced(Compact):
    look = Factor(spans(Compact.y), features=Feature(ends, spans(Compact.y), width=4, stored=False))


class Stored(Compact):
    look = Factor(spans(Compact.y), features=Feature(ends, spans(Compact.y), width=4))


@contextmanager
def spans_as_variables():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Declaration, "lowered", property(lambda self: self))
        yield


def segments(rng, n):
    out, start, before = [], 0, None
    while start < n:
        end = min(n, start + int(rng.integers(1, 5)))
        name = str(rng.choice([one for one in CLASSES if one != "PER" or before != "PER"]))
        out.append((start, end, name))
        start, before = end, name
    return out


def data(seed, n=10, longest=9):
    rng = np.random.default_rng(seed)
    Y = [segments(rng, int(size)) for size in rng.integers(1, longest, n)]
    X = [rng.normal(size=(one[-1][1], 2)) * 0.5 for one in Y]
    for x, one in zip(X, Y):
        for start, end, name in one:
            x[start:end] += [name == "PER", name == "LOC"]
    return X, Y


def weights(grounded, seed=1):
    return np.random.default_rng(seed).normal(size=grounded.parameters.dim)


def solved(program, backend, *questions):
    session = open_session(program, backend, {question.task for question in questions})
    return [session.solve(question) for question in questions]


@pytest.mark.parametrize("seed", range(12))
def test_answers_are_those_of_brute_force(seed):
    program, theta = compact_problem(np.random.default_rng(seed))
    rng = np.random.default_rng(seed)
    clamp = np.where(rng.random(program.n_variables) < 0.15, rng.integers(0, program.card), -1).astype(np.int32)
    if program.allowed is not None:
        clamp[~program.allowed[program.state_ptr[:-1] + np.maximum(clamp, 0)]] = -1
    questions = [Question(theta), Question(theta, rng.permutation(program.n_examples)[:2]),
                 Question(theta, task=Task.MARGINALS), Question(theta, task=Task.MAP_CLAMPED, clamp=clamp),
                 Question(theta, task=Task.KBEST, k=5)]  # fmt: skip
    right = solved(program, "brute-force", *questions)
    for mine, yours in zip(solved(program, "semi-markov", *questions), right):
        if mine.marginals is None:
            assert mine.primal.tolist() == yours.primal.tolist()
            np.testing.assert_allclose(mine.score, yours.score, atol=1e-9)
            continue
        np.testing.assert_allclose(mine.log_partition, yours.log_partition, atol=1e-9)
        np.testing.assert_allclose(mine.marginals.node, yours.marginals.node, atol=1e-9)
        for one, other in zip(mine.marginals.tables, yours.marginals.tables):
            np.testing.assert_allclose(one, other, atol=1e-9)
        for backend in ("semi-markov", "brute-force"):
            (alone,) = solved(program, backend, Question(theta, task=Task.MARGINALS, tables=False))
            np.testing.assert_allclose(alone.marginals.node, yours.marginals.node, atol=1e-9)
            np.testing.assert_allclose(alone.log_partition, yours.log_partition, atol=1e-9)
            assert alone.marginals.tables == ()


@pytest.mark.parametrize("model", [Compact, Rows])
def test_spans_are_no_variables_and_scores_are_the_same(model):
    X, Y = data(0)
    compact = ground(model, X, Y)
    with spans_as_variables():
        explicit = ground(model, X, Y)
    assert compact.program.n_variables == 2 * sum(map(len, X))
    assert explicit.program.n_variables == 6 * sum(map(len, X))
    assert [(one.name, one.shape) for one in compact.parameters.blocks] == [
        (one.name, one.shape) for one in explicit.parameters.blocks
    ]
    w = weights(compact)
    found = []
    for grounded in (compact, explicit):
        theta = grounded.parameters.scores(w)
        of_truth = score_labels(grounded.program, theta, grounded.truth)
        given = score_labels(grounded.program, grounded.parameters.scores(np.zeros(len(w))), grounded.truth)
        np.testing.assert_allclose(grounded.parameters.dot(w, grounded.truth), of_truth - given, atol=1e-9)
        best, ranked, sums = solved(
            grounded.program, "semi-markov", Question(theta), Question(theta, task=Task.KBEST, k=3),
            Question(theta, task=Task.MARGINALS),
        )  # fmt: skip
        mu = Theta.zeros(grounded.program)
        ids = np.arange(len(X))
        add_marginals(grounded.program, sums.marginals, np.ones(len(X)), ids, mu.node, mu.tables)
        gradient = grounded.parameters.adjoint(mu)
        planes = grounded.parameters.accumulate(grounded.truth, np.ones(len(X)), np.zeros(len(w)))
        answers, loss, priced = grounded.layout.decode(best.labels), grounded.loss, grounded.parameters
        priced = priced.with_groups([one.group for one in loss.factors])
        augmented = priced.scores(w)
        loss.augment(priced.program, augmented, ids)
        augmented.const[:] += loss.const
        (worst,) = solved(priced.program, "semi-markov", Question(augmented))
        losses = loss.value(grounded.program, grounded.truth), loss.value(grounded.program, best.labels)
        assert (losses[0] == 0).all()
        found.append(
            (of_truth, best.score, ranked.score, sums.log_partition, gradient, planes, *losses, worst.score, answers)
        )
    *numbers, mine = found[0]
    *others, theirs = found[1]
    for one, other in zip(numbers, others):
        np.testing.assert_allclose(one, other, atol=1e-8)
    assert mine == theirs


def test_marginals_are_the_slope_of_log_z():
    X, Y = data(3, n=3)
    grounded = ground(Compact, X, Y)
    w, ids = weights(grounded), np.arange(len(X))

    def log_z(at):
        theta = grounded.parameters.scores(at)
        return solved(grounded.program, "semi-markov", Question(theta, task=Task.MARGINALS))[0]

    found, mu = log_z(w), Theta.zeros(grounded.program)
    add_marginals(grounded.program, found.marginals, np.ones(len(X)), ids, mu.node, mu.tables)
    gradient = grounded.parameters.adjoint(mu)
    for k in np.random.default_rng(0).permutation(len(w))[:12]:
        step = np.zeros(len(w))
        step[k] = 1e-5
        slope = (log_z(w + step).log_partition - log_z(w - step).log_partition).sum() / 2e-5
        assert slope == pytest.approx(gradient[k], abs=1e-6)


@pytest.mark.parametrize(
    ("risk", "trainer", "model"),
    [
        ("margin", "bcfw", Compact), ("margin", "bcfw", Rows), ("margin", "one-slack", Rows),
        ("margin", "n-slack", Compact), ("slack", "one-slack", Compact), ("log", "lbfgs", Rows),
        ("softmax-margin", "lbfgs", Compact), ("softmax-margin", "lbfgs", Rows), ("perceptron", "perceptron", Rows),
        ("margin", "bcfw", Counted), ("slack", "one-slack", Counted), ("margin", "bundle", CountedRows),
    ],
)  # fmt: skip
def test_fits_are_those_of_spans_as_variables(risk, trainer, model):
    X, Y = data(5)
    made = {"C": 1.0, "risk": risk, "trainer": trainer, "tol": 1e-3, "max_passes": 60, "random_state": 0}
    compact = StructuredSVM(model, **made).fit(X, Y)
    with spans_as_variables():
        explicit = StructuredSVM(model, **made).fit(X, Y)
    both = [one.report_ for one in (compact, explicit)]
    scale = 1.0 + abs(both[1].primal)
    assert both[0].primal == pytest.approx(both[1].primal, abs=2e-3 * scale)
    if np.isfinite(both[1].dual):
        assert both[0].dual <= both[1].primal + 1e-9 * scale
        assert both[1].dual <= both[0].primal + 1e-9 * scale


@pytest.mark.parametrize(("risk", "trainer"), [("log", "lbfgs"), ("margin", "subgradient"), ("margin", "one-slack")])
def test_fits_in_slices_are_those_of_stored_features(risk, trainer):
    X, Y = data(9, n=5)
    made = {"risk": risk, "trainer": trainer, "max_passes": 5, "random_state": 0}
    svms = [StructuredSVM(model, **made).fit(X, Y) for model in (Sliced, Stored)]
    np.testing.assert_allclose(svms[0].coef_, svms[1].coef_, atol=1e-8)
    assert svms[0].predict(X) == svms[1].predict(X)
    assert svms[0].explain(X[0]).score == pytest.approx(svms[1].explain(X[0]).score)


def test_what_needs_features_at_hand_says_so():
    X, Y = data(9, n=5)
    with pytest.raises(OptionError, match="features of factor 'look' are not kept"):
        StructuredSVM(Sliced, trainer="bcfw").fit(X, Y)
    look = Feature(ends, spans(Compact.y), width=4, stored=False)
    assert repr(look).endswith("width=4, stored=False)")
    bad = {
        "parameters start and end": Factor(
            spans(Compact.y), features=Feature(lambda x: x, spans(Compact.y), width=2, stored=False)
        ),
        "stand alone": Factor(spans(Compact.y), features=[SpanLength(spans(Compact.y)), look]),
        "no stored=False": Given(spans(Compact.y), scores=look),
    }
    for text, symbol in bad.items():
        with pytest.raises(ModelError, match=text):
            type(Compact)("Bad", (Compact,), {"bad": symbol})
    wrong = Feature(lambda x, start, end: x, spans(Compact.y), width=2, stored=False)
    model = type(Compact)("Wrong", (Compact,), {"wrong": Factor(spans(Compact.y), features=wrong)})
    with pytest.raises(DataError, match="a row for each of some spans"):
        StructuredSVM(model, trainer="subgradient").fit(X, Y)


def test_what_needs_spans_has_them():
    T = Dim()

    def compact(**symbols):
        x = Input(T, 2)
        y = Label(T, 2, segments=2)
        base = {"T": T, "x": x, "y": y, "emit": Factor(y, features=x), "loss": Hamming(y)}
        model = type("Made", (Model,), base | {name: make(x, y) for name, make in symbols.items()})
        return model.declaration.lowered.compact

    assert compact()
    assert compact(long=lambda x, y: Factor(spans(y), features=SpanLength(spans(y))))
    assert compact(mean=lambda x, y: Factor(spans(y), features=SpanMean(x, spans(y))))
    assert compact(given=lambda x, y: Given(spans(y), scores=[0.0, 1.0]))
    assert compact(loss=lambda x, y: Cost(spans(y), "wrong"))
    assert compact(loss=lambda x, y: CountLoss(spans(y), "f1"))
    assert not compact(no=lambda x, y: Forbid(spans(y), [1]))
    assert not compact(other=lambda x, y: Label(2))


def test_labels_that_are_not_known_are_learnt_from():
    X, Y = data(7)
    hidden = [[(0, one[-1][1], None)] if i == 0 else one for i, one in enumerate(Y)]
    assert ground(Compact, X, hidden).program.n_variables > 2 * sum(map(len, X))
    svm = StructuredSVM(Compact, tol=0.01).fit(X, hidden)
    assert len(svm.predict(X)) == len(X)
    given = [[(0, 1, "LOC"), (1, one[-1][1], None)] if one[-1][1] > 1 else None for one in Y]
    for one, fixed in zip(svm.predict(X, given=given), given):
        assert fixed is None or one[0] == (0, 1, "LOC")


def test_other_backends_say_why_they_refuse():
    grounded = ground(Compact, *data(1))
    need = program_need(grounded.program)
    assert need.of_spans
    assert any(group.kind == SPANS for group in grounded.program.groups)
    assert "whole segments" in str(plan_refusals(grounded.program, need, "ilp"))


def plan_refusals(program, need, backend):
    with pytest.raises(Exception) as error:
        plan_program(program, need, backend)
    return error.value


def test_labels_whose_spans_are_ruled_out_are_refused():
    class Named(Rows):
        given = Given(spans(Rows.y), scores=[-np.inf, 0.0, 0.0])

    X = [np.zeros((4, 2))]
    assert ground(Named, X, [[(0, 2, "PER"), (2, 4, "LOC")]]).declaration.compact
    with pytest.raises(DataError, match="rule out"):
        ground(Named, X, [[(0, 3, "O"), (3, 4, "LOC")]])


def test_memory_is_estimated_without_spans():
    X = [{"x": np.zeros((100, 2))}] * 20
    compact, explicit = estimate(Compact, X), estimate(WithSpans, X)
    assert (compact.n_variables, explicit.n_variables) == (2 * 2000, 6 * 2000)
    assert compact.peak_bytes < 0.5 * explicit.peak_bytes
    assert "spans(y)" in str(compact)


@pytest.mark.parametrize("explicit", [False, True])
def test_features_in_slices_are_those_that_are_stored(explicit, monkeypatch):
    monkeypatch.setattr("ssvm_dsl.scores.rows.PART_SCORES", 12)  # three spans at a time
    X, Y = data(9, n=5)
    rng, mu, found = np.random.default_rng(2), None, []
    with spans_as_variables() if explicit else nullcontext():
        grounded = [ground(model, X, Y) for model in (Sliced, Stored)]
    sliced = next(one for one in grounded[0].parameters.maps if one.name == "look")
    assert not isinstance(sliced.features, np.ndarray)
    w, some = weights(grounded[1]), np.array([3, 0])
    for one in grounded:
        theta = one.parameters.scores(w, some)
        if mu is None:
            tables = [rng.normal(size=table.shape) for table in theta.tables]
            mu = Theta.of(one.program, rng.normal(size=len(theta.node)), tables)
        truth = one.parameters.accumulate(one.truth, np.arange(5.0), np.zeros(len(w)))
        adjoint = one.parameters.adjoint(mu, examples=some)
        found.append([theta.node, theta.pool, truth, adjoint, one.parameters.dot(w, one.truth)])
    for mine, yours in zip(*found):
        np.testing.assert_allclose(mine, yours, atol=1e-9)
