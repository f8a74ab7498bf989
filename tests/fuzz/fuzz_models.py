"""Damaged model files: each is refused with one line that names the file, or loads to a model that works."""

from __future__ import annotations

import warnings
from functools import lru_cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from mutations import damaged

import model_table
from ssvm_dsl import StructuredSVM
from ssvm_dsl.errors import FileFormatError, OptionError, SsvmError
from ssvm_dsl.learning.estimators.saved import read_weights

UNIT, SHORT, LIMIT = "files", 1, 60.0

#: Files of a trial, all of one model.
FILES = 100


@lru_cache
def base(number: int) -> tuple[bytes, list[Any]]:
    """Return (a good file of one of the models, inputs for it)."""
    model = model_table.TEMPLATES[number]
    X, Y, _, _ = model_table.make_data(model, 3, seed=1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        svm = StructuredSVM(model, trainer="subgradient", random_state=0, max_passes=2, n_threads=1).fit(X, Y)
    with TemporaryDirectory() as folder:
        path = Path(folder) / "good.ssvm"
        svm.save(path)
        return path.read_bytes(), X


def use(path: Path, X: list[Any]) -> None:
    """Do with a model what users do; new data may not fit one whose declaration was changed.

    A file without the report and the numbers of its certificate is that of given weights.
    """
    loaded = StructuredSVM.load(path, trusted=True)
    if hasattr(loaded, "report_"):
        str(loaded.report_), loaded.report_.summary()
    repr(loaded), str(loaded.weights_.top(None, 5))
    str(read_weights(path, trusted=True).top(None, 5))
    loaded.set_params(n_threads=1)
    try:
        scores = loaded.best_score(X)
        loaded.predict(X)
    except FileFormatError:
        raise AssertionError("loaded, and refused when it was used") from None
    except SsvmError:
        return
    assert np.isfinite(scores).all()


def complaint(text: str, start: str) -> None:
    """Check that a refusal names the file, and is no page of it."""
    assert text.startswith(start), text
    assert "function" in text or start, text
    assert len(text) < 2000, text


def trial(rng: np.random.Generator, scratch: Path) -> int:
    """Load damaged files of one model."""
    good, X = base(int(rng.integers(len(model_table.TEMPLATES))))
    path = scratch / "damaged.ssvm"
    for _ in range(FILES):
        path.write_bytes(damaged(rng, good))
        try:
            use(path, X)
        except FileFormatError as err:
            complaint(str(err), str(path))
        except OptionError as err:  # a function by another name, which cannot be imported
            complaint(str(err), "")
    return FILES
