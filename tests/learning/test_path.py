"""The regularisation path: every C of the interval is covered by certified weights."""

from __future__ import annotations

import numpy as np
import pytest
import small
from small import Case, Word

from ssvm_dsl import StructuredSVM, regularization_path
from ssvm_dsl.errors import OptionError, TrainingError

CASES = [Case(Word, n=8), Case(small.Tree, n=5), Case(small.Loopy)]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_each_c_is_covered(case):
    epsilon, ends = 0.05, []
    svm = StructuredSVM(case.model, random_state=0, max_passes=5000, regularization=case.regularization)
    data = case.make(0)
    for point, fitted in regularization_path(svm, data.X, data.Y, 0.01, 10.0, epsilon):
        assert not ends or ends[-1] == point.C
        ends.append(point.C_end)
        assert point.C_end > point.C or point.C == 10.0
        for C in np.geomspace(point.C, point.C_end, 3):
            gap = fitted.certified_gap(C)
            assert gap <= epsilon + 1e-9
            best = StructuredSVM(case.model, C=C, tol=1e-4, max_passes=5000, regularization=case.regularization)
            best.fit(data.X, data.Y)
            reached = objective(fitted, C)
            assert best.report_.dual - 1e-9 <= reached
            assert reached * (1 - epsilon) <= best.report_.primal + 1e-9
    assert ends[-1] == 10.0


def objective(fitted, C):
    """The objective of the fitted weights for another C."""
    certificate = fitted._certificate
    return certificate.regularizer + C * certificate.objective.n * certificate.risk


def test_fewer_points_for_a_larger_epsilon():
    data = Case(Word, n=8).make(0)
    counts = [
        len(list(regularization_path(StructuredSVM(Word, random_state=0), data.X, data.Y, 0.01, 1.0, epsilon)))
        for epsilon in (0.2, 0.05)
    ]
    assert counts[0] < counts[1]


def test_what_cannot_be_certified_is_refused():
    data = Case(Word, n=8).make(0)
    with pytest.raises(TrainingError, match="certifies"):
        list(regularization_path(StructuredSVM(Word, trainer="subgradient", max_passes=3), data.X, data.Y, 0.01, 1.0))
    with pytest.raises(OptionError, match="C_min"):
        list(regularization_path(StructuredSVM(Word), data.X, data.Y, 1.0, 0.1))
    with pytest.raises(OptionError, match="lam"):
        list(regularization_path(StructuredSVM(Word, lam=1.0), data.X, data.Y, 0.1, 1.0))
