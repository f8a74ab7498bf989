"""The table of trainers, risks and oracles: every cell is fitted, and what it says is what happens."""

from __future__ import annotations

import warnings
from functools import cache

import numpy as np
import pytest

import small
from small import Case
from ssvm_dsl import StructuredRegressor, StructuredSVM
from ssvm_dsl.errors import NoBackendError, SsvmError, TrainingError
from ssvm_dsl.ir import Caps, Guarantee, Primal, Solution, Task
from ssvm_dsl.learning.driver.pairings import BOUNDED, GAP, NONE, pairings
from ssvm_dsl.learning.risks.hinges.relaxed import marginals_of
from ssvm_dsl.plugin_api import BackendSpec, TrainerSpec, hookimpl
from ssvm_dsl.registry import registry
from ssvm_dsl.testing.brute_force import BruteForce
from toy_backends import Wrapped, registered

WORDS, SINGLES = Case(small.Word, n=4).make(0), Case(small.Single, n=5).make(0)
VALUES = np.random.default_rng(0).normal(size=4)

#: Risks that are the largest of finitely many planes on chains, for the reference program over all labellings.
LISTED = {"margin": "margin", "slack": "slack", "hm": "hm", "perceptron": "perceptron", "relaxed": "margin"}

TRAINERS = [spec.name for spec in registry().specs(TrainerSpec)]


class Oracles:
    """Backends that answer everything there is to ask, one of each guarantee."""

    @hookimpl
    def ssvm_backends(self):
        tasks = frozenset({Task.MAP, Task.KBEST, Task.MARGINALS, Task.RELAXED})
        for guarantee in Guarantee:
            caps = Caps(tasks=tasks, guarantee=guarantee, max_arity=64)
            yield BackendSpec(f"pair-{guarantee.value}", f"test_pairings:{guarantee.name.title()}", caps=caps)


class Exact(BruteForce):
    """Right about everything.  On chains the best labelling is the best point of the local polytope."""

    calls = 0

    def open(self, program, options):
        return Wrapped(super().open(program, options), self)

    def answer(self, session, question):
        Exact.calls += 1
        task = question.task
        if task is Task.MARGINALS:
            return session.solve(question)
        found = self.ranked(session.solve(question.replace(task=Task.KBEST, k=question.k + 1)))
        if task is Task.KBEST:
            return found
        labels, score = found.labels[0], found.score[0]
        if task is Task.MAP:
            return Solution(labels, score, found.bound, found.stop, found.primal)
        program = session.program
        ids = question.ids(program)
        full, ptr = np.zeros(program.n_variables, np.int32), program.var_ptr
        full[np.concatenate([np.arange(ptr[i], ptr[i + 1]) for i in ids])] = labels
        primal = np.full(len(ids), Primal.FRACTIONAL, np.int8)
        marginals = marginals_of(program, full, ids)
        return Solution(np.zeros(0, np.int32), score, found.bound, found.stop, primal, marginals)

    def ranked(self, best):
        """The labellings from the best to the last but one."""
        return Solution(best.labels[:-1], best.score[:-1], best.score[0].copy(), best.stop, best.primal)


class Bound(Exact):
    """Off by a little, and says by how much it may be."""

    def ranked(self, best):
        found = super().ranked(best)
        found.bound = best.score[0] + 0.01 + 0.02 * np.abs(best.score[0])
        return found


class Heuristic(Exact):
    """Says nothing about what is better."""

    def ranked(self, best):
        found = super().ranked(best)
        found.bound = np.full(len(best.stop), np.nan)
        return found


def fit(trainer, risk, backend, power=1.0, **other):
    """Fit a tiny problem the risk is for; a few passes."""
    settings = {"trainer": trainer, "backend": backend, "power": power, "max_passes": 4, "tol": 1e-9, "C": 1.0}
    settings |= {"random_state": 0, "n_threads": 1} | other
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if risk == "regression":
            return StructuredRegressor(small.Word, **settings).fit(WORDS.X, VALUES, WORDS.Y)
        data = SINGLES if risk in ("weston-watkins", "smooth-hinge", "squared-weston-watkins") else WORDS
        return StructuredSVM(data.case.model, risk=risk, **settings).fit(data.X, data.Y)


@cache
def optimum(risk):
    """The least objective: by a program over all labellings, or by another trainer where there are no planes."""
    if risk in LISTED:
        return WORDS.optimum(LISTED[risk])[0]
    report = fit("bundle", risk, "brute-force", tol=1e-8, max_passes=3000).report_
    assert report.converged
    return report.primal


@pytest.fixture(autouse=True)
def oracles():
    with registered(Oracles(), "pairs"):
        yield


@pytest.mark.parametrize("trainer", TRAINERS)
def test_what_the_table_says_is_what_happens(trainer):
    cells = [one for one in pairings() if one.trainer == trainer]
    assert len({(one.risk, one.oracle) for one in cells}) == len(cells) == 33
    for cell in cells:
        mine = f"pair-{cell.oracle}"
        if not cell.works:
            refused(cell, mine)
            continue
        backend = mine if mine in cell.backends else cell.backends[0]
        certified(cell, fit(trainer, cell.risk, backend))
        if cell.powers is None:
            certified(cell, fit(trainer, cell.risk, backend, power=1.5), None)
        elif cell.oracle == "exact":
            with pytest.raises(TrainingError, match=r"to the power 1\.5; these do: "):
                fit(trainer, cell.risk, backend, power=1.5)


def refused(cell, backend):
    """Nothing is asked of the backend, and the error names what would do."""
    Exact.calls = 0
    assert cell.reason
    with pytest.raises((TrainingError, NoBackendError)) as caught:
        fit(cell.trainer, cell.risk, backend)
    text = str(caught.value)
    assert "these do: " in text or "these would fit: " in text, (cell, text)
    assert Exact.calls == 0
    if "these do: " in text and "these do: " in cell.reason:
        assert text.split("these do: ")[1].splitlines()[0] == cell.reason.split("these do: ")[1]


def certified(cell, svm, best=...):
    """The report claims what the cell says, and it is true."""
    report, best = svm.report_, optimum(cell.risk) if best is ... else best
    assert report.n_oracle_calls > 0
    if best is not None:
        assert report.dual <= best * (1 + 1e-7) + 1e-9, cell
    if cell.certificate == NONE:
        assert cell.reason
        assert np.isnan(report.gap) if np.isfinite(report.dual) else report.dual == -np.inf, cell
        return
    assert report.certified, cell
    assert np.isfinite(report.gap), cell
    if best is not None:
        assert report.dual + report.gap >= best * (1 - 1e-7) - 1e-9, cell
    known = report.estimate == pytest.approx(report.primal, rel=1e-9)
    if not svm.coef_.any():  # what the data alone tell of weights of 0 is exact
        return
    on_messages = registry().find(TrainerSpec, cell.trainer).needs.messages  # their objective is the bound itself
    assert cell.certificate == (GAP if known and not on_messages else BOUNDED), cell


def test_the_table_without_foreign_plugins():
    found = {(one.trainer, one.risk, one.oracle): one for one in pairings()}
    assert found["bcfw", "margin", "heuristic"].works
    assert found["lbfgs", "log", "bound"].reason == "marginals come without bounds, so that only exact ones will do"
    assert "msd" in found["dlpw", "relaxed", "bound"].backends
    assert "pair-bound" not in found["dlpw", "relaxed", "bound"].backends
    assert found["n-slack", "margin", "exact"].powers == (1.0, 2.0)
    assert found["one-slack", "slack", "exact"].powers is None
    assert found["perceptron", "margin", "exact"].certificate == NONE


@pytest.mark.parametrize("backend", ["brute-force", "lp", "icm", "ad3"])
def test_dual_losses_need_messages(backend):
    with pytest.raises(NoBackendError, match="does not expose dual messages") as caught:
        fit("dlpw", "relaxed", backend)
    assert "msd" in str(caught.value)
    assert fit("dlpw", "relaxed", "auto").plan_.backend in ("msd", "mplp", "trws", "tbcd")


def test_marginals_without_proof_are_refused():
    for trainer, risk in (("lbfgs", "log"), ("eg", "margin")):
        with pytest.raises(SsvmError, match=r"(?s)asked for exact.*these would fit: .*brute-force"):
            fit(trainer, risk, "pair-heuristic")
