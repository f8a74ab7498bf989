"""Large batches of few shapes: chunks are answered one after the other, by sessions that they share."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import replace
from threading import Lock
from time import perf_counter
from typing import Any

import numpy as np

from ssvm_dsl.array_types import I64
from ssvm_dsl.errors import OutOfTime
from ssvm_dsl.inference.planned import ABILITY_OF
from ssvm_dsl.inference.starting.labelling import unanswered
from ssvm_dsl.ir.analysis.chunks import Chunk, chunks
from ssvm_dsl.ir.need import Task
from ssvm_dsl.ir.program import Program
from ssvm_dsl.ir.question import Question
from ssvm_dsl.ir.ragged import members, pointers
from ssvm_dsl.ir.solution import Messages, Prices, Solution, Stop, join_solutions
from ssvm_dsl.plugin_api.protocols import Backend

#: Sessions that are kept: chunks of one size, and what is left over.
KEPT = 2


class ChunkedSession:
    """Answers for some examples at a time, so that memory does not grow with the factors of all.

    Everything but ``solve`` is asked of one session on all examples: by its nature it has an entry for every factor.

    Parameters
    ----------
    backend : Backend
    program : Program
    options : mapping
    """

    def __init__(self, backend: Backend, program: Program, options: Mapping[str, Any]) -> None:
        self._backend, self.program, self._options = backend, program, options
        self._whole: Any = None
        self._sessions: OrderedDict[tuple[bytes, ...], Any] = OrderedDict()
        self._lock = Lock()
        self._session(Chunk.of(program, next(_first(program))))  # a backend that refuses does so now

    def solve(self, question: Question) -> Solution:
        """Answer a question chunk by chunk; the time that is left is shared among those to come."""
        ids, limits = question.ids(self.program), question.limits
        end = None if limits.time is None else perf_counter() + limits.time
        parts = list(chunks(self.program, ids))
        solutions: list[Solution] = []
        for number, part in enumerate(parts):
            some, left = ids[part], limits
            if solutions and (solutions[-1].stop == Stop.INTERRUPTED).any():
                solutions.append(unanswered(self.program, question.replace(examples=some), Stop.INTERRUPTED))
                continue
            if end is not None:
                left = replace(limits, time=max(0.0, end - perf_counter()) / (len(parts) - number))
            try:
                solutions.append(self._answer(question, some, left))
            except OutOfTime:
                solutions.append(unanswered(self.program, question.replace(examples=some)))
        return _joined(question, solutions, [ids[part] for part in parts])

    def _answer(self, question: Question, ids: I64, limits: Any) -> Solution:
        chunk = Chunk.of(self.program, ids)
        clamp = question.clamp
        if clamp is not None:
            clamp = np.ascontiguousarray(clamp[members(self.program.var_ptr, ids)])
        asked = question.replace(
            theta=chunk.theta(question.theta, ids), examples=None, clamp=clamp, limits=limits,
            warm=_warm_of(question.warm, ids),
        )  # fmt: skip
        solution: Solution = self._session(chunk).solve(asked)
        return solution

    def _session(self, chunk: Chunk) -> Any:
        """Return the session of chunks of this structure."""
        key = chunk.key()
        with self._lock:
            if key not in self._sessions:
                self._sessions[key] = self._backend.open(chunk.program, self._options)
                while len(self._sessions) > KEPT:
                    self._sessions.popitem(last=False)
            self._sessions.move_to_end(key)
            return self._sessions[key]

    def __getattr__(self, ability: str) -> Any:
        """Return a method of a session on all examples, which is opened when it is first needed."""
        if ability not in ABILITY_OF:
            raise AttributeError(ability)
        with self._lock:
            if self._whole is None:
                self._whole = self._backend.open(self.program, self._options)
        return getattr(self._whole, ability)


def _first(program: Program) -> Any:
    """Yield the examples of the first chunk."""
    ids = np.arange(program.n_examples, dtype=np.int64)
    return (ids[part] for part in chunks(program, ids))


def _warm_of(warm: Any, ids: I64) -> Any:
    """Return what was kept of these examples, numbered as in their chunk."""
    if isinstance(warm, Messages):
        place = {int(example): k for k, example in enumerate(warm.ids)}
        there = [(n, place[int(example)]) for n, example in enumerate(ids) if int(example) in place]
        values = [warm.values[warm.ptr[k] : warm.ptr[k + 1]] for _, k in there]
        ptr = pointers(np.array([len(one) for one in values], dtype=np.int64))
        numbers = np.array([n for n, _ in there], dtype=np.int64)
        return type(warm)(numbers, ptr, np.concatenate([np.zeros(0), *values]))
    if isinstance(warm, dict):
        return {n: warm[int(example)] for n, example in enumerate(ids) if int(example) in warm}
    return None


def _joined_warm(solutions: list[Solution], ids: list[I64]) -> Any:
    kinds = {type(one.warm) for one in solutions}
    if kinds in ({Messages}, {Prices}):
        (kind,) = kinds
        lengths = np.concatenate([np.diff(one.warm.ptr) for one in solutions])
        numbers = np.concatenate([mine[one.warm.ids] for one, mine in zip(solutions, ids, strict=True)])
        return kind(numbers, pointers(lengths), np.concatenate([one.warm.values for one in solutions]))
    if dict in kinds and kinds <= {dict, type(None)}:
        pairs = zip(solutions, ids, strict=True)
        return {int(mine[n]): state for one, mine in pairs for n, state in (one.warm or {}).items()}
    return None


def _joined(question: Question, solutions: list[Solution], ids: list[I64]) -> Solution:
    """Return the answers on chunks as one."""
    if not solutions:
        nothing = np.zeros((question.k, 0) if question.task is Task.KBEST else 0)
        return Solution.exact(nothing.astype(np.int32), nothing)
    warm, whole = _joined_warm(solutions, ids), join_solutions(solutions)
    whole.warm = warm
    return whole
