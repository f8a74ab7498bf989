"""Keywords that nobody knows: which parameter may be meant, by the habits of other libraries or by its spelling."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from difflib import get_close_matches
from inspect import Parameter, signature
from typing import Any

from ssvm_dsl.errors import KeywordError

#: How alike two names must be to be proposed for each other.
ALIKE = 0.6


def check_keywords(
    made: type,
    named: Iterable[str],
    habits: Mapping[str, str],
    advise: Callable[[str], str] = lambda name: "",
) -> None:
    """Refuse keywords that a class does not take.

    Parameters
    ----------
    made : class
    named : iterable of str
        The keywords that it was called with.
    habits : mapping of str to str
        What to write in place of names that are usual elsewhere, in words; keys as :func:`bare` returns them.
    advise : callable
        Says of other names what to write; empty where it does not know.

    Raises
    ------
    KeywordError
        Names the keyword, what may be meant, and the parameters there are.
    """
    parameters = signature(made.__init__).parameters.values()  # type: ignore[misc]
    if any(one.kind is Parameter.VAR_KEYWORD for one in parameters):
        return
    kinds = (Parameter.POSITIONAL_OR_KEYWORD, Parameter.KEYWORD_ONLY)
    known = [one.name for one in parameters if one.kind in kinds][1:]
    for name in named:
        if name not in known:
            raise KeywordError(unknown_keyword(made.__name__, name, known, habits, advise))


def unknown_keyword(
    whose: str, name: str, known: list[str], habits: Mapping[str, str], advise: Callable[[str], str]
) -> str:
    """Return what to say of a keyword that is none."""
    close = get_close_matches(name, known, n=1, cutoff=ALIKE)
    meant = habits.get(bare(name), "") or advise(name) or (f"did you mean {close[0]}=?" if close else "")
    listed = f"\n  parameters: {', '.join(known)}" if known else ""
    return f"{whose} has no parameter '{name}'{f'; {meant}' if meant else ''}{listed}"


def bare(name: str) -> str:
    """Return a name without case and punctuation."""
    return "".join(filter(str.isalnum, name)).lower()


class NamedParameters:
    """A class whose constructor says which keyword may be meant where it gets one that it does not know."""

    def __new__(cls, *args: Any, **named: Any) -> Any:
        """Look at the keywords, and make an instance."""
        if named:
            check_keywords(cls, named, cls._habits(), cls._advice)
        return super().__new__(cls)

    @classmethod
    def _habits(cls) -> Mapping[str, str]:
        """Return what to write in place of names that are usual elsewhere."""
        return {}

    @classmethod
    def _advice(cls, name: str) -> str:
        """Return what to write in place of a name, empty where that is not known."""
        return ""
