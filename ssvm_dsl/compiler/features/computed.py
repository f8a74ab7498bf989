"""How far the features of a batch are computed where the call at hand runs out of time.

Features are functions of users, long lists of attributes, expansions: laying a model over data may take longer than
the limit of a fit or a prediction.  Those of the first examples are computed then, and those of the others are 0.  At
weights of 0, which a fit has by then, this changes nothing; predictions get the number of complete examples.
What decides on labels without weights (masks, given scores) is always computed.
"""

from __future__ import annotations

from functools import cached_property

import numpy as np

from ssvm_dsl.array_types import F64
from ssvm_dsl.deadline import time_left
from ssvm_dsl.ir.features import SparseRows
from ssvm_dsl.lang.declaration import Declaration
from ssvm_dsl.lang.features.sources import walk_sources
from ssvm_dsl.lang.inputs import Source

#: Positions whose attributes are read between two looks at the clock.
POSITIONS = 4096

#: Rows that a transform is computed of where there is no time: it must learn from some.
FEW_ROWS = 1024


class Computed:
    """The examples whose features are computed.

    Parameters
    ----------
    declaration : Declaration
    n : int
        Number of examples.
    in_time : bool
        Whether the rest is left out when the call at hand has no time left (:mod:`ssvm_dsl.deadline`).

    Attributes
    ----------
    n : int
        Number of examples, from the first, that have all of their features.
    """

    def __init__(self, declaration: Declaration, n: int, in_time: bool) -> None:
        self.n, self._in_time, self._declaration = n, in_time, declaration

    @cached_property
    def _needed(self) -> set[Source]:
        declaration = self._declaration
        fixed = (*(label.allowed for label in declaration.labels), *(given.features for given in declaration.given))
        return {source for one in fixed for source in walk_sources(one)}

    def may_end(self, source: Source) -> bool:
        """Whether features of a source may be left out."""
        return self._in_time and time_left() < float("inf") and source not in self._needed

    def goes_on(self, source: Source, i: int) -> bool:
        """Return whether a source is computed for example i; where it is not, it is for none after it either."""
        if not self.may_end(source) or time_left() > 0.0:
            return True
        self.n = min(self.n, i)
        return False


def first_rows(values: F64 | SparseRows, most: int) -> F64 | SparseRows:
    """Return the first n rows at most."""
    if isinstance(values, np.ndarray):
        return values[:most]
    ptr = values.ptr[: most + 1]
    end = int(ptr[-1])
    return SparseRows(values.data[:end], values.indices[:end], ptr, values.n_columns)


def with_empty_rows(values: F64 | SparseRows, n_rows: int) -> F64 | SparseRows:
    """Return rows with rows of 0 behind them, so many in all."""
    more = n_rows - values.shape[0]
    if not more:
        return values
    if isinstance(values, np.ndarray):
        return np.concatenate([values, np.zeros((more, values.shape[1]))])
    ptr = np.concatenate([values.ptr, np.full(more, values.ptr[-1])])
    return SparseRows(values.data, values.indices, ptr, values.n_columns)
