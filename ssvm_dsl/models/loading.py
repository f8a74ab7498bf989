"""``load``: the estimator of any file that ``save`` wrote."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from ssvm_dsl import models
from ssvm_dsl.calls import checked_call
from ssvm_dsl.errors import FileFormatError, OptionError, memory_for
from ssvm_dsl.files.opening import as_path
from ssvm_dsl.io.arrays_file import read_arrays
from ssvm_dsl.io.model_file import SavedModel, model_of
from ssvm_dsl.learning.counting import saved as counting
from ssvm_dsl.learning.counting.outputs.output_spaces import OutputSpace
from ssvm_dsl.learning.counting.predictor import CountingPredictor
from ssvm_dsl.learning.estimators.regressor import StructuredRegressor
from ssvm_dsl.learning.estimators.saved import from_saved
from ssvm_dsl.learning.estimators.svm import StructuredSVM


@checked_call
@memory_for("reading the model", "it does not fit this machine")
def load(path: str | Path, *, trusted: bool | Iterable[str] = False, space: OutputSpace | None = None) -> Any:
    """Return what was saved in a file: a structured SVM, a ready model, a regressor or a counting predictor.

    Files hold no code, and reading one runs none.

    Parameters
    ----------
    path : str or Path
    trusted : bool or iterable of str
        Import paths of user functions that the model may call; ``True`` for all.
    space : OutputSpace, optional
        Of a counting predictor with a space of your own.

    Raises
    ------
    FileFormatError
        The file is not a saved model, or one of a class of your own; says how to load that.
    OptionError
        It calls a function that is not trusted; a space is given for something that has none, or is missing.

    Examples
    --------
    >>> tagger = ssvm_dsl.load("tagger.ssvm")
    """
    place = as_path(path, "load")
    content, arrays = read_arrays(place, "a saved model")
    if content.get("format") == counting.FORMAT:
        return counting.predictor_of(CountingPredictor, place, content, arrays, space)
    if space is not None:
        raise OptionError(f"load: space is for counting predictors; {path} holds another model")
    saved = model_of(place, content, arrays)
    return from_saved(kind_of(saved, path), saved, path, trusted)


def kind_of(saved: SavedModel, path: str | Path) -> Any:
    """Return the class of what a file holds.

    Raises
    ------
    FileFormatError
        It is a class that is not of this package.
    """
    ready = [getattr(models, name) for name in models.__all__]
    kinds = [StructuredSVM, *ready, StructuredRegressor]
    if saved.kind is not None:
        kind = next((one for one in kinds if one.__name__ == saved.kind), None)
        if kind is None:
            name = saved.kind[:60]
            raise FileFormatError(f"{path} holds a class of your own, {name}: read it by {name}.load({str(path)!r})")
        return kind
    # files of earlier versions: the class that takes the parameters, of ready models the one with fewest others
    fitting = [one for one in kinds if set(saved.parameters) <= set(one._get_param_names())]
    if StructuredSVM in fitting:
        return StructuredSVM
    return min(fitting, key=lambda one: len(one._get_param_names()), default=StructuredSVM)
