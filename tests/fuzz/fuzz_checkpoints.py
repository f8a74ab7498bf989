"""Damaged checkpoints: each is refused by the name of the file, or the fit goes on and certifies nothing false."""

from __future__ import annotations

import warnings
from functools import lru_cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from mutations import damaged

import small
from ssvm_dsl import StructuredSVM
from ssvm_dsl.errors import FileFormatError, TrainingError
from ssvm_dsl.plugin_api import RiskSpec, TrainerSpec
from ssvm_dsl.registry import registry

UNIT, SHORT, LIMIT = "files", 1, 60.0

#: Files of a trial, all of one fit.
FILES = 20

#: (trainer, options): what keeps different states.  Trainers that solve other problems slowly are left out.
FITS = [
    *(("bcfw", {}), ("smo", {}), ("n-slack", {}), ("one-slack", {"cache": 2}), ("bundle", {}), ("subgradient", {})),
    *(("perceptron", {"update": "arow"}), ("lbfgs", {}), ("adam", {}), ("svrg", {}), ("eg", {}), ("extragradient", {})),
    *(("bcfw", {"averaging": False}), ("subgradient", {"metric": "newton"}), ("dlpw", {}), ("relaxed", {})),
]

DATA = small.Case(small.Word, n=6).make(0)


def estimator(number: int, file: Path, max_passes: int) -> StructuredSVM:
    """Return the estimator of one of the fits."""
    trainer, options = FITS[number]
    settings: dict[str, Any] = {"trainer": trainer, "trainer_options": options}
    if trainer == "relaxed":
        settings = {"trainer": "bcfw", "trainer_options": {"blocks": "examples"}}
        settings |= {"risk": "relaxed", "backend": "lp", "guarantee": "bound"}
    spec = registry().find(TrainerSpec, settings["trainer"])
    risks = (registry().find(RiskSpec, name) for name in ("margin", "log", "relaxed"))
    settings = {"risk": next(risk.name for risk in risks if spec.needs.minimises(risk))} | settings
    if spec.needs.messages:
        settings["backend"] = "msd"
    return StructuredSVM(
        DATA.case.model, tol=1e-9, max_passes=max_passes, random_state=0, n_threads=1, checkpoint=str(file),
        checkpoint_seconds=0.0, **settings,
    )  # fmt: skip


@lru_cache
def base(number: int) -> bytes:
    """Return a good checkpoint of one of the fits."""
    with warnings.catch_warnings(), TemporaryDirectory() as folder:
        warnings.simplefilter("ignore")
        file = Path(folder) / "good.ckpt"
        estimator(number, file, 3).fit(DATA.X, DATA.Y)
        return file.read_bytes()


def complaint(err: Exception, file: str) -> None:
    """Check that a refusal is about the file, or that weights of the file led nowhere."""
    known = [file] if isinstance(err, FileFormatError) else ["a checkpoint of another fit", "its weights", "is off by"]
    assert any(text in str(err) for text in known), err


def trial(rng: np.random.Generator, scratch: Path) -> int:
    """Go on from damaged checkpoints of one fit."""
    number, file = int(rng.integers(len(FITS))), scratch / "damaged.ckpt"
    good = base(number)
    for _ in range(FILES):
        file.write_bytes(damaged(rng, good))
        try:
            report = estimator(number, file, 5).fit(DATA.X, DATA.Y).report_
        except (FileFormatError, TrainingError) as err:
            complaint(err, str(file))
        else:
            assert not report.dual > report.primal + report.rounding, report
            assert np.isfinite(report.primal) or not report.converged, report
    return FILES
