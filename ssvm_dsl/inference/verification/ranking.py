"""Whether the k best labellings are best first, all different, and as many as there are."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ssvm_dsl.array_types import F64, I32, I64, Bools
from ssvm_dsl.inference.verification.form import Fault
from ssvm_dsl.ir.program import Program
from ssvm_dsl.ir.question import Question
from ssvm_dsl.ir.ragged import members, owners
from ssvm_dsl.ir.theta import Theta


def check_ranking(
    program: Program,
    question: Question,
    labels: I32,
    scores: F64,
    finished: Bools,
    close: Callable[[F64, F64], Bools],
    fault: Fault,
) -> None:
    """Refuse k best labellings that are not best first, one that is listed twice, and too few of them.

    That they are the best ones is not known here; the bound is checked against the first.

    Parameters
    ----------
    labels : ndarray of int32, shape (k, n_variables)
    scores : ndarray of float64, shape (k, n)
        Recomputed; ``-inf`` where there is no labelling.
    finished : ndarray of bool, shape (n,)
        Answers that nothing cut short: others may hold fewer labellings.
    close : callable
        Says of numbers which differences from them may be rounding.

    Raises
    ------
    BackendFault
    """
    there = scores > -np.inf
    if (there[1:] & ~there[:-1]).any():
        raise fault("among the k best, a labelling stands behind a missing one")
    for row in range(1, len(scores)):
        rise = np.where(there[row], scores[row] - np.where(there[row], scores[row - 1], 0.0), 0.0)
        if not close(np.where(there[row], scores[row], 0.0), np.maximum(rise, 0.0)).all():
            raise fault(f"the k best are not best first: row {row} is better than the one before")
    ptr = question.label_ptr(program)
    _check_different(labels, there, ptr, fault)
    if not there[-1].all() and _all_count(program, question.theta):
        card = program.card[members(program.var_ptr, question.ids(program))]
        counted = np.bincount(owners(ptr), np.log(card), len(ptr) - 1)
        most = np.minimum(len(scores), np.rint(np.exp(np.minimum(counted, 30.0))))
        few = np.flatnonzero(finished & (there.sum(axis=0) < most))
        if len(few):
            raise fault(f"it lists {int(there[:, few[0]].sum())} labellings of answer {int(few[0])}, which has more")


def _check_different(labels: I32, there: Bools, ptr: I64, fault: Fault) -> None:
    """Compare labellings by random sums of their states; those of the same sum one by one."""
    if len(labels) < 2:
        return
    weights = np.random.default_rng(0).integers(0, 2**63, labels.shape[1], dtype=np.uint64)
    sums = np.zeros((len(labels), labels.shape[1] + 1), np.uint64)
    np.cumsum((labels.astype(np.uint64) + np.uint64(1)) * weights, axis=1, out=sums[:, 1:])
    of_example = sums[:, ptr[1:]] - sums[:, ptr[:-1]]
    order = np.argsort(of_example, axis=0, kind="stable")
    of_example = np.take_along_axis(of_example, order, axis=0)
    present = np.take_along_axis(there, order, axis=0)
    same = (of_example[1:] == of_example[:-1]) & present[1:] & present[:-1]
    for place, i in np.argwhere(same).tolist():
        first, second = sorted(order[place : place + 2, i].tolist())
        if (labels[first, ptr[i] : ptr[i + 1]] == labels[second, ptr[i] : ptr[i + 1]]).all():
            raise fault(f"a labelling is listed twice among the k best (answer {i}, rows {first} and {second})")


def _all_count(program: Program, theta: Theta) -> bool:
    """Whether every labelling has a score: no masks, no constraints, nothing forbidden."""
    finite = [theta.node, theta.pool]
    return program.allowed is None and not program.constraints and all(bool(np.isfinite(one).all()) for one in finite)
