"""Saved models: one npz file with the declaration and parameters as JSON and the weights as arrays.

Nothing in the file is executed: no pickle, and user functions are referred to by import path only.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ssvm_dsl.errors import FileFormatError
from ssvm_dsl.io.arrays_file import read_arrays, write_arrays
from ssvm_dsl.ir.features import Block

FORMAT = "ssvm-dsl model"
VERSION = 4

#: Largest number of examples, or strength of regularisation, of a certificate.
MOST = 1e300

#: Most weights of a file that holds only those that are not 0: such a file is small, and what it unfolds to must not
#: fill the memory.
MOST_SPREAD = 2**27

#: Numbers of a certificate.
CERTIFICATE = 6


@dataclass(frozen=True, eq=False)
class SavedModel:
    """The content of a model file.

    Parameters
    ----------
    declaration : str
        The model as JSON text.
    parameters : dict
        Parameters of the estimator, plain data.
    blocks : tuple of Block
        Layout of the weights.
    coef : ndarray of float64, shape (dim,)
        The weights.
    fitted : dict
        What fitted features learnt: arrays and lists of names by feature.
    report : dict or None
        Summary of the fit; ``None`` where the weights were given, not learnt.
    certificate : ndarray of float64, shape (6,), or None
        Of a fit: data that bounds the optimum for every C.
    stream : tuple (plain data, arrays by name), optional
        State from which a stream of examples continues (:class:`~ssvm_dsl.learning.estimators.fitting.stream.Stream`).
    origin : dict, optional
        Plain data of the command that trained it: the model's name there, and how its data were read.
    kind : str, optional
        The class of the estimator; files of earlier versions do not say it.
    frames : dict of str to dict
        Of ready models: the columns of data frames by input, as plain data.
    """

    declaration: str
    parameters: dict[str, Any]
    blocks: tuple[Block, ...]
    coef: NDArray[np.float64]
    fitted: dict[str, dict[str, Any]]
    report: dict[str, Any] | None
    certificate: NDArray[np.float64] | None
    stream: tuple[dict[str, Any], dict[str, NDArray[Any]]] | None = None
    origin: dict[str, Any] | None = None
    kind: str | None = None
    frames: dict[str, dict[str, Any]] = field(default_factory=dict)


def write_model(path: Path, model: SavedModel) -> None:
    """Write a model to ``path``, atomically.

    Raises
    ------
    TypeError
        A parameter cannot be written as JSON.
    """
    arrays = _weight_arrays(model.coef)
    if model.certificate is not None:
        arrays["certificate"] = model.certificate
    learnt: dict[str, dict[str, Any]] = {}
    for number, (source, state) in enumerate(model.fitted.items()):
        learnt[source] = {}
        for key, value in state.items():
            if isinstance(value, np.ndarray):
                arrays[f"fitted_{number}_{key}"] = value
                learnt[source][key] = {"array": f"fitted_{number}_{key}"}
            else:
                learnt[source][key] = list(value)
    stream, kept = (None, {}) if model.stream is None else model.stream
    arrays |= {f"stream_{name}": array for name, array in kept.items()}
    content = {
        "format": FORMAT,
        "version": VERSION,
        "declaration": model.declaration,
        "parameters": model.parameters,
        "blocks": [{**asdict(block), "lower_bound": _finite(block.lower_bound)} for block in model.blocks],
        "fitted": learnt,
        "report": model.report,
        "stream": stream,
    }
    if model.origin is not None:
        content["origin"] = model.origin
    if model.kind is not None:
        content["kind"] = model.kind
    if model.frames:
        content["frames"] = model.frames
    write_arrays(path, content, arrays)


def read_model(path: Path) -> SavedModel:
    """Return the model of a file.

    Raises
    ------
    FileFormatError
        It is not a saved model, or not a whole one.
    """
    return model_of(path, *read_arrays(path, "a saved model"))


def model_of(path: Path, content: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> SavedModel:
    """Return the model that the content of a file describes; ``path`` is for messages.

    Raises
    ------
    FileFormatError
        It is not a saved model, or not a whole one.
    """
    try:
        if content["format"] != FORMAT or content["version"] != VERSION:
            found = f"{str(content['format'])[:40]!r} version {str(content['version'])[:10]}"
            raise FileFormatError(f"{path}: expected {FORMAT!r} version {VERSION}, found {found}")
        blocks = tuple(_block(entry) for entry in content["blocks"])
        fitted = {
            str(source): {
                key: arrays[one["array"]] if isinstance(one, dict) else list(one) for key, one in state.items()
            }
            for source, state in content["fitted"].items()
        }
        coef = _coef(path, arrays, blocks)
        declaration, given = str(content["declaration"]), content["report"] is None
        if given and ("certificate" in arrays or content["stream"] is not None):
            raise FileFormatError(f"{path}: a certificate or a stream without the report of a fit")
        report = None if given else dict(content["report"])
        certificate = None if given else _certificate(path, arrays["certificate"])
        kept = {name.removeprefix("stream_"): one for name, one in arrays.items() if name.startswith("stream_")}
        stream = None if content["stream"] is None else (dict(content["stream"]), kept)
        parameters, origin = dict(content["parameters"]), content.get("origin")
        origin = None if origin is None else dict(origin)
        kind = content.get("kind")
        if kind is not None and not isinstance(kind, str):
            raise TypeError("the kind of an estimator is a name")
        frames = {str(name): dict(one) for name, one in content.get("frames", {}).items()}
        return SavedModel(
            declaration, parameters, blocks, coef, fitted, report, certificate, stream, origin, kind, frames
        )  # fmt: skip
    except (ValueError, KeyError, TypeError, AttributeError, IndexError, OverflowError, RecursionError) as err:
        if isinstance(err, FileFormatError):
            raise
        raise FileFormatError(f"{path}: not a saved model ({type(err).__name__}: {err})") from err


def _spread(path: Path, places: NDArray[Any], values: NDArray[Any], size: int) -> NDArray[Any]:
    """Return weights of which a file holds those that are not 0."""
    known = places.ndim == 1 and places.shape == values.shape and places.dtype in (np.int32, np.int64)
    if not (known and size <= MOST_SPREAD) or (len(places) and (places[0] < 0 or places[-1] >= size)):
        raise FileFormatError(f"{path}: expected places among {size} weights (at most {MOST_SPREAD}) and their values")
    if (np.diff(places) <= 0).any():
        raise FileFormatError(f"{path}: expected places of weights that rise")
    coef = np.zeros(size, values.dtype)
    coef[places] = values
    return coef


def _block(entry: dict[str, Any]) -> Block:
    bound = -np.inf if entry["lower_bound"] is None else float(entry["lower_bound"])
    if not all(type(number) is int for number in (entry["offset"], *entry["shape"])):
        raise TypeError("the offset and the shape of a block are ints")
    return Block(str(entry["name"]), entry["offset"], tuple(entry["shape"]), bound, entry["feature_axis"])


def _weight_arrays(coef: NDArray[np.float64]) -> dict[str, NDArray[Any]]:
    """Return the weights as a file holds them: where most are 0, the others and their places."""
    places = np.flatnonzero(coef)
    if 2 * len(places) >= len(coef) or len(coef) > MOST_SPREAD:
        return {"coef": coef}
    return {"coef_places": places.astype(np.int32), "coef_values": coef[places]}


def _coef(path: Path, arrays: Mapping[str, NDArray[Any]], blocks: tuple[Block, ...]) -> NDArray[np.float64]:
    size = max((block.stop for block in blocks), default=0)
    coef = arrays["coef"] if "coef" in arrays else _spread(path, arrays["coef_places"], arrays["coef_values"], size)
    if coef.shape != (size,) or coef.dtype != np.float64 or not np.isfinite(coef).all():
        raise FileFormatError(f"{path}: expected {size} finite weights, found an array {coef.shape} of {coef.dtype}")
    return coef


def _certificate(path: Path, numbers: NDArray[Any]) -> NDArray[np.float64]:
    known = numbers.shape == (CERTIFICATE,) and numbers.dtype == np.float64
    if not known or not (0 <= numbers[0] < MOST and 0 < numbers[1] < MOST) or numbers[1] % 1:
        raise FileFormatError(f"{path}: expected {CERTIFICATE} numbers of a certificate, found {numbers!r}")
    return numbers


def _finite(value: float) -> float | None:
    return value if np.isfinite(value) else None
