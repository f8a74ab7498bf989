"""The classes of a label: a number of them, or their names; the value that means "not known"."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from ssvm_dsl.lang.arrays import MOST
from ssvm_dsl.lang.dims import Dim
from ssvm_dsl.lang.symbols import Mistake, got, plain

ClassName = str | int


def read_states(states: object, mistakes: list[Mistake]) -> tuple[int, tuple[ClassName, ...] | None]:
    """Return (number of states, class names or None for plain ints)."""
    if isinstance(states, int) and not isinstance(states, bool):
        if states < 1:
            mistakes.append(got("Label: the last argument is the number of states or their names", states))
        elif states > MOST:
            mistakes.append(got(f"Label: at most {MOST} states", states))
        return min(max(states, 1), MOST), None
    if isinstance(states, Dim | bytes | bytearray | memoryview) or not isinstance(states, Sequence):
        mistakes.append(got("Label: the last argument is the number of states or their names", states))
        return 1, None
    names = tuple(map(plain, states))
    wrong = [name for name in names if not isinstance(name, str | int) or isinstance(name, bool)]
    if wrong:
        mistakes.append(got("Label: class names are strings or ints", wrong[0]))
        return len(names), None
    # plain ones: members of an enum, for one, are not written to files as themselves
    names = tuple(str.__str__(name) if isinstance(name, str) else int(name) for name in names)
    mistakes += _name_mistakes(names)
    return max(len(names), 1), names or None


def _name_mistakes(names: tuple[ClassName, ...]) -> Iterator[Mistake]:
    """Yield mistakes in strings and ints as class names."""
    if len({type(name) for name in names}) > 1:
        yield "Label: class names are all strings or all ints, not a mixture"
    if len(set(names)) != len(names):
        yield "Label: class names are given twice"
    if not names:
        yield "Label: at least one class is needed"
    for name in names:
        if isinstance(name, str) and name.endswith("\0"):
            yield got("Label: class names do not end with the character NUL, which numpy drops", name)
        if isinstance(name, int) and not -(2**63) <= name < 2**63:
            yield got("Label: class names that are ints have at most 64 bits", name)


def read_unknown(
    unknown: object, n_states: int, classes: tuple[ClassName, ...] | None, segments: int | None, mistakes: list[Mistake]
) -> ClassName | None:
    """Return the value that means "not known": of the type of the classes, and none of them.

    Parameters
    ----------
    unknown : object
        The value that the user wrote; ``None`` for no such value.
    n_states : int
    classes : tuple of class names, optional
    segments : int, optional
        Whether the label is one of segments, which mark unknown labels differently.
    mistakes : list
        List to which mistakes are added.
    """
    marker = plain(unknown)
    if marker is None:
        return None
    if segments is not None:
        mistakes.append("Label: segments have no unknown=; write (start, end, None) in Y for unknown classes")
        return None
    kind = str if classes and isinstance(classes[0], str) else int
    if not isinstance(marker, kind) or isinstance(marker, bool):
        words = "a string, as the classes are, such as '?'" if kind is str else "an int, as the classes are, such as -1"
        mistakes.append(got(f"Label: unknown must be {words}", marker))
        return None
    if marker in classes if classes else 0 <= int(marker) < n_states:
        mistakes.append(got("Label: unknown is no class, but a value of Y that means 'not known'", marker))
        return None
    return marker


def read_pointer_unknown(unknown: object, null: bool, mistakes: list[Mistake]) -> int | None:
    """Return the value of a pointer that means "not known": a negative int, not -1 where that is "nowhere"."""
    marker = plain(unknown)
    if marker is None:
        return None
    if not isinstance(marker, int) or isinstance(marker, bool) or marker >= 0 or (null and marker == -1):
        other = "; -1 points nowhere (null=True)" if null else ""
        mistakes.append(got(f"Label: unknown of a pointer label must be a negative int{other}", unknown))
        return None
    return marker


def read_converse(
    symmetric: object, n_states: int, classes: tuple[ClassName, ...] | None, mistakes: list[Mistake]
) -> tuple[int, ...] | None:
    """Return the converse of each state of a symmetric label; ``None`` of one that is not."""
    if symmetric is False or symmetric is True:
        return tuple(range(n_states)) if symmetric else None
    names: tuple[ClassName, ...] = classes or tuple(range(n_states))
    if not isinstance(symmetric, Mapping):
        mistakes.append(got("Label: symmetric is True or a dict of converse classes, {'before': 'after'}", symmetric))
        return None
    out = list(range(n_states))
    for one, other in symmetric.items():
        if one not in names or other not in names:
            mistakes.append(got("Label: symmetric= names classes of the label", one if one not in names else other))
            return tuple(range(n_states))
        a, b = names.index(one), names.index(other)
        if out[a] not in (a, b) or out[b] not in (a, b):
            mistakes.append(got("Label: symmetric= gives each class one converse", one))
        out[a], out[b] = b, a
    return tuple(out)
