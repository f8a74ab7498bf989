"""The digest of a compiled function: of its code, all functions that it calls, and the constants that it reads.

Compiled code is kept under this digest, so that another text of a function, of one that it calls or of a constant is
another entry, wherever the files lie and whenever they were written: two environments with the same versions share
what one has compiled, and no stale code is ever found.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping
from enum import Enum
from functools import cache
from hashlib import sha256
from pathlib import Path
from types import BuiltinFunctionType, CodeType, FunctionType, ModuleType
from typing import Any
from weakref import WeakKeyDictionary

import llvmlite
import numba
import numpy as np
from numba.core import config, types
from numba.core.ccallback import CFunc
from numba.core.dispatcher import Dispatcher
from numba.core.types.containers import BaseNamedTuple, BaseTuple

#: Settings of numba that change what it makes of a function.
SETTINGS = ("OPT", "LOOP_VECTORIZE", "SLP_VECTORIZE", "BOUNDSCHECK", "DEBUGINFO_DEFAULT", "LLVM_REFPRUNE_PASS")

#: Modules that decide what machine code is made of a function.
MAKERS = ("linking.py", "lowering.py")

#: Digests of functions; those under way are none yet.
_digests: WeakKeyDictionary[Callable[..., Any], str] = WeakKeyDictionary()


class NoKey(Exception):
    """A function reads an object that has no digest, so that its compiled code cannot be cached."""


def digest(function: Callable[..., Any]) -> str:
    """Return the digest of a function and of all that it calls.

    Raises
    ------
    NoKey
        It reads a global value of an unknown kind.
    """
    digest_of = _digests.get(function)
    if digest_of is None:
        _digests[function] = f"{function.__module__}.{function.__qualname__}"  # for functions that call themselves
        try:
            digest_of = _digests[function] = sha256(_function(function).encode()).hexdigest()
        except BaseException:
            del _digests[function]
            raise
    return digest_of


def entry(function: Callable[..., Any], options: str, signature: Any, machine: tuple[str, ...]) -> str:
    """Return the digest of a function's compiled code.

    Parameters
    ----------
    function : function
    options : str
        How it is compiled.
    signature : tuple of numba types or numba signature
    machine : tuple of str
        The processor.
    """
    shape = signature if isinstance(signature, tuple) else (*signature.args, signature.return_type)
    parts = [_versions(), *machine, options, digest(function), *map(_type, shape)]
    return sha256("\n".join(parts).encode()).hexdigest()


def options_text(options: Mapping[str, Any]) -> str:
    """Return options of numba's ``njit`` as a text that is the same in all processes."""
    return str([f"{name}={_value(value)}" for name, value in sorted(options.items())])


def versions_digest() -> str:
    """Return a short digest of what all compiled code depends on."""
    return sha256(_versions().encode()).hexdigest()[:16]


@cache
def _versions() -> str:
    """Return what all compiled code depends on."""
    made_by = "".join(_file(str(Path(__file__).with_name(name))) for name in MAKERS)
    names = (sys.implementation.cache_tag, numba.__version__, llvmlite.__version__, np.__version__, made_by)
    return " ".join([*map(str, names), *(str(getattr(config, name, "")) for name in SETTINGS)])


def _function(function: Callable[..., Any]) -> str:
    """Return a description of a Python function."""
    code: CodeType = function.__code__
    known = getattr(function, "__globals__", {})
    read = {name: known[name] for name in sorted(set(_names(code))) if name in known}
    cells = [cell.cell_contents for cell in function.__closure__ or ()]
    text = [function.__module__, function.__qualname__, _code(code, function.__doc__)]
    text += [_value(function.__defaults__), _value(cells)]
    return "\n".join([*text, *(f"{name}={_value(value)}" for name, value in read.items())])


def extent(function: Callable[..., Any], seen: set[Callable[..., Any]] | None = None) -> int:
    """Return how much code a function is made of, in bytes of Python's; what it calls counts once.

    Parameters
    ----------
    function : function
    seen : set of functions, optional
        Those that count no more; changed.
    """
    seen = set() if seen is None else seen
    if function in seen:
        return 0
    seen.add(function)
    known = getattr(function, "__globals__", {})
    called = [known.get(name) for name in set(_names(function.__code__))]
    inner = [extent(one.py_func, seen) for one in called if isinstance(one, Dispatcher)]
    return len(function.__code__.co_code) + sum(inner)


def _names(code: CodeType) -> Iterable[str]:
    """Yield the names that code, and code within it, may read of its module."""
    yield from code.co_names
    for inner in code.co_consts:
        if isinstance(inner, CodeType):
            yield from _names(inner)


def _code(code: CodeType, text: str | None = None) -> str:
    """Return a description of code, without the lines where it stands and without its docstring."""
    names = (code.co_names, code.co_varnames, code.co_freevars, code.co_cellvars, code.co_flags)
    return f"{code.co_code.hex()} {names} {[_value(one) for one in code.co_consts if one is None or one != text]}"


def _value(value: Any) -> str:
    """Return a description of a value that a function reads."""
    if isinstance(value, Enum):
        return f"{type(value).__module__}.{value} {value.value!r}"
    if value is None or value is Ellipsis or isinstance(value, bool | int | float | complex | str | bytes | np.generic):
        return f"{type(value).__name__} {value!r}"
    if isinstance(value, CodeType):
        return _code(value)
    if isinstance(value, tuple | list):
        return f"{type(value).__qualname__} {[_value(one) for one in value]}"
    if isinstance(value, frozenset | set):
        return f"set {sorted(map(_value, value))}"
    if isinstance(value, np.ndarray):
        return f"array {value.dtype} {value.shape} {sha256(value.tobytes()).hexdigest()}"
    if isinstance(value, np.dtype | types.Type):
        return f"{type(value).__name__} {value}"
    return _callable(value)


def _callable(value: Any) -> str:
    """Return a description of a function, a class or a module that a function reads."""
    if isinstance(value, Dispatcher):
        return f"compiled {options_text(value.targetoptions)} {digest(value.py_func)}"
    if isinstance(value, CFunc):
        return f"callback {getattr(value, '_sig')} {digest(value.__wrapped__)}"  # noqa: B009 - absent from numba's stubs
    if isinstance(value, ModuleType):
        return f"module {_source(value.__name__)}"
    if isinstance(value, type) and hasattr(value, "_fields"):
        return f"named tuple {value.__module__}.{value.__qualname__} {value._fields}"
    if isinstance(value, type | FunctionType | BuiltinFunctionType | np.ufunc) or hasattr(value, "__wrapped__"):
        module = getattr(value, "__module__", None) or "builtins"
        return f"{module}.{getattr(value, '__qualname__', value.__name__)} {_source(module)}"
    raise NoKey(f"a {type(value).__name__}, {value!r}")


def _type(kind: Any) -> str:
    """Return a description of the type of an argument."""
    if isinstance(kind, BaseNamedTuple):
        return f"{_callable(kind.instance_class)} {[_type(one) for one in kind.types]}"
    if isinstance(kind, BaseTuple):
        return f"tuple {[_type(one) for one in kind.types]}"
    if isinstance(kind, types.Dispatcher):
        return _callable(kind.dispatcher)
    return f"{type(kind).__name__} {kind}"


@cache
def _source(module: str) -> str:
    """Return what stands for the text of a module: its version, or the digest of its file."""
    top = sys.modules.get(module.partition(".")[0])
    version, loaded = getattr(top, "__version__", ""), sys.modules.get(module)
    path = getattr(loaded, "__file__", None)
    if top in (np, numba) or path is None:
        return f"{module} {version}"
    return f"{module} {_file(path)}"


@cache
def _file(path: str) -> str:
    """Return the digest of a file."""
    return sha256(Path(path).read_bytes()).hexdigest()
