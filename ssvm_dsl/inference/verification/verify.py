"""Check every answer of a backend: labels in range, masks and clamps kept, score and bound honest.

Scores are recomputed here from the labels; the backend's scores are only compared.  Right answers are recognised at
small cost: a finished best labelling of each example, whose numbers agree.  What is not recognised is looked at in
full, with words for what is wrong.
"""

from __future__ import annotations

from collections.abc import Callable
from math import inf, isfinite

import numpy as np
from numpy.typing import NDArray

from ssvm_dsl.array_types import F64, I32, I64, Bools
from ssvm_dsl.errors import BackendFault, PluginError
from ssvm_dsl.inference.starting.labelling import filled_in
from ssvm_dsl.inference.verification.checks import (
    INFEASIBLE,
    LABELS_OPTIONAL,
    SOLVER_ATOL,
    SPOT,
    best_states,
    check_consistent,
    check_form,
    check_most,
    check_probabilities,
    check_witness,
    refuse,
)
from ssvm_dsl.ir.analysis.tolerance import TINY, Terms
from ssvm_dsl.ir.constraints import broken_constraints
from ssvm_dsl.ir.counts import CountTables, worth
from ssvm_dsl.ir.need import Caps, Guarantee, Task
from ssvm_dsl.ir.program import Program
from ssvm_dsl.ir.question import Question
from ssvm_dsl.ir.ragged import members, owners, positions
from ssvm_dsl.ir.solution import NO_STATE, Marginals, Primal, Solution, Stop
from ssvm_dsl.ir.theta import Theta
from ssvm_dsl.plugin_api.hosting.contained import Fault
from ssvm_dsl.scores.labellings import score_labels, score_states
from ssvm_dsl.scores.marginals import score_marginals

#: Says of numbers which differences from them may be rounding.
Slack = Callable[[F64, F64], NDArray[np.bool_]]


def slack(
    program: Program,
    question: Question,
    atol: float,
    offset: F64 | float = 0.0,
    scale: F64 | float = 1.0,
) -> Slack:
    """Return what ``offset + scale * score`` may be off by, as a question that is cheap where that is plain."""

    def of(numbers: F64, difference: F64) -> NDArray[np.bool_]:
        with np.errstate(invalid="ignore", over="ignore"):
            plain = difference <= atol * np.abs(numbers) + TINY
            if plain.all():
                return np.asarray(plain)
            size = np.abs(offset) + np.abs(scale) * Terms.of(program, question.theta, question.examples).size
            return np.asarray(plain | (difference <= atol * size))

    return of


class Verifier:
    """Checks the answers of one backend on one program.

    Parameters
    ----------
    program : Program
    backend : str
        Name, for messages.
    caps : Caps
        What the backend claims.
    foreign : str
        Where the backend comes from, if it is not a bundled one: such answers are looked at more closely.
    completes : bool
        Whether a labelling is shown where the backend has finished without one, or with a fractional solution: not
        where its user has turned rounding off.
    """

    def __init__(
        self,
        program: Program,
        backend: str,
        caps: Caps,
        foreign: str = "",
        completes: bool = False,
    ) -> None:
        self.program, self.backend, self.caps, self.foreign = program, backend, caps, foreign
        self.completes = completes
        if program.constraints and (unknown := sorted({one.kind for one in program.constraints if one.rules is None})):
            kinds = ", ".join(unknown)
            raise PluginError(f"nothing checks whether answers keep hard constraints of the kind {kinds}")

    def __call__(self, question: Question, solution: Solution, known: F64 | None = None) -> Solution:
        """Return the solution with its scores recomputed, and with what a limit left out.

        Parameters
        ----------
        question : Question
        solution : Solution
        known : ndarray of float64, shape (n,), optional
            Scores that labellings of the examples are known to have.

        Raises
        ------
        BackendFault
            The answer breaks the contract.
        """
        if not self.foreign or known is not None:  # others are held against a labelling that is found first
            score = self._recognised(question, solution, known)
            if score is not None:
                solution.score, solution.complete = score, True
                return solution
        check_form(self.program, solution, question, self.fault)
        solution.complete = False
        solution = filled_in(self.program, question, solution, self.caps.guarantee, self.completes)
        task = question.task
        if task in LABELS_OPTIONAL:
            most = np.inf if self.foreign else SPOT
            check_probabilities(self.program, question, solution, self.caps, most, self.fault)
            if solution.marginals is not None and not question.tables:
                solution.marginals = Marginals(solution.marginals.node, ())
        if task is Task.RELAXED and not solution.labels.size:
            self._value(question, solution)
        if task not in LABELS_OPTIONAL or solution.labels.size:
            close = slack(self.program, question, self.caps.score_atol)
            rows, claimed = np.atleast_2d(solution.labels), np.atleast_2d(solution.score)
            scores = np.empty((len(rows), len(solution.bound)))
            for row, labels in enumerate(rows):
                scores[row] = self._check_labels(question, labels, claimed[row], solution.primal)
            check_consistent(solution, task, self.caps, self.fault)
            solution.score = scores if solution.labels.ndim == 2 else scores[0]
            self._clear(solution, scores, question)
            exact = self.caps.guarantee is Guarantee.EXACT and task not in LABELS_OPTIONAL
            self._bounds(solution, scores[0], close, exact)
            if task is Task.KBEST:
                check_ranking(self.program, question, rows, scores, solution.stop == Stop.FINISHED, close, self.fault)
        self._contradict(question, solution, known)
        return solution

    def _recognised(self, question: Question, solution: Solution, known: F64 | None) -> F64 | None:
        """Return the scores of an answer that keeps the contract for all that can be seen here; ``None`` otherwise."""
        program, caps, clamp = self.program, self.caps, question.clamp
        if question.task not in ONE_LABELLING or type(solution) is not Solution:
            return None
        ids, ptr = question.ids(program), question.label_ptr(program)
        n, labels, claimed, bound = len(ids), solution.labels, solution.score, solution.bound
        given = (labels, claimed, bound, solution.stop, solution.primal)
        for array, dtype, length in zip(given, _DTYPES, (int(ptr[-1]), n, n, n, n), strict=True):
            if type(array) is not np.ndarray or array.dtype != dtype or array.shape != (length,):
                return None
        if solution.stop[0] or solution.primal[0] if n == 1 else _ANY(solution.stop) or _ANY(solution.primal):
            return None  # unfinished, or infeasible
        score = score_states(program, question.theta, labels, ids, ptr)
        if score is None:
            return None
        if program.allowed is not None or clamp is not None:
            variables = positions(program.var_ptr, question.examples)
            if program.allowed is not None and not _ALL(program.allowed[program.state_ptr[:-1][variables] + labels]):
                return None
            if clamp is not None and _ANY((clamp[variables] >= 0) & (clamp[variables] != labels)):
                return None
        if program.constraints and _ANY(broken_constraints(program.constraints, labels, ptr, question.examples)):
            return None
        if n == 1 and known is None:  # a dozen operations on arrays of one number are ten microseconds
            best, above = float(score[0]), float(bound[0]) - float(score[0])
            size = caps.score_atol * abs(best)
            most = 2.0 * size if caps.guarantee is Guarantee.EXACT else inf
            right = isfinite(best) and abs(best - float(claimed[0])) <= size and -size <= above <= most
            return score if right else None
        if not _ALL(np.isfinite(score)):
            return None
        sizes = caps.score_atol * np.abs(score)
        above_each = bound - score
        near = (np.abs(score - claimed) <= sizes) & (above_each >= -sizes)
        if caps.guarantee is Guarantee.EXACT:
            near &= above_each <= 2.0 * sizes
        if known is not None:
            near &= known - bound <= caps.score_atol * np.abs(known)
        return score if _ALL(near) else None

    def _contradict(self, question: Question, solution: Solution, known: F64 | None) -> None:
        """Hold the answer against labellings that are known."""
        doubtful = self.foreign or (solution.primal == INFEASIBLE).any()
        if doubtful and known is None:
            labels = best_states(self.program, question)
            known = score_labels(self.program, question.theta, labels, question.examples)
            barred = self._hurt(labels, question) | self._breaks(labels, question)
            known = np.where(barred, -np.inf, known)
        if known is not None:
            close = slack(self.program, question, self.caps.score_atol)
            check_witness(solution, known, question.task, close, self.fault)

    def counted(
        self, question: Question, solution: Solution, tables: CountTables, known: F64 | None = None
    ) -> Solution:
        """Return the answer to ``best_by_count`` with its score, what the labelling is worth, recomputed.

        ``known`` are scores of known labellings of the examples.

        Raises
        ------
        BackendFault
            The answer breaks the contract.
        """
        check_form(self.program, solution, question, self.fault)
        solution.complete = False
        score = self._scores(question, solution.labels, solution.score, solution.primal)
        offset, scale = tables.terms(self.program, solution.labels, question.examples)
        value = worth(offset, scale, score)
        close = slack(self.program, question, self.caps.score_atol, offset, scale)
        self._agree(value, solution.score, (solution.score > -np.inf) & (solution.primal == Primal.FEASIBLE), close)
        check_consistent(solution, Task.MAP, self.caps, self.fault)
        solution.score = value
        self._clear(solution, value[None], question)
        self._bounds(solution, value, close, exact=self.caps.guarantee is Guarantee.EXACT)
        if known is not None:
            check_witness(solution, known, Task.MAP, close, self.fault)
        return solution

    def compiled(self, question: Question, solution: Solution, known: F64) -> None:
        """Refuse what a compiled oracle found, if it is not the best labellings, whose scores are at least ``known``.

        Raises
        ------
        BackendFault
            A labelling is none, has another score than the oracle says, or is not the best one.
        """
        try:
            if solution.stop.any():  # how a score that is nan comes to be read
                raise self.fault("a score is nan")
            score = self._scores(question, solution.labels, solution.score, solution.primal)
            close = slack(self.program, question, self.caps.score_atol)
            self._agree(score, solution.score, score > -np.inf, close)
            check_witness(solution, known, Task.MAP, close, self.fault)
        except BackendFault as fault:
            raise self.fault(f"of its compiled oracle: {fault.fault}") from None

    def log_partitions(self, question: Question, log_z: F64, coef: F64, known: F64 | None = None) -> F64:
        """Return log partitions as they are, one for each of ``coef``.

        Raises
        ------
        BackendFault
            One is no number, or below the score ``known`` of a labelling.
        """
        if log_z.shape != coef.shape or np.isnan(log_z).any() or (log_z == np.inf).any():
            raise self.fault(f"expect returned log partitions of shape {log_z.shape}, nan or inf")
        if known is not None:
            close = slack(self.program, question, self.caps.score_atol)
            check_most("log partition", log_z, known, close, self.fault)
        return log_z

    def _value(self, question: Question, solution: Solution) -> None:
        """Recompute the values of fractional solutions: they agree with reported ones and are not above the bounds.

        Solvers end with some accuracy, and fractional solutions are accurate only where they have finished.
        """
        assert solution.marginals is not None
        there = (solution.primal == Primal.FEASIBLE) | (solution.primal == Primal.FRACTIONAL)
        value = score_marginals(self.program, question.theta, solution.marginals, question.examples)
        value = np.where(there, value, -np.inf)
        done = there & (solution.stop == 0)
        close = slack(self.program, question, max(self.caps.score_atol, SOLVER_ATOL))
        self._agree(value, solution.score, done & ~np.isnan(solution.score), close)
        above = np.where(done, value, 0.0) - np.where(done, solution.bound, 0.0)
        wrong = ~close(np.where(done, value, 0.0), np.fmax(above, 0.0))
        text = "its bound {} is below the value {} of its own fractional solution"
        refuse(wrong, text, self.fault, solution.bound, value)
        solution.score = value

    def fault(self, text: str) -> BackendFault:
        """Return the error that names the backend and its mistake."""
        return BackendFault(self.backend, text, self.foreign)

    def _check_labels(self, question: Question, labels: I32, claimed: F64, primal: NDArray[np.int8]) -> F64:
        """Return the recomputed scores of one labelling of all examples, ``-inf`` where there is none."""
        scores = self._scores(question, labels, claimed, primal)
        close = slack(self.program, question, self.caps.score_atol)
        self._agree(scores, claimed, scores > -np.inf, close)
        return scores

    def _scores(self, question: Question, labels: I32, claimed: F64, primal: NDArray[np.int8]) -> F64:
        """Return the scores of one labelling of all examples, ``-inf`` where none is claimed; it must be feasible."""
        program = self.program
        variables = positions(program.var_ptr, question.examples)
        there = (claimed > -np.inf) & (primal == Primal.FEASIBLE)
        if not there.all():  # nobody is to look at labels where none are claimed
            labels = np.where(self._of_variables(there, question), labels, np.int32(0))
        if labels.min(initial=0) < 0 or (labels >= program.card[variables]).any():
            raise self.fault("a label is outside the states of its variable")
        scores = score_labels(program, question.theta, labels, question.examples)
        if np.isnan(claimed).any():
            raise self.fault("a score is nan")
        if (there & ((scores == -np.inf) | self._hurt(labels, question))).any():
            raise self.fault("a labelling breaks a mask or a clamp, or has score -inf")
        if program.constraints and (broken := self._first_broken(labels, question, there)):
            raise self.fault(f"a labelling breaks the constraint {broken}")
        return np.where(there, scores, -np.inf)

    def _clear(self, solution: Solution, scores: F64, question: Question) -> None:
        """Mask the labels of examples without a labelling, so that they do not look like an answer."""
        there = scores > -np.inf
        if there.all():
            return
        kept = np.where(self._of_variables(there, question), np.atleast_2d(solution.labels), np.int32(NO_STATE))
        solution.labels = kept if solution.labels.ndim == 2 else kept[0]

    def _of_variables(self, there: NDArray[np.bool_], question: Question) -> NDArray[np.bool_]:
        """Return for each variable what is true of its example (the last axis)."""
        return np.repeat(there, np.diff(question.label_ptr(self.program)), axis=-1)

    def _agree(self, scores: F64, claimed: F64, there: NDArray[np.bool_], close: Slack) -> None:
        """Compare recomputed scores with those of the backend."""
        known = np.where(there, scores, 0.0)
        with np.errstate(invalid="ignore"):
            wrong = ~close(known, np.where(there, np.abs(known - claimed), 0.0))
        refuse(wrong, "it reports score {} for a labelling whose score is {}", self.fault, claimed, scores)

    def _hurt(self, labels: I32, question: Question) -> NDArray[np.bool_]:
        """Return which examples' labellings break a hard fact."""
        program, clamp = self.program, question.clamp
        variables = positions(program.var_ptr, question.examples)
        if program.allowed is None and clamp is None:
            return np.zeros(len(question.ids(program)), dtype=bool)
        bad = np.zeros(len(labels), dtype=bool)
        if program.allowed is not None:
            bad |= ~program.allowed[program.state_ptr[:-1][variables] + labels]
        if clamp is not None:
            bad |= (clamp[variables] >= 0) & (clamp[variables] != labels)
        counts = np.diff(question.label_ptr(program))
        owner = np.repeat(np.arange(len(counts)), counts)
        return np.bincount(owner, weights=bad, minlength=len(counts)) > 0

    def _breaks(self, labels: I32, question: Question) -> NDArray[np.bool_]:
        """Return which examples' labellings break a constraint."""
        program, ptr = self.program, question.label_ptr(self.program)
        return broken_constraints(program.constraints, labels, ptr, question.examples)

    def _first_broken(self, labels: I32, question: Question, there: NDArray[np.bool_]) -> str:
        """Return the first constraint that labellings break, as text; empty if they break none."""
        ids, ptr = question.ids(self.program), question.label_ptr(self.program)
        for group in self.program.constraints:
            mine = group.take(ids)
            broken = mine.broken(labels, ptr) & there[mine.example_of]
            if broken.any():
                return f"'{group.name}' (answer {int(mine.example_of[np.flatnonzero(broken)[0]])})"
        return ""

    def _bounds(self, solution: Solution, best: F64, close: Slack, exact: bool) -> None:
        """Check ``score <= bound``, and that the bound of an exact answer is near its score."""
        there, known = best > -np.inf, np.where(best > -np.inf, best, 0.0)
        above = np.where(there, solution.bound, 0.0) - known
        low = ~close(known, np.fmax(-above, 0.0))
        finished = there & (solution.stop == 0)
        loose = ~close(known, np.where(finished, above / 2.0, 0.0)) if exact else np.zeros(len(best), dtype=bool)
        text = "its bound {} is below the score {} of its own labelling"
        refuse(low, text, self.fault, solution.bound, best)
        text = "it claims exactness but its bound {} differs from its score {}"
        refuse(loose, text, self.fault, solution.bound, best)


#: Tasks that one labelling answers.
ONE_LABELLING = (Task.MAP, Task.MAP_CLAMPED)

_DTYPES = tuple(map(np.dtype, (np.int32, np.float64, np.float64, np.int8, np.int8)))
_ALL, _ANY = np.logical_and.reduce, np.logical_or.reduce


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


def round_outwards(program: Program, question: Question, solution: Solution) -> Solution:
    """Return the solution with bounds that rounding cannot have left below the best score.

    They then hold for exact arithmetic on the scores given (:mod:`ssvm_dsl.ir.analysis.tolerance`).
    """
    task = question.task
    if task is not Task.MARGINALS:
        score = solution.best if task is not Task.RELAXED else np.full_like(solution.bound, -np.inf)
        solution.terms = Terms.of(program, question.theta, question.examples)
        solution.bound = solution.terms.outwards(solution.bound, score, labelled=task is not Task.RELAXED)
    return solution
