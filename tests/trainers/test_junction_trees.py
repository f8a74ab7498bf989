"""Marginals of the cliques of triangulated graphs: exact on any graph, for all trainers that work on marginals."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest
from scipy.special import logsumexp
from test_every_trainer import check_certificate, check_optimal, fitted
from test_lp_dual_qp import Triples, noise

import small
from model_table import complete_labels
from small import Case
from ssvm_dsl import (
    POTTS,
    Dim,
    Edges,
    Factor,
    Forbid,
    Given,
    Hamming,
    Input,
    Label,
    Model,
    StructuredSVM,
    along,
    cliques,
    pairs,
)
from ssvm_dsl.errors import TrainingError
from ssvm_dsl.ir import Program
from ssvm_dsl.learning.risks import factored
from ssvm_dsl.plugin_api import StopRule
from ssvm_trainers.dual import extragradient
from ssvm_trainers.dual.polytope import clique_polytope, score_columns

#: What works on marginals of cliques.
FACTORED = [("smo", {}), ("lp-dual-qp", {}), ("extragradient", {}), ("extragradient", {"geometry": "entropic"})]

each_trainer = pytest.mark.parametrize(("trainer", "options"), FACTORED, ids=str)


class Grid(Model):
    """Two rows and more columns; neighbours that like to agree."""

    H, W = Dim(2), Dim()
    x = Input(H, W, 2)
    y = Label(H, W, 2)
    data = Factor(y, features=x)
    across = Factor(pairs(y, W))
    down = Factor(pairs(y, H), form=POTTS, nonneg=True)
    loss = Hamming(y)


class Wide(Model):
    """Cliques of three, and pairs among them: five labels in a ring of triples."""

    K = Dim(5)
    x = Input(2)
    y = Label(K, 2)
    unary = Factor(y, features=x, per=K)
    triple = Factor(cliques(y, [(0, 1, 2), (4, 2, 3), (3, 4, 0)]), per="edge", features=x)
    loss = Hamming(y)


CYCLIC = [
    Case(small.Loopy),
    Case(Grid, ragged=(2, 3), n=4),
    Case(Wide, n=4),
    Case(Triples, n=6, C=0.3, weighted=True, tag="-weighted"),
]


def labellings(program: Program, i: int):
    lo, hi = program.var_ptr[i : i + 2]
    return [np.array(one, np.int32) for one in itertools.product(*map(range, program.card[lo:hi]))]


def whole(program: Program, i: int, labels: np.ndarray) -> np.ndarray:
    """A labelling of all examples: that of one, zeros elsewhere."""
    out = np.zeros(program.n_variables, np.int32)
    out[program.var_ptr[i] : program.var_ptr[i + 1]] = labels
    return out


#: Entropic steps take long to the last digits.
ON_CYCLES = [(case, *one) for one in FACTORED for case in (CYCLIC[:2] if one[1] else CYCLIC)]


@pytest.mark.parametrize(("case", "trainer", "options"), ON_CYCLES, ids=str)
def test_the_optimum_over_all_labellings(case, trainer, options):
    data = case.make(0)
    best, w = data.optimum()
    svm = fitted(data, trainer=trainer, trainer_options=options, tol=9e-7 if options else 1e-7, max_passes=2000)
    check_optimal(data, svm, best, w)
    assert "of triangulated graphs: exact" in svm.report_.marginals


@each_trainer
def test_certificates_of_unfinished_fits_are_true_bounds(trainer, options):
    data = CYCLIC[1].make(3)
    best, _ = data.optimum()
    for max_passes in (1, 3):
        svm = fitted(data, trainer=trainer, trainer_options=options, tol=0.0, max_passes=max_passes)
        check_certificate(data, svm, best)


def test_squared_slacks():
    data = Case(Wide, n=4).make(1)
    best, _ = data.optimum(power=2)
    report = fitted(data, trainer="lp-dual-qp", tol=1e-7, power=2).report_
    assert report.converged
    assert report.dual - 1e-7 <= best <= report.primal * (1 + 1e-7)


def test_the_relaxation_is_another_optimum_and_the_report_says_so():
    X, Y = noise()
    fit = {"C": 4.0, "trainer": "lp-dual-qp", "tol": 1e-7, "random_state": 0}
    exact = StructuredSVM(Triples, **fit).fit(X, Y).report_
    relaxed = StructuredSVM(Triples, risk="relaxed", backend="lp", **fit).fit(X, Y).report_
    assert exact.primal * (1 + 1e-4) < relaxed.primal
    assert "local polytope" in relaxed.marginals
    assert any(text == exact.marginals for _, text in exact.rows())


# -- what is ruled out, and given ----------------------------------------------------------------------


class Ruled(Model):
    """A ring whose neighbours differ or follow each other, with given scores; one state is ruled out at times."""

    N, M = Dim(), Dim()
    x, mask = Input(N, 2), Input(N, 3)
    e = Edges(M, over=N)
    y = Label(N, 3, allowed=mask)
    node = Factor(y, features=x)
    edge = Factor(along(y, e))
    no = Forbid(along(y, e), [(0, 2), (1, 1)])
    some = Given(along(y, e), scores=np.cos(np.arange(9.0)).reshape(3, 3))
    loss = Hamming(y)


def rings(n: int, seed: int = 0):
    """Rings of three to five variables whose labels keep the rules."""
    rng, X, Y = np.random.default_rng(seed), [], []
    while len(X) < n:
        k = int(rng.integers(3, 6))
        edges = np.stack([np.arange(k), (np.arange(k) + 1) % k], axis=1)
        y, mask = rng.integers(3, size=k), np.ones((k, 3), dtype=np.int64)
        mask[0, (y[0] + 1) % 3] = 0
        if not any((y[a], y[b]) in ((0, 2), (1, 1)) for a, b in edges):
            X.append({"x": rng.normal(size=(k, 2)), "mask": mask, "e": edges})
            Y.append(y)
    return X, Y


@each_trainer
def test_rules_and_given_scores(trainer, options):
    X, Y = rings(5)
    settings = {"C": 1.0, "random_state": 0, "max_passes": 2000}
    best = StructuredSVM(Ruled, trainer="n-slack", tol=1e-8, **settings).fit(X, Y).report_
    report = StructuredSVM(Ruled, trainer=trainer, trainer_options=options, tol=1e-7, **settings).fit(X, Y).report_
    assert report.converged
    assert report.primal == pytest.approx(best.primal, rel=1e-6)
    assert report.dual <= best.primal * (1 + 1e-12)


def test_distributions_of_eg_see_given_scores():
    X, Y = rings(5)
    settings = {"C": 0.3, "random_state": 0, "max_passes": 2000}
    best = StructuredSVM(Ruled, trainer="n-slack", tol=1e-8, **settings).fit(X, Y).report_
    report = StructuredSVM(Ruled, trainer="eg", tol=1e-4, **settings).fit(X, Y).report_
    assert report.converged
    assert report.dual <= best.primal * (1 + 1e-12)
    assert report.primal == pytest.approx(best.primal, rel=1e-4)


# -- steps ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("options", [{"geometry": "entropic"}, {"geometry": "entropic", "method": "dual"}], ids=str)
def test_entropic_steps_go_on_bit_for_bit(options):
    from ssvm_trainers.dual.extragradient import Extragradient

    data, options = CYCLIC[1].make(0), options | {"evaluate_every": 3}
    whole = [one.w for one in itertools.islice(Extragradient(**options).steps(data.problem(), StopRule()), 6)]
    begun = Extragradient(**options)
    assert len(list(itertools.islice(begun.steps(data.problem(), StopRule()), 3))) == 3
    rest = list(itertools.islice(Extragradient(**options).resume(data.problem(), StopRule(), begun.state()), 3))
    np.testing.assert_array_equal([one.w for one in rest], whole[3:])


@pytest.mark.sensitive
@pytest.mark.parametrize("case", [Case(small.Word), Case(small.Ties), CYCLIC[2]], ids=str)
def test_averages_of_entropic_steps_come_close(case):
    data, gaps = case.make(0), []
    best, _ = data.optimum()
    for max_passes in (3, 12):
        options = {"geometry": "entropic", "method": "dual", "evaluate_every": 10}
        svm = fitted(data, trainer="extragradient", trainer_options=options, tol=0.0, max_passes=max_passes)
        check_certificate(data, svm, best)
        gaps.append(svm.report_.gap)
    assert gaps[1] < 0.5 * gaps[0]
    assert gaps[1] < 0.2 * best


def test_a_first_entropic_step_multiplies_probabilities(monkeypatch):
    from ssvm_trainers.dual import extragradient
    from ssvm_trainers.dual.extragradient import Extragradient

    monkeypatch.setattr(extragradient, "SHORT", 0.0)  # steps do not become longer
    problem = Case(small.Loopy, n=2).make(0).problem()
    run = Extragradient(geometry="entropic", evaluate_every=1).begin(problem, None)
    run.advance()
    points, program = clique_polytope(problem), problem.program
    columns = score_columns(points).toarray()
    share = (problem.objective.weight / problem.n)[points.owner]
    P = problem.objective.lam * np.eye(problem.dim) + columns.T @ (share[:, None] * columns) / run.beta
    truth = points.truth_features(problem.objective.weight / problem.n)

    def marginals(costs):
        mu = np.zeros(points.n_cells)
        for i in range(problem.n):
            mine = slice(*points.trees.clique_ptr[i : i + 2])
            cells = [points.trees.labelling_cells(whole(program, i, y))[mine] for y in labellings(program, i)]
            logs = np.array([costs[one].sum() for one in cells])
            for one, log in zip(cells, logs - logsumexp(logs), strict=True):
                mu[one] += np.exp(log)
        return mu

    start = marginals(np.zeros(points.n_cells))
    ahead = run.step * np.linalg.solve(P, truth - columns.T @ (share * start))
    mu = marginals(run.step / run.beta * points.loss)
    after = -problem.objective.lam * ahead + truth - columns.T @ (share * mu)
    np.testing.assert_allclose(run.w, run.step * np.linalg.solve(P, after), atol=1e-9)
    np.testing.assert_allclose(run.x, marginals(run.step / run.beta * (points.loss + columns @ ahead)), atol=1e-9)


# -- refusals ------------------------------------------------------------------------------------------


@each_trainer
def test_wide_graphs_are_refused_with_figures(trainer, options, monkeypatch):
    monkeypatch.setattr(factored, "MOST_STATES", 4.0)
    words = rf"'{trainer}' works on marginals, and needs graphs of small treewidth: the cliques of triangulated ones "
    words += r"have 2\^\d+ joint states \(of up to 3 variables in example 0\), and 2\^4 are kept at most; others .*bcfw"
    with pytest.raises(TrainingError, match=words):
        fitted(CYCLIC[0].make(0), trainer=trainer, trainer_options=options)


def test_euclidean_steps_on_wide_separators_are_refused(monkeypatch):
    monkeypatch.setattr(extragradient, "MOST_SHARED", 3)
    data = CYCLIC[1].make(0)
    with pytest.raises(TrainingError, match=r"share up to 4 joint states, and .* more than 3; use .*'entropic'"):
        fitted(data, trainer="extragradient")
    assert fitted(data, trainer="extragradient", trainer_options={"geometry": "entropic"}, tol=1e-3).report_.converged


def test_entropic_steps_of_the_relaxed_risk_are_refused():
    X, Y = noise()
    svm = StructuredSVM(Triples, risk="relaxed", backend="lp", trainer="extragradient")
    with pytest.raises(TrainingError, match="geometry='entropic' is that of distributions over labellings"):
        svm.set_params(trainer_options={"geometry": "entropic"}).fit(X, Y)


def test_examples_that_do_not_count():
    data = replace(CYCLIC[0].make(0), weight=np.array([0.0, 0.0, 2.0, 0.0, 0.0]))
    best, _ = data.optimum()
    for trainer, options in FACTORED:
        svm = fitted(data, trainer=trainer, trainer_options=options, tol=1e-3, max_passes=1000)
        assert svm.report_.converged
        assert svm.report_.primal == pytest.approx(best, rel=1e-3)


#: Four labels of three states.
Complete = complete_labels(4, 2, 3)


def test_trainers_meet_on_a_complete_graph_of_three_states():
    rng = np.random.default_rng(0)
    X, Y = list(rng.normal(size=(5, 2))), list(rng.integers(3, size=(5, 4)))
    settings = {"C": 0.5, "random_state": 0, "max_passes": 3000, "tol": 9e-7}
    found = [
        StructuredSVM(Complete, trainer=trainer, trainer_options=options, **settings).fit(X, Y).report_
        for trainer, options in [("bcfw", {}), ("n-slack", {}), *FACTORED[:3]]
    ]
    assert all(one.converged for one in found)
    assert max(one.dual for one in found) <= min(one.primal for one in found) * (1 + 1e-12)
    assert max(one.primal for one in found) == pytest.approx(min(one.primal for one in found), rel=1e-6)
