"""The errors users meet; every message names what is wrong, where, and what to do next.

The tree is small on purpose: catch :class:`SsvmError` for everything, or one of its children for one kind
of trouble.  A child also derives from the built-in error Python users expect (``ValueError`` for bad data).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import wraps
from typing import Any, ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


class SsvmError(Exception):
    """Base class of every error this package raises on purpose."""

    def __reduce__(self) -> tuple[Any, ...]:
        """Let errors cross to other processes: they are made anew without ``__init__``, which has other arguments."""
        return _made_anew, (type(self), self.args, dict(self.__dict__))


def _made_anew(kind: type[SsvmError], args: tuple[Any, ...], state: dict[str, Any]) -> SsvmError:
    """Return an error with the arguments and attributes of another one."""
    error = kind.__new__(kind)
    error.args = args
    error.__dict__.update(state)
    return error


class ModelError(SsvmError, ValueError):
    """All mistakes of one model declaration, reported together.

    Parameters
    ----------
    model : str
        Name of the model class.
    mistakes : iterable of (where, text)
        ``where`` is ``"file.py:12"`` (or ``""`` when unknown), ``text`` says what is wrong and what to do.
    """

    def __init__(self, model: str, mistakes: Iterable[tuple[str, str]]) -> None:
        self.model = model
        self.mistakes = tuple(mistakes)
        count = f"{len(self.mistakes)} mistake{'s' if len(self.mistakes) != 1 else ''}"
        lines = [f"  {where}: {text}" if where else f"  {text}" for where, text in self.mistakes]
        super().__init__("\n".join([f"model {model} has {count}:", *lines]))


class DataError(SsvmError, ValueError):
    """Bad input data: names the input, the example, what was expected and what came.

    Parameters
    ----------
    what : str
        Name of the input or label, e.g. ``"input 'x'"``.
    example : int or None
        Index of the offending example in the list the user passed.
    expected, found : str
        What the declaration asks for, and what came.
    hint : str
        What to do, when it is not obvious.
    """

    def __init__(
        self, what: str, *, expected: str, found: str, example: int | None = None, hint: str = ""
    ) -> None:
        self.what, self.example, self.expected, self.found, self.hint = what, example, expected, found, hint
        place = what if example is None else f"{what}, example {example}"
        tail = f"\n  hint: {hint}" if hint else ""
        super().__init__(f"{place}: expected {expected}, found {found}{tail}")

    def of(self, whole: str) -> DataError:
        """Return the same error for data that are part of something else, e.g. ``validation``."""
        return DataError(
            f"{whole}: {self.what}", expected=self.expected, found=self.found, example=self.example, hint=self.hint
        )

    def shifted(self, first: int) -> DataError:
        """Return the same error for a batch that starts at example ``first`` of a longer list."""
        example = None if self.example is None else self.example + first
        return DataError(self.what, expected=self.expected, found=self.found, example=example, hint=self.hint)


class OptionError(SsvmError, ValueError):
    """A parameter or option has a value that cannot be used."""


class KeywordError(OptionError, TypeError):
    """A keyword is no parameter of what was called; the message says which one may be meant."""


class PluginError(SsvmError):
    """A plug-in (backend, trainer, loss ...) is unknown, broken or used outside its contract."""


class NoBackendError(PluginError):
    """No inference backend can answer; lists every backend with its reasons for refusing.

    Parameters
    ----------
    question : str
        What was asked, in words.
    refusals : sequence of (backend, reasons)
        One entry for each registered backend.
    hint : str
        What to do next.
    """

    def __init__(
        self, question: str, refusals: Sequence[tuple[str, Sequence[str]]], hint: str = ""
    ) -> None:
        self.question, self.hint = question, hint
        self.refusals = tuple((name, tuple(reasons)) for name, reasons in refusals)
        lines = [f"no backend can answer: {question}"]
        lines += [f"  {name}: {'; '.join(reasons)}" for name, reasons in self.refusals]
        if hint:
            lines.append(f"  hint: {hint}")
        super().__init__("\n".join(lines))


class BackendFault(PluginError):
    """A backend broke its contract: wrong score, impossible labelling, or a bound below its own score.

    Parameters
    ----------
    backend, fault : str
        Its name, and what it did.
    origin : str
        The plug-in and distribution it comes from, where that is not this one.
    """

    def __init__(self, backend: str, fault: str, origin: str = "") -> None:
        self.backend, self.fault, self.origin = backend, fault, origin
        where = f" ({origin})" if origin else ""
        super().__init__(
            f"backend '{backend}'{where} broke its contract: {fault}\n"
            f"  hint: run `ssvm plugins check {backend}` and report the result to its authors"
        )


class MissingAnswerError(SsvmError, ValueError):
    """Some examples have no answer; the others' answers are not lost.

    Attributes
    ----------
    found : sequence
        What was found, an entry for each example in the form that the call returns: ``None`` where there is nothing
        (``nan`` in arrays).  Empty where the call returns a number for all examples, or ended before it looked at any.
    """

    found: Sequence[Any] = ()


class InfeasibleError(MissingAnswerError):
    """No labelling satisfies the masks, clamps and constraints of an example."""


class NoLabellingError(MissingAnswerError):
    """A backend has no labelling to show for some examples: a fractional solution only, or none in time."""


class TrainingError(SsvmError):
    """Training cannot go on, or cannot start with this combination of trainer, risk and backend."""


class FileFormatError(SsvmError, ValueError):
    """A file does not hold what its format promises."""


class ScoreError(SsvmError, ValueError):
    """The scores lack a property that the chosen backend relies on, e.g. submodularity."""


class TooLargeError(SsvmError, ValueError):
    """An exact method would need more memory than it is allowed; says how much, and what is allowed."""


class OutOfTime(SsvmError):
    """The time limit of a call is over, and there is no answer.

    In a fit it is raised between two pieces of work and ends the iterations: the driver keeps what was learnt.
    """


class PluginWarning(UserWarning):
    """A plug-in changed what belongs to its whole process; it was put back."""


class TimeLimitWarning(UserWarning):
    """A time limit ended a search before its answers were proved best."""


def memory_for(what: str, advice: str) -> Callable[[Callable[P, T]], Callable[P, T]]:
    """Let a function say what was being done when memory ran out, and what to do about it.

    Raises
    ------
    TooLargeError
        By the function: memory ran out.
    """

    def decorated(function: Callable[P, T]) -> Callable[P, T]:
        @wraps(function)
        def guarded(*args: P.args, **named: P.kwargs) -> T:
            try:
                return function(*args, **named)
            except MemoryError as err:
                found = " ".join(str(err).split())
                raise TooLargeError(f"{what} ran out of memory{f' ({found})' if found else ''}; {advice}") from err

        return guarded

    return decorated
