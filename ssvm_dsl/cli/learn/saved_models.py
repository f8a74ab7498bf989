"""Model files with what the command line knows of them: the model's name, and how its data are read."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ssvm_dsl.cli.learn.reading import READY, ready_class
from ssvm_dsl.datasets.formats.examples import DataSettings
from ssvm_dsl.errors import FileFormatError, OptionError
from ssvm_dsl.files.opening import check_path
from ssvm_dsl.io.model_file import SavedModel, read_model, write_model
from ssvm_dsl.learning.estimators.saved import from_saved, to_saved
from ssvm_dsl.models.loading import kind_of


@dataclass(frozen=True, eq=False)
class LoadedModel:
    """A model of a file.

    Parameters
    ----------
    name : str
        A ready model, or FILE:Model; empty where the file was written in Python.
    estimator : estimator
    settings : DataSettings or None
        How its data are read; ``None`` where the file was written in Python.
    """

    name: str
    estimator: Any
    settings: DataSettings | None


def save_model(path: str | Path, name: str, estimator: Any, settings: DataSettings) -> None:
    """Write a fitted estimator to a file, atomically."""
    origin = {"model": name, "data": settings.plain()}
    write_model(check_path(path, "--out"), replace(to_saved(estimator), origin=origin))


def load_model(path: str | Path, trusted: Iterable[str]) -> LoadedModel:
    """Return the model of a file.

    Raises
    ------
    FileFormatError
        It is no saved model, or what it says of its data is not understood.
    OptionError
        It calls functions that are not trusted, or that cannot be imported; the current folder is on the path.
    """
    saved, functions = read_model(Path(path)), list(trusted)
    name, settings = _origin(saved, path)
    kind = ready_class(name) if name in READY else kind_of(saved, path)
    if functions and os.getcwd() not in sys.path:  # where the user's file is, as for python -m
        sys.path.insert(0, os.getcwd())
    try:
        return LoadedModel(name, from_saved(kind, saved, path, functions), settings)
    except OptionError as err:
        err.add_note("on the command line: --trust MODULE:NAME for each function; modules are looked for here, too")
        raise


def _origin(saved: SavedModel, path: str | Path) -> tuple[str, DataSettings | None]:
    """Return the model's name and how data are read."""
    if saved.origin is None:
        return "", None
    name, settings = saved.origin.get("model"), saved.origin.get("data")
    if not isinstance(name, str) or not isinstance(settings, dict):
        raise FileFormatError(f"{path}: expected a model's name and how its data are read, found others")
    return name, DataSettings.of_plain(settings, str(path))
