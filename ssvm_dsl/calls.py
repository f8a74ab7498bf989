"""Calls of public functions and classes with arguments that they do not take: what may be meant, and how to call them.

Python's own ``TypeError`` for such a call knows neither the habits of other libraries (``max_iter``, ``n_jobs`` and
ninety more) nor, before 3.13, the nearest spelling.  A wrapped call takes 0.16 microseconds longer, of some 110 that
the prediction of a word takes, and nothing is looked at unless it fails.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from difflib import get_close_matches
from functools import wraps
from inspect import Parameter, Signature, isfunction, signature
from typing import Any, ClassVar, NoReturn, ParamSpec, TypeVar

from ssvm_dsl.errors import KeywordError, out_of_memory

P = ParamSpec("P")
R = TypeVar("R")
Made = TypeVar("Made", bound=type)

#: Two names are at least this much alike where one is proposed for the other.
ALIKE = 0.6
#: A message shows at most this many optional parameters of a call.
SHOWN = 4

_BY_PLACE = (Parameter.POSITIONAL_ONLY, Parameter.POSITIONAL_OR_KEYWORD)
_BY_NAME = (Parameter.POSITIONAL_OR_KEYWORD, Parameter.KEYWORD_ONLY)


def checked_call(function: Callable[P, R]) -> Callable[P, R]:
    """Decorate a public function: arguments that it does not take raise a :class:`KeywordError`, with advice."""

    @wraps(function)
    def call(*args: P.args, **named: P.kwargs) -> R:
        try:
            return function(*args, **named)
        except TypeError:
            _explain(function, function.__name__, args, named)
            raise

    return call


def checked_class(made: Made) -> Made:
    """Decorate a class: its constructor and public methods explain wrong calls as :func:`checked_call` does."""
    for name, member in list(vars(made).items()):
        if name == "__init__" and isfunction(member):
            type.__setattr__(made, name, _checked_method(member))
        elif name.startswith("_"):
            continue
        elif isfunction(member):
            type.__setattr__(made, name, _checked_method(member))
        elif isinstance(member, classmethod):
            type.__setattr__(made, name, classmethod(_checked_method(member.__func__)))
    return made


def _checked_method(function: Callable[..., R]) -> Callable[..., R]:
    """Return a method that explains wrong calls, and memory that ran out, for the class it is called on."""

    @wraps(function)
    def call(*args: Any, **named: Any) -> R:
        try:
            return function(*args, **named)
        except MemoryError as err:
            advice = getattr(args[0], "_memory_advice", {}) if args else {}
            if not advice:
                raise
            raise out_of_memory(err, *advice.get(function.__name__, advice[""])) from err
        except TypeError:
            owner = args[0] if args and isinstance(args[0], type) else type(args[0]) if args else None
            shown = "" if owner is None else owner.__name__
            if function.__name__ != "__init__":
                shown = f"{shown}.{function.__name__}"
            _explain(function, shown, args, named, owner, bound=1)
            raise

    return call


def _explain(
    function: Callable[..., Any],
    shown: str,
    args: tuple[Any, ...],
    named: Mapping[str, Any],
    owner: type | None = None,
    bound: int = 0,
) -> None:
    """Raise a :class:`KeywordError` if a function does not take these arguments; return if it does.

    Parameters
    ----------
    function : callable
    shown : str
        What the user called, e.g. ``"chain"`` or ``"StructuredSVM.fit"``.
    args, named
        The arguments, with those that Python bound (``self``).
    owner : class, optional
        The class whose method it is: it may know habits, and the parameters of its constructor are proposed.
    bound : int
        How many of the arguments Python bound.
    """
    form = signature(function)
    try:
        form.bind(*args, **named)
    except TypeError:
        parameters = list(form.parameters.values())[bound:]
        _refuse(Signature(parameters), shown, args[bound:], named, owner)


def _refuse(
    form: Signature, shown: str, args: tuple[Any, ...], named: Mapping[str, Any], owner: type | None
) -> NoReturn:
    """Raise the error for a call that does not fit a signature."""
    parameters = form.parameters.values()
    known = [one.name for one in parameters if one.kind in _BY_NAME]
    places = [one.name for one in parameters if one.kind in _BY_PLACE]
    for name in named:
        if name not in known and not any(one.kind is Parameter.VAR_KEYWORD for one in parameters):
            raise KeywordError(unknown_keyword(shown, name, known, *_advisers(owner, shown)))
    how = f"\n  call: {call_form(form, shown)}"
    if len(args) > len(places) and not any(one.kind is Parameter.VAR_POSITIONAL for one in parameters):
        most = f"{len(places)} argument{'s' * (len(places) != 1)}" if places else "no arguments"
        more = "; pass the other arguments as name=value" if len(known) > len(places) else ""
        raise KeywordError(f"{shown} takes {most} without a name, got {len(args)}{more}{how}")
    for name in places[: len(args)]:
        if name in named:
            raise KeywordError(f"{shown}: '{name}' is given twice, by its position and as {name}={how}")
    needed = [one.name for one in parameters if one.default is Parameter.empty and one.kind in (*_BY_PLACE, *_BY_NAME)]
    missing = [name for name in needed if name not in named and name not in places[: len(args)]]
    raise KeywordError(f"{shown}: {_listed(missing)} {'is' if len(missing) == 1 else 'are'} missing{how}")


def _listed(names: list[str]) -> str:
    """Return names in quotes, as words of a sentence."""
    quoted = [f"'{name}'" for name in names]
    return " and ".join([", ".join(quoted[:-1]), quoted[-1]] if len(quoted) > 1 else quoted)


def call_form(form: Signature, shown: str) -> str:
    """Return how a function is called, e.g. ``chain(y, order=1)``; many optional parameters are shortened."""
    words: list[str] = []
    n_optional = 0
    for one in form.parameters.values():
        if one.kind is Parameter.VAR_POSITIONAL:
            words.append(f"*{one.name}")
        elif one.kind is Parameter.VAR_KEYWORD:
            words.append(f"**{one.name}")
        elif one.default is not Parameter.empty:
            n_optional += 1
            words += [f"{one.name}={one.default!r}"] * (n_optional <= SHOWN)
        else:
            words.append(f"{one.name}=..." if one.kind is Parameter.KEYWORD_ONLY else one.name)
    return f"{shown}({', '.join(words + ['...'] * (n_optional > SHOWN))})"


def _advisers(owner: type | None, shown: str) -> tuple[Mapping[str, str], Callable[[str], str]]:
    """Return the habits, and the advice for other names, of the class whose constructor or method was called."""
    if owner is None:
        return {}, lambda name: ""
    if shown == owner.__name__:
        return getattr(owner, "_habits", dict)(), getattr(owner, "_advice", lambda name: "")
    constructor = signature(owner).parameters
    made = owner.__name__
    habits: Mapping[str, str] = getattr(owner, "_habits_of_calls", dict)()
    return habits, lambda name: f"it is a parameter of {made}: {made}(..., {name}=...)" if name in constructor else ""


def unknown_keyword(
    shown: str, name: str, known: list[str], habits: Mapping[str, str], advise: Callable[[str], str]
) -> str:
    """Return the message for a keyword that is no parameter.

    Parameters
    ----------
    shown : str
        What was called.
    name : str
        The keyword.
    known : list of str
        The parameters there are.
    habits : mapping of str to str
        What to write in place of names that are usual elsewhere; keys as :func:`bare` returns them.
    advise : callable
        What to write in place of another name; empty where it does not know.
    """
    close = get_close_matches(name, known, n=1, cutoff=ALIKE)
    meant = habits.get(bare(name), "") or advise(name) or (f"did you mean {close[0]}=?" if close else "")
    listed = f"\n  parameters: {', '.join(known)}" if known else ""
    return f"{shown} has no parameter '{name}'{f'; {meant}' if meant else ''}{listed}"


def bare(name: str) -> str:
    """Return a name without case and punctuation."""
    return "".join(filter(str.isalnum, name)).lower()


class CheckedCalls:
    """A class whose constructor and public methods, those of subclasses included, explain wrong calls.

    Attributes
    ----------
    _memory_advice : mapping of str to (str, str)
        By the name of a method, ``""`` for others: what is being done, and what to do where memory does not suffice.
    """

    _memory_advice: ClassVar[Mapping[str, tuple[str, str]]] = {}

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        checked_class(cls)

    @classmethod
    def _habits(cls) -> Mapping[str, str]:
        """Return what to write in place of names that are usual elsewhere."""
        return {}

    @classmethod
    def _advice(cls, name: str) -> str:
        """Return what to write in place of a name, empty where that is not known."""
        return ""
