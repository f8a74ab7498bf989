"""The k best structures of an example: each one found splits what is left into parts (Murty 1968; Lawler 1972).

Given the best labelling y of a part, the others agree with y on the first j of its open variables, in some order, and
differ at the next.  Variables whose label is not 0 come first, as they are few; once they are fixed, most parts are
impossible.  One call of the structure's oracle for each part.
"""

from __future__ import annotations

from dataclasses import dataclass
from heapq import heappop, heappush
from itertools import count
from typing import Protocol

import numpy as np

from ssvm_backends.graphs.by_example import check_lists, pack_ranked
from ssvm_dsl.ir import F64, I32, Bools, Program, Question, Solution, Stop
from ssvm_dsl.plugin_api import Clock, answer_each


class _Oracle(Protocol):
    program: Program

    def best_of(self, node: F64, example: int) -> I32 | None:
        """Return the best labelling of one example, ``None`` where there is none."""


@dataclass(frozen=True)
class Ranked:
    """The best labellings of one example, best first, and why there are no more."""

    labels: list[I32]
    stop: Stop


def k_best(session: _Oracle, question: Question) -> Solution:
    """Answer the task ``kbest`` example by example.

    Raises
    ------
    TooLargeError
        The lists of an example do not fit into what is allowed.
    """
    program, clock = session.program, Clock.start(question.limits)
    ids, node, ptr = question.ids(program), question.masked_node(program).copy(), question.label_ptr(program)
    check_lists(np.diff(ptr), question.k)

    def one(place: int, example: int, mine: Clock) -> Ranked:
        return _ranked(session, node, example, question.k, mine)

    answers = answer_each(ids, clock, one, lambda why: Ranked([], why))
    stop = np.array([answer.stop for answer in answers], dtype=np.int8).reshape(len(ids))
    found = [answer.labels for answer in answers]
    return pack_ranked(program, question.theta, ids, ptr, lambda labels: labels, found, stop, question.k)


def _ranked(session: _Oracle, node: F64, example: int, k: int, clock: Clock) -> Ranked:
    """List the labellings of one example; ``node`` is as it was when this returns."""
    program = session.program
    ends = program.state_ptr[program.var_ptr[example] : program.var_ptr[example + 1] + 1]
    states, ptr = slice(int(ends[0]), int(ends[-1])), ends - ends[0]
    whole = node[states].copy()
    heap: list[tuple[float, int, I32, Bools]] = []
    numbers, found = count(), list[I32]()

    def push(open_: Bools) -> None:
        node[states] = np.where(open_, whole, -np.inf)
        labels = session.best_of(node, example)
        if labels is not None:
            heappush(heap, (-float(whole[ptr[:-1] + labels].sum()), next(numbers), labels, open_))

    try:
        push(whole > -np.inf)
        while heap and len(found) < k:
            _, _, labels, open_ = heappop(heap)
            found.append(labels)
            if len(found) == k:
                break
            for part in _parts(labels, open_, ptr):
                if clock.over:
                    return Ranked(found, Stop.TIME)
                push(part)
    finally:
        node[states] = whole
    return Ranked(found, Stop.FINISHED)


def _parts(labels: I32, open_: Bools, ptr: np.ndarray) -> list[Bools]:
    """Return the parts of the labellings other than one, as the states that they may take."""
    fixed, parts = open_.copy(), []
    free = np.flatnonzero(np.add.reduceat(open_.astype(np.int64), ptr[:-1]) > 1) if len(labels) else np.zeros(0, int)
    for v in sorted(free.tolist(), key=lambda v: labels[v] == 0):
        mine, taken = slice(ptr[v], ptr[v + 1]), ptr[v] + labels[v]
        part = fixed.copy()
        part[taken] = False
        parts.append(part)
        fixed[mine] = False
        fixed[taken] = True
    return parts
