"""Files of predictors that were trained by counting: JSON and arrays with a hash, nothing that is executed.

Every field is checked when a file is read: who edits one can write a right hash.  A space of one's own is code, and so
is a kernel that is a function: the one is given again when the file is read, the other is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from ssvm_dsl.errors import FileFormatError, OptionError, SsvmError
from ssvm_dsl.io.arrays_file import read_arrays, write_arrays
from ssvm_dsl.lang.arrays import is_number
from ssvm_dsl.learning.counting.checks import check_predictor
from ssvm_dsl.learning.counting.kernels import NAMES, InputKernel
from ssvm_dsl.learning.counting.methods.streams import settings, stream_parts
from ssvm_dsl.learning.counting.outputs.dicycles import Dicycles
from ssvm_dsl.learning.counting.outputs.output_spaces import OutputSpace
from ssvm_dsl.learning.counting.outputs.subsets import Subsets
from ssvm_dsl.learning.counting.report import CountingReport
from ssvm_dsl.learning.estimator import Estimator
from ssvm_dsl.learning.estimators.fitting.stream import Stream

FORMAT, VERSION = "ssvm-dsl counting predictor", 1

Kind = TypeVar("Kind", bound=Estimator)

#: Spaces that a file can hold: by name, the class and its number of features for a size.
SPACES: dict[str, tuple[type[Subsets] | type[Dicycles], Callable[[int], int]]] = {
    "Subsets": (Subsets, lambda n: n),
    "Dicycles": (Dicycles, lambda n: n * (n - 1) // 2),
}

#: What learnt arrays are called in the file.
ARRAYS = ("support", "dual_coef", "inputs")

#: Parameters that older files do not have.
LATER = {"step_rule", "meta_step"}

#: Largest number of examples, labels or nodes.
MOST = 2**53


def write_predictor(path: Path, predictor: Any) -> None:
    """Write a fitted predictor, atomically.

    Raises
    ------
    OptionError
        Its kernel is a function.
    """
    if callable(predictor.kernel_.kernel):
        text = "kernel is a function, and files hold no code"
        cure = "name one (linear, rbf, polynomial), or keep the estimator by pickle, for yourself alone"
        raise OptionError(f"save: {text}; {cure}")
    stream, kept = getattr(predictor, "_stream", None), {}
    if stream is not None:
        kept = {f"stream_{name}": array for name, array in stream.arrays.items()}
    kernel = predictor.kernel_
    content = {
        "format": FORMAT,
        "version": VERSION,
        "space": _space_json(predictor.space),
        "parameters": {key: value for key, value in predictor.get_params(deep=False).items() if key != "space"},
        "kernel": {"kernel": kernel.kernel, "gamma": kernel.gamma, "degree": kernel.degree, "coef0": kernel.coef0},
        "report": predictor.report_.summary(),
        "stream": None if stream is None else stream.json(),
    }
    learnt = (predictor.support_, predictor.dual_coef_, predictor.X_fit_)
    write_arrays(path, content, {**dict(zip(ARRAYS, learnt, strict=True)), **kept})


def _space_json(space: OutputSpace) -> dict[str, Any]:
    kind = type(space).__name__
    known = kind in SPACES and type(space) is SPACES[kind][0]
    return {"kind": kind, "n": getattr(space, "n_labels", None) or getattr(space, "n_nodes", None) if known else None}


def read_predictor(kind: type[Kind], path: Path, space: OutputSpace | None) -> Kind:
    """Return the predictor of a file."""
    return predictor_of(kind, path, *read_arrays(path, "a saved CountingPredictor"), space)


def predictor_of(
    kind: type[Kind], path: Path, content: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]],
    space: OutputSpace | None,
) -> Kind:  # fmt: skip
    """Return the predictor that the content of a file describes; ``path`` is for messages.

    Raises
    ------
    FileFormatError
        It is not a saved predictor, or not a whole one.
    OptionError
        It has a user-defined space, and none, or another, is given.
    """
    try:
        return _read(kind, content, arrays, space)
    except OptionError as err:
        if str(err).startswith("load: "):
            raise
        raise FileFormatError(f"{path}: not a saved CountingPredictor ({err})") from err
    except SsvmError as err:
        raise FileFormatError(f"{path}: not a saved CountingPredictor ({err})") from err
    except (ValueError, KeyError, TypeError, AttributeError, IndexError, OverflowError, RecursionError) as err:
        text = " ".join(str(err).split())[:300]
        raise FileFormatError(f"{path}: not a saved CountingPredictor ({type(err).__name__}: {text})") from err


def _read(
    kind: type[Kind], content: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]], space: OutputSpace | None
) -> Kind:
    _require((content["format"], content["version"]) == (FORMAT, VERSION), f"{FORMAT!r} version {VERSION}")
    coef, inputs, support = arrays["dual_coef"], arrays["inputs"], arrays["support"]
    for array, what in ((coef, "coefficients"), (inputs, "inputs")):
        _require(array.dtype == np.float64 and array.ndim == 2, f"{what} as a matrix")
        _require(bool(np.isfinite(array).all()), f"finite {what}")
    _require(support.dtype == np.int64 and support.shape == (len(coef),) == (len(inputs),), "as many of all arrays")
    _require(bool((np.diff(support, prepend=-1) > 0).all()) and inputs.shape[1] > 0, "support vectors in order")
    parameters = dict(content["parameters"])
    new = kind(_space(content["space"], coef.shape[1], space), **_given(kind, parameters))
    made: Any = new
    check_predictor(made)
    _require(made.random_state is None or _whole(made.random_state), "a seed")
    InputKernel.of(made.kernel, made.gamma, made.degree, made.coef0, np.zeros((1, 1)))
    made.kernel_ = _kernel(content["kernel"], made)
    made.support_, made.dual_coef_, made.X_fit_ = support, coef, inputs
    made.n_features_in_ = inputs.shape[1]
    made.report_ = CountingReport.of_summary(content["report"])
    made._stream = None if content["stream"] is None else _stream(content["stream"], arrays, made)
    if made._stream is None:
        _require(set(arrays) == set(ARRAYS), "no other arrays")
    return new


def _given(kind: Any, parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Return the parameters; a file holds C even if lam was given."""
    known = set(kind._get_param_names()) - {"space"}
    _require(known - LATER <= set(parameters) <= known, f"the parameters of {kind.__name__}")
    plain = all(value is None or isinstance(value, str) or is_number(value) for value in parameters.values())
    _require(plain, "parameters that are numbers and words")
    return {key: value for key, value in parameters.items() if key != "C" or parameters["lam"] is None}


def _space(entry: Mapping[str, Any], n_features: int, given: OutputSpace | None) -> OutputSpace:
    """Return the space that a file names, or the one that is given for it."""
    name, n = entry["kind"], entry["n"]
    _require(isinstance(name, str) and set(entry) == {"kind", "n"}, "an output space")
    if n is not None:
        _require(name in SPACES and _whole(n), "an output space that is known")
        kind, size = SPACES[name]
        _require(size(n) == n_features, f"coefficients for {name}({n})")
        made = kind(n)
        if given is not None and repr(given) != repr(made):
            raise OptionError(f"load: the file has the space {made!r}; leave space out, got {given!r}")
        return made
    if given is None:
        text = f"the space '{name[:60]}' is your own code, which files do not hold"
        raise OptionError(f"load: {text}; give it, load(path, space=...)")
    if not isinstance(given, OutputSpace) or type(given).__name__ != name or given.n_features != n_features:
        expected = f"the space '{name[:60]}' with {n_features} features"
        raise OptionError(f"load: space: expected {expected}, as it was saved with, got {given!r}")
    return given


def _kernel(entry: Mapping[str, Any], made: Any) -> InputKernel:
    """Return the kernel: that of the parameters, with a number for its gamma."""
    kernel = InputKernel.of(entry["kernel"], entry["gamma"], entry["degree"], entry["coef0"], np.zeros((1, 1)))
    same = (entry["degree"], entry["coef0"]) == (made.degree, made.coef0)
    fits = isinstance(entry["kernel"], str) and kernel.kernel == NAMES[made.kernel] and entry["gamma"] != "scale"
    _require(fits and same and made.gamma in ("scale", entry["gamma"]), "the kernel of the parameters")
    return kernel


def _stream(entry: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]], made: Any) -> Stream:
    """Return what a stream goes on from; what was learnt is its part with coefficients that are not zero."""
    names, numbers = stream_parts(made.step_rule)
    _require(entry["arrays"] == list(names), "the arrays of a stream")
    stream = Stream.of_json(entry, {name: arrays[f"stream_{name}"] for name in names})
    _require(set(arrays) == {*ARRAYS, *(f"stream_{name}" for name in names)}, "no other arrays")
    coef, inputs = stream.arrays["coef"], stream.arrays["inputs"]
    _require(set(stream.values) == set(numbers), "the numbers of a stream")
    for name in numbers:
        value: Any = stream.values[name]
        _require(is_number(value) and (name == "cross" or value >= 0) and abs(value) < np.inf, f"a number, {name}")
    matrices = [stream.arrays[name] for name in names]
    _require(all(one.dtype == np.float64 and one.ndim == 2 for one in matrices), "matrices")
    _require(len(coef) == len(inputs) and len(coef) <= stream.n_seen < MOST, "as many coefficients as inputs")
    if "trace" in stream.arrays:
        trace, p = stream.arrays["trace"], stream.values["factor"]
        _require(trace.shape == coef.shape and bool(np.isfinite(trace).all()) and p > 0, "a finite derivative")
    _require(set(stream.fingerprint) == set(settings(made)), "the settings of a stream")
    used = np.flatnonzero(coef.any(axis=1))
    _require(coef.shape[1] == made.dual_coef_.shape[1], "its features")
    _require(np.array_equal(coef[used], made.dual_coef_), "its coefficients")
    _require(np.array_equal(inputs[used], made.X_fit_), "its inputs")
    _require(np.array_equal(stream.n_seen - len(coef) + used, made.support_), "its examples")
    return stream


def _whole(value: Any) -> bool:
    return type(value) is int and 0 <= value < MOST


def _require(holds: bool, expected: str) -> None:
    if not holds:
        raise ValueError(f"expected {expected}")
