"""Convert a fitted estimator to the content of a model file, and back."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import astuple, replace
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from ssvm_dsl.callers import warn_caller
from ssvm_dsl.compiler.features.check_fitted import LearntWidths, weight_blocks
from ssvm_dsl.errors import FileFormatError, ModelError
from ssvm_dsl.io.model_file import SavedModel, read_model
from ssvm_dsl.ir.features import Block
from ssvm_dsl.lang.declaration import Declaration
from ssvm_dsl.lang.model import Model
from ssvm_dsl.learning.driver.certificate import Certificate, FitReport
from ssvm_dsl.learning.estimator import Estimator, clone
from ssvm_dsl.learning.estimators.fitted import Fitted
from ssvm_dsl.learning.estimators.fitting.stream import Stream
from ssvm_dsl.learning.estimators.parameters import seed_of
from ssvm_dsl.learning.estimators.weights import Weights
from ssvm_dsl.learning.objective import factor_name

Kind = TypeVar("Kind", bound=Estimator)

#: Parameters that a model file holds in another form, or cannot hold (``scoring`` where it is a function).
NOT_SAVED = ("model", "callbacks", "regularization")


def to_saved(svm: Any) -> SavedModel:
    """Return the file content of an estimator that was fitted or given its weights.

    Raises
    ------
    ModelError
        The model calls a function without an import path.
    """
    parameters = {key: value for key, value in svm.get_params(deep=False).items() if key not in NOT_SAVED}
    scales = {factor_name(key): value for key, value in (svm.regularization or {}).items()}
    parameters["regularization"] = scales or None
    if "random_state" in parameters:
        parameters["random_state"] = seed_of(svm.random_state)
    if svm.trainer_options:  # functions among them are not kept
        parameters["trainer_options"] = {key: one for key, one in svm.trainer_options.items() if not callable(one)}
    parameters["scoring"] = svm.scoring if isinstance(svm.scoring, str) else None
    try:
        declaration = svm.model.to_json()
    except ModelError as err:
        hint = "nothing learnt is lost: declare the model again with such a function, and svm.set_params(model=...)"
        raise ModelError(err.model, [(where, f"{text}; {hint}") for where, text in err.mistakes]) from None
    _warn_of_main(svm.model.declaration)
    more: dict[str, Any] = {"kind": type(svm).__name__, "frames": svm._plain_frames()}
    fitted: Fitted = svm.fitted_
    what = declaration, parameters, fitted.blocks, fitted.coef, fitted.learnt
    if fitted.report is None or fitted.certificate is None:  # nothing is known of given weights
        return SavedModel(*what, None, None, **more)
    certificate, stream = np.array(astuple(fitted.certificate), dtype=np.float64), fitted.stream
    saved = SavedModel(*what, fitted.report.summary(), certificate, **more)
    return saved if stream is None else replace(saved, stream=(stream.json(), stream.arrays))


def _warn_of_main(declaration: Declaration) -> None:
    """Warn of functions that other programs cannot import: those of a script or a notebook."""
    names = [ref.path.partition(":") for ref in declaration.functions]
    lost = dict.fromkeys(name for module, _, name in names if module == "__main__")
    if lost:
        listed, it = ", ".join(lost), "it" if len(lost) == 1 else "them"
        text = f"save: the model calls {listed} of __main__, this script or notebook, which no other program can import"
        cure = f"put {it} into a module, declare the model with {it} imported from there, and save once more"
        warn_caller(f"{text}; {cure}")


def from_saved(kind: type[Kind], saved: SavedModel, path: str | Path, trusted: bool | Iterable[str]) -> Kind:
    """Return the estimator that a file holds: fitted, or with given weights.

    Raises
    ------
    FileFormatError
        Its parts do not fit together.
    OptionError
        It calls a function that is not trusted.
    """
    model = _model(saved, path, trusted)
    unknown = set(saved.parameters) - set(kind._get_param_names()) | set(saved.parameters) & {"model", "callbacks"}
    if unknown:
        text = f"{path}: unknown parameters {', '.join(sorted(unknown))} of {kind.__name__}"
        raise FileFormatError(f"{text}; a file is loaded by the class that saved it")
    # beside lam, C was not given; the file holds it all the same
    without = {"C"} if saved.parameters.get("lam") is not None else set()
    with _of_file(path, f"not the parameters of {kind.__name__}"):
        new = kind._of_model(model, {key: one for key, one in saved.parameters.items() if key not in without})
        made: Any = new
        clone(made).set_params(checkpoint=None)._check()  # its folder may be on another machine
    made.fitted_ = Fitted(saved.coef, saved.blocks, saved.fitted)
    with _of_file(path, "not the columns of data frames"):
        made._take_frames(saved.frames)
    if saved.report is None or saved.certificate is None:
        return new
    with _of_file(path, "not a report of a fit"):
        report = FitReport.of_summary(saved.report)
        _check_report(report)
    lam, n, *rest = saved.certificate.tolist()
    with _of_file(path, "not the state of a stream"):
        stream = None if saved.stream is None else Stream.of_json(*saved.stream)
    made.fitted_ = replace(made.fitted_, report=report, certificate=Certificate(lam, int(n), *rest), stream=stream)
    return new


def _check_report(report: FitReport) -> None:
    """Check the types of a report's fields, which all printing relies on.

    Raises
    ------
    ValueError
        Something is of another type.
    """
    numbers = [name for name, text in FitReport.__annotations__.items() if text in ("float", "int")]
    plain = all(type(getattr(report, name)) in (int, float) for name in numbers)
    plan, texts = report.plan, [report.plan.backend, report.plan.reason, report.trainer, report.convention]
    if not plain or not all(isinstance(text, str) for text in texts) or not isinstance(plan.options, Mapping):
        raise ValueError("expected numbers and texts")
    str(report), plan.summary(), report.summary()


def read_weights(path: str | Path, trusted: bool | Iterable[str] = False) -> Weights:
    """Return the weights of a file, saved by any estimator.

    Raises
    ------
    FileFormatError
        It is not a saved model, or its parts do not fit together.
    OptionError
        It calls a function that is not trusted.
    """
    return read_fit(path, trusted)[1]


def read_fit(path: str | Path, trusted: bool | Iterable[str] = False) -> tuple[type[Model], Weights, FitReport | None]:
    """Return the model, the weights and the report (``None`` for given weights) of a file, saved by any estimator.

    Raises
    ------
    FileFormatError
        It is not a saved model, or its parts do not fit together.
    OptionError
        It calls a function that is not trusted.
    """
    saved = read_model(Path(path))
    model = _model(saved, path, trusted)
    weights = Weights(saved.coef, saved.blocks, model.declaration, saved.fitted)
    if saved.report is None:
        return model, weights, None
    with _of_file(path, "not a report of a fit"):
        report = FitReport.of_summary(saved.report)
        _check_report(report)
    return model, weights, report


def _model(saved: SavedModel, path: str | Path, trusted: bool | Iterable[str]) -> type[Model]:
    """Return the model of a file, which the weights and what features learnt fit."""
    try:
        model = Model.from_json(saved.declaration, trusted=trusted)
    except (FileFormatError, ModelError) as err:
        raise FileFormatError(f"{path}: {err}") from err
    with _of_file(path, "the state of fitted features does not fit the model"):
        widths = LearntWidths(model.declaration, saved.fitted)
        expected = weight_blocks(model.declaration, widths)
    if saved.blocks != expected:
        raise FileFormatError(f"{path}: expected weights {_words(expected)}, found {_words(saved.blocks)}")
    return model


@contextmanager
def _of_file(path: str | Path, what: str) -> Iterator[None]:
    """Convert all errors about the content of a file to one error that names the file."""
    try:
        yield
    except (KeyError, TypeError, ValueError, AttributeError, IndexError, OverflowError, RecursionError) as err:
        text = " ".join(str(err).split())[:400]
        raise FileFormatError(f"{path}: {what} ({type(err).__name__}: {text})") from err


def _words(blocks: tuple[Block, ...]) -> str:
    return ", ".join(f"{block.name}{list(block.shape)}" for block in blocks) or "nothing"
