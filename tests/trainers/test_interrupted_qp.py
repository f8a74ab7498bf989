"""Ctrl-C during the one long call of ``lp-dual-qp``: the point that the solver is at is returned, certified."""

from __future__ import annotations

import numpy as np

import ssvm_trainers.dual.lp_dual_qp as module
from model_table import tagger
from ssvm_dsl import StructuredSVM
from ssvm_dsl.ir import Stop
from ssvm_dsl.plugin_api import CallOutcome

Word = tagger(3, 2)


def test_ctrl_c_ends_the_solver_with_its_current_point(monkeypatch):
    rng = np.random.default_rng(0)
    X = [rng.normal(size=(4, 3)) for _ in range(5)]
    Y = [rng.integers(2, size=4) for _ in X]
    monkeypatch.setattr(module, "call_in_thread", lambda call, stop, **how: CallOutcome(call(), Stop.INTERRUPTED))
    svm = StructuredSVM(Word, C=1.0, risk="margin", trainer="lp-dual-qp", tol=0).fit(X, Y)
    assert svm.report_.reason == "interrupt"
    assert svm.report_.primal >= svm.report_.dual > 0.0
