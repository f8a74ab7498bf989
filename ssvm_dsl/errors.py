"""The errors users meet; every message names what is wrong, where, and what to do next.

The tree is small on purpose: catch :class:`SsvmError` for everything, or one of its children for one kind
of trouble.  A child also derives from the built-in error Python users expect (``ValueError`` for bad data).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import wraps
from typing import Any, ParamSpec, TypeVar

__all__ = [
    "BackendFault",
    "DataError",
    "FileFormatError",
    "InfeasibleError",
    "InseparableError",
    "KeywordError",
    "MissedClassWarning",
    "MissingAnswerError",
    "ModelError",
    "NoBackendError",
    "NoLabellingError",
    "OptionError",
    "OutOfTime",
    "PluginError",
    "PluginWarning",
    "ScoreError",
    "SsvmError",
    "TimeLimitWarning",
    "TooLargeError",
    "TrainingError",
    "meant",
    "memory_for",
]

P = ParamSpec("P")
T = TypeVar("T")


class SsvmError(Exception):
    """Base class of every error this package raises on purpose."""

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle an error by its attributes: its ``__init__`` has other arguments than ``args``."""
        return _rebuilt, (type(self), self.args, dict(self.__dict__))


def _rebuilt(kind: type[SsvmError], args: tuple[Any, ...], state: dict[str, Any]) -> SsvmError:
    """Return an error with these arguments and attributes, without calling ``__init__``."""
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
    """Bad input data: the message names the input, the example, the expected and the actual value.

    Parameters
    ----------
    what : str
        Name of the input or label, e.g. ``"input 'x'"``.
    example : int or None
        Index of the offending example in the list the user passed.
    expected, found : str
        The value the declaration requires, and the value passed.
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
        """Return the same error for data that are part of another argument, e.g. ``validation``."""
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
    """A call has an unknown, missing or surplus argument; the message shows the nearest name and the call."""


class PluginError(SsvmError):
    """A plug-in (backend, trainer, loss ...) is unknown, broken or used outside its contract."""


class NoBackendError(PluginError):
    """No inference backend can answer; lists every backend with its reasons for refusing.

    Parameters
    ----------
    question : str
        The question in words.
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
    backend : str
        Name of the backend.
    fault : str
        The violation of the contract, in words.
    origin : str
        The plug-in and distribution of the backend; empty for bundled ones.
    """

    def __init__(self, backend: str, fault: str, origin: str = "") -> None:
        self.backend, self.fault, self.origin = backend, fault, origin
        where = f" ({origin})" if origin else ""
        super().__init__(
            f"backend '{backend}'{where} broke its contract: {fault}\n"
            f"  hint: run `ssvm plugins check {backend}` and report the result to its authors"
        )


class MissingAnswerError(SsvmError, ValueError):
    """Some examples have no answer; ``found`` holds the answers of the others.

    Attributes
    ----------
    found : sequence
        One entry for each example, in the form that the call returns: ``None`` (``nan`` in arrays) for examples without
        an answer.  Empty if the call returns one number for all examples, or ended before the first answer.
    """

    found: Sequence[Any] = ()


class InfeasibleError(MissingAnswerError):
    """No labelling satisfies the masks, clamps and constraints of an example."""


class NoLabellingError(MissingAnswerError):
    """A backend found no labelling for some examples: only a fractional solution, or none in time."""


class TrainingError(SsvmError):
    """Training cannot continue, or this combination of trainer, risk and backend cannot start it."""


class InseparableError(TrainingError):
    """No weights give every example's truth its margin, with a proof: labellings that rule out all weights together.

    With the shares a_k, at least 0 and of sum 1, the differences of the joint features of truth and labelling add up to
    0, and the losses to more: ``sum_k a_k (loss_k - w . psi_k) > 0`` for all w (Farkas's lemma).

    Parameters
    ----------
    text : str
    proof : tuple of (example, labels, loss, share)
        ``labels`` are numbers of states, one for each variable of the example.
    """

    def __init__(self, text: str, proof: tuple[tuple[int, tuple[int, ...], float, float], ...] = ()) -> None:
        super().__init__(text)
        self.proof = proof


class FileFormatError(SsvmError, ValueError):
    """The content of a file violates its format."""


class ScoreError(SsvmError, ValueError):
    """The scores lack a property that the chosen backend relies on, e.g. submodularity."""


class TooLargeError(SsvmError, ValueError):
    """An exact method needs more memory than allowed; the message states both amounts."""


class OutOfTime(SsvmError):
    """The time limit of a call has passed, and there is no answer.

    A fit raises it between two pieces of work; the driver catches it and keeps the weights learnt so far.

    Attributes
    ----------
    found : sequence
        Of a call that asks many: what each has answered, ``None`` where nothing came.
    """

    found: Sequence[Any] = ()


class PluginWarning(UserWarning):
    """A plug-in changed global state of the process; the host restored it."""


class MissedClassWarning(UserWarning):
    """A class of the training data that the fitted model never predicts."""


class TimeLimitWarning(UserWarning):
    """A time limit ended a search before its answers were proved best."""


def meant(name: object, known: Iterable[str]) -> str:
    """Return what to add to a message about a name: ``"; did you mean 'chain'?"``, or nothing where none is like it."""
    from difflib import get_close_matches

    text, names = str(name), list(known)
    close = [one for one in names if one.lower() == text.lower()] or get_close_matches(text, names, n=1)
    return f"; did you mean '{close[0]}'?" if close else ""


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
                raise out_of_memory(err, what, advice) from err

        return guarded

    return decorated


def out_of_memory(err: MemoryError, what: str, advice: str) -> TooLargeError:
    """Return the error that says what was being done when memory ran out, and what to do about it."""
    found = " ".join(str(err).split())
    return TooLargeError(f"{what} ran out of memory{f' ({found})' if found else ''}; {advice}")
