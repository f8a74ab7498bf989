"""The k best labellings of each example of a batch: how many fit, and the solution made of their lists."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from ssvm_backends.graphs.session import FEASIBLE, FINISHED, INFEASIBLE, NONE
from ssvm_dsl.errors import TooLargeError
from ssvm_dsl.ir import F64, I32, I64, Program, Solution, Theta, label_ptr
from ssvm_dsl.plugin_api import Ranked, score_labels

#: Bytes for the subspaces of one example when labellings are listed, and of a subspace besides its labels.
MEMORY, PART = 2.0**31, 500.0


def pack_ranked(
    program: Program, theta: Theta, ids: I64, ptr: I64, lift: Callable[[I32], I32], answers: Sequence[Ranked],
    k: int,
) -> Solution:  # fmt: skip
    """Return a solution of the task ``kbest`` from labellings of reduced examples.

    Parameters
    ----------
    ptr : ndarray of int64, shape (n + 1,)
        Where the labels of each reduced example start.
    lift : callable
        Maps packed labels of reduced examples to packed labels of the examples.
    answers : sequence of Ranked
        The best labellings of each example, best first up to rounding; they are put in the order of their scores
        recomputed.  Lists of examples that were cut short may be incomplete.
    k : int
    """
    full_ptr, n = label_ptr(program, ids), len(ids)
    stop = np.array([answer.stop for answer in answers], dtype=np.int8).reshape(n)
    left, there = np.zeros((k, int(ptr[-1])), dtype=np.int32), np.zeros((k, n), dtype=bool)
    for i, answer in enumerate(answers):
        there[: len(answer.labels), i] = True
        for rank, labels in enumerate(answer.labels):
            left[rank, ptr[i] : ptr[i + 1]] = labels
    labels = np.stack([lift(row) for row in left]) if k else np.zeros((0, int(full_ptr[-1])), np.int32)
    score = np.stack([score_labels(program, theta, row, ids) for row in labels])
    score[~there] = -np.inf
    _sort(labels, score, full_ptr)
    missing = np.where(stop == FINISHED, INFEASIBLE, NONE)
    primal = np.where(there[0], FEASIBLE, missing).astype(np.int8)
    bound = np.where((stop == FINISHED) | there[0], score[0], np.nan)
    return Solution(labels, score, bound, stop, primal)


def check_lists(n_variables: I64, k: int) -> None:
    """Refuse a k whose subspaces exceed the memory: in Lawler's method each labelling splits off one for each variable.

    Parameters
    ----------
    n_variables : ndarray of int64, shape (n,)
        Of each example.
    k : int

    Raises
    ------
    TooLargeError
    """
    longest = float(n_variables.max(initial=1))
    each = max(longest, 1.0) * (4.0 * longest + PART)
    if k * each > MEMORY:
        text = f"the {k} best labellings of {longest:.0f} variables may need {k * each / 2**30:.1f} GiB"
        text += f" ({MEMORY / 2**30:g} are allowed); ask for at most {int(MEMORY // each)}"
        raise TooLargeError(text)


def _sort(labels: I32, score: F64, ptr: I64) -> None:
    """Put labellings of equal score up to rounding in the order of their scores recomputed."""
    for i in np.flatnonzero((score[1:] > score[:-1]).any(axis=0)):
        order: NDArray[np.intp] = np.argsort(-score[:, i], kind="stable")
        score[:, i] = score[order, i]
        mine = slice(int(ptr[i]), int(ptr[i + 1]))
        labels[:, mine] = labels[order, mine]
