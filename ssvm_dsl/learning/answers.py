"""Answer questions about new examples: request, model laid over the examples, session, answers, names.

It is done for some examples at a time: features stay in the processor's cache, and memory is bounded by the chunk, not
by the data.

**The k best labellings of models with latent variables**, each labelling of the outputs once.  Backends rank the joint
states of outputs y and latent variables h, so that one y comes several times, beside different h.  In that order the
first time that y comes has its best h: ``max_h s(y, h)``.  The best k' joint states that hold k different y therefore
hold the k best of these, each with its score.  k' grows until they do, or none are left.  Latent variables that many
states suit are beside each y so many times that k' would grow without end.  Then each y is a question of its own: the
best joint state among those whose outputs differ from all that were found (:mod:`ssvm_dsl.plugin_api.lawler`, where
latent variables are never fixed).
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any, Generic, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from ssvm_dsl import processors
from ssvm_dsl.array_types import F64, I32, I64, Bools
from ssvm_dsl.callers import warn_caller
from ssvm_dsl.compiler import Grounded
from ssvm_dsl.deadline import Deadline, within
from ssvm_dsl.errors import NoLabellingError, OutOfTime, TimeLimitWarning
from ssvm_dsl.inference.planned import PlannedSession
from ssvm_dsl.inference.session import refuse_interrupted
from ssvm_dsl.inference.threads import CallThreads
from ssvm_dsl.ir.need import Task
from ssvm_dsl.ir.program import Program
from ssvm_dsl.ir.question import Question
from ssvm_dsl.ir.solution import TIME, Solution, Stop
from ssvm_dsl.ir.theta import Theta
from ssvm_dsl.lang.declaration import Declaration
from ssvm_dsl.lang.frames import is_frame, with_index
from ssvm_dsl.lang.inputs import Input
from ssvm_dsl.lang.outputs.labels import Label
from ssvm_dsl.plugin_api.lawler import Subspace, SubspaceSolver, k_best_of

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


def indexed(declaration: Declaration, X: Any, labels: list[Any]) -> Any:
    """Return labellings, those of data frames of pandas as series with the index of the rows they label.

    They are labels along the axis of the frame's rows; where the frame itself is the list of examples, one series of
    all.  Other labellings are left as they are.
    """
    if type(X) is list and ("pandas" not in sys.modules or not any(map(_holds_frames, X))):
        return labels
    if is_frame(X):
        single = len(declaration.outputs) == 1 and not declaration.outputs[0].dims
        if not single:
            return labels
        return with_index(np.array(labels, dtype=object if None in labels else None), X)
    if isinstance(X, Sequence) and any(map(_holds_frames, X)):
        return [_of_example(declaration, x, one) for x, one in zip(X, labels, strict=True)]
    return labels


def _holds_frames(example: Any) -> bool:
    if type(example) is np.ndarray:
        return False
    return is_frame(example) or (isinstance(example, Mapping) and any(map(is_frame, example.values())))


def _of_example(declaration: Declaration, example: Any, labels: Any) -> Any:
    """Return the labels of an example, by name where there are several outputs."""
    if isinstance(labels, dict):
        by_name = {label.name: label for label in declaration.outputs}
        return {name: _along(declaration, example, by_name[name], one) for name, one in labels.items()}
    return _along(declaration, example, declaration.outputs[0], labels)


def _along(declaration: Declaration, example: Any, label: Label, labels: Any) -> Any:
    """Return labels with the index of the frame whose rows they label, if there is one."""
    if not isinstance(labels, np.ndarray) or len(label.dims) != 1:
        return labels
    for symbol in declaration.inputs:
        if getattr(symbol, "dims", ()) != label.dims:
            continue
        frame = example.get(symbol.name) if isinstance(example, Mapping) else example
        if is_frame(frame) and isinstance(symbol, Input):
            return with_index(labels, frame)
    return labels


#: Labellings and their scores, best first.
Listed = list[tuple[Any, float]]

#: Joint states of one example at most, times those asked for, before each labelling is asked for by itself; or as many
#: as there are outputs, for each of which that asks a question.
MOST = 4

#: By how much longer the next list is.
GROWTH = 4


def distinct_ranked(grounded: Grounded, solution: Solution) -> list[tuple[Listed, int]]:
    """Return for each example its different labellings with their scores, and how many outputs may yet be others.

    That is 0 where no joint states are left, else the number of outputs.
    """
    layout, n_ranks = grounded.layout, len(solution.labels)
    own = ~(layout.latent | layout.auxiliary)
    ranked = [layout.decode(np.maximum(labels, 0)) for labels in solution.labels]
    listed = []
    for i in range(grounded.n_examples):
        mine = slice(int(layout.var_ptr[i]), int(layout.var_ptr[i + 1]))
        seen: dict[bytes, tuple[Any, float]] = {}
        there = solution.score[:, i] > -np.inf
        for r in np.flatnonzero(there).tolist():
            key = solution.labels[r, mine][own[mine]].tobytes()
            seen.setdefault(key, (ranked[r][i], float(solution.score[r, i])))
        listed.append((list(seen.values()), int(own[mine].sum()) if int(there.sum()) == n_ranks else 0))
    return listed


def distinct_labellings(
    examples: Sequence[Any], known: Sequence[Any] | None, request: PredictionRequest,
    ask: Callable[[Sequence[Any], PredictionRequest], list[Any]],
    by_outputs: Callable[[int, Deadline], tuple[Listed, bool]],
) -> list[Listed | None]:  # fmt: skip
    """Return the k best labellings of each example, all different; ``None`` for an example without any.

    Parameters
    ----------
    examples : sequence
    known : sequence or None
        Labels that are given, for each example.
    request : PredictionRequest
        For ``k`` labellings.
    ask : callable
        Returns what :func:`distinct_ranked` does for some examples.
    by_outputs : callable
        Returns what :func:`outputs_ranked` does for an example by its number.
    """
    k, limit = request.k, request.time_limit
    deadline = Deadline.of(limit)
    listed_of: list[Listed | None] = [None] * len(examples)
    more, joint, over = list(range(len(examples))), k, False
    while more and not over:  # the best joint states of the examples that have more labellings than were found
        part = examples if len(more) == len(examples) else [examples[i] for i in more]
        fixed = None if known is None else [known[i] for i in more]
        left = None if limit is None else max(deadline.left, 1e-3)
        try:
            asked = replace(request, k=joint, given=fixed, time_limit=left)
            answers = ask(part, asked)
        except NoLabellingError as err:
            err.found = [one if one is None else one[0] for one in err.found]
            raise
        unfinished, n_outputs = [], 0
        for i, one in zip(more, answers, strict=True):
            if one is None:
                continue
            listed_of[i] = one[0][:k]
            if len(one[0]) < k and one[1]:
                unfinished.append(i)
                n_outputs = max(n_outputs, one[1])
        more, joint = unfinished, GROWTH * joint
        over = deadline.over or joint > max(MOST * k, n_outputs)
    n_late = 0
    for place, i in enumerate(more):
        listed, late = by_outputs(i, deadline.share(1.0 / (len(more) - place)))
        listed_of[i], n_late = max(listed_of[i] or [], listed, key=len), n_late + late
    if n_late:
        which = f"the {k} best labellings of {n_late} of {len(listed_of)} examples"
        text = f"time ended the search before {which} were found"
        warn_caller(f"{text}; raise time_limit, or ask for fewer", TimeLimitWarning)
    return listed_of


def outputs_ranked(
    grounded: Grounded, session: PlannedSession, theta: Theta, k: int, deadline: Deadline
) -> tuple[Listed, bool]:
    """Return the k best labellings of the one example of some data, and whether time ended the search for more."""
    solver = _Outputs(grounded, session, theta, deadline)
    ranked = k_best_of(solver, solver.whole, k)
    if ranked.stop is Stop.INTERRUPTED:
        raise KeyboardInterrupt
    scores = [solver.scores[labels.tobytes()] for labels in ranked.labels]
    named = [grounded.layout.decode(labels)[0] for labels in ranked.labels]
    return list(zip(named, scores, strict=True)), ranked.stop is Stop.TIME


class _Outputs(SubspaceSolver):
    """Asks for the best joint state of each subspace of the outputs."""

    def __init__(self, grounded: Grounded, session: PlannedSession, theta: Theta, deadline: Deadline) -> None:
        program, layout = grounded.program, grounded.layout
        super().__init__(program.state_ptr)
        self.session, self.theta, self.deadline = session, theta, deadline
        self.allowed = np.ones(program.n_states, dtype=bool) if program.allowed is None else program.allowed
        self.own: Bools = ~(layout.latent | layout.auxiliary)
        self.scores: dict[bytes, float] = {}

    def whole(self) -> Subspace:
        """Return the set of all labellings."""
        return Subspace.of_all(self.allowed, len(self.own))

    def solve(self, space: Subspace, floor: Callable[[], float]) -> Subspace | None:
        """Return a subspace with its best joint state, ``None`` where it has none."""
        if self.deadline.over:
            raise OutOfTime("the time limit is over")
        theta = self.theta
        node: F64 = np.where(space.states(self.ptr), theta.node, -np.inf)
        asked = Question(Theta(node, theta.pool, theta.tables, theta.const))
        with within(self.deadline):
            solution = refuse_interrupted(self.session.solve(asked))
        score = float(solution.best[0])
        if solution.stop[0] == TIME and not solution.bound[0] <= score:
            raise OutOfTime("the time limit is over")
        if score == -np.inf:
            return None
        labels: I32 = solution.labels
        self.scores[labels.tobytes()] = score
        return space.with_best(labels, score)

    def order(self, labels: I32, free: I64) -> I64:
        """Return the outputs with a choice."""
        return free[self.own[free]]
