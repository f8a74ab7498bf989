"""Exponentiated gradient on the dual of the margin: bounds, optimum, marginals, checkpoints."""

from __future__ import annotations

import warnings
from itertools import pairwise

import numpy as np
import pytest
from test_every_trainer import check_certificate, fitted

import small
from combinations import crossed
from small import Case, Word
from ssvm_dsl.compiler import ground
from ssvm_dsl.errors import FileFormatError, OptionError, TrainingError
from ssvm_dsl.ir import Task
from ssvm_dsl.learning.objective import regularized_risk
from ssvm_dsl.learning.risks.hinges.mixture import MarginMixtureProblem
from ssvm_dsl.learning.risks.kinds import find_risk
from ssvm_dsl.plugin_api import StopRule, TrainerNeeds
from ssvm_dsl.testing import make_trainer, training_problem
from ssvm_trainers.dual import eg

CASES = [
    Case(Word, n=7),
    Case(Word, C=3.0, n=7, weighted=True, regularization={"trans": 0.3}, tag="-weighted"),
    Case(small.Ties, n=6),
    Case(small.Tree, ragged=(4,), n=4),
    Case(small.Loopy),
    Case(small.Joint, ignore=9, n=6),
    Case(small.Costs),
    Case(small.Bounded, C=3.0),
    Case(small.Layers, ragged=(1, 2), n=4),
]


@pytest.mark.parametrize(("case", "risk"), [(CASES[1], "log"), (CASES[1], "margin"), (CASES[4], "margin")], ids=str)
def test_visits_on_cliques_are_those_with_marginals_of_a_backend(case, risk, monkeypatch):
    """The first ones: later on rounding decides how steps are shortened."""
    data, found = case.make(0), []
    for cells in (eg.MAX_CELLS, 0):
        monkeypatch.setattr(eg, "MAX_CELLS", cells)
        history = fitted(data, trainer="eg", risk=risk, tol=0.0, max_passes=30).report_.history
        found.append([(event.dual, event.primal) for event in history[:8]])
    np.testing.assert_allclose(found[0], found[1], rtol=1e-8)


BATCH = {"order": "batch"}


@crossed(case=CASES, cliques=[True, False])
def test_all_examples_at_once_reach_the_margin_optimum(case, cliques, monkeypatch):
    if not cliques:
        monkeypatch.setattr(eg, "MAX_CELLS", 0)
    data = case.make(0)
    best, _ = data.optimum()
    svm = fitted(data, trainer="eg", tol=3e-3, max_passes=20_000 if cliques else 2000, trainer_options=BATCH)
    check_certificate(data, svm, best)
    assert svm.report_.relative_gap <= (3e-3 if cliques else 0.05)
    duals = [event.dual for event in svm.report_.history]
    assert all(b >= a - 1e-12 * abs(a) for a, b in pairwise(duals))


@pytest.mark.parametrize("cliques", [True, False])
@pytest.mark.parametrize("order", ["stochastic", "batch"])
def test_both_orders_end_at_the_optimum_of_the_log_loss(order, cliques, monkeypatch):
    if not cliques:
        monkeypatch.setattr(eg, "MAX_CELLS", 0)
    data = CASES[1].make(0)
    other = fitted(data, trainer="lbfgs", risk="log", tol=1e-9, max_passes=500).report_.primal
    found = fitted(data, trainer="eg", risk="log", tol=1e-7, max_passes=3000, trainer_options={"order": order}).report_
    assert found.converged
    assert found.primal == pytest.approx(other, rel=1e-6)
    assert all(b.dual >= a.dual - 1e-12 * abs(a.dual) for a, b in pairwise(found.history))  # the dual never falls


@pytest.mark.parametrize("risk", ["log", "margin"])
def test_a_batch_step_is_that_of_the_definition(risk):
    """q_i(y) ~ q_i(y)^(1 - a) exp(w . Phi)^a, or q_i(y) exp(a (Delta + w . Phi)), by enumeration of all labellings."""
    data, size = Case(Word, n=5).make(1), 1e-3
    problem = training_problem(data.case.model, data.X, data.Y, risk=risk, trainer="eg", lam=1.0)
    trainer = eg.ExponentiatedGradient(step_size=size, order="batch")
    first, second = (one.w.copy() for one, _ in zip(trainer.steps(problem, StopRule(tol=1e-9)), range(2)))
    blocks, n = {block.name: block for block in problem.blocks}, len(data.X)

    def flat(w):
        return data.flat({name: block.view(w) for name, block in blocks.items()})

    q = [np.full(len(losses), 1.0 / len(losses)) for losses, _ in data.planes]
    w0 = sum(one @ psi for one, (_, psi) in zip(q, data.planes)) / n
    np.testing.assert_allclose(flat(first), w0, atol=1e-12)
    w1 = np.zeros_like(w0)
    for one, (losses, psi) in zip(q, data.planes):
        if risk == "log":
            log_q = (1.0 - size) * np.log(one) - size * psi @ w0
        else:
            plane = one @ psi
            length = size * n / (plane @ plane) if plane.any() else size
            log_q = np.log(one) + length * (losses - psi @ w0)
        new = np.exp(log_q - log_q.max())
        w1 += new / new.sum() @ psi / n
    np.testing.assert_allclose(flat(second), w1, atol=1e-9)


@crossed(case=CASES, size=[0.0, 1.0, 200.0])
def test_mixed_planes_are_sums_over_all_labellings(case, size):
    data = case.make(3)
    grounded, rng = data.grounded, np.random.default_rng(0)
    problem = data.problem(trainer="eg")
    assert isinstance(problem, MarginMixtureProblem)
    blocks = {block.name: block for block in grounded.parameters.blocks}
    u = size * rng.normal(size=problem.dim)
    flat = data.flat({name: block.view(u) for name, block in blocks.items()})
    for i, (losses, psi) in enumerate(data.planes):
        t = size * rng.random()
        log_q = t * losses - psi @ flat
        q = np.exp(log_q - log_q.max())
        q /= q.sum()
        found, loss = problem.mixed_plane(u, t, i)
        shown = data.flat({name: block.view(found) for name, block in blocks.items()})
        np.testing.assert_allclose(shown, q @ psi, atol=1e-8)
        assert loss == pytest.approx(float(q @ losses), abs=1e-9)


def test_warm_starts_and_other_values_of_C():
    data = Case(Word, n=7).make(0)
    svm = fitted(data, trainer="eg", tol=1e-3, max_passes=3000, warm_start=True)
    assert svm.certified_gap(data.case.C) == pytest.approx(svm.report_.relative_gap)
    assert svm.certified_gap(2 * data.case.C) > svm.report_.relative_gap
    svm.fit(data.X, data.Y)
    check_certificate(data, svm, data.optimum()[0])
    assert svm.report_.converged


@pytest.mark.parametrize("risk", ["margin", "log"])
def test_a_fit_in_pieces_is_the_fit_in_one(risk, tmp_path):
    data, file = Case(Word, n=8, C=2.0).make(0), str(tmp_path / "fit.ckpt")

    def fit(passes, checkpoint=None):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            more = {"checkpoint": checkpoint, "checkpoint_seconds": 0.0} if checkpoint else {}
            return fitted(data, risk=risk, trainer="eg", tol=1e-12, max_passes=passes, **more)

    whole = fit(60)
    for passes in (1, 5, 20, 60):
        part = fit(passes, file)
    np.testing.assert_array_equal(part.coef_, whole.coef_)
    assert part.report_.dual == whole.report_.dual
    assert part.report_.n_oracle_calls == whole.report_.n_oracle_calls
    assert len(part.report_.history) == len(whole.report_.history)


@pytest.mark.parametrize("wrong", [2.0, np.nan, -1.0, -np.inf])
def test_a_checkpoint_without_distributions_is_refused(wrong):
    case = Case(Word, n=3).make(0)
    problem = training_problem(case.case.model, case.X, case.Y, trainer="eg")
    trainer = make_trainer("eg")
    next(trainer.steps(problem, StopRule()))
    state = trainer.state()
    logs = state["logs"].copy()
    logs[np.flatnonzero(np.isfinite(logs))[:2]] = wrong
    with pytest.raises(FileFormatError, match="the state of the trainer is damaged: 'logs': expected"):
        next(make_trainer("eg").resume(problem, StopRule(), state | {"logs": logs}))


@pytest.mark.parametrize(("risk", "task"), [("margin", Task.MARGINALS), ("relaxed", Task.RELAXED)])
def test_problems_of_sums_refuse_other_losses(risk, task):
    """What ``fit`` refuses with alternatives, the problems refuse, too."""
    data = Case(small.AllOrNothing).make(0)
    grounded = ground(small.AllOrNothing, data.X, data.Y)
    objective, needs = regularized_risk(grounded.parameters, 1.0, np.ones(len(data.X))), TrainerNeeds(tasks={task})
    with pytest.raises(OptionError, match="needs a loss that adds up over variables, not ZeroOne"):
        find_risk(risk).problem(grounded.parameters, grounded.loss, objective, None, None, needs)


def test_what_eg_cannot_do_is_refused(monkeypatch):
    with pytest.raises(OptionError, match=r"'step_size' is above 0 and at most 1, got 2"):
        fitted(Case(Word).make(0), trainer="eg", trainer_options={"step_size": 2})
    monkeypatch.setattr(eg, "MAX_NUMBERS", 100)
    monkeypatch.setattr(eg, "MAX_CELLS", 0)
    with pytest.raises(TrainingError, match=r"two vectors of 15 weights for each of 5 examples.*'bcfw'"):
        fitted(Case(Word).make(0), trainer="eg")
