"""``CountLoss`` as tables: each state's counts of true and false positives, and the loss of every pair of sums.

Of segments the states are those of spans: 0, or 1 and the class of the segment that the span is.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ssvm_dsl.array_types import F64, I32, I64
from ssvm_dsl.compiler.layout import Layout
from ssvm_dsl.errors import DataError, TooLargeError
from ssvm_dsl.ir.counts import CountTables
from ssvm_dsl.ir.ragged import owners, pointers, runs
from ssvm_dsl.lang.arrays import as_floats, real_array
from ssvm_dsl.lang.functions import FunctionRef
from ssvm_dsl.lang.losses.count_loss import CountLoss

#: Entries of the tables of all examples together.
MAX_ENTRIES = 2**27


def count_tables(
    term: CountLoss, weight: float, layout: Layout, truth: I32, ignored: NDArray[np.bool_] | None
) -> CountTables:
    """Return the tables of a loss of counts, times a weight; examples of equal numbers share a table.

    Parameters
    ----------
    truth : ndarray of int32, shape (V,)
    ignored : ndarray of bool, shape (V,), optional
        Variables that are not counted.

    Raises
    ------
    TooLargeError
        The tables would take more than 1 GiB.
    """
    of_spans, n = term.target.kind == "spans", layout.n
    label = term.label.spans if of_spans else term.label
    positive = np.zeros(label.n_states, dtype=bool)  # of a span the first state is "no segment"
    named = [index for name in term.positive if (index := term.label.index(name)) is not None]
    positive[np.array(named) + of_spans] = True
    variables = layout.variables(label)
    states, example = truth[variables], owners(layout.var_ptr)[variables]
    live = np.ones(len(states), dtype=bool) if ignored is None else ~ignored[variables]
    right = np.arange(label.n_states) == states[:, None]
    counts = np.zeros((int(layout.card.sum(dtype=np.int64)), 2), dtype=np.int64)
    at = pointers(layout.card)[:-1][variables][:, None] + np.arange(label.n_states)
    counts[at, 0] = right & positive & live[:, None]
    counts[at, 1] = ~right & positive & live[:, None]

    def total(which: NDArray[np.bool_]) -> I64:
        return np.bincount(example, which, n).astype(np.int64)

    sizes = np.column_stack([total(live), total(live & positive[states]), total(live & counts[at, 1].any(axis=1))])
    if of_spans:  # what reaches beyond the end is no span, and there are at most as many segments as positions
        length, longest = layout.count(term.label), term.label.segments or 1
        at = runs(np.zeros(n, dtype=np.int64), length * longest)
        sizes[:, 0] = total(live & (at // longest + at % longest < length[example]))
        sizes[:, 2] = np.minimum(sizes[:, 2], length)
    kinds, kind = np.unique(sizes, axis=0, return_inverse=True)
    shape = kinds[:, 1:] + 1
    cells = shape[:, 0] * shape[:, 1]
    if cells.sum() > MAX_ENTRIES:
        raise TooLargeError(
            f"CountLoss: the losses of all counts of true and false positives are {cells.sum()} numbers (examples of "
            f"up to {sizes[:, 0].max()} variables), {MAX_ENTRIES} are allowed; use a loss that adds up over variables"
        )
    price = [weight * _table(term, *sizes) for sizes in kinds.tolist()]
    start, kind = np.cumsum(cells) - cells, kind.ravel()
    return CountTables.of_prices(counts, shape[kind], start[kind], np.concatenate([*price, np.zeros(0)]))


def _table(term: CountLoss, n: int, n_positive: int, n_false: int) -> F64:
    """Return the losses of all pairs (tp, fp), row by row; ``-inf`` where no labelling has them.

    Parameters
    ----------
    n, n_positive, n_false : int
        Variables that count, those whose truth is positive, and those that can be false positives.
    """
    tp, fp = (part.ravel() for part in np.mgrid[: n_positive + 1, : n_false + 1])
    several = len(term.positive) > 1  # then a positive can be a false positive, too, of another class
    there = fp <= n_false - (tp if several else 0)
    tp, fp = tp[there], fp[there]
    fn = n_positive - tp
    loss = np.full(len(there), -np.inf)
    loss[there] = measured(term, tp, fp, fn, len(term.positive) * n - tp - fp - fn)
    return loss


def measured(term: CountLoss, tp: I64, fp: I64, fn: I64, tn: I64) -> F64:
    """Return the loss of each combination of counts.

    Raises
    ------
    DataError
        A user's function returns something else than a loss for each.
    """
    if isinstance(term.measure, FunctionRef):
        return _checked(term.measure, tp, fp, fn, tn)
    if term.measure == "iou":
        wrong, all_ = fp + fn, tp + fp + fn
    else:
        b = 1.0 if term.beta is None else term.beta**2
        wrong, all_ = fp + b * fn, (1.0 + b) * tp + fp + b * fn
    return np.asarray(wrong / np.where(all_ > 0, all_, 1), dtype=np.float64)


def _checked(ref: FunctionRef, tp: I64, fp: I64, fn: I64, tn: I64) -> F64:
    """Return what a user's function makes of counts, after looking at it."""
    assert ref.function is not None
    what = f"loss CountLoss: what {ref.path} returns"
    for given in (tp, fp, fn, tn):
        given.flags.writeable = False
    try:
        loss = as_floats(real_array(ref.function(tp, fp, fn, tn)))
    except Exception as err:  # the user's own
        found = f"{type(err).__name__}: {err}"
        raise DataError(what, expected="a loss for each of the counts (tp, fp, fn, tn)", found=found) from err
    if loss.shape != tp.shape:
        raise DataError(what, expected=f"shape {tp.shape}", found=f"shape {loss.shape}")
    perfect = (fp == 0) & (fn == 0)
    bad = np.flatnonzero(~np.isfinite(loss) | (loss < 0) | (perfect & (loss != 0)))
    if len(bad):
        k = bad[0]
        expected = "0 where fp = fn = 0" if perfect[k] else "finite, non-negative losses"
        counts = f"tp={tp[k]}, fp={fp[k]}, fn={fn[k]}, tn={tn[k]}"
        raise DataError(what, expected=expected, found=f"{loss[k]} for {counts}")
    return loss
