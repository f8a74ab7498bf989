"""Some of the bugs of ``make fuzz ARGS=mutants``: those that one check of a kit finds within a moment."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "fuzz"))

import mutants

#: What is wrong -> the check that finds it; of the plug-ins whose kits take no registered name.
QUICK = {
    "prices of the first example kept": "single examples",
    "divided by the variables of the batch": "single examples",
    "result kept and written again": "two calls",
    "states counted from 1": "prices",
    "a constant for the number of examples": "lower bounds",
    "weights of examples in another order": "lower bounds",
    "dual of the next plane": "lower bounds",
    "state without its offset": "resume",
    "the last error": "errors",
    "shards opened again": "shards stay open",
    "tables of three equal variables transposed": "map",
    "marginals of factors transposed": "marginals",
    "state 0 cannot be clamped": "map_clamped",
    "masks ignored": "masks",
    "clamps ignored": "clamps",
    "k best, worst first": "kbest",
    "answers in the order of examples": "selected examples",
    "not reached, but called finished": "limits",
    "marginals without normaliser": "marginals",
    "scores of the first call kept": "session reuse",
}


@pytest.fixture
def plugin():
    yield
    sys.modules.pop("mutant_plugin", None)


@pytest.mark.parametrize("bug", QUICK)
def test_the_kit_finds_it(bug, plugin, tmp_path, monkeypatch):
    monkeypatch.setattr(mutants, "N_PROBLEMS", 0)
    (target,) = [target for target, name in mutants.mutants() if name == bug]
    assert mutants.killed(target, bug, tmp_path, only=(QUICK[bug],)) == [QUICK[bug]]


def test_bugs_can_be_planted():
    assert len(mutants.mutants()) >= 100
    for target in mutants.TARGETS:
        text = mutants.text_of(target.source)
        for bug, (old, new) in target.bugs.items():
            assert text.count(old) == 1, f"{target.source}, {bug}"
            compile(text.replace(old, new), target.source, "exec")
