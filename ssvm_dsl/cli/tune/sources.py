"""What ``ssvm tune`` works on: an estimator and examples of the user's file, and the grid of the command line."""

from __future__ import annotations

import json
from argparse import ArgumentTypeError, Namespace
from dataclasses import dataclass, replace
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from ssvm_dsl.cli.learn.reading import READY, ready_class, require_known
from ssvm_dsl.errors import DataError, OptionError, meant

if TYPE_CHECKING:
    from ssvm_dsl.datasets.formats.examples import DataSettings

#: Words for values that are no numbers.
WORDS = {"true": True, "false": False, "none": None}

#: Tried where nothing else is asked for.
DEFAULT_GRID = ("C", (0.001, 0.01, 0.1, 1.0))


@dataclass(frozen=True, eq=False)
class TuningSource:
    """An estimator, and labelled examples.

    Parameters
    ----------
    name : str
        Its name in the output: the model, and its file.
    estimator : estimator
    data : tuple of lists
        What ``fit`` takes.
    groups : sequence, optional
        A group for each example.
    module : module, optional
        The user's file.
    settings : DataSettings, optional
        How the data were read, if they are of a file of data.
    declared : Model class, optional
        The declaration of a ready model for the data.
    """

    name: str
    estimator: Any
    data: tuple[Any, ...]
    groups: Any
    module: ModuleType | None
    settings: DataSettings | None = None
    declared: Any = None


def parse_grid(text: str) -> tuple[str, tuple[Any, ...]]:
    """Read ``NAME=VALUE,VALUE``: numbers, the words true, false and none, and other words as they are."""
    name, equals, values = text.partition("=")
    if not equals or not name.replace(".", "_").isidentifier():
        raise ArgumentTypeError(f"expected e.g. C=0.1,1,10, got {text!r}")
    listed = [value.strip() for value in values.split(",")]
    if "" in listed:
        raise ArgumentTypeError(f"expected values between commas, got {text!r}")
    choices = tuple(option_value(value) for value in listed)
    if len(set(choices)) < len(choices):
        raise ArgumentTypeError(f"expected different values, got {text!r}")
    return name, choices


def option_value(text: str) -> Any:
    """Return a number, one of the words true, false and none, or the text itself."""
    if text.lower() in WORDS:
        return WORDS[text.lower()]
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


def read_source(
    place: str | None, data: str | None, groups: str | None, scoring: str | None, seed: int,
    args: Namespace | None = None,
) -> TuningSource:  # fmt: skip
    """Return the estimator and data to tune; without a file the model of ``ssvm demo`` and its letters.

    ``args`` are the arguments that say how a file of data is read.

    Raises
    ------
    OptionError
        There is no such file, model, estimator or variable.
    DataError
        Examples and labels are not of one length.
    """
    if place is None:
        for option, given in (("--data", data), ("--groups", groups)):
            if given is not None:
                raise OptionError(f"{option}: it names something in FILE, and there is none")
        source = _letters()
    elif args is not None and _is_data_file(place, data, args):
        source = _of_data_file(place, data, groups, args)
    else:
        source = _of_file(place, data or "X,Y", groups)
    if scoring is None and place == "chain-tagger":  # the same as its score, and bears classes that a fold lacks
        scoring = "label-accuracy"
    return replace(source, estimator=_prepared(source, scoring, seed))


def _is_data_file(place: str, data: str | None, args: Namespace) -> bool:
    """Whether ``--data`` is a file of data, not names of variables."""
    return place in READY or args.format is not None or (data is not None and (data == "-" or Path(data).exists()))


def _of_data_file(place: str, path: str | None, groups: str | None, args: Namespace) -> TuningSource:
    """Return a ready model, or one of the user's file, and examples of a file of data."""
    from ssvm_dsl.cli.learn.reading import input_names, read_data, settings_of

    if path is None:
        raise OptionError(f"{place}: name a file with examples and labels, --data FILE")
    if groups is not None:
        raise OptionError("--groups: it names a variable of FILE.py, and the data are of another file")
    known = find_estimator(place)
    inputs = () if place in READY else input_names(known.estimator)
    data = read_data(path, settings_of(args, path, place, inputs), place)
    Y, declared = data.require_labels(), None
    if place in READY:
        with data.naming_lines():
            declared = known.estimator.declare(data.X, Y)
    return TuningSource(known.name, known.estimator, (data.X, Y), None, known.module, data.settings, declared)


def _letters() -> TuningSource:
    from ssvm_dsl.cli.ocr import OCR
    from ssvm_dsl.datasets.letters import load_letters
    from ssvm_dsl.learning.estimators.svm import StructuredSVM

    split = load_letters(1)
    return TuningSource("OCR, the model and the letters of ssvm demo", StructuredSVM(OCR), split[:2], None, None)


@dataclass(frozen=True, eq=False)
class NamedEstimator:
    """A ready model, or an estimator of the user's file; a model is one with the defaults.

    Parameters
    ----------
    name : str
        Its name in the output.
    estimator : estimator
    module : module, optional
        The user's file.
    """

    name: str
    estimator: Any
    module: ModuleType | None = None


def find_estimator(place: str) -> NamedEstimator:
    """Return what ``FILE:NAME`` or the name of a ready model stands for.

    Raises
    ------
    OptionError
        There is no such file, model or estimator.
    """
    from ssvm_dsl.cli.explain.examples import import_file, split_place
    from ssvm_dsl.learning.estimators.svm import StructuredSVM

    if place in READY:
        return NamedEstimator(place, ready_class(place)())
    require_known(place)
    path, name = split_place(place)
    module = import_file(path)
    others = [] if name else [key for key, value in vars(module).items() if _is_estimator(value)]
    if len(others) == 1:  # it has settings, and goes before its model
        (name,), others = others, []
    estimator: Any = vars(module).get(name)
    if not _is_estimator(estimator):
        estimator = StructuredSVM(_model(module, name, path))
    called = f"{name or estimator.model.__name__} of {path}"
    called += f" (the model with its defaults; {path}:{others[0]} takes an estimator)" if others else ""
    return NamedEstimator(called, estimator, module)


def _of_file(place: str, data: str, groups: str | None) -> TuningSource:
    from ssvm_dsl.cli.explain.examples import find_data

    known = find_estimator(place)
    assert known.module is not None
    named = None if groups is None else find_data(known.module, groups, "--groups")
    return TuningSource(known.name, known.estimator, _read_data(known.module, data), named, known.module)


def _is_estimator(value: object) -> bool:
    return hasattr(value, "get_params") and hasattr(value, "fit") and not isinstance(value, type)


def _model(module: ModuleType, name: str, path: Path) -> Any:
    """Return the model of that name; the message for another name lists the estimators, too."""
    from ssvm_dsl.cli.explain.examples import model_of

    try:
        return model_of(module, name, path)
    except OptionError as err:
        estimators = [key for key, value in vars(module).items() if _is_estimator(value)]
        raise OptionError(f"{err}; its estimators are: {', '.join(estimators) or 'none'}") from None


def _read_data(module: ModuleType, names: str) -> tuple[Any, ...]:
    """Return the lists that variables (or functions) hold: one for each list, or one for all of them."""
    from ssvm_dsl.cli.explain.examples import find_data
    from ssvm_dsl.learning.tuning.folds import size_of

    listed = names.split(",")
    expected = "X and Y, e.g. --data X,Y, or the name of a pair of lists (or of a function that returns one)"
    data = tuple(find_data(module, name.strip()) for name in listed)
    if len(data) == 1:
        if not isinstance(data[0], tuple):
            raise OptionError(f"--data {names}: expected {expected}; '{names}' is a {type(data[0]).__name__}")
        data = data[0]
    if not 2 <= len(data) <= 3:  # three for a regressor: X, values, Y
        raise OptionError(f"--data {names}: expected {expected}, got {len(data)} of them")
    for one in data:
        if isinstance(one, str) or not hasattr(one, "__len__"):
            raise DataError("--data", expected="lists of examples", found=type(one).__name__)
    sizes = [size_of(one) for one in data]
    if len(set(sizes)) > 1:
        raise DataError("--data", expected="lists of one length", found=" and ".join(map(str, sizes)))
    return data


def _prepared(source: TuningSource, scoring: str | None, seed: int) -> Any:
    """Return the estimator with the seed, unless it has its own, and with the scorer that is asked for."""
    from sklearn.base import clone

    made = clone(source.estimator)
    known = made.get_params(deep=False)
    if known.get("random_state", 0) is None:
        made.set_params(random_state=seed)
    if scoring is not None:
        if "scoring" not in known:
            raise OptionError(f"--scoring: {type(made).__name__} is scored by its method score only")
        made.set_params(scoring=_scorer(scoring, source.module))
    for name in ("checkpoint", "callbacks"):
        if known.get(name) is not None:
            raise OptionError(f"{source.name}: leave {name} out; many fits would share it")
    return made.set_params(**{name: False for name in ("verbose", "warm_start") if name in known})


def _scorer(name: str, module: ModuleType | None) -> Any:
    """Return the function of that name in the user's file, else the name, for scikit-learn."""
    scorer = getattr(module, name, name)
    if not callable(scorer) and scorer != name:
        expected = "a function (estimator, X, Y) -> float"
        raise OptionError(f"--scoring {name}: expected {expected}, got a {type(scorer).__name__}")
    return scorer


def check_grid(estimator: Any, grid: dict[str, tuple[Any, ...]], declared: Any = None) -> dict[str, tuple[Any, ...]]:
    """Return the grid, the default one where it is empty; parameters and their values are checked before any fit.

    ``declared`` is the model of a ready model, which has none before it is fitted.

    Raises
    ------
    OptionError
        The estimator has no such parameter, or does not take the value.
    """
    from ssvm_dsl.learning.counting.checks import check_predictor
    from ssvm_dsl.learning.counting.predictor import CountingPredictor
    from ssvm_dsl.learning.estimators.structured import StructuredEstimator
    from ssvm_dsl.learning.tuning.fitting import configured
    from ssvm_dsl.learning.tuning.grid import combinations, described

    known = estimator.get_params(deep=True)
    if not any(len(values) > 1 for values in grid.values()) and "C" not in grid:
        if "C" not in known or known.get("lam") is not None:
            raise OptionError("say what to try, e.g. --grid lam=0.001,0.01,0.1")
        grid = dict([DEFAULT_GRID]) | grid
    for name in grid:
        outer = name.partition(".")[0]
        if outer not in known:
            listed = ", ".join(sorted(known))
            text = f"--grid {name}: {type(estimator).__name__} has no such parameter{meant(outer, known)}"
            raise OptionError(f"{text}\n  it has: {listed}")
        if outer in ("model", "scoring", "callbacks", "checkpoint", "verbose", "warm_start", "n_threads"):
            raise OptionError(f"--grid {name}: that is not to be chosen by scores")
    for parameters in combinations(grid):
        made = configured(estimator, parameters)
        if declared is not None:
            made.model_ = declared
        try:
            if hasattr(made, "_check"):
                made._check()
            if isinstance(made, CountingPredictor):
                check_predictor(made)
            if isinstance(made, StructuredEstimator):
                made._trainer()
        except Exception as err:
            err.add_note(f"in --grid, with {described(parameters)}")
            raise
    return grid


def plain_json(value: Any) -> Any:
    """Return a value as what JSON can hold; others by their text."""
    try:
        return json.loads(json.dumps(value, allow_nan=False))
    except (TypeError, ValueError):
        return str(value)
