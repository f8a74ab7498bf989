"""Whether the lists of the k best labellings fit; apart from the kernels, which other tasks do not load."""

from __future__ import annotations

from ssvm_backends._trees.forest import I64
from ssvm_dsl.errors import TooLargeError
from ssvm_dsl.ir import Program

#: Bytes that the lists of one example may take.
MEMORY = 2.0**31


def check_room(program: Program, ids: I64, k: int) -> None:
    """Refuse a k whose lists do not fit.

    Raises
    ------
    TooLargeError
        They need more memory than allowed.
    """
    if not len(ids):
        return
    first, last = program.var_ptr[ids], program.var_ptr[ids + 1]
    longest, states = float((last - first).max()), float((program.state_ptr[last] - program.state_ptr[first]).max())
    each = 8.0 * states + 16.0 * longest * float(program.card.max(initial=1))
    if k * each > MEMORY:
        text = f"the {k} best labellings of {longest:.0f} variables need lists of {k * each / 2**30:.1f} GiB"
        text += f" ({MEMORY / 2**30:g} are allowed); ask for at most {int(MEMORY // each)}"
        raise TooLargeError(text)
