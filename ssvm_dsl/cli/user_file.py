"""Import the user's Python file and find the model in it."""

from __future__ import annotations

import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from traceback import extract_tb
from types import ModuleType
from typing import Any

from ssvm_dsl.errors import OptionError, SsvmError
from ssvm_dsl.lang.model import Model


def find_model(place: str) -> tuple[type[Model], ModuleType]:
    """Return the model that ``FILE:Model`` names, and the module it is in.

    Parameters
    ----------
    place : str
        ``"FILE:Model"``; ``"FILE"`` alone will do when the file has one model.

    Raises
    ------
    OptionError
        No such file or model; the file cannot be imported.
    """
    text, _, name = place.rpartition(":")
    if not text or not name.isidentifier():  # no colon, or the one of a drive
        text, name = place, ""
    module = import_file(Path(text))
    models = {key: value for key, value in vars(module).items() if _is_model(value)}
    if not name and len(models) == 1:
        (name,) = models
    if name not in models:
        wrong = f"there is no model '{name}'" if name else "FILE alone needs a file with one model"
        raise OptionError(f"{text}: {wrong}; its models are: {', '.join(models) or 'none'}")
    return models[name], module


def _is_model(value: object) -> bool:
    return isinstance(value, type) and issubclass(value, Model) and value is not Model


def import_file(path: Path) -> ModuleType:
    """Return the module of a Python file; its folder comes first on the path, as for ``python FILE``.

    Raises
    ------
    OptionError
        There is no such file, or it fails; names the line.
    """
    name = path.stem if path.stem not in sys.modules else f"user_{path.stem}"
    spec = spec_from_file_location(name, path)
    if not path.exists():
        raise OptionError(f"{path}: there is no such file; expected FILE.py or FILE.py:Model")
    if not path.is_file() or spec is None or spec.loader is None:
        raise OptionError(f"{path}: expected a Python file (FILE.py:Model)")
    module = module_from_spec(spec)
    sys.path.insert(0, str(path.parent.absolute()))
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except SsvmError:
        raise
    except (Exception, SystemExit) as err:
        raise _failed(path, err) from err
    return module


def _failed(path: Path, err: BaseException) -> OptionError:
    """Return an error that says what went wrong in the user's file, and in which line."""
    lines = [frame.lineno for frame in extract_tb(err.__traceback__) if Path(frame.filename) == path]
    where = f", line {lines[-1]}" if lines else ""
    return OptionError(f"{path}{where}: {type(err).__name__}: {err}")


def find_data(module: ModuleType, name: str) -> Any:
    """Return the list of examples of that name in a module; a function is called for it.

    Raises
    ------
    OptionError
        There is nothing of that name.
    """
    if not hasattr(module, name):
        raise OptionError(f"--data: {module.__file__} has no '{name}' (a list of examples, or a function for one)")
    found = getattr(module, name)
    try:
        return found() if callable(found) else found
    except SsvmError:
        raise
    except (Exception, SystemExit) as err:
        raise _failed(Path(module.__file__ or ""), err) from err
