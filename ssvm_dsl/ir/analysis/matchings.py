"""How many true literals the rows and columns of matchings may have.

Constraints of the kind ``matching`` have one number for all rows, and one for all columns: ``row_least`` and the others
are in ``meta``.  Those of the kind ``transport`` have a number for each row and column, which each of its literals
repeats: they are in ``literal_meta``.  A row or column without literals has no limits then.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ssvm_dsl.array_types import I64
from ssvm_dsl.ir.constraints import ConstraintGroup
from ssvm_dsl.ir.ragged import pointers


class SideLimits(NamedTuple):
    """The limits of the rows (or columns) of the constraints of a group, packed over these.

    Parameters
    ----------
    ptr : ndarray of int64, shape (m + 1,)
        Rows ``ptr[k]:ptr[k + 1]`` belong to constraint k.
    least, most : ndarray of int64
    """

    ptr: I64
    least: I64
    most: I64


def matching_limits(group: ConstraintGroup, side: str) -> SideLimits:
    """Return the limits of the rows (``side="row"``) or columns (``"col"``) of matchings.

    Parameters
    ----------
    group : ConstraintGroup
        Of the kind ``matching`` or ``transport``.
    side : {"row", "col"}
    """
    sizes = np.asarray(group.meta[f"n_{side}s"], dtype=np.int64)
    ptr = pointers(sizes)
    names = (f"{side}_least", f"{side}_most")
    if names[0] in group.meta:
        least, most = (np.asarray(group.meta[name], dtype=np.int64).repeat(sizes) for name in names)
        return SideLimits(ptr, least, most)
    at = ptr[:-1][group.constraint_of] + group.literal_meta[side]
    least, most = np.zeros(ptr[-1], dtype=np.int64), np.full(ptr[-1], np.iinfo(np.int32).max, dtype=np.int64)
    least[at], most[at] = (group.literal_meta[name] for name in names)
    return SideLimits(ptr, least, most)
