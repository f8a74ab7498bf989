"""``dlpw`` with soft maxima against a joint minimisation over weights and messages by code of its own."""

from __future__ import annotations

from functools import cache
from itertools import combinations

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import logsumexp, softmax

from combinations import crossed, some
from model_table import complete_labels
from ssvm_dsl import StructuredSVM
from ssvm_dsl.ir import Messages, Question
from ssvm_dsl.ir.need import Limits
from ssvm_dsl.plugin_api import BackendSpec
from ssvm_dsl.registry import registry
from ssvm_dsl.testing import training_problem
from ssvm_dsl.testing.problems import Recipe, seeded

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")

N, LABELS, STATES, WIDTH, LAM = 4, 3, 3, 2, 0.25
EDGES = list(combinations(range(LABELS), 2))


Full = complete_labels(LABELS, WIDTH, STATES)


def data():
    rng = np.random.default_rng(0)
    return list(rng.normal(size=(N, WIDTH))), list(rng.integers(STATES, size=(N, LABELS)))


def dual_loss(unary, pair, messages, x, y, temperature):
    """g of one example and its gradients, straight from equations 8 and 13.

    unary (3, 3, 2), pair (3, 3, 3): weights; messages (3, 2, 3): to the first and the second label of each pair.
    """
    belief = unary @ x + (np.arange(STATES) != y[:, None])
    of_truth = sum(unary[i, y[i]] @ x for i in range(LABELS))
    tables = pair.copy()
    for e, (i, j) in enumerate(EDGES):
        belief[i] += messages[e, 0]
        belief[j] += messages[e, 1]
        tables[e] -= messages[e, 0][:, None] + messages[e, 1]
        of_truth += pair[e, y[i], y[j]]
    T = temperature
    value = T * logsumexp(belief / T, axis=1).sum() + T * logsumexp(tables / T, axis=(1, 2)).sum() - of_truth
    p, q = softmax(belief / T, axis=1), softmax(tables / T, axis=(1, 2))
    to_unary, to_pair, to_messages = p[:, :, None] * x, q.copy(), np.empty_like(messages)
    for i in range(LABELS):
        to_unary[i, y[i]] -= x
    for e, (i, j) in enumerate(EDGES):
        to_pair[e, y[i], y[j]] -= 1.0
        to_messages[e] = p[i] - q[e].sum(axis=1), p[j] - q[e].sum(axis=0)
    return value, to_unary, to_pair, to_messages


@cache
def joint_optimum(temperature):
    """The minimum over weights and messages together."""
    X, Y = data()
    n_unary, n_pair = LABELS * STATES * WIDTH, len(EDGES) * STATES**2

    def objective(z):
        unary = z[:n_unary].reshape(LABELS, STATES, WIDTH)
        pair = z[n_unary : n_unary + n_pair].reshape(-1, STATES, STATES)
        messages = z[n_unary + n_pair :].reshape(N, len(EDGES), 2, STATES)
        w = z[: n_unary + n_pair]
        value, slope = 0.5 * LAM * w @ w, np.concatenate([LAM * w, np.zeros(messages.size)])
        for i in range(N):
            g, a, b, c = dual_loss(unary, pair, messages[i], X[i], Y[i], temperature)
            value += g / N
            at = n_unary + n_pair + i * c.size
            slope[: n_unary + n_pair] += np.concatenate([a.ravel(), b.ravel()]) / N
            slope[at : at + c.size] += c.ravel() / N
        return value, slope

    start = np.zeros(n_unary + n_pair + N * len(EDGES) * 2 * STATES)
    options = {"maxiter": 20_000, "maxfun": 40_000, "ftol": 1e-15, "gtol": 1e-9, "maxcor": 40}
    return minimize(objective, start, jac=True, method="L-BFGS-B", options=options).fun


def fit(temperature, max_passes=4000, lam=LAM, **options):
    update = options.pop("update", "star")
    return StructuredSVM(
        Full, lam=lam, risk="relaxed", trainer="dlpw", guarantee="bound", tol=1e-7, max_passes=max_passes,
        backend="msd", backend_options={"temperature": temperature, "update": update}, random_state=0,
        trainer_options={"passes": 1, "evaluate_every": max(max_passes // 2, 1)} | options,
    ).fit(*data())  # fmt: skip


@crossed(temperature=[0.05, 0.5], passes=[1, 2, 10], update=["star", "edge"])
def test_any_number_of_passes_converges_to_the_joint_optimum(temperature, passes, update):
    report, optimum = fit(temperature, passes=passes, update=update).report_, joint_optimum(temperature)
    assert report.primal == pytest.approx(optimum, rel=1e-6)
    assert report.dual == pytest.approx(optimum, rel=1e-6)
    assert report.dual <= optimum * (1 + 1e-10)
    assert report.certified


@pytest.mark.parametrize("options", [{"batch_size": 2}, {"averaging": "weighted"}])
def test_batches_and_averages_go_to_the_same_optimum(options):
    """Averages forget the first steps as one over the number of passes."""
    assert fit(0.5, 1000, **options).report_.primal == pytest.approx(joint_optimum(0.5), rel=2e-5)


@crossed(temperature=[0.05, 0.5], max_passes=[2, 10, 60])
def test_bounds_hold_at_any_time(temperature, max_passes):
    report = fit(temperature, max_passes).report_
    assert report.dual <= joint_optimum(temperature) * (1 + 1e-9) <= report.primal * (1 + 1e-8)


@pytest.mark.parametrize("temperature", [0.01, 0.05, 0.5])
def test_what_the_soft_optimum_says_of_the_hard_one(temperature):
    svm = fit(temperature, 1000)
    report = svm.report_
    assert report.temperature == temperature
    assert report.smoothing == pytest.approx(temperature * (LABELS + 2 * len(EDGES)) * np.log(STATES))
    assert "soft maxima" in str(report)
    X, Y = data()
    judge = {"risk": "relaxed", "trainer": "lp-dual-qp", "backend": "lp", "guarantee": "bound", "tol": 1e-7}
    hard = StructuredSVM(Full, lam=LAM, **judge).fit(X, Y).report_.primal
    assert report.dual - report.smoothing <= hard <= report.primal * (1 + 1e-9)
    at_weights, _ = training_problem(Full, X, Y, risk="relaxed", lam=LAM, backend="lp").value(svm.coef_)
    assert report.primal - report.smoothing <= at_weights <= report.primal * (1 + 1e-9)
    if temperature == 0.01:
        assert report.primal == pytest.approx(hard, rel=0.05)


def test_plain_maxima_say_nothing_of_soft_ones():
    report = fit(0.0, 10).report_
    assert report.temperature == report.smoothing == 0.0
    assert "soft maxima" not in str(report)


def dual_bound(program, theta, example, temperature):
    """(bound, probabilities of states, of joint states) of an example without messages."""
    nodes = [theta.node[program.state_ptr[v] : program.state_ptr[v + 1]] / temperature
             for v in range(*program.var_ptr[example : example + 2])]  # fmt: skip
    tables = [
        theta.tables[g][group.table[f]] / temperature
        for g, group in enumerate(program.groups)
        for f in range(*group.ptr[example : example + 2])
    ]
    total = temperature * sum(logsumexp(one) for one in (*nodes, *tables))
    return total, [softmax(one) for one in nodes], [softmax(one) for one in tables]


@pytest.mark.parametrize("recipe", [Recipe(max_card=2), Recipe(max_arity=3, max_card=4, repeats=True)])
def test_soft_bounds_are_those_of_the_definition(recipe):
    for seed in some(range(4), 2):
        problem = seeded(recipe, seed)
        program, theta = problem.program, problem.theta
        spec = registry().find(BackendSpec, "msd")
        session = spec.load()().open(program, spec.resolve({"temperature": 0.7}))
        found = session.dual_bound(Question(theta, limits=Limits(iterations=0)))
        for example in range(program.n_examples):
            bound, nodes, joint = dual_bound(program, theta, example, 0.7)
            assert found.bound[example] == pytest.approx(bound + theta.const[example])
            lo, hi = program.state_ptr[program.var_ptr[example : example + 2]]
            np.testing.assert_allclose(found.marginals.node[lo:hi], np.concatenate([*nodes, []]), atol=1e-12)
            mine = [
                table[f]
                for group, table in zip(program.groups, found.marginals.tables, strict=True)
                for f in range(*group.ptr[example : example + 2])
            ]
            for one, other in zip(mine, joint, strict=True):
                np.testing.assert_allclose(one, other, atol=1e-12)


@pytest.mark.parametrize("update", ["star", "edge"])
def test_passes_lower_soft_bounds_until_all_agrees(update):
    for seed in some(range(4), 2):
        problem = seeded(Recipe(max_arity=3, max_card=3), seed)
        program, theta = problem.program, problem.theta
        spec = registry().find(BackendSpec, "msd")
        session = spec.load()().open(program, spec.resolve({"temperature": 0.5, "update": update}))
        warm, last = None, np.full(program.n_examples, np.inf)
        for passes in (0, 1, 1, 2, 4, 500):
            found = session.dual_bound(Question(theta, warm=warm, limits=Limits(iterations=passes)))
            assert isinstance(found.messages, Messages)
            assert (found.bound <= last + 1e-9).all()
            warm, last = found.messages, found.bound
        for group, table in zip(program.groups, found.marginals.tables, strict=True):
            for f, row in enumerate(table):
                for k, v in enumerate(group.scope[f]):
                    others = tuple(a for a in range(group.arity) if a != k)
                    mine = found.marginals.node[program.state_ptr[v] : program.state_ptr[v + 1]]
                    np.testing.assert_allclose(row.reshape(group.cards).sum(axis=others), mine, atol=1e-6)
