"""The k best labellings of models with latent variables: each labelling of the outputs once.

Backends rank the joint states of outputs y and latent variables h, so that one y comes several times, beside different
h.  In that order the first time that y comes has its best h: ``max_h s(y, h)``.  The best k' joint states that hold k
different y therefore hold the k best of these, each with its score.  k' grows until they do, or none are left.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ssvm_dsl.compiler import Grounded
from ssvm_dsl.errors import TooLargeError
from ssvm_dsl.ir.solution import Solution

#: A labelling and its score, best first.
Ranked = list[tuple[Any, float]]

#: Joint states of one example at most, before it is given up.
MOST = 2**14

#: By how much longer the next list is.
GROWTH = 4


def distinct_ranked(grounded: Grounded, solution: Solution) -> list[tuple[Ranked, bool]]:
    """Return for each example its different labellings with their scores, and whether no joint states are left."""
    layout, n_ranks = grounded.layout, len(solution.labels)
    own = ~(layout.latent | layout.auxiliary)
    ranked = [layout.decode(np.maximum(labels, 0)) for labels in solution.labels]
    found = []
    for i in range(grounded.n_examples):
        mine = slice(int(layout.var_ptr[i]), int(layout.var_ptr[i + 1]))
        seen: dict[bytes, tuple[Any, float]] = {}
        there = solution.score[:, i] > -np.inf
        for r in np.flatnonzero(there).tolist():
            key = solution.labels[r, mine][own[mine]].tobytes()
            seen.setdefault(key, (ranked[r][i], float(solution.score[r, i])))
        found.append((list(seen.values()), int(there.sum()) < n_ranks))
    return found


def distinct_labellings(
    ask: Callable[[list[int], int], list[tuple[Ranked, bool] | None]], n: int, k: int, over: Callable[[], bool]
) -> list[Ranked | None]:
    """Return the k best labellings of each example, all different (``None`` for one without any).

    Parameters
    ----------
    ask : callable
        ``(examples, k')`` returns what :func:`distinct_ranked` does for the k' best joint states of some examples.
    n : int
    k : int
    over : callable
        Whether time is up: then those that were found are returned.

    Raises
    ------
    TooLargeError
        Very many joint states have too few different labellings among them.
    """
    out: list[Ranked | None] = [None] * n
    open_examples, joint = list(range(n)), k
    while open_examples:
        answers = ask(open_examples, joint)
        left = []
        for i, answer in zip(open_examples, answers, strict=True):
            if answer is None:
                continue
            out[i] = answer[0][:k]
            if len(answer[0]) < k and not answer[1]:
                left.append(i)
        if not left or over():
            return out
        if joint >= MOST:
            ranks = f"the {joint} best joint states of labels and latent variables"
            text = f"example {left[0]}: {ranks} hold {len(out[left[0]] or [])} different labellings, {k} were asked for"
            raise TooLargeError(f"{text}; ask for fewer, or for what is given= in turn")
        open_examples, joint = left, min(GROWTH * joint, MOST)
    return out
