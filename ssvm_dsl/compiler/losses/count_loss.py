"""``CountLoss`` as tables: each state's counts of true and false positives, and the loss of every pair of sums.

Of segments the states are those of spans: 0, or 1 and the class of the segment that the span is.  Where spans are no
variables, a beginning of a positive class counts as a false positive, and a true span takes that back.
"""

from __future__ import annotations

import numpy as np

from ssvm_dsl.array_types import F64, I64, Bools
from ssvm_dsl.compiler.losses.joint_loss import TrueLabels, true_spans
from ssvm_dsl.errors import DataError, TooLargeError
from ssvm_dsl.ir.counts import CountFactors, CountTables
from ssvm_dsl.ir.program import Group
from ssvm_dsl.ir.ragged import owners, pointers, runs
from ssvm_dsl.lang.arrays import as_floats, real_array
from ssvm_dsl.lang.functions import FunctionRef
from ssvm_dsl.lang.losses.label_losses import CountLoss
from ssvm_dsl.lang.outputs.variables import n_spans

#: Entries of the tables of all examples together.
MAX_ENTRIES = 2**27

#: What states count; for each example the most of its variables and counts; what factors count.
_Counted = tuple[I64, I64, tuple[CountFactors, ...]]


def count_tables(term: CountLoss, weight: float, true_labels: TrueLabels) -> CountTables:
    """Return the tables of a loss of counts, times a weight; examples of equal numbers share a table.

    Ignored variables are not counted.  An unseen class is none of the positive ones, and no state is right there.

    Raises
    ------
    TooLargeError
        The tables would take more than 1 GiB.
    """
    counted = _of_segments if term.target.of_single_spans else _of_variables
    counts, sizes, factors = counted(term, true_labels)
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
    prices = np.concatenate([*price, np.zeros(0)])
    return CountTables.of_prices(counts, shape[kind], start[kind], prices, factors)


def _positive(term: CountLoss) -> Bools:
    """Return which classes are positive."""
    positive = np.zeros(term.label.n_states, dtype=bool)
    positive[[index for name in term.positive if (index := term.label.index(name)) is not None]] = True
    return positive


def _of_variables(term: CountLoss, true_labels: TrueLabels) -> _Counted:
    """Return what each state counts, and factors do.

    In between, for each example, how many variables count, how many have a positive truth, and how many can be false
    positives.
    """
    layout, _, truth, ignored, unseen = true_labels
    of_spans, n = term.target.of_spans, layout.n
    label = term.label.spans if of_spans else term.label
    positive = np.append(np.zeros(int(of_spans), dtype=bool), _positive(term))  # spans begin with "no segment"
    variables = layout.variables(label)
    states, example = truth[variables], owners(layout.var_ptr)[variables]
    live = np.ones(len(states), dtype=bool) if ignored is None else ~ignored[variables]
    known = np.ones(len(states), dtype=bool) if unseen is None else ~unseen[variables]
    right = (np.arange(label.n_states) == states[:, None]) & known[:, None]
    counts = np.zeros((int(layout.card.sum(dtype=np.int64)), 2), dtype=np.int64)
    at = pointers(layout.card)[:-1][variables][:, None] + np.arange(label.n_states)
    counts[at, 0] = right & positive & live[:, None]
    counts[at, 1] = ~right & positive & live[:, None]

    def total(which: Bools) -> I64:
        return np.bincount(example, which, n).astype(np.int64)

    n_true, n_false = total(live & known & positive[states]), total(live & counts[at, 1].any(axis=1))
    sizes = np.column_stack([total(live), n_true, n_false])
    if of_spans:  # what reaches beyond the end is no span, and there are at most as many segments as positions
        length, longest = layout.count(term.label), term.label.segments or 1
        at = runs(np.zeros(n, dtype=np.int64), length * longest)
        sizes[:, 0] = total(live & (at // longest + at % longest < length[example]))
        sizes[:, 2] = np.minimum(sizes[:, 2], length)
    return counts, sizes, ()


def _of_segments(term: CountLoss, true_labels: TrueLabels) -> _Counted:
    """Return the same of segments whose spans are no variables; the truth of all is known."""
    layout, _, truth, _, unseen = true_labels
    label, length, positive = term.label, layout.count(term.label), _positive(term)
    spans, true = true_spans(term.target, layout, truth)
    own = np.zeros((len(true), len(positive), 2), dtype=np.int64)
    there = positive[true] if unseen is None else positive[true] & ~unseen[spans.scope[:, 0]]
    own[np.arange(len(true)), true] = there[:, None] * np.array([1, -1])
    scope = np.stack([runs(layout.start(one), length) for one in (label, label.begins)], axis=1).astype(np.int32)
    cards, rows = (len(positive), 2), np.zeros(len(scope), dtype=np.int32)
    starts = Group.of(f"starts of {term.target!r}", cards, scope, pointers(length), rows, 1, layout.var_ptr)
    every = np.zeros((1, 2 * len(positive), 2), dtype=np.int64)
    every[0, 1::2, 1] = positive
    n = n_spans(length, label.segments or 1)
    n_true = np.bincount(owners(spans.ptr), there, layout.n).astype(np.int64)
    n_false = np.minimum(n - n_true * (len(term.positive) == 1), length)
    none = np.zeros((int(layout.card.sum(dtype=np.int64)), 2), dtype=np.int64)
    return none, np.column_stack([n, n_true, n_false]), (CountFactors(starts, every), CountFactors(spans, own))


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
