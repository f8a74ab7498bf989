"""Check every answer of a backend: labels in range, masks, clamps and constraints kept, score and bound honest.

Scores are recomputed here from the labels; what the backend says about them is only compared.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from ssvm_dsl.errors import BackendFault, PluginError
from ssvm_dsl.inference.form import INFEASIBLE, LABELS_OPTIONAL, check_consistent, check_form
from ssvm_dsl.inference.probabilities import SPOT, check_probabilities
from ssvm_dsl.inference.ranking import check_ranking
from ssvm_dsl.inference.witness import best_states, check_witness
from ssvm_dsl.ir.counts import CountTables, worth
from ssvm_dsl.ir.need import Caps, Guarantee, Task
from ssvm_dsl.ir.program import Program
from ssvm_dsl.ir.ragged import positions
from ssvm_dsl.ir.solution import NO_STATE, Primal, Solution, label_ptr, score_labels, select
from ssvm_dsl.ir.theta import Theta
from ssvm_dsl.ir.tolerance import Terms
from ssvm_dsl.plugin_api.contained import contained
from ssvm_dsl.plugin_api.specs import ConstraintSpec

I32 = NDArray[np.int32]
I64 = NDArray[np.int64]
F64 = NDArray[np.float64]

#: Says of numbers which differences from them may be rounding.
Slack = Callable[[F64, F64], NDArray[np.bool_]]


def slack(
    program: Program,
    theta: Theta,
    examples: I64 | None,
    atol: float,
    offset: F64 | float = 0.0,
    scale: F64 | float = 1.0,
) -> Slack:
    """Return what ``offset + scale * score`` may be off by, as a question that is cheap where that is plain."""

    def of(numbers: F64, difference: F64) -> NDArray[np.bool_]:
        with np.errstate(invalid="ignore", over="ignore"):
            plain = difference <= atol * np.abs(numbers)
            if plain.all():
                return np.asarray(plain)
            size = np.abs(offset) + np.abs(scale) * Terms.of(program, theta, examples).size
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
    constraints : dict of str to ConstraintSpec
        How to check each constraint kind of the program.
    foreign : str
        Where the backend comes from, if it is not a bundled one: such answers are looked at more closely.
    """

    def __init__(
        self,
        program: Program,
        backend: str,
        caps: Caps,
        constraints: dict[str, ConstraintSpec] | None = None,
        foreign: str = "",
    ) -> None:
        self.program, self.backend, self.caps, self.foreign = program, backend, caps, foreign
        self._feasible = {kind: spec.load() for kind, spec in (constraints or {}).items()}

    def __call__(
        self,
        theta: Theta,
        solution: Solution,
        examples: I64 | None,
        task: Task,
        clamp: I32 | None = None,
        k: int | None = None,
        known: F64 | None = None,
    ) -> Solution:
        """Return the solution with its scores recomputed.

        Parameters
        ----------
        theta : Theta
        solution : Solution
        examples, task, clamp, k
            The question.
        known : ndarray of float64, shape (n,), optional
            Scores that labellings of the examples are known to have.

        Raises
        ------
        BackendFault
            The answer breaks the contract.
        """
        check_form(self.program, solution, examples, task, k, self._fault)
        if task in LABELS_OPTIONAL:
            most = np.inf if self.foreign else SPOT
            check_probabilities(self.program, theta, solution, examples, task, self.caps, most, self._fault)
        n = len(select(self.program, examples))
        if task not in LABELS_OPTIONAL or solution.labels.size:
            close = slack(self.program, theta, examples, self.caps.score_atol)
            rows, claimed = np.atleast_2d(solution.labels), np.atleast_2d(solution.score)
            scores = np.empty((len(rows), n))
            for row, labels in enumerate(rows):
                scores[row] = self._check_labels(theta, labels, claimed[row], solution.primal, examples, clamp)
            check_consistent(solution, task, self.caps, self._fault)
            solution.score = scores if solution.labels.ndim == 2 else scores[0]
            self._clear(solution, scores, examples)
            exact = self.caps.guarantee is Guarantee.EXACT and task not in LABELS_OPTIONAL
            self._bounds(solution, scores[0], close, exact)
            if task is Task.KBEST:
                check_ranking(self.program, theta, rows, scores, examples, close, self._fault)
        self._contradict(theta, solution, examples, task, clamp, known)
        return solution

    def _contradict(
        self, theta: Theta, solution: Solution, examples: I64 | None, task: Task, clamp: I32 | None, known: F64 | None
    ) -> None:
        """Hold the answer against labellings that are known."""
        doubtful = self.foreign or (solution.primal == INFEASIBLE).any()
        if doubtful and known is None:
            labels = best_states(self.program, theta, examples, clamp)
            known = score_labels(self.program, theta, labels, examples)
            known = np.where(self._hurt(labels, clamp, examples), -np.inf, known)
        if known is not None:
            close = slack(self.program, theta, examples, self.caps.score_atol)
            check_witness(solution, known, task, close, self._fault)

    def counted(
        self, theta: Theta, solution: Solution, tables: CountTables, examples: I64 | None, known: F64 | None = None
    ) -> Solution:
        """Return the answer to ``best_by_count`` with its score, what the labelling is worth, recomputed.

        ``known`` is what labellings of the examples are known to be worth.

        Raises
        ------
        BackendFault
            The answer breaks the contract.
        """
        check_form(self.program, solution, examples, Task.MAP, None, self._fault)
        score = self._scores(theta, solution.labels, solution.score, solution.primal, examples, None)
        offset, scale = tables.terms(self.program, solution.labels, examples)
        value = worth(offset, scale, score)
        close = slack(self.program, theta, examples, self.caps.score_atol, offset, scale)
        self._agree(value, solution.score, (solution.score > -np.inf) & (solution.primal == Primal.FEASIBLE), close)
        check_consistent(solution, Task.MAP, self.caps, self._fault)
        solution.score = value
        self._clear(solution, value[None], examples)
        self._bounds(solution, value, close, exact=self.caps.guarantee is Guarantee.EXACT)
        if known is not None:
            check_witness(solution, known, Task.MAP, close, self._fault)
        return solution

    def _fault(self, text: str) -> BackendFault:
        return BackendFault(self.backend, text, self.foreign)

    def _check_labels(
        self, theta: Theta, labels: I32, claimed: F64, primal: NDArray[np.int8], examples: I64 | None, clamp: I32 | None
    ) -> F64:
        """Return the recomputed scores of one labelling of all examples, ``-inf`` where there is none."""
        scores = self._scores(theta, labels, claimed, primal, examples, clamp)
        close = slack(self.program, theta, examples, self.caps.score_atol)
        self._agree(scores, claimed, scores > -np.inf, close)
        return scores

    def _scores(
        self, theta: Theta, labels: I32, claimed: F64, primal: NDArray[np.int8], examples: I64 | None, clamp: I32 | None
    ) -> F64:
        """Return the scores of one labelling of all examples, ``-inf`` where none is claimed; it must be feasible."""
        program = self.program
        variables = positions(program.var_ptr, examples)
        there = (claimed > -np.inf) & (primal == Primal.FEASIBLE)
        if not there.all():  # nobody is to look at labels where none are claimed
            labels = np.where(self._of_variables(there, examples), labels, np.int32(0))
        if labels.min(initial=0) < 0 or (labels >= program.card[variables]).any():
            raise self._fault("a label is outside the states of its variable")
        scores = score_labels(program, theta, labels, examples)
        if np.isnan(claimed).any():
            raise self._fault("a score is nan")
        if (there & ((scores == -np.inf) | self._hurt(labels, clamp, examples))).any():
            raise self._fault("a labelling breaks a mask, a clamp or a constraint, or has score -inf")
        return np.where(there, scores, -np.inf)

    def _clear(self, solution: Solution, scores: F64, examples: I64 | None) -> None:
        """Take the labels of examples without a labelling out: a state that nobody found is not to look like one."""
        there = scores > -np.inf
        if there.all():
            return
        kept = np.where(self._of_variables(there, examples), np.atleast_2d(solution.labels), np.int32(NO_STATE))
        solution.labels = kept if solution.labels.ndim == 2 else kept[0]

    def _of_variables(self, there: NDArray[np.bool_], examples: I64 | None) -> NDArray[np.bool_]:
        """Return for each variable what is true of its example (the last axis)."""
        return np.repeat(there, np.diff(label_ptr(self.program, examples)), axis=-1)

    def _agree(self, scores: F64, claimed: F64, there: NDArray[np.bool_], close: Slack) -> None:
        """Compare recomputed scores with what the backend says."""
        known = np.where(there, scores, 0.0)
        with np.errstate(invalid="ignore"):
            wrong = ~close(known, np.where(there, np.abs(known - claimed), 0.0))
        if wrong.any():
            i = int(np.flatnonzero(wrong)[0])
            said, true = float(claimed[i]), float(scores[i])
            raise self._fault(f"it reports score {said} for a labelling whose score is {true} (answer {i})")

    def _hurt(self, labels: I32, clamp: I32 | None, examples: I64 | None) -> NDArray[np.bool_]:
        """Return which examples' labellings break a hard fact."""
        program, variables = self.program, positions(self.program.var_ptr, examples)
        if program.allowed is None and clamp is None and not program.constraints:
            return np.zeros(len(select(program, examples)), dtype=bool)
        bad = np.zeros(len(labels), dtype=bool)
        if program.allowed is not None:
            bad |= ~program.allowed[program.state_ptr[:-1][variables] + labels]
        if clamp is not None:
            bad |= (clamp[variables] >= 0) & (clamp[variables] != labels)
        counts = np.diff(label_ptr(program, examples))
        hurt = np.bincount(np.repeat(np.arange(len(counts)), counts), weights=bad, minlength=len(counts)) > 0
        return np.asarray(hurt | self._broken_constraints(labels, variables, examples))

    def _broken_constraints(self, labels: I32, variables: slice | I64, examples: I64 | None) -> NDArray[np.bool_]:
        program, ids = self.program, select(self.program, examples)
        broken = np.zeros(program.n_examples, dtype=bool)
        if program.constraints:
            full = np.zeros(program.n_variables, dtype=np.int32)
            full[variables] = labels
            for group in program.constraints:
                with contained(f"constraint '{group.kind}'"):
                    kept = np.asarray(self._feasible[group.kind](program, group, full), dtype=bool)
                if kept.shape != (len(group.literal_ptr) - 1,):
                    raise PluginError(f"constraint '{group.kind}' gave truth values of shape {kept.shape}")
                owner = np.repeat(np.arange(program.n_examples), np.diff(group.ptr))
                broken |= np.bincount(owner, weights=~kept, minlength=program.n_examples) > 0
        return broken[ids]

    def _bounds(self, solution: Solution, best: F64, close: Slack, exact: bool) -> None:
        """Check ``score <= bound``, and that the bound of an exact answer is near its score."""
        there, known = best > -np.inf, np.where(best > -np.inf, best, 0.0)
        above = np.where(there, solution.bound, 0.0) - known
        low = ~close(known, np.maximum(-np.where(np.isnan(above), 0.0, above), 0.0))
        finished = there & (solution.stop == 0)
        loose = ~close(known, np.where(finished, above / 2.0, 0.0)) if exact else np.zeros(len(best), dtype=bool)
        if low.any():
            i = int(np.flatnonzero(low)[0])
            said, true = float(solution.bound[i]), float(best[i])
            raise self._fault(f"its bound {said} is below the score {true} of its own labelling (answer {i})")
        if loose.any():
            i = int(np.flatnonzero(loose)[0])
            said, true = float(solution.bound[i]), float(best[i])
            raise self._fault(f"it claims exactness but its bound {said} differs from its score {true} (answer {i})")
