"""Answer questions about new examples: request, model laid over the examples, session, answers, names.

It is done for some examples at a time: features stay in the processor's cache, and memory is bounded by the chunk, not
by the data.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any, Generic, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from ssvm_dsl import processors
from ssvm_dsl.array_types import Bools
from ssvm_dsl.compiler import Grounded
from ssvm_dsl.inference.threads import CallThreads
from ssvm_dsl.ir.need import Task
from ssvm_dsl.ir.program import Program
from ssvm_dsl.ir.solution import TIME, Solution

T = TypeVar("T")

#: Examples answered together.
CHUNK = 1024

#: Seconds kept back for the starting labelling of an example with hard constraints.
START_SECONDS = 5e-4

#: What becomes of examples without an answer.
ON_MISSING = ("raise", "none")


@dataclass(frozen=True, eq=False)
class PredictionRequest:
    """What is asked of every example.

    Parameters
    ----------
    task : Task
    k : int
        How many labellings, for ``kbest``.
    time_limit : float, optional
        Seconds for all examples.
    given : list of labels, optional
        Known labels of each example, with which answers agree.
    on_missing : {"raise", "none"}
        What becomes of examples without an answer: an error, or ``None`` (``nan`` in arrays).
    truth : list of labels, optional
        True labels, which losses compare answers with.
    unseen : bool
        Whether these may have classes that training never saw.
    """

    task: Task = Task.MAP
    k: int = 1
    time_limit: float | None = None
    given: Any = None
    on_missing: str = "raise"
    truth: Any = None
    unseen: bool = False


#: Asks for the best labelling of each example.
BEST = PredictionRequest()


class KnownScores(NamedTuple):
    """What is known of the scores of a chunk's answers.

    Parameters
    ----------
    score, bound : ndarray of float64, shape (n,)
        The scores, best first on a first axis where several labellings are asked for, and upper bounds of any
        labelling's: ``nan`` where there is none.
    open : ndarray of bool, shape (n,)
        Whether time ended the search before the answer was proved best; one value for all of them.
    """

    score: NDArray[np.float64]
    bound: NDArray[np.float64]
    open: Bools = np.zeros(1, dtype=bool)


class AnswerParts(NamedTuple, Generic[T]):
    """What was read of the answers, and what is known of their scores: an entry for each chunk of the examples."""

    parts: list[T]
    known: list[KnownScores]

    @property
    def listed(self) -> list[Any]:
        """The parts as one list, an entry for each example."""
        parts: Any = self.parts
        return list(chain.from_iterable(parts))


def call_threads(n_threads: int | None) -> CallThreads:
    """Return the executor of a call."""
    return CallThreads(int(n_threads if n_threads is not None else processors.available()))


def of_unknown_worth(solution: Solution, lo: int) -> Solution:
    """Return answers that, from an example on, only keep masks and constraints and have no bounds."""
    score, bound, stop = solution.score.copy(), solution.bound.copy(), solution.stop.copy()
    score[..., lo:][score[..., lo:] > -np.inf] = np.nan
    bound[lo:], stop[lo:] = np.nan, TIME
    return replace(solution, score=score, bound=bound, stop=stop, complete=False)


def most_labellings(program: Program) -> int:
    """Return how many labellings the example with the most of them has, its masks counted; at most 2^62."""
    states: NDArray[Any] = program.card.astype(np.float64)
    if program.allowed is not None:
        owner = np.repeat(np.arange(program.n_variables), program.card)
        states = np.bincount(owner, weights=program.allowed, minlength=program.n_variables)
    bits = np.concatenate([[0.0], np.cumsum(np.log2(np.maximum(states, 1.0)))])
    most = float(np.diff(bits[program.var_ptr]).max(initial=0.0))
    return round(2.0**most) + 1 if most < 40.0 else 2**62  # one more than it may be, for rounding


def labellings(grounded: Grounded, solution: Solution) -> list[Any]:
    """Return the labels of each example in the user's form."""
    return grounded.layout.decode(solution.labels)


def label_lists(grounded: Grounded, solution: Solution) -> list[list[Any]]:
    """Return the class names at the positions of the only label, a list for each example."""
    return grounded.layout.decode_lists(solution.labels)


def latent_states(grounded: Grounded, solution: Solution) -> list[Any]:
    """Return the states of the latent variables of each example."""
    return grounded.layout.decode(solution.labels, latent=True)


def ranked_labellings(grounded: Grounded, solution: Solution) -> list[list[tuple[Any, float]]]:
    """Return for each example its labellings with their scores, best first."""
    ranked = [grounded.layout.decode(np.maximum(labels, 0)) for labels in solution.labels]  # those there are are kept
    listed = []
    for i in range(grounded.n_examples):
        known = [r for r in range(len(ranked)) if solution.score[r, i] != -np.inf]
        listed.append([(ranked[r][i], float(solution.score[r, i])) for r in known])
    return listed


def probabilities(grounded: Grounded, solution: Solution) -> list[Any]:
    """Return for each example the probabilities of the states of its variables."""
    return grounded.layout.decode_states(solution.needed_marginals().node)


def losses(grounded: Grounded, solution: Solution) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return (loss of each answer, largest loss of each example)."""
    assert grounded.loss is not None
    return grounded.loss.value(grounded.program, solution.labels), grounded.loss.largest(grounded.program)


def open_answers(solution: Solution) -> Bools:
    """Return which answers of a chunk were not proved best when time ended the search."""
    late = np.asarray(solution.stop == TIME)
    return late & ~solution.optimal() if late.any() else late


def scores_and_bounds(known: list[KnownScores]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the score of each example's best answer, and the bound."""
    best = [one.score if one.score.ndim == 1 else one.score[0] for one in known]
    return np.concatenate([np.zeros(0), *best]), np.concatenate([np.zeros(0), *(one.bound for one in known)])


def unproved(known: list[KnownScores]) -> str:
    """Return what to say of answers that time ended before they were proved best."""
    score, bound = scores_and_bounds(known)
    late = np.concatenate([np.broadcast_to(one.open, one.bound.shape) for one in known])
    text = f"time ended the search before {int(late.sum())} of {len(late)} labellings were proved best"
    if n := int(np.isnan(score).sum()):
        text += f", and before the features of {n} were computed, which keep the model's rules and have no score"
    gaps = (bound - score)[late]
    finite = gaps[np.isfinite(gaps)]
    return f"{text} (largest gap between bound and score {finite.max():.3g})" if len(finite) else text


def readable(read: Callable[[Grounded, Solution], T], grounded: Grounded, solution: Solution, missing: Bools) -> T:
    """Return ``read`` of an answer, with ``None`` in lists and ``nan`` in arrays for examples without one."""
    if not np.logical_or.reduce(missing):
        return read(grounded, solution)
    if solution.log_partition is not None and solution.marginals is None:
        return [None] * len(missing)  # type: ignore[return-value]
    answers = read(grounded, replace(solution, labels=np.maximum(solution.labels, 0)))
    for i in np.flatnonzero(missing).tolist():
        if isinstance(answers, list):
            answers[i] = None
        elif isinstance(answers, np.ndarray):
            answers[i] = np.nan
    return answers


def joined(parts: Sequence[Any]) -> Sequence[Any]:
    """Return the results of all chunks as one sequence, with an entry for each example."""
    if parts and all(isinstance(one, np.ndarray) for one in parts):
        results: Sequence[Any] = np.concatenate(parts).tolist()
        return results
    return list(chain.from_iterable(parts)) if all(isinstance(one, list) for one in parts) else ()
