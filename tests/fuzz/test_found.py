"""Trials that once failed: what was wrong stays mended."""

from __future__ import annotations

import harness
import pytest

FOUND = (
    ("inputs", 90917, 131),  # attributes without a name
    ("paths", 90917, 21),  # the optimum is 0
    ("paths", 90917, 90),  # C = 1.6e-6
    ("certificates", 90917, 133),  # the optimum is 0, and the backend has bounds
    ("certificates", 90917, 428),
    ("degenerate", 90918, 1),  # scores of 1e-310
    ("degenerate", 90918, 69),
    ("checkpoints", 5511, 49),  # weights of 1e300
    ("estimates", 90917, 34),  # CSR matrices are read where they are
)


@pytest.mark.parametrize(("name", "seed", "trial"), FOUND, ids=[f"{name}-{trial}" for name, _, trial in FOUND])
def test_what_was_found_stays_mended(name, seed, trial):
    assert harness.one(name, seed, trial) > 0
