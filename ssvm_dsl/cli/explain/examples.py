"""What ``ssvm explain`` looks at: the model in the user's Python file, and examples from there or made up."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from importlib.machinery import SourceFileLoader
from importlib.util import module_from_spec, spec_from_file_location
from math import prod
from pathlib import Path
from traceback import extract_tb
from types import ModuleType
from typing import Any

import numpy as np

from ssvm_dsl.errors import OptionError, SsvmError
from ssvm_dsl.lang.declaration import Declaration
from ssvm_dsl.lang.dims import Dim
from ssvm_dsl.lang.inputs import Attributes, Edges, ExampleInput, Positions
from ssvm_dsl.lang.model import Model

#: Smallest and largest size of a ragged axis that nobody gave.
SMALLEST, LARGEST = 4, 8

# -- the user's file -----------------------------------------------------------------------------------------


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
    path, name = split_place(place)
    module = import_file(path)
    return model_of(module, name, path), module


def split_place(place: str) -> tuple[Path, str]:
    """Return the path of ``FILE:NAME``, and the name; without one it is empty."""
    text, _, name = place.rpartition(":")
    if not text or not name.isidentifier():  # no colon, or the one of a drive
        text, name = place, ""
    return Path(text), name


def model_of(module: ModuleType, name: str, path: Path) -> type[Model]:
    """Return the model of that name in a module; without a name the only one.

    Raises
    ------
    OptionError
        There is none, or there are several; lists them.
    """
    models: dict[str, type[Model]] = {key: value for key, value in vars(module).items() if _is_model(value)}
    if not name and len(models) == 1:
        (name,) = models
    if name not in models:
        wrong = f"there is no model '{name}'" if name else "FILE alone needs a file with one model"
        raise OptionError(f"{path}: {wrong}; its models are: {', '.join(models) or 'none'}")
    return models[name]


def _is_model(value: object) -> bool:
    return isinstance(value, type) and issubclass(value, Model) and value is not Model


class _SourceOnly(SourceFileLoader):
    """Load a file from its source, as ``python FILE`` does, neither reading nor writing bytecode.

    Python takes bytecode for that of a file as long as its size and the second of its last change are the same: a file
    that was changed twice in a second would be run as it was before.
    """

    def path_stats(self, path: Any) -> Any:
        """Raise OSError, which says that there is no time stamp to look bytecode up by."""
        raise OSError(f"{path}: loaded from its source")


def import_file(path: Path, name: str = "") -> ModuleType:
    """Return the module of a Python file; its folder comes first on the path, as for ``python FILE``.

    Another process, where other modules are there, is to give it the ``name`` that it has in this one.

    Raises
    ------
    OptionError
        There is no such file, or it fails; names the line.
    """
    name = name or (path.stem if path.stem not in sys.modules else f"user_{path.stem}")
    spec = spec_from_file_location(name, path, loader=_SourceOnly(name, str(path.absolute())))
    if not path.exists():
        raise OptionError(f"{path}: there is no such file; expected FILE.py or FILE.py:Model")
    if not path.is_file() or path.suffix != ".py" or spec is None or spec.loader is None:
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
    """Return an error that names the cause and the line in the user's file."""
    lines = [frame.lineno for frame in extract_tb(err.__traceback__) if Path(frame.filename) == path.absolute()]
    where = f", line {lines[-1]}" if lines else ""
    return OptionError(f"{path}{where}: {type(err).__name__}: {err}")


def find_data(module: ModuleType, name: str, option: str = "--data") -> Any:
    """Return the list of examples of that name in a module; a function is called for it.

    ``option`` is what the user wrote the name after.

    Raises
    ------
    OptionError
        There is nothing of that name.
    """
    if not hasattr(module, name):
        raise OptionError(f"{option}: {module.__file__} has no '{name}' (a list of examples, or a function for one)")
    data = getattr(module, name)
    try:
        return data() if callable(data) else data
    except SsvmError:
        raise
    except (Exception, SystemExit) as err:
        raise _failed(Path(module.__file__ or ""), err) from err


# -- made-up examples ----------------------------------------------------------------------------------------


def check_sizes(declaration: Declaration, given: Mapping[str, int]) -> None:
    """Refuse sizes of axes that are fixed or unknown.

    Raises
    ------
    OptionError
        Names the axis and lists those that are ragged.
    """
    ragged = [dim.name for dim in declaration.dims if dim.ragged]
    wrong = [name for name in given if name not in ragged]
    if wrong:
        known = ", ".join(ragged) or "none"
        raise OptionError(f"--size {wrong[0]}=...: the ragged axes of {declaration.name} are: {known}")


def make_examples(
    declaration: Declaration, n: int, given: Mapping[str, int], *, trees: bool = False, seed: int = 0
) -> list[dict[str, Any]]:
    """Return n random examples, in the form ``fit`` takes.

    Parameters
    ----------
    declaration : Declaration
    n : int
    given : mapping of str to int
        Sizes of ragged axes; the others are random, different in each example.
    trees : bool
        Edge lists are random trees; otherwise as many random edges as there are positions.
    seed : int
    """
    rng = np.random.default_rng(seed)
    counts = {given.name for one in declaration.constraints for given in one.counts}
    X = []
    for _ in range(n):
        sizes = {dim.name: dim.size or given.get(dim.name) or _some_size(rng) for dim in declaration.dims}
        for edges in (one for one in declaration.inputs if isinstance(one, Edges)):
            n_over = min(sizes[dim.name] for dim in edges.ends)
            if edges.dim.ragged and edges.dim.name not in given:
                sizes[edges.dim.name] = n_over - 1 if trees else n_over * (n_over >= edges.arity)
        made = {one.name: _value(one, sizes, trees, rng) for one in declaration.inputs}
        made |= {name: (made[name] > 0.0) * 1.0 for name in declaration.flags if name in made}
        X.append({name: np.ceil(np.abs(value)) if name in counts else value for name, value in made.items()})
        for one in declaration.constraints:
            X[-1] |= {node.name: rng.integers(0, sizes[axis.name], (1,)) for node, axis in one.nodes}
    return X


def _some_size(rng: np.random.Generator) -> int:
    return int(rng.integers(SMALLEST, LARGEST + 1))


def _value(source: ExampleInput, sizes: Mapping[str, int], trees: bool, rng: np.random.Generator) -> Any:
    """Return one input of one example."""
    if isinstance(source, Dim):
        return sizes[source.name]
    if isinstance(source, Edges):
        return _edges(sizes[source.dim.name], [sizes[dim.name] for dim in source.ends], trees, rng)
    shape = tuple(sizes[dim.origin.name] for dim in source.dims)
    if isinstance(source, Positions):
        return rng.integers(-1, sizes[source.over.name], shape)
    if isinstance(source, Attributes):
        tokens = [[f"made-up={rng.integers(10)}", "bias"] for _ in range(shape[0] if shape else 1)]
        return tokens if shape else tokens[0]
    if source.sparse:
        from scipy.sparse import csr_array

        rows, few = prod(shape), 4
        columns, ends = rng.integers(source.width, size=rows * few), range(0, rows * few + 1, few)
        return csr_array((rng.standard_normal(rows * few), columns, ends), (rows, source.width))
    return rng.standard_normal((*shape, *source.shape))


def _edges(m: int, limits: list[int], trees: bool, rng: np.random.Generator) -> Any:
    """Return m edges: each to a random earlier position (a tree), or between any that are different."""
    n, r = min(limits), len(limits)
    if m and n < r:
        count = "two" if r == 2 else str(r)
        raise OptionError(f"an edge joins {count} positions, and there is {n}; give a larger --size")
    if trees and r == 2:
        if m >= n:
            raise OptionError(f"{m} edges over {n} positions are no tree; leave out --trees or give other sizes")
        child = np.arange(1, m + 1)
        return np.stack([child, (rng.random(m) * child).astype(np.int64)], axis=1)
    return np.array([rng.permutation(n)[:r] for _ in range(m)], dtype=np.int64).reshape(m, r)
