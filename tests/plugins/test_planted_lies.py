"""The kits find each of twelve planted lies; the verifier and the driver find what they can without a kit."""

from __future__ import annotations

import broken_backends as broken
import broken_trainers
import pytest
from broken_backends import BOUNDING, COMPILED, COUNTS, spec_of

from ssvm_dsl.ir import Task
from ssvm_dsl.testing import check_backend, check_trainer

#: The lie -> (backend, its tasks, its capabilities, the check that finds it).
LIES = {
    "a bound that is too low": (broken.LowBound, (), {}, "bounds"),
    "a score that is off": (broken.WrongScore, (), {}, "scores"),
    "marginals that do not sum to one": (broken.Unnormalised, (Task.MARGINALS,), {}, "marginals"),
    "wrong best labellings by counts": (broken.CountsAnyhow, (), COUNTS, "best by count"),
    "a compiled call that lies": (broken.CompiledZeros, (), COMPILED, "compiled oracle"),
    "not thread safe, but says so": (broken.OneAtATime, (), {}, "threads"),
    "writes to theta": (broken.WritesTheta, (), {}, "inputs unchanged"),
    "remembers scores": (broken.RemembersScores, (), {}, "session reuse"),
    "ignores limits": (broken.IgnoresLimits, (), {}, "time limit"),
    "k best in the wrong order": (broken.WorstFirst, (Task.KBEST,), {}, "kbest"),
    "fractional, but called feasible": (broken.CalledFeasible, (Task.RELAXED,), BOUNDING, "relaxed"),
}


@pytest.mark.parametrize("lie", LIES)
def test_a_lie_of_a_backend_is_found(lie):
    backend, tasks, caps, check = LIES[lie]
    report = check_backend(spec_of(backend, *tasks, **caps), n_problems=2, only=[check])
    assert report.failed == [check], str(report)


def test_a_trainer_whose_dual_is_above_the_optimum_is_found():
    report = check_trainer(broken_trainers.spec("above", "DualAbove"), only=["lower bounds"])
    assert report.failed == ["lower bounds"]
    assert "a lower bound is" in str(report)
