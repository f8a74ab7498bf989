"""Find and compile the kernels of a fit in a separate process: ``python -m`` this module, TRAINER RISK BACKEND."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import numpy as np

from ssvm_dsl.kernels.compiling.rehearsal import Job, Rehearsal
from ssvm_dsl.lang.dims import Dim
from ssvm_dsl.lang.factors import Factor
from ssvm_dsl.lang.inputs import Input
from ssvm_dsl.lang.losses.label_losses import Hamming
from ssvm_dsl.lang.model import Model
from ssvm_dsl.lang.outputs.labels import Label
from ssvm_dsl.lang.outputs.targets import chain, complete
from ssvm_dsl.learning.estimators.svm import StructuredSVM


def rehearse(trainer: str, risk: str, backend: str) -> list[Job]:
    """Return the functions that a fit compiles: called functions, innermost first, then kernels, the longest first.

    The fit itself compiles parts in the order in which it calls them, for its first and longest kernel: so the two
    processes meet in the middle, and the kernels that remain are compiled while the fit waits for LLVM.
    """
    with Rehearsal() as rehearsal:
        for model, X, Y in _problems():
            with suppress(Exception):  # a backend or a trainer that does not take the model
                svm = StructuredSVM(
                    model, trainer=trainer, risk=risk, backend=backend, max_passes=2, tol=1e-9, n_threads=1
                ).fit(X, Y)
                svm.predict(X)
                break
    return rehearsal.parts[::-1] + rehearsal.jobs


def _problems() -> Iterator[tuple[type[Model], list[Any], list[Any]]]:
    """Yield small models with examples: chains, then loops.

    They have enough weights that trainers do not use their methods for few weights.
    """

    class RehearsedChain(Model):
        T = Dim()
        x = Input(T, 100)
        y = Label(T, 3)
        unary = Factor(y, features=x)
        pair = Factor(chain(y))
        loss = Hamming(y)

    class Loop(RehearsedChain):
        pair = Factor(complete(RehearsedChain.y))

    rng = np.random.default_rng(0)
    sizes = (3, 4, 3)
    X, Y = [rng.standard_normal((n, 100)) for n in sizes], [rng.integers(3, size=n) for n in sizes]
    yield RehearsedChain, X, Y
    yield Loop, X, Y


def main(trainer: str, risk: str, backend: str) -> None:
    """Compile the functions that a fit with these needs, except those that the fit is compiling now."""
    warnings.simplefilter("ignore")
    for job in rehearse(trainer, risk, backend):
        with suppress(Exception):  # a kernel of the user's, who will hear of it when it is called
            if job.state() == "missing":
                job.compile()


if __name__ == "__main__":
    main(*sys.argv[1:])
