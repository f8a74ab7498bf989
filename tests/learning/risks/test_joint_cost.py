"""Losses of joint states: values, oracles and optima against all labellings; who takes them, and who does not."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import naive
import small
from optima import planes_of
from small import Case
from ssvm_dsl import (
    POTTS,
    Cost,
    CountLoss,
    Dim,
    Edges,
    Factor,
    Hamming,
    Input,
    Label,
    Latent,
    Model,
    StructuredSVM,
    ZeroOne,
    along,
    chain,
    cliques,
    cross,
    ground,
    pairs,
)
from ssvm_dsl.errors import DataError, ModelError, OptionError, SsvmError, TrainingError
from ssvm_dsl.ir.loss import JOINT
from ssvm_dsl.learning.driver.checkpoint import fingerprint

TABLE = np.random.default_rng(0).integers(0, 4, (2, 2, 2, 2)) * (1 - np.eye(4).reshape(2, 2, 2, 2))


class Boundaries(small.Word):
    """Pairs that factors have, too, beside single variables; a loss with labels that are not known."""

    loss = Hamming(small.Word.y, ignore="?") + 0.5 * Cost(chain(small.Word.y), "boundary")


class Far(Model):
    """Joint states that no factor joins: the graph of training has a cycle, that of prediction is a chain."""

    K = Dim(4)
    x = Input(K, 2)
    y = Label(K, 2)
    emit = Factor(y, features=x)
    trans = Factor(chain(y))
    loss = Cost(cliques(y, [(0, 2), (1, 3), (3, 0)]), TABLE) + 0.1 * Cost(cliques(y, [(0, 1, 3)]), "wrong")


class Grid(Model):
    """A weight for each pair, over the axes of its features."""

    H, W = Dim(2), Dim()
    x = Input(H, W, 2)
    a = Input(H, W)
    y = Label(H, W, 2)
    data = Factor(y, features=x)
    row = Factor(pairs(y, W))
    loss = Hamming(y) + 2.0 * Cost(pairs(y, W), TABLE, node_weights=a)


class Layers(Model):
    """Two labels; a function of the joint state, normalised."""

    T = Dim()
    x = Input(T, 2)
    a = Label(T, 2)
    b = Label(T, "uvw")
    emit = Factor(a, features=x)
    both = Factor(cross(a, b))
    loss = Cost(cross(a, b), [[0, 1, 2], [1, 3, 5]], normalize=True) + Cost(b, [0, 1, 3])


class Graph(Model):
    """Edges that only the loss follows."""

    N, M = Dim(), Dim()
    x = Input(N, 2)
    e = Edges(M, over=N)
    y = Label(N, 3)
    node = Factor(y, features=x)
    loss = Cost(along(y, e), "boundary", normalize=True) + Hamming(y)


CASES = [
    Case(Boundaries, n=4),
    Case(Far, n=4),
    Case(Grid, n=4, ragged=(1, 2), weighted=True),
    Case(Layers, n=4, ragged=(1, 2)),
    Case(Graph, n=4, ragged=(2, 3)),
]
each_case = pytest.mark.parametrize("case", CASES, ids=str)


def fitted(data, **options):
    settings = {"C": data.case.C, "random_state": 0, "n_threads": 1, "tol": 1e-7, "max_passes": 400} | options
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return StructuredSVM(data.case.model, **settings).fit(data.X, data.Y, data.weight)


@each_case
def test_oracles_and_planes_of_every_labelling(case):
    data = case.make(0)
    for risk in ("margin", "slack"):
        problem, planes = data.problem(risk=risk), planes_of(data, risk)
        for size in (0.0, 0.5, 5.0):
            w = size * np.random.default_rng(1).normal(size=problem.dim)
            found = problem.oracle(w)
            best = [np.max(losses - psi @ w) for losses, psi in planes]
            np.testing.assert_allclose(found.value, best, rtol=1e-9, atol=1e-9)
            plain = problem.scores(w)
            assert all(not plain.tables[g].any() for g in range(len(data.grounded.program.groups), len(plain.tables)))
        largest = problem.loss.largest(problem.program)
        assert all(losses.max() <= top + 1e-12 for (losses, _), top in zip(data.planes, largest, strict=True))


@each_case
def test_softmax_margin_sums_over_every_labelling(case):
    data = case.make(1)
    problem = data.problem(risk="softmax-margin")
    w = np.random.default_rng(2).normal(size=problem.dim)
    found, expected = problem.gradient(w), np.zeros(problem.dim)
    for i, (losses, psi) in enumerate(data.planes):
        scores = losses - psi @ w
        weights = np.exp(scores - scores.max())
        assert found.value[i] == pytest.approx(scores.max() + np.log(weights.sum()), rel=1e-9)
        share = 1.0 if data.weight is None else data.weight[i]
        expected -= share * (weights / weights.sum()) @ psi
    np.testing.assert_allclose(found.vector, expected, rtol=1e-8, atol=1e-9)


@pytest.mark.parametrize(
    ("case", "trainer", "risk"),
    [(CASES[0], "bcfw", "margin"), (CASES[1], "n-slack", "margin"), (CASES[2], "bundle", "margin"),
     (CASES[3], "one-slack", "slack"), (CASES[4], "bcfw", "margin"), (CASES[1], "bundle", "slack")],
    ids=str,
)  # fmt: skip
def test_trainers_reach_the_optimum(case, trainer, risk):
    data = case.make(2)
    report = (svm := fitted(data, trainer=trainer, risk=risk)).report_
    best, _ = data.optimum(risk)
    assert report.certified
    assert report.primal == pytest.approx(data.objective(data.flat(svm.weights_), risk), rel=1e-9)
    assert report.dual - 1e-6 * best <= best <= report.primal * (1 + 1e-9)
    assert report.primal <= best * (1 + 1e-5)
    guess, grounded = svm.predict(data.X), data.grounded  # by a program without the factors of the loss
    states = ground(case.model, data.X, guess).truth
    lost = grounded.loss.value(grounded.program, states)
    found = [dict(zip(y, one)) for y, one in zip(data.labels, arrays(case.model, data.labels, states))]
    declaration = case.model.declaration
    each = zip(data.labels, found, data.inputs)
    slow = [naive.naive_loss(declaration.loss, y, guess, None, declaration, x) for y, guess, x in each]
    np.testing.assert_allclose(lost, slow, rtol=1e-12)
    assert 0.0 <= svm.score(data.X, data.Y) <= 1.0


def arrays(model, labels, states):
    """The states of each label of each example, in the shapes of their true ones."""
    sizes = [[np.size(y[label.name]) for y in labels] for label in model.declaration.labels]
    ends = np.cumsum(np.transpose(sizes).ravel())[:-1]
    parts = iter(np.split(states, ends))
    return [[next(parts).reshape(np.shape(y[label.name])) for label in model.declaration.labels] for y in labels]


def test_labels_that_are_not_known_leave_out_their_pairs():
    X = [np.ones((4, 2))]
    some = ground(Boundaries, X, ["ab?b"])
    assert some.loss.value(some.program, np.array([0, 0, 2, 2], np.int32)) == 2 + 0.5  # a-b became a-a
    assert [one.group.n_factors for one in some.loss.factors] == [1]
    whole = ground(Boundaries, X, ["ab?b"], whole=True)
    assert whole.loss.value(whole.program, np.array([0, 0, 2, 2], np.int32)) == 2 + 0.5


def test_who_does_not_take_them_says_so():
    data = CASES[0].make(0)
    for trainer in ("smo", "eg", "extragradient", "lp-dual-qp"):
        with pytest.raises(TrainingError, match=r"a loss that adds up over variables, not Cost of joint states.*bcfw"):
            fitted(data, trainer=trainer)
    for trainer in ("bcfw", "dlpw"):
        with pytest.raises(OptionError, match="'relaxed' needs a loss that adds up over variables, not Cost of joint"):
            fitted(data, risk="relaxed", trainer=trainer)

    class Counts(small.Word):
        loss = CountLoss(small.Word.y, positive="b") + Cost(chain(small.Word.y), "wrong")

    with pytest.raises(SsvmError, match="'slack' takes a CountLoss alone"):
        fitted(small.Case(Counts).make(0), risk="slack", trainer="bundle")
    assert data.problem(risk="perceptron").loss.factors == ()
    assert fitted(data, risk="log", trainer="lbfgs").report_.primal > 0.0  # knows of no loss


def test_counts_and_joint_states_together():
    class Both(small.Word):
        loss = CountLoss(small.Word.y, positive="b") + 0.3 * Cost(chain(small.Word.y), "boundary")

    data = small.Case(Both).make(0)
    problem = data.problem()
    w = np.random.default_rng(1).normal(size=problem.dim)
    best = [np.max(losses - psi @ w) for losses, psi in data.planes]
    np.testing.assert_allclose(problem.oracle(w).value, best, rtol=1e-9)


def test_latent_variables_beside_them():
    class Hidden(Model):
        T = Dim()
        x = Input(T, 2)
        h = Latent(T, 2)
        y = Label(T, 2)
        emit = Factor(h, features=x)
        both = Factor(cross(h, y))
        loss = Hamming(y) + Cost(chain(y), "boundary")

    rng = np.random.default_rng(0)
    X = [rng.normal(size=(3, 2)) for _ in range(4)]
    svm = StructuredSVM(Hidden, n_threads=1, tol=1e-4).fit(X, [(x[:, 0] > 0).astype(int) for x in X])
    assert np.all(np.diff(svm.report_.latent_objectives) <= 1e-12)


def test_a_fit_is_continued_with_the_same_prices_only():
    data = CASES[0].make(0)

    class Dearer(small.Word):
        loss = Hamming(small.Word.y, ignore="?") + Cost(chain(small.Word.y), "boundary")

    facts = [fingerprint(one.problem(), {})["loss"] for one in (data, small.Case(Dearer, n=4).make(0))]
    assert facts[0].startswith("Cost of joint states")
    assert facts[0] != facts[1]


def test_they_are_written_printed_and_read():
    for model in (Boundaries, Far, Grid, Layers, Graph):
        again = Model.from_json(model.to_json())
        assert again.declaration == model.declaration
        assert [term.prices().tolist() for _, term in again.declaration.loss.terms if isinstance(term, Cost)] == [
            term.prices().tolist() for _, term in model.declaration.loss.terms if isinstance(term, Cost)
        ]
    assert "Cost(chain(y), 'boundary')" in str(Boundaries)
    assert ground(Boundaries, [np.ones((2, 2))], ["ab"]).loss.kind == JOINT
    assert "e" not in [given.name for given in Graph.declaration.scored_inputs]  # the loss alone follows it
    assert len(ground(Graph, [{"x": np.ones((3, 2))}]).program.groups) == 0


def test_forms_of_tables():
    y = small.Word.y
    joint = np.arange(9.0).reshape(3, 3)
    np.testing.assert_array_equal(Cost(chain(y), joint).prices(), np.abs(np.subtract.outer(range(9), range(9))))
    square = np.abs(np.subtract.outer(range(9), range(9)))
    np.testing.assert_array_equal(Cost(chain(y), square).prices(), Cost(chain(y), joint).prices())
    np.testing.assert_array_equal(Cost(chain(y), square.reshape(3, 3, 3, 3)).prices(), square)
    np.testing.assert_array_equal(Cost(y, range(3)).prices(), np.abs(np.subtract.outer(range(3), range(3))))
    np.testing.assert_array_equal(Cost(chain(y), "wrong").prices(), 1.0 - np.eye(9))
    parts = (1 - np.eye(3)).ravel()
    np.testing.assert_array_equal(Cost(chain(y), "boundary").prices(), np.not_equal.outer(parts, parts))


@pytest.mark.parametrize(
    ("loss", "text"),
    [
        (lambda m: Cost(chain(m.y), np.ones((3, 3, 3))), r"shape (3, 3, 3), expected (3, 3, 3, 3), (9, 9) or (3, 3)"),
        (lambda m: Cost(chain(m.y), np.ones((9, 9))), "zero diagonal, got 1.0 in row 0, column 0"),
        (lambda m: Cost(chain(m.y), [[np.inf] * 3] * 3), "the matrix is finite, got inf"),
        (lambda m: Cost(chain(m.y), "edges"), "table of numbers, 'boundary' or 'wrong', got 'edges'"),
        (lambda m: Cost(m.y, "boundary"), "'boundary' is about several variables"),
        (lambda m: Cost(m.y.is_("a"), "wrong"), "of single variables it takes the label"),
        (lambda m: Cost("y", "wrong"), "the first argument must be a Label, or joins labels"),
        (lambda m: Cost(chain(m.y, order=0), "wrong"), "order must be a positive int"),
        (lambda m: Cost(chain(m.y), "wrong", node_weights=m.x), "node_weights must be an Input with the axes"),
        (lambda m: Cost(chain(m.y), "wrong") + ZeroOne(m.y), "ZeroOne cannot be added"),
    ],
)
def test_mistakes_name_what_is_expected(loss, text):
    with pytest.raises(ModelError) as caught:

        class Wrong(small.Word):
            loss_ = loss(small.Word)

    assert text in str(caught.value)


def test_a_negative_weight_of_a_pair_is_named():
    x = {"x": np.ones((2, 2, 2)), "a": np.array([[1.0, 1.0], [1.0, -2.0]])}
    with pytest.raises(DataError, match=r"input 'a', example 0.*weigh the loss.*-2"):
        ground(Grid, [x], [np.zeros((2, 2), int)])


def test_cuts_take_prices_that_keep_their_tables_submodular():
    class Cut(Model):
        H, W = Dim(), Dim()
        x = Input(H, W, 1)
        y = Label(H, W, 2)
        data = Factor(y, features=x)
        row = Factor(pairs(y, W), form=POTTS, nonneg=True)
        loss = Hamming(y)

    class Whole(Cut):
        loss = Cost(pairs(Cut.y, Cut.W), "boundary") + Hamming(Cut.y)

    X, Y = [np.ones((2, 3, 1))], [np.array([[0, 1, 1], [0, 0, 1]])]
    assert StructuredSVM(Cut, backend="graph-cut").fit(X, Y).report_.plan.backend == "graph-cut"
    with pytest.raises(SsvmError, match=r"tables of 'loss of pairs\(y, W\)' are not submodular"):
        StructuredSVM(Whole, backend="graph-cut").fit(X, Y)
