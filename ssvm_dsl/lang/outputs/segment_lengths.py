"""How long the segments of a label may be, and how many spans there are of such lengths."""

from __future__ import annotations

from typing import Any

from ssvm_dsl.lang.dims import Dim
from ssvm_dsl.lang.symbols import Mistake, got, plain

#: Classes of a segment at most, and classes times the lengths it may have.
MOST_CLASSES, MOST_SEGMENTS = 2**10, 2**20


def read_longest(segments: object, dims: tuple[Dim, ...], n_states: int, mistakes: list[Mistake]) -> int:
    """Return the maximum length of the segments of a label; note mistakes.

    Parameters
    ----------
    segments : object
        The user's value.
    dims : tuple of Dim
        The axes of the label.
    n_states : int
        Its classes.
    mistakes : list
        Where to note them.
    """
    longest = plain(segments)
    if len(dims) != 1:
        mistakes.append(f"Label: segments divide one axis, as in Label(T, states, segments=8); here are {len(dims)}")
    if not isinstance(longest, int) or isinstance(longest, bool) or longest < 1:
        mistakes.append(got("Label: segments is the most positions of a segment, an int of at least 1", segments))
    elif n_states > MOST_CLASSES:
        mistakes.append(f"Label: segments have at most {MOST_CLASSES} classes, got {n_states}")
    elif longest * n_states > MOST_SEGMENTS:
        mistakes.append(f"Label: segments times the number of states is at most {MOST_SEGMENTS}")
    else:
        return longest
    return 1


def n_spans(size: Any, longest: int) -> Any:
    """Return how many spans up to a length an axis of a size has (an int, or an array of them)."""
    short = size - (size - longest) * (size > longest)  # the lesser of both
    return size * short - short * (short - 1) // 2
