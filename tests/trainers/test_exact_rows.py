"""Trainers of marginals where linear rows are exact: hard constraints, and binary variables with submodular tables."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from scipy.optimize import linear_sum_assignment, linprog
from scipy.sparse import csr_array

from ssvm_dsl import (
    POTTS,
    AllDifferent,
    Arborescence,
    AtLeast,
    AtMost,
    Cost,
    Dim,
    Edges,
    Factor,
    Hamming,
    Input,
    Label,
    Linear,
    Matching,
    Model,
    Path,
    ProjectiveTree,
    StructuredSVM,
    chain,
    ground,
    pairs,
)
from ssvm_dsl.errors import TrainingError
from ssvm_dsl.inference.rules import with_rules
from ssvm_dsl.ir import ConstraintGroup, Program, pointers
from ssvm_dsl.plugin_api import ConstraintHull, associative, constraint_hull, local_obstacle
from ssvm_dsl.registry import registry
from ssvm_trainers.dual.points_of_problem import polytope_of
from ssvm_trainers.dual.polytope import score_columns

TRUTH = np.array([1.0, -1.0, 0.5])


class Align(Model):
    """Words of two sentences, one to one."""

    I, J = Dim(), Dim()
    x, y = Input(I, J, 3), Label(I, J, 2)
    sim = Factor(y.is_(1), features=x)
    one = Matching(y.is_(1), rows=I, cols=J)
    loss = Cost(y, [[0, 1], [3, 0]])


class Capacities(Align):
    """A word may have two links, and each word of the other sentence has one."""

    one = Matching(Align.y.is_(1), rows=Align.I, cols=Align.J, row_limit=2, col_limit=1)


class Permutation(Model):
    """Pointers that are all different."""

    T = Dim()
    x, y = Input(T, T, 3), Label(T, over=T)
    sim = Factor(y, features=x)
    one = AllDifferent(y)
    loss = Hamming(y)


class Nowhere(Model):
    """Pointers, some of them to nothing."""

    T, S = Dim(), Dim()
    x, y = Input(T, S, 3), Label(T, over=S, null=True)
    sim = Factor(y, features=x)
    one = AllDifferent(y)
    loss = Hamming(y)


class Projective(Model):
    """Dependency trees whose arcs do not cross."""

    T = Dim()
    x, head = Input(T, T, 3), Label(T, over=T, null=True)
    arc = Factor(head, features=x)
    tree = ProjectiveTree(head)
    loss = Hamming(head)


class AnyTree(Projective):
    """Dependency trees."""

    tree = Arborescence(Projective.head)


class Route(Model):
    """Paths in a graph without circles."""

    N, M = Dim(5), Dim()
    e, x, y = Edges(M, over=N), Input(M, 3), Label(M, 2)
    worth = Factor(y.is_(1), features=x)
    path = Path(y.is_(1), e, source=0, target=4)
    loss = Hamming(y)


class Budget(Model):
    """Three classes; two positions at most are of the second."""

    T = Dim()
    x, y = Input(T, 3), Label(T, 3)
    each = Factor(y, features=x)
    few = AtMost(2, y.is_(1))
    loss = Hamming(y)


class Picture(Model):
    """Two classes on a grid; neighbours like to be equal."""

    H, W = Dim(), Dim()
    x, y = Input(H, W, 3), Label(H, W, 2)
    data = Factor(y, features=x)
    across = Factor(pairs(y, W), form=POTTS, nonneg=True)
    down = Factor(pairs(y, H), form=POTTS, nonneg=True)
    loss = Hamming(y)


ARCS = np.array([(0, 1), (0, 2), (1, 2), (1, 3), (2, 3), (0, 3), (3, 4), (2, 4)])


def data_of(model, n=6):
    """Noisy best answers to the true weights."""
    rng, X, Y = np.random.default_rng(3), [], []
    for i in range(n):
        a, b = (int(k) for k in rng.integers(1, 5, 2))
        if issubclass(model, (Align, Nowhere)):
            x = rng.normal(size=(a, b, 3))
            score = x @ TRUTH + rng.normal(size=(a, b))
            row, col = linear_sum_assignment(-score)
            row, col = row[score[row, col] > 0], col[score[row, col] > 0]
            y = np.full(a, -1) if model is Nowhere else np.zeros((a, b), int)
            if model is Nowhere:
                y[row] = col
            else:
                y[row, col] = 1
        elif model is Permutation:
            x = rng.normal(size=(a, a, 3))
            y = linear_sum_assignment(-x @ TRUTH - rng.normal(size=(a, a)))[1]
        elif issubclass(model, Projective):
            x = rng.normal(size=(a, a, 3))
            y = np.full(a, root := int(rng.integers(a)))
            y[root] = -1
        elif model is Route:
            x = {"e": ARCS, "x": rng.normal(size=(8, 3))}
            y = np.array([[1, 0, 0, 1, 0, 0, 1, 0], [0, 1, 0, 0, 0, 0, 0, 1], [0, 0, 0, 0, 0, 1, 1, 0]][i % 3])
        elif model is Budget:
            x, y = rng.normal(size=(6, 3)), rng.permutation([1, 2, 0, 1, 2, 0])
        else:
            x = rng.normal(size=(a, b, 3))
            y = (x @ TRUTH + rng.normal(size=(a, b)) > 0).astype(int)
        X.append(x)
        Y.append(y)
    return X, Y


MODELS = [Align, Capacities, Permutation, Nowhere, Projective, AnyTree, Route, Budget, Picture]

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")

each_model = pytest.mark.parametrize("model", MODELS, ids=lambda model: model.__name__)


def fit(model, data, **settings):
    return StructuredSVM(model, C=1.0, **{"random_state": 0, "max_passes": 3000, **settings}).fit(*data).report_


@each_model
def test_the_optimum_is_that_of_block_coordinate_ascent(model):
    data = data_of(model)
    best = fit(model, data, trainer="bcfw", tol=1e-8)
    assert best.certified
    joint = fit(model, data, trainer="lp-dual-qp", tol=1e-7)
    ahead = fit(model, data, trainer="extragradient", tol=1e-6)
    for report in (joint, ahead):
        assert report.converged
        assert report.primal == pytest.approx(best.primal, rel=2e-6)
        assert report.dual <= best.primal * (1 + 1e-9)
        assert "exact" in report.marginals


@pytest.mark.parametrize("model", [Align, Capacities, Projective], ids=lambda model: model.__name__)
def test_averages_of_the_dual_method_come_close(model):
    data = data_of(model)
    best = fit(model, data, trainer="bcfw", tol=1e-8).primal
    gaps = []
    for max_passes in (3, 12):
        options = {"method": "dual"}
        report = fit(model, data, trainer="extragradient", trainer_options=options, tol=0.0, max_passes=max_passes)
        assert report.dual <= best * (1 + 1e-9) <= report.primal * (1 + 2e-9)
        gaps.append(report.gap)
    assert gaps[1] < 0.5 * gaps[0]
    assert gaps[1] < 0.2 * best


@pytest.mark.parametrize("model", [Align, Permutation, Budget, Route], ids=lambda model: model.__name__)
def test_squared_risks(model):
    data = data_of(model)
    best = fit(model, data, trainer="n-slack", power=2.0, tol=1e-7)
    joint = fit(model, data, trainer="lp-dual-qp", power=2.0, tol=1e-7)
    assert joint.converged
    assert joint.primal == pytest.approx(best.primal, rel=1e-6)


def test_examples_that_do_not_count():
    X, Y = data_of(Align)
    weight = np.array([0.0, 1.0, 2.0, 0.0, 1.0, 0.0])
    found = [
        StructuredSVM(Align, trainer=trainer, tol=1e-7, max_passes=2000).fit(X, Y, sample_weight=weight).report_
        for trainer in ("bcfw", "lp-dual-qp", "extragradient")
    ]
    assert [one.primal for one in found] == pytest.approx([found[0].primal] * 3, rel=1e-6)


class _Problems:
    """Keeps the problem that a fit makes."""

    def __init__(self, monkeypatch):
        self.found = []
        from ssvm_trainers.dual import lp_dual_qp

        def keep(problem, trainer):
            self.found.append(problem)
            return polytope_of(problem, trainer)

        monkeypatch.setattr(lp_dual_qp, "polytope_of", keep)

    def of(self, model):
        fit(model, data_of(model), trainer="lp-dual-qp")
        return self.found.pop()


@each_model
def test_columns_rows_and_adjoints(model, monkeypatch):
    problem = _Problems(monkeypatch).of(model)
    points, rng = polytope_of(problem, "none"), np.random.default_rng(0)
    truth, w = points.truth(), rng.normal(size=problem.dim)
    rows = points.equations
    np.testing.assert_allclose(rows.matrix @ truth, rows.right, atol=1e-12)
    np.testing.assert_allclose(points.rounded(truth), truth, atol=1e-9)
    np.testing.assert_allclose(points.score_matrix() @ w, points.scores(w), atol=1e-12)
    x = rng.random(len(truth))
    columns = score_columns(points) @ w
    assert np.dot(points.mass(points.full(x)), points.scores(w)) == pytest.approx(np.dot(x, columns))
    assert np.dot(points.features(x), w) == pytest.approx(np.dot(x, columns))
    assert score_columns(points).nnz <= points.n_features()


@each_model
def test_any_numbers_make_a_valid_plane(model, monkeypatch):
    problem = _Problems(monkeypatch).of(model)
    points, rng = polytope_of(problem, "none"), np.random.default_rng(0)
    for scale in (1e-3, 1.0, 1e3):
        x = np.maximum(points.truth() + scale * rng.normal(size=len(points.loss)), 0.0)
        rounded, rows = points.rounded(x), points.equations
        assert rounded.min() >= 0.0
        np.testing.assert_allclose(rows.matrix @ rounded, rows.right, atol=1e-9)
        v, b = points.plane(x, problem.objective.weight)
        for _ in range(5):
            w = np.maximum(rng.normal(size=problem.dim), problem.objective.lower)
            value = problem.objective.primal(w, problem.oracle(w).value) - problem.objective.regularizer(w)
            assert value >= b - v @ w - 1e-9 * (1.0 + abs(b))


@each_model
def test_the_best_point_is_a_labelling(model, monkeypatch):
    problem = _Problems(monkeypatch).of(model)
    points, rng = polytope_of(problem, "none"), np.random.default_rng(1)
    rows = points.equations
    for _ in range(3):
        w = np.maximum(3.0 * rng.normal(size=problem.dim), problem.objective.lower)
        worth = points.loss + score_columns(points) @ w
        found = linprog(-worth, A_eq=csr_array(rows.matrix), b_eq=rows.right, method="highs")
        less = points.truth_features(np.ones(problem.n)) @ w
        assert -found.fun + points.const.sum() - less == pytest.approx(problem.oracle(w).value.sum(), abs=1e-7)


class Draws(Model):
    """Two counts over the same variables."""

    T = Dim(4)
    x, y = Input(T, 2), Label(T, 2)
    each = Factor(y, features=x)
    few = AtMost(2, y.is_(1))
    some = AtLeast(1, y.is_(1))
    loss = Hamming(y)


class Rows(Model):
    """Links with a budget of all: three rows hold each column."""

    I, J = Dim(), Dim()
    x, y = Input(I, J, 3), Label(I, J, 2)
    sim = Factor(y.is_(1), features=x)
    one = Matching(y.is_(1), rows=I, cols=J)
    few = AtMost(2, y.is_(1))
    loss = Hamming(y)


class Heavy(Budget):
    """Coefficients that are not 1."""

    few = Linear({Budget.y.is_(1): 2.0}, "<=", 5)


class Tagged(Budget):
    """A chain under a budget."""

    step = Factor(chain(Budget.y))


def hull_of(model, X):
    program = with_rules(ground(model, X).parameters.program, registry())
    return program, constraint_hull(program)


def test_two_counts_are_a_network():
    data = list(np.random.default_rng(0).normal(size=(5, 4, 2))), [[1, 0, 0, 0], [1, 1, 0, 0]] * 2 + [[0, 0, 0, 1]]
    _, hull = hull_of(Draws, data[0])
    assert isinstance(hull, ConstraintHull)
    joint, best = (fit(Draws, data, trainer=trainer, tol=1e-7) for trainer in ("lp-dual-qp", "bcfw"))
    assert joint.primal == pytest.approx(best.primal, rel=1e-6)


@pytest.mark.parametrize("seed", range(30))
def test_a_network_has_whole_vertices(seed):
    """Counts over random literals: wherever rows are called those of a network, the best point is a labelling."""
    rng = np.random.default_rng(seed)
    sizes, choices = rng.integers(1, 5, 3), np.array(list(product(range(4), range(3))), dtype=np.int32)
    literals = np.concatenate([choices[np.sort(rng.permutation(12)[:size])] for size in sizes])
    meta = {"lower": np.zeros(3, np.int64), "upper": rng.integers(1, 3, 3)}
    group = ConstraintGroup(
        "count", "few", np.array([0, 3]), pointers(sizes), literals[:, 0], literals[:, 1],
        np.zeros(len(literals), bool), meta,
    )  # fmt: skip
    program = with_rules(Program(np.array([0, 4]), np.full(4, 3, np.int32), (), (group,)), registry())
    hull = constraint_hull(program)
    if isinstance(hull, str):
        assert "not those of a network" in hull
        return
    ptr = program.var_ptr
    labellings = np.array(list(product(range(3), repeat=4)), dtype=np.int32)
    kept = [y for y in labellings if not any(group.broken(y, ptr).any() for group in program.constraints)]
    matrix = csr_array((hull.value, (hull.row, hull.column)), shape=(len(hull.lower), 12)).toarray()
    sums = np.repeat(np.eye(4), 3, axis=1)
    for _ in range(5):
        worth = rng.normal(size=12)
        upper = np.minimum(hull.upper, 9.0)
        found = linprog(-worth, A_ub=matrix, b_ub=upper, A_eq=sums, b_eq=np.ones(4), method="highs")
        best = max(worth[3 * np.arange(4) + y].sum() for y in kept)
        assert -found.fun == pytest.approx(best)


@pytest.mark.parametrize(
    ("model", "text"),
    [
        (Rows, "constraints ('one', 'few') hold the same variables, and their rows are not those of a network"),
        (Heavy, "constraint 'few' (linear) has no small linear description that is exact"),
        (Tagged, "factor 'step' joins variables that hard constraints hold"),
    ],
)
def test_what_has_no_exact_rows_is_refused_with_the_reason(model, text):
    data = data_of(Align if model is Rows else Budget)
    if model is Rows:
        data = data[0], [y * (np.cumsum(y).reshape(y.shape) <= 2) for y in data[1]]
    for trainer in ("lp-dual-qp", "extragradient"):
        with pytest.raises(TrainingError, match="small exact linear description") as caught:
            fit(model, data, trainer=trainer)
        assert text in str(caught.value)
        assert "others for this risk: bcfw" in str(caught.value)


def test_paths_in_circles_are_refused():
    X, Y = data_of(Route)
    circle = np.concatenate([ARCS[:-1], [[4, 0]]])
    X = [{**x, "e": circle} for x in X]
    Y = [np.array([0, 0, 0, 0, 0, 1, 1, 0])] * len(X)
    with pytest.raises(TrainingError, match=r"constraint 'path' \(path\) has no small linear description"):
        fit(Route, (X, Y), trainer="lp-dual-qp")


def test_relaxed_and_entropic_steps_are_refused_under_constraints():
    with pytest.raises(TrainingError, match="what is relaxed of hard constraints depends on the backend"):
        fit(Align, data_of(Align), trainer="lp-dual-qp", risk="relaxed")
    with pytest.raises(TrainingError, match=r"'entropic' is that of products .*use geometry='euclidean'"):
        fit(Align, data_of(Align), trainer="extragradient", trainer_options={"geometry": "entropic"})
    with pytest.raises(TrainingError, match="needs a model without hard constraints"):
        fit(Align, data_of(Align), trainer="smo")


def test_tables_that_may_not_be_submodular_need_cliques():
    class Free(Picture):
        across = Factor(pairs(Picture.y, Picture.W), form=POTTS)

    X = [np.zeros((3, 3, 3))]
    assert associative(ground(Picture, X).parameters)
    assert not local_obstacle(ground(Picture, X).parameters)
    assert not associative(ground(Free, X).parameters)
    assert "cycles" in local_obstacle(ground(Free, X).parameters)


def test_large_grids_need_no_cliques():
    rng = np.random.default_rng(0)
    X = [rng.normal(size=(24, 24, 3))]
    Y = [(X[0] @ TRUTH + rng.normal(size=(24, 24)) > 0).astype(int)]
    joint = fit(Picture, (X, Y), trainer="lp-dual-qp", tol=1e-6)
    best = fit(Picture, (X, Y), trainer="bcfw", tol=1e-5)
    assert joint.marginals == "of variables and factors: exact, as all tables are submodular"
    assert joint.dual <= best.primal * (1 + 1e-9)
    assert joint.primal <= best.primal * (1 + 1e-6)
    with pytest.raises(TrainingError, match="graphs of small treewidth"):
        fit(Picture, (X, Y), trainer="smo")
