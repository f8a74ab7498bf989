"""References of the user's functions: import paths, so that models can be written to JSON and read again."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from ssvm_dsl.errors import OptionError
from ssvm_dsl.lang.symbols import Mistake, got


@dataclass(frozen=True)
class FunctionRef:
    """A user's function, named by import path so that it can be written to JSON and found again.

    Parameters
    ----------
    path : str
        ``"package.module:qualified.name"``.
    function : callable, optional
        The function itself; ``None`` when the reference was read from a file and not trusted yet.
    """

    path: str
    # Compared too: closures and lambdas of one place share a path and still differ.
    function: Callable[..., Any] | None = field(default=None, hash=False, repr=False)

    def __repr__(self) -> str:
        return self.path.partition(":")[2]

    @classmethod
    def of(cls, function: Callable[..., Any]) -> FunctionRef:
        """Return the reference of a function object."""
        name = getattr(function, "__qualname__", type(function).__qualname__)
        return cls(f"{getattr(function, '__module__', '?')}:{name}", function)

    @property
    def importable(self) -> bool:
        """Whether the path leads back to this function (not for lambdas, closures, partials, bound methods)."""
        try:
            return self._find() is self.function
        except (ImportError, AttributeError, ValueError):
            return False

    def _find(self) -> Any:
        """Import the function of the path."""
        module, _, name = self.path.partition(":")
        value: Any = importlib.import_module(module)
        for part in name.split("."):
            value = getattr(value, part)
        return value

    def load(self, trusted: bool | Iterable[str]) -> FunctionRef:
        """Return the reference with its function imported, if ``trusted`` allows the path.

        Parameters
        ----------
        trusted : bool or iterable of str
            ``True`` trusts every path; otherwise the paths (``"module:name"``) or modules that may be imported.

        Raises
        ------
        OptionError
            The path is not trusted, or cannot be imported.
        """
        module = self.path.partition(":")[0]
        if trusted is not True and (trusted is False or not {self.path, module} & set(trusted)):
            raise OptionError(
                f"the model calls the function {self.path}, which runs code on this machine; "
                f"pass trusted=['{self.path}'] if you trust it"
            )
        try:
            function = self._find()
        except Exception as err:  # whatever the module raises
            text = f"{type(err).__name__}: {err}"
            raise OptionError(f"the model's function {self.path} cannot be imported: {text}") from err
        if not callable(function):
            raise OptionError(f"the model's function {self.path} is no function, but a {type(function).__name__}")
        return FunctionRef(self.path, function)

    def arguments(self) -> tuple[str, ...] | None:
        """Return the inputs the function asks for by parameter name; ``None`` means all of them (``**inputs``)."""
        if self.function is None:
            return None
        parameters = inspect.signature(self.function).parameters.values()
        if any(p.kind is p.VAR_KEYWORD for p in parameters):
            return None
        return tuple(p.name for p in parameters if p.default is p.empty)


def check_function(function: object, what: str, mistakes: list[Mistake]) -> FunctionRef:
    """Return the reference of a callable (or pass a reference on)."""
    if isinstance(function, FunctionRef):
        return function
    if not callable(function):
        mistakes.append(got(f"{what}: the first argument must be a function", function))
        return FunctionRef("?:?")
    try:
        kinds = {parameter.kind for parameter in inspect.signature(function).parameters.values()}
    except (TypeError, ValueError):  # some functions written in C do not tell their parameters
        kinds = {inspect.Parameter.POSITIONAL_ONLY}
    if inspect.Parameter.POSITIONAL_ONLY in kinds:
        mistakes.append(f"{what}: {function!r} has no parameter names to match; write def f(x): return ...")
        return FunctionRef("?:?")
    return FunctionRef.of(function)
