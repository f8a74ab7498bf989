"""Turn a fitted estimator into what a model file holds, and back."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import astuple, replace
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from ssvm_dsl.compiler.ground import factor_block
from ssvm_dsl.compiler.observed import check_pairs, of_learnt
from ssvm_dsl.compiler.weight_names import weight_names
from ssvm_dsl.errors import FileFormatError, ModelError
from ssvm_dsl.io.model_file import SavedModel, read_model
from ssvm_dsl.ir.features import Block
from ssvm_dsl.lang.declaration import Declaration
from ssvm_dsl.lang.factors import Factor
from ssvm_dsl.lang.model import Model
from ssvm_dsl.learning.certificate import Certificate, FitReport
from ssvm_dsl.learning.objective import factor_name
from ssvm_dsl.learning.stream import Stream
from ssvm_dsl.learning.weights import Weights

if TYPE_CHECKING:
    from ssvm_dsl.learning.learner import Learner

Estimator = TypeVar("Estimator", bound="Learner")

#: Parameters that a model file holds in another form, or cannot hold (``scoring`` where it is a function).
NOT_SAVED = ("model", "callbacks", "regularization")


def to_saved(svm: Learner) -> SavedModel:
    """Return what a file holds of a fitted estimator.

    Raises
    ------
    ModelError
        The model calls a function without an import path.
    """
    parameters = {key: value for key, value in svm.get_params(deep=False).items() if key not in NOT_SAVED}
    scales = {factor_name(key): value for key, value in (svm.regularization or {}).items()}
    parameters["regularization"] = scales or None
    parameters["scoring"] = svm.scoring if isinstance(svm.scoring, str) else None
    try:
        declaration = svm.model.to_json()
    except ModelError as err:
        hint = "nothing learnt is lost: declare the model again with such a function, and svm.set_params(model=...)"
        raise ModelError(err.model, [(where, f"{text}; {hint}") for where, text in err.mistakes]) from None
    certificate = np.array(astuple(svm._certificate), dtype=np.float64)
    summary, stream = svm.report_.summary(), getattr(svm, "_stream", None)
    saved = SavedModel(declaration, parameters, svm._blocks, svm.coef_, svm._fitted, summary, certificate)
    return saved if stream is None else replace(saved, stream=(stream.json(), stream.arrays))


def from_saved(
    kind: type[Estimator], saved: SavedModel, path: str | Path, trusted: bool | Iterable[str]
) -> Estimator:
    """Return the fitted estimator that a file holds.

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
    try:
        report = FitReport.of_summary(saved.report)
    except (KeyError, TypeError, ValueError, AttributeError) as err:
        raise FileFormatError(f"{path}: not a report of a fit ({type(err).__name__}: {err})") from err
    # beside lam, C was not given; the file holds it all the same
    without = {"C"} if saved.parameters.get("lam") is not None else set()
    made = kind(model, **{key: value for key, value in saved.parameters.items() if key not in without})
    made.coef_, made._blocks, made._fitted = saved.coef, saved.blocks, saved.fitted
    made.report_, made.plan_ = report, report.plan
    lam, n, *rest = saved.certificate.tolist()
    made._certificate = Certificate(lam, int(n), *rest)
    try:
        made._stream = None if saved.stream is None else Stream.of_json(*saved.stream)
    except (KeyError, TypeError, ValueError, AttributeError) as err:
        raise FileFormatError(f"{path}: not the state of a stream ({type(err).__name__}: {err})") from err
    return made


def read_weights(path: str | Path, trusted: bool | Iterable[str] = False) -> Weights:
    """Return the weights that a file holds, of whatever estimator saved it.

    Raises
    ------
    FileFormatError
        It is not a saved model, or its parts do not fit together.
    OptionError
        It calls a function that is not trusted.
    """
    saved = read_model(Path(path))
    return Weights(saved.coef, saved.blocks, _model(saved, path, trusted).declaration, saved.fitted)


def _model(saved: SavedModel, path: str | Path, trusted: bool | Iterable[str]) -> type[Model]:
    """Return the model of a file, which the layout of the weights fits."""
    try:
        model = Model.from_json(saved.declaration, trusted=trusted)
    except FileFormatError as err:
        raise FileFormatError(f"{path}: {err}") from err
    expected = _expected(model, saved, path)
    if saved.blocks != expected:
        raise FileFormatError(f"{path}: expected weights {_words(expected)}, found {_words(saved.blocks)}")
    return model


def _expected(model: type[Model], saved: SavedModel, path: str | Path) -> tuple[Block, ...]:
    """Return the layout of the model's weights; widths that features learnt are those of the given blocks."""
    learnt = {block.name: block.shape[-1] for block in saved.blocks if block.shape}
    out: list[Block] = []
    for factor in model.declaration.factors:
        if factor.tie is None:
            width = None if factor.features is None else factor.features.width or learnt.get(factor.name, 0)
            n_pairs = _n_pairs(factor, model.declaration, saved, path) if factor.observed else None
            out.append(factor_block(factor, width, out[-1].stop if out else 0, n_pairs))
    return tuple(out)


def _n_pairs(factor: Factor, declaration: Declaration, saved: SavedModel, path: str | Path) -> int:
    """Return how many observed pairs a factor has weights for."""
    try:
        pairs = of_learnt(saved.fitted[factor.name])
        names = weight_names(factor, declaration, saved.fitted)
        assert names.features is not None
        check_pairs(pairs, len(names.features), prod(factor.target.cards))
    except (KeyError, TypeError, ValueError, AttributeError, IndexError) as err:
        text = f"the observed pairs of factor '{factor.name}' are damaged ({type(err).__name__}: {err})"
        raise FileFormatError(f"{path}: {text}") from err
    return pairs.n_pairs


def _words(blocks: tuple[Block, ...]) -> str:
    return ", ".join(f"{block.name}{list(block.shape)}" for block in blocks) or "nothing"
